"""Broken settings never open anything: what may be a lost deny or ask holds every call back until it is mended."""

from typing import Any

import pytest

from antigravity_control import Policy, Request, Rules, Source
from antigravity_control.jsonl import decide_vector
from antigravity_control.sources.keys import near

ALLOWED = {"allow": ["command(echo)"]}
ECHO = Request("command", "echo hi")


def policy(data: dict[str, Any], **more: Any) -> Policy:
    return Policy.compile([Source("global", data, "/s.json")], workspace="/w", **more)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({"permissions": {**ALLOWED, "deny": ["comand(echo)"]}}, "permissions.deny[0]"),
        ({"permissions": {**ALLOWED, "ask": ["command(regex:(echo)"]}}, "permissions.ask[0]"),
        ({"permissions": {**ALLOWED, "deny": "command(echo)"}}, "permissions.deny"),
        ({"permissions": {**ALLOWED, "deny": {"command(echo)": True}}}, "permissions.deny"),
        ({"permissions": {**ALLOWED, "deny": ["command(rm)", None]}}, "permissions.deny[1]"),
        ({"permissions": {**ALLOWED, "denny": ["command(echo)"]}}, "permissions.denny"),
        ({"permissions": {**ALLOWED, "Denied": ["command(echo)"]}}, "permissions.Denied"),
        ({"permissions": {**ALLOWED, "ak": ["command(echo)"]}}, "permissions.ak"),
        ({"permissions": {**ALLOWED, "block": ["command(echo)"]}}, "permissions.block"),
        ({"permissions": ALLOWED, "deny": ["command(echo)"]}, "deny"),
        ({"permissions": ALLOWED, "permission": {"deny": ["command(echo)"]}}, "permission"),
        ({"permissions": ALLOWED, "permissons": {"denny": ["command(echo)"]}}, "permissons"),
        ({"permissions": ALLOWED, "toolPermision": "strict"}, "toolPermision"),
        ({"permissions": ALLOWED, "trustedWorkspace": ["/other"]}, "trustedWorkspace"),
        (
            {"permissions": ALLOWED, "userSettings": {"globalPermissionGrant": {"deny": ["command(echo)"]}}},
            "userSettings.globalPermissionGrant",
        ),
        (
            {"permissions": ALLOWED, "userSettings": {"globalPermissionGrants": {"denys": ["command(echo)"]}}},
            "userSettings.globalPermissionGrants.denys",
        ),
        (
            {"permissions": ALLOWED, "permissionGrants": {"permissionGrants": ["command(echo)"]}},
            "permissionGrants.permissionGrants",
        ),
    ],
)
def test_what_may_be_a_lost_deny_holds_back_what_is_allowed(data: dict[str, Any], place: str) -> None:
    for options in ({}, {"flags": ["--dangerously-skip-permissions"]}):
        ruled = policy(data, **options)
        made = ruled.decide(ECHO)
        assert (made.decision, made.remedies) == ("ask", ())
        assert ruled.incomplete
        assert f"(/s.json, {place}: " in made.reason
        assert ruled.decide(Request("command", "rm -rf /")).decision == "deny"
    # Where nobody answers the reason names file and place, and no rule that would not help.
    headless = policy(data, mode="headless")
    for request in (ECHO, Request("write_file", "x"), Request("read_file", "x")):
        made = headless.decide(request)
        assert (made.decision, made.soft, made.remedies) == ("deny", True, ())
        assert f"mend them first (/s.json, {place}: " in made.reason
        assert "permissions.allow" not in made.reason
    assert headless.with_grants(["command(echo)"]).decide(ECHO).soft


@pytest.mark.parametrize(
    "data",
    [
        {"permissions": {**ALLOWED, "deny": []}},
        {"permissions": {**ALLOWED, "deny": None, "ask": ""}},
        {"permissions": {"allow": ["comand(x)", "command(echo)"]}},
        {"permissions": ALLOWED, "allow": ["command(x)"]},
        {"permissions": ALLOWED, "permission": {"allow": ["command(x)"]}},
        {"permissions": {**ALLOWED, "alow": ["command(x)"], "note": "mine", "defaultMode": "x", "denny": []}},
        {"permissions": ALLOWED, "toolPermision": "always-proceed", "agentModel": "x", "theme": "dark"},
        {"permissions": ALLOWED, "dangerouslySkipPermission": True, "allowNonWorkspaceAcces": True},
        {"permissions": {**ALLOWED, "deny": ["read_file(*.env)", "command(git *)"]}},
    ],
)
def test_what_holds_nothing_back_does_not(data: dict[str, Any]) -> None:
    ruled = policy(data)
    assert ruled.decide(ECHO).decision == "allow"
    assert ruled.decide(Request("command", "x")).decision == "ask"
    assert not ruled.incomplete


