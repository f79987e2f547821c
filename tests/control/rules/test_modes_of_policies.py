"""What happens where no rule speaks: the table of modes, headless runs, trust, the escape hatch, grants of a turn."""

import pytest
from helpers.policies import judged, policy, verdict

from antigravity_control import Policy, Request, Source

SKIP = ["--dangerously-skip-permissions"]
#: read inside, write inside, read outside, write outside, command, read_url, mcp
CALLS = (
    ("read_file", "/w/a"), ("write_file", "/w/a"), ("read_file", "/srv/a"), ("write_file", "/srv/a"), ("command", "ls"),
    ("read_url", "https://a.test"), ("mcp", "a/b"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "flags", "settings", "allowed"),
    [
        ("interactive", [], {}, "11-----"),
        ("headless", [], {}, "1------"),
        ("interactive", [], {"toolPermission": "strict"}, "1------"),
        ("headless", [], {"toolPermission": "strict"}, "1------"),
        ("interactive", [], {"toolPermission": "always-proceed"}, "1111111"),
        ("headless", [], {"toolPermission": "always-proceed"}, "1111111"),
        ("interactive", [], {"toolPermission": "proceed-in-sandbox"}, "11-----"),
        ("interactive", [], {"toolPermission": "proceed-in-sandbox", "enableTerminalSandbox": True}, "11--1--"),
        ("interactive", ["--sandbox"], {"toolPermission": "proceed-in-sandbox"}, "11--1--"),
        ("interactive", [], {"enableTerminalSandbox": True}, "11-----"),
        ("headless", [], {"allowNonWorkspaceAccess": True}, "1-1----"),
        ("interactive", [], {"allowNonWorkspaceAccess": True}, "111----"),
        ("headless", ["--mode", "accept-edits"], {}, "11-----"),
        ("headless", ["--mode=accept-edits"], {"toolPermission": "strict"}, "1------"),
        ("interactive", ["--mode plan"], {"toolPermission": "always-proceed"}, "1------"),
        ("headless", [], {"agentMode": "accept-edits"}, "11-----"),
        ("headless", SKIP, {}, "1111111"),
        ("interactive", ["dangerously-skip-permissions"], {"toolPermission": "strict"}, "1111111"),
        ("interactive", [], {"toolPermission": "none-such"}, "11-----"),
        ("interactive", [], {"trustedWorkspaces": []}, "1------"),
        ("interactive", [], {"trustedWorkspaces": ["/w"], "toolPermission": "always-proceed"}, "1111111"),
        ("interactive", [], {"trustedWorkspaces": ["/elsewhere"], "toolPermission": "always-proceed"}, "1------"),
        ("interactive", [], {"trustedWorkspaces": "/w"}, "1------"),
        ("interactive", [], {"preset": "Turbo"}, "1111111"),
        ("interactive", [], {"preset": "Default"}, "11--1--"),
        ("interactive", [], {"preset": "Request Review"}, "1------"),
    ],
)
@pytest.mark.requirement("B-006", "B-008")
def test_what_each_mode_opens(mode: str, flags: list[str], settings: dict[str, object], allowed: str) -> None:
    ruled = policy(mode=mode, flags=flags, **settings)  # type: ignore[arg-type]  # a table of settings
    made = [ruled.decide(Request(action, target)) for action, target in CALLS]  # type: ignore[arg-type]  # names of the table
    assert "".join("1" if each.allowed else "-" for each in made) == allowed
    for each in made:
        assert each.allowed or (each.soft if mode == "headless" else each.decision == "ask")
        assert each.hatch == (each.source == "flag")


@pytest.mark.parametrize("options", [{"toolPermission": "always-proceed"}, {"flags": SKIP}, {"preset": "turbo"}])
@pytest.mark.requirement("B-022")
def test_no_mode_and_no_switch_lifts_a_deny(options: dict[str, object]) -> None:
    deny = ["command(rm)", "read_file(/w/secret)", "read_url(evil.test)", "mcp(a/*)"]
    for action, target in (
        ("command", "rm x"), ("command", "cat secret/x"), ("write_file", "/w/secret/x"), ("read_url", "http://evil.test"),
        ("mcp", "a/b"),
    ):  # fmt: skip
        made = judged(action, target, deny=deny, **options)  # type: ignore[arg-type]  # names of the table
        assert (made.decision, made.soft, made.source) == ("deny", False, "rule")