@pytest.mark.parametrize(
    ("data", "places"),
    [
        ({"theme": "dark", "agentMode": "plan", "agentModel": "x", "name": "n", "permissions": {}}, []),
        ({"alow": [], "permission": {}, "Permissions": {}}, ["permission", "Permissions"]),
        ({"toolPermision": 1, "toolpermission": "strict"}, ["toolPermision", "toolpermission"]),
        ({"permissions": {"alow": [], "x": 1, "a\x1b[2Jb": 2}},
         ["permissions.alow", "permissions.x", "permissions.(a key)"]),
    ],
)  # fmt: skip
def test_keys_that_nobody_reads_are_named(data: dict[str, Any], places: list[str]) -> None:
    faults = policy(data).faults
    assert [(fault.place, fault.effect) for fault in faults] == [(place, "unknown") for place in places]


def test_a_key_is_near_another_one_and_never_itself() -> None:
    known = ("permissions", "toolPermission")
    assert [near(key, known) for key in ("permissions", "permission", "tool_permission", "theme", 7, "x" * 200)] == [
        None, "permissions", "toolPermission", None, None, None,
    ]  # fmt: skip


def test_faults_stand_in_the_answers_to_programs_and_only_where_there_are_some() -> None:
    vector = {"id": 1, "settings": {"permissions": ALLOWED}, "workspace": "/w",
              "call": {"action": "command", "target": "echo"}}  # fmt: skip
    assert "faults" not in decide_vector(vector)
    said = decide_vector(vector | {"flags": ["--no-such-switch"]})
    assert (said["decision"], len(said["faults"])) == ("allow", 1)
    said = decide_vector(vector | {"settings": {"permissions": {**ALLOWED, "denny": ["command(echo)"]}}})
    assert said["decision"] == "ask"
    assert "permissions.denny" in said["faults"][0]


# ---- modes ----------------------------------------------------------------------------------------------------------

OWN: dict[str, Any] = {
    "toolPermission": "request-review", "enableTerminalSandbox": False, "allowNonWorkspaceAccess": False,
    "dangerouslySkipPermissions": False,
}  # fmt: skip
LOOSER: list[dict[str, Any]] = [
    {"toolPermission": "always-proceed"}, {"toolPermission": "proceed-in-sandbox", "enableTerminalSandbox": True},
    {"agentMode": "accept-edits"}, {"allowNonWorkspaceAccess": True}, {"dangerouslySkipPermissions": True},
    {"preset": "turbo"}, {"preset": "default"}, {"trustedWorkspaces": ["/w"]},
    {"preset": "turbo", "agentMode": "accept-edits", "allowNonWorkspaceAccess": True, "toolPermission": "nonsense"},
]  # fmt: skip
STRICTER: list[dict[str, Any]] = [
    {"toolPermission": "strict"}, {"agentMode": "plan"}, {"preset": "request-review"}, {"trustedWorkspaces": ["/x"]},
    {"trustedWorkspaces": "/w"}, {"enableTerminalSandbox": True}, {"toolPermission": 7}, {"agentMode": "careful"},
]  # fmt: skip
ASKED = [
    Request("command", "echo hi"), Request("write_file", "x"), Request("read_file", "/etc/hosts"),
    Request("write_file", "/etc/hosts"), Request("read_url", "https://x.test"), Request("mcp", "a/b"),
    Request("read_file", "x"),
]  # fmt: skip
WEIGHT = {"allow": 0, "ask": 1, "deny": 2}


@pytest.mark.parametrize("mode", ["interactive", "headless"])
@pytest.mark.parametrize("own", [{}, {"toolPermission": "always-proceed"}, {"toolPermission": "strict"},
                                 {"toolPermission": "proceed-in-sandbox"},
                                 {"toolPermission": "proceed-in-sandbox", "enableTerminalSandbox": True}])  # fmt: skip
@pytest.mark.parametrize("theirs", [*LOOSER, *STRICTER])
def test_a_file_that_may_only_tighten_opens_nothing_whatever_key_it_has(
    mode: Any, own: dict[str, Any], theirs: dict[str, Any]
) -> None:
    mine = Source("plugin", OWN | own)
    alone = Policy.compile([mine], workspace="/w", mode=mode)
    both = Policy.compile([mine, Source("global", theirs, "/g.json", modes="tighten")], workspace="/w", mode=mode)
    for request in ASKED:
        assert WEIGHT[both.decide(request).decision] >= WEIGHT[alone.decide(request).decision], request.action
    assert not (alone.mode.sandbox and not both.mode.sandbox)
    # The same file sets the mode where it may: it is not that nobody reads it.
    if theirs in ({"agentMode": "accept-edits"}, {"preset": "turbo"}):
        free = Policy.compile([Source("global", theirs)], workspace="/w", mode="headless")
        assert free.decide(Request("write_file", "x")).decision == "allow"