def test_an_ask_rule_beats_a_mode_and_a_wildcard() -> None:
    for options in ({"toolPermission": "always-proceed"}, {"allow": ["command(*)"]}):
        made = judged("command", "git push", ask=["command(git push)"], **options)
        assert (made.decision, made.rule, made.scope) == ("ask", "command(git push)", "global")


@pytest.mark.requirement("B-008")
def test_a_soft_denial_names_the_tool_and_the_rule_that_would_allow_it() -> None:
    ruled = policy(mode="headless")
    for name, arguments, remedy in (
        ("run_command", {"command": "git push origin"}, "command(git push)"),
        ("run_command", {"command": "python3 x.py"}, "command(python3 x.py)"),
        ("write_file", {"path": "a"}, "write_file(/w/a)"),
        ("read_url_content", {"Url": "https://api.a.test/x"}, "read_url(api.a.test)"),
        ("mcp__linter__run", {}, "mcp(linter/run)"),
    ):
        made = ruled.decide_call(name, arguments)
        assert (made.decision, made.soft, made.source) == ("deny", True, "headless")
        assert f"`{name}`" in made.reason
        assert made.remedies == (remedy,)
        assert remedy not in made.reason
        assert remedy not in repr(made)
        allowed = policy(mode="headless", allow=made.remedies).decide_call(name, arguments)
        assert allowed.decision == "allow", name


def test_rules_of_every_scope_are_in_force_and_the_one_that_matched_is_recorded() -> None:
    sources = [
        Source("global", {"permissions": {"allow": ["command(a)"]}}),
        Source(
            "shared", {"userSettings": {"globalPermissionGrants": {"allow": ["command(b)"], "deny": ["command(x)"]}}}
        ),
        Source(
            "project", {"permissionGrants": {"permissionGrants": {"allow": ["command(c)"], "ask": ["command(a y)"]}}}
        ),
        Source("plugin", {"permissions": {"allow": ["command(d)", "command(x)"]}}),
    ]
    ruled = Policy.compile(sources, workspace="/w").with_grants(["command(e)", "command(x)", "not a rule"])
    made = {line: ruled.decide(Request("command", line)) for line in ("a", "b", "c", "d", "e", "x", "a y", "f")}
    assert {line: (each.decision, each.scope) for line, each in made.items()} == {
        "a": ("allow", "global"), "b": ("allow", "shared"), "c": ("allow", "project"), "d": ("allow", "plugin"),
        "e": ("allow", "turn"), "x": ("deny", "shared"), "a y": ("ask", "project"), "f": ("ask", None),
    }  # fmt: skip
    assert [(fault.scope, fault.place) for fault in ruled.faults] == [("turn", "grants[2]")]


@pytest.mark.requirement("B-007")
def test_a_grant_for_the_turn_widens_a_file_to_its_folder_and_ends_with_the_policy() -> None:
    before = policy(mode="headless")
    after = before.with_grants(["write_file(/srv/out)"])
    assert after.decide(Request("write_file", "/srv/out/b")).scope == "turn"
    assert after.decide(Request("read_file", "/srv/out/b")).allowed
    assert not after.decide(Request("write_file", "/srv/b")).allowed
    assert not before.decide(Request("write_file", "/srv/out/b")).allowed


def test_projects_and_shared_grants_cannot_switch_questions_off() -> None:
    data = {"toolPermission": "always-proceed", "dangerouslySkipPermissions": True, "trustedWorkspaces": ["/w"]}
    ruled = Policy.compile([Source("project", data), Source("shared", data)], workspace="/w")
    assert ruled.decide(Request("command", "ls")).decision == "ask"
    untrusted = Source("global", {"trustedWorkspaces": [], "permissions": {"allow": ["command(ls)"]}})
    assert Policy.compile([Source("project", data), untrusted], workspace="/w").decide(Request("command", "ls")).asks
    plugin = Policy.compile([Source("global", {"toolPermission": "always-proceed"}),
                             Source("plugin", {"toolPermission": "strict"})], workspace="/w")  # fmt: skip
    assert plugin.decide(Request("write_file", "/w/a")).decision == "ask"


def test_the_same_policy_attended_and_headless() -> None:
    ruled = policy()
    assert ruled.decide(Request("command", "ls")).decision == "ask"
    assert ruled.attended("headless").decide(Request("command", "ls")).soft


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"allow": ["mcp(a/b)"]}, "allow"), ({"allow": ["mcp(a/*)"]}, "allow"), ({"allow": ["mcp(A/*)"]}, "ask"),
        ({"allow": ["mcp(a/*)"], "deny": ["mcp(a/b)"]}, "deny"), ({"allow": ["mcp(a/b)"], "ask": ["mcp(*)"]}, "ask"),
        ({"allow": ["mcp(a/bb)"]}, "ask"), ({"allow": ["mcp(aa/*)"]}, "ask"),
    ],
)  # fmt: skip
@pytest.mark.requirement("B-003")
def test_tools_of_servers(rules: dict[str, list[str]], expected: str) -> None:
    assert verdict("mcp", "a/b", **rules) == expected


def test_where_the_server_is_not_clear_a_deny_holds_and_an_allow_does_not() -> None:
    assert verdict("mcp", "a/b/c", allow=["mcp(a/*)"]) == "ask"
    assert verdict("mcp", "a/b/c", allow=["mcp(a/b/c)"]) == "allow"
    for rule in ("mcp(a/*)", "mcp(a/b/*)"):
        assert verdict("mcp", "a/b/c", allow=["mcp(*)"], deny=[rule]) == "deny"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--dangerously-skip-permissions=false"], "ask"),
        (["--dangerously-skip-permissions=0"], "ask"),
        (["--dangerously-skip-permissions=true"], "allow"),
        (["--dangerously-skip-permissions=maybe"], "ask"),
        (["--mode=plan", "--dangerously-skip-permissions"], "allow"),
        (["--mode"], "ask"),
        (["--mode=none", "--sandbox=no"], "ask"),
        (["--sandbox=yes"], "allow"),
        (["--sandbox", "--sandbox=off"], "ask"),
    ],
)
def test_a_switch_that_says_no_switches_nothing_on(flags: list[str], expected: str) -> None:
    ruled = policy(flags=flags, toolPermission="proceed-in-sandbox")
    assert ruled.decide(Request("command", "ls")).decision == expected
    assert bool(ruled.faults) == (flags[0] in ("--mode", "--mode=none", "--dangerously-skip-permissions=maybe"))


@pytest.mark.parametrize(
    ("name", "arguments", "rule"),
    [
        ("read_file", {"paths": ["/etc/x"]}, "read_file(/etc)"),
        ("write_file", {"path": 5}, "read_file(/etc)"),
        ("write_file", {}, "write_file(/etc)"),
        ("read_file", {"path": "/etc/x\0.txt"}, "read_file(/etc)"),
        ("read_file", {"path": "a/../" * 4000 + "secret"}, "read_file(secret)"),
        ("run_command", {"command": ["rm", "x"]}, "command(rm)"),
        ("webfetch", {"urls": ["https://a.test"]}, "read_url(a.test)"),
        ("call_mcp_tool", {"ServerName": ["a"], "ToolName": "b"}, "mcp(a/b)"),
    ],
)
def test_a_call_that_hides_what_it_is_about_is_asked_about_where_a_deny_may_mean_it(
    name: str, arguments: dict[str, object], rule: str
) -> None:
    for options in ({"flags": SKIP}, {"toolPermission": "always-proceed"}):
        assert policy(deny=[rule], **options).decide_call(name, arguments).decision == "ask"  # type: ignore[arg-type]  # a table of settings
    assert policy(flags=SKIP, deny=["unsandboxed(x)"]).decide_call(name, arguments).allowed