def test_a_mode_that_is_not_known_counts_as_the_strictest_and_says_so() -> None:
    theirs = {"toolPermission": "strikt", "agentMode": "edit", "allowNonWorkspaceAccess": 1}
    made = Policy.compile([Source("plugin", OWN), Source("global", theirs, "/g.json", modes="tighten")], workspace="/w")
    assert (made.mode.tool_permission, made.mode.agent, made.mode.outside_reads) == ("strict", "plan", False)
    assert [fault.reason.endswith("the strictest counts") for fault in made.faults] == [True, True, False]


def test_what_tightens_does() -> None:
    for theirs in STRICTER[:5]:
        made = Policy.compile([Source("plugin", OWN), Source("global", theirs, modes="tighten")], workspace="/w")
        assert made.decide(Request("write_file", "x")).decision == "ask", theirs


def test_a_file_that_sets_no_mode_is_told_so() -> None:
    data = {"toolPermission": "always-proceed", "permissions": ALLOWED, "trustedWorkspaces": ["/x"]}
    made = Policy.compile([Source("plugin", data, "/p.json", modes="none")], workspace="/w")
    assert (made.mode.tool_permission, made.mode.trusted) == ("request-review", True)
    assert [(fault.place, fault.reason.split(";")[0]) for fault in made.faults] == [
        ("toolPermission", "sets no mode here")
    ]


# ---- trust and names ------------------------------------------------------------------------------------------------


def test_what_is_not_trusted_is_said_with_the_file_that_says_so_and_no_rule_is_offered() -> None:
    data = {"trustedWorkspaces": ["/other"], "permissions": ALLOWED}
    made = policy(data, mode="headless").decide(Request("write_file", "x"))
    assert (made.soft, made.remedies) == (True, ())
    assert "not among the `trustedWorkspaces` of /s.json" in made.reason
    assert policy(data).decide(ECHO).remedies == ()
    # No allow rule counts, one by the tool's name neither.
    call = policy(data).decide_call("run_command", {"command": "echo hi"}, rules=Rules.parse("*"))
    assert call.decision == "ask"
    assert (
        policy(data).decide_call("run_command", {"command": "x"}, rules=Rules.parse("!run_command")).decision == "deny"
    )


def test_plain_tool_names_are_rules_where_a_source_may_have_them() -> None:
    lists = {"allow": ["read_file", "command(ls)"], "ask": [" write_file "], "deny": ["deploy"]}
    mine = Policy.compile([Source("plugin", {"permissions": lists}, names=True)], workspace="/w")
    assert not mine.faults
    assert mine.names == Rules.parse("read_file,?write_file,!deploy")
    for name, target, expected in (
        ("read_file", "/etc/hosts", "allow"), ("write_file", "x", "ask"), ("list_dir", "/etc", "ask"),
    ):  # fmt: skip
        assert mine.decide_call(name, {"path": target}).decision == expected
        action: Any = "write_file" if name == "write_file" else "read_file"
        assert mine.decide(Request(action, target, name)).decision == expected
    assert mine.decide_call("deploy", {}).decision == "deny"
    # Names that a host adds are in force beside them, and a derived policy keeps them.
    assert mine.decide_call("list_dir", {"path": "."}, rules=Rules.parse("!list_dir")).decision == "deny"
    assert mine.attended("headless").with_grants(["mcp(*)"]).decide_call("deploy", {}).decision == "deny"
    theirs = Policy.compile([Source("global", {"permissions": lists})], workspace="/w")
    assert [fault.place for fault in theirs.faults] == [
        "permissions.deny[0]", "permissions.ask[0]", "permissions.allow[0]",
    ]  # fmt: skip


def test_a_question_by_name_names_its_rule_where_nobody_answers() -> None:
    made = policy({}, mode="headless").decide_call("run_command", {"command": "x"}, rules=Rules.parse("?run_command"))
    assert (made.rule, made.soft, made.remedies) == ("?run_command", True, ())
    assert "the rule `?run_command` stands in the way" in made.reason


def test_wildcards_at_the_end_of_a_command_are_told_like_those_in_paths() -> None:
    lists = {"allow": ["command(git *)", "command(git:*)"], "deny": ["read_file(*.env)", "mcp(a*/b)"]}
    found = {fault.place: fault.effect for fault in policy({"permissions": lists}).faults}
    assert found == {
        "permissions.allow[0]": "glob", "permissions.allow[1]": "glob",
        "permissions.deny[0]": "inert", "permissions.deny[1]": "inert",
    }  # fmt: skip
