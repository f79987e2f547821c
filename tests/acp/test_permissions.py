"""Whose permission request is it? Only proof counts, and only "once" is ever chosen."""

from typing import Any

import msgspec
import pytest
from helpers.agent import agent, play

from antigravity_acp.acp import (
    PROFILES,
    STRICT,
    AgentProfile,
    AgentToolCall,
    Allow,
    Cancelled,
    Foreign,
    McpEndpoint,
    Ours,
    PermissionAnswer,
    PermissionRequest,
    Question,
    Reject,
    is_ours,
    judge,
    profile_for,
)
from antigravity_acp.acp.permissions import read_request
from antigravity_acp.acp.updates import Counters, UpdateReader

SERVER = "host0a1b2c3d"
EXPORTED = frozenset({"read_file_ab12", "read_file_ab1", "bash_9f"})
OFFICIAL, GEMINI = profile_for("antigravity-acp"), profile_for("gemini-cli")
ENGINE = profile_for("antigravity-engine")
ONCE = [{"optionId": "allow_once", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]


def verdict(profile: AgentProfile, params: dict[str, Any], *first: dict[str, Any], server: str = SERVER) -> object:
    reader = UpdateReader(Counters())
    for update in first:
        reader.read(update)
    return judge(profile, read_request(profile, params, reader), server_name=server, exported=EXPORTED)


def ask(tool: str | None = "bash_9f", server: str = SERVER, *, options: Any = ONCE, **call: Any) -> dict[str, Any]:
    meta = {"_meta": {"mcp": {"server": server, "tool": tool}}} if tool else {}
    return {"toolCall": {"toolCallId": "c1", "title": "t", **meta, **call}, "options": options}


@pytest.mark.requirement("A-015")
@pytest.mark.parametrize("profile", [STRICT, OFFICIAL, profile_for("antigravity-engine")])
def test_our_server_and_an_exported_tool_are_allowed_once(profile: AgentProfile) -> None:
    assert verdict(profile, ask()) == Ours("allow_once")


@pytest.mark.requirement("A-015")
@pytest.mark.parametrize(
    "params",
    [
        ask(tool=None),
        ask(tool=None, title=f"{SERVER}_bash_9f"),
        ask(tool="bash_9"),
        ask(tool="BASH_9F"),
        ask(server=SERVER.upper()),
        ask(server=SERVER + " "),
        ask(server="other"),
        ask(_meta={"mcp": {"server": SERVER}}),
        ask(_meta={"mcp": {"server": [SERVER], "tool": "bash_9f"}}),
        ask(_meta={"mcp": f"{SERVER}/bash_9f"}),
        {},
        {"toolCall": 7, "options": 7},
        {"toolCall": None, "options": None},
    ],
)
def test_whatever_is_not_exactly_ours_is_foreign(params: dict[str, Any]) -> None:
    assert isinstance(verdict(STRICT, params), Foreign)
    assert isinstance(verdict(OFFICIAL, params), Foreign)


@pytest.mark.requirement("A-015")
@pytest.mark.parametrize(
    "options",
    [
        [],
        None,
        [{"optionId": "always", "kind": "allow_always"}],
        [*ONCE, {"optionId": "again", "kind": "allow_once"}],
        [*ONCE, {"optionId": "allow_once", "kind": "allow_always"}],
        [{"optionId": "allow_once", "kind": "allow_always"}],
        [{"optionId": "allow_once"}],
        [{"optionId": 1, "kind": "allow_once"}],
    ],
)
def test_only_one_unmistakable_allow_once_is_chosen(options: Any) -> None:
    assert isinstance(verdict(OFFICIAL, ask(options=options)), Foreign)
    assert isinstance(verdict(STRICT, ask(options=options)), Foreign)


def test_a_profile_with_a_known_option_takes_no_other() -> None:
    other = [{"optionId": "sure", "kind": "allow_once"}]
    assert isinstance(verdict(ENGINE, ask(options=other)), Foreign)
    assert verdict(STRICT, ask(options=other)) == Ours("sure")


@pytest.mark.parametrize("option", ["allow_once", "allow"])
def test_the_official_servers_option_is_known_by_its_kind_since_reports_differ_on_its_id(option: str) -> None:
    offered = [
        {"optionId": "allow_always", "kind": "allow_always"},
        {"optionId": option, "kind": "allow_once"},
        {"optionId": "deny", "kind": "reject_once"},
    ]
    assert verdict(OFFICIAL, ask(options=offered)) == Ours(option)


def test_without_an_endpoint_nothing_is_ours() -> None:
    assert isinstance(verdict(STRICT, ask(server=""), server=""), Foreign)
    assert isinstance(verdict(STRICT, ask(), server=""), Foreign)


def test_the_option_that_refuses_is_the_one_of_its_kind() -> None:
    assert verdict(STRICT, ask(tool=None)) == Foreign("no")
    assert verdict(STRICT, ask(tool=None, options=[{"optionId": "x", "kind": "reject_always"}])) == Foreign(None)


@pytest.mark.requirement("A-015")
def test_a_call_that_began_as_something_else_does_not_become_ours() -> None:
    native = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Run rm", "kind": "execute"}
    assert isinstance(verdict(OFFICIAL, ask(), native), Foreign)
    other = {**native, "_meta": {"mcp": {"server": "other", "tool": "bash_9f"}}}
    assert isinstance(verdict(OFFICIAL, ask(), other), Foreign)
    ours = {**native, "_meta": {"mcp": {"server": SERVER, "tool": "bash_9f"}}}
    assert verdict(OFFICIAL, ask(), ours) == Ours("allow_once")
    assert verdict(OFFICIAL, ask(tool=None), ours) == Ours("allow_once")
    assert isinstance(verdict(OFFICIAL, ask(tool="read_file_ab12"), ours), Foreign)


@pytest.mark.parametrize("profile", [*PROFILES, STRICT])
def test_a_question_is_never_a_permission(profile: AgentProfile) -> None:
    assert verdict(profile, ask(toolCallId="interaction_1")) == Question()


def gemini(tool: str = "bash_9f", **call: Any) -> dict[str, Any]:
    options = [
        {"optionId": "proceed_always_server", "kind": "allow_always"},
        {"optionId": "proceed_always_tool", "kind": "allow_always"},
        {"optionId": "proceed_once", "kind": "allow_once"},
        {"optionId": "cancel", "kind": "reject_once"},
    ]
    base = {
        "toolCallId": f"mcp_{SERVER}_{tool}__prompt-1",
        "title": f"{tool} ({SERVER} MCP Server)",
        "kind": "other",
        "locations": [],
        "content": [],
    }
    return {"toolCall": {**base, **call}, "options": options}


@pytest.mark.requirement("A-015")
def test_gemini_is_recognised_by_the_id_that_it_builds_itself() -> None:
    assert verdict(GEMINI, gemini()) == Ours("proceed_once")
    assert verdict(GEMINI, gemini("read_file_ab1")) == Ours("proceed_once")
    assert verdict(GEMINI, gemini("read_file_ab12")) == Ours("proceed_once")


@pytest.mark.requirement("A-015")
@pytest.mark.parametrize("title", ["rm -rf /", "", f"read_file_ab12 ({SERVER} MCP Server)"])
def test_gemini_puts_a_command_argument_of_our_tool_into_the_title(title: str) -> None:
    assert verdict(GEMINI, gemini(title=title)) == Ours("proceed_once")


@pytest.mark.requirement("A-015")
@pytest.mark.parametrize(
    "call",
    [
        {"toolCallId": "run_shell_command__1", "kind": "execute"},
        {"toolCallId": "run_shell_command__1"},
        {"toolCallId": f"mcp_{SERVER}_bash_9f"},
        {"toolCallId": f"mcp_{SERVER}_bash_9f_x__1"},
        {"toolCallId": "mcp_other_bash_9f__1"},
        {"kind": "execute"},
        {"kind": None},
        {"locations": [{"path": "/etc/passwd"}]},
        {"_meta": {"mcp": {"server": "other", "tool": "x"}}},
    ],
)
def test_gemini_with_one_sign_missing_is_foreign(call: dict[str, Any]) -> None:
    assert verdict(GEMINI, gemini(**call)) == Foreign("cancel")


def test_gemini_that_announced_the_call_before_is_foreign() -> None:
    first = {"sessionUpdate": "tool_call", "toolCallId": f"mcp_{SERVER}_bash_9f__prompt-1", "kind": "execute"}
    assert isinstance(verdict(GEMINI, gemini(), first), Foreign)


def test_the_gemini_rule_is_for_gemini_only() -> None:
    assert isinstance(verdict(STRICT, gemini()), Foreign)
    assert isinstance(verdict(OFFICIAL, gemini()), Foreign)


def event(
    call_id: str = "c", *, announced: bool = True, server: str | None = None, tool: str | None = None
) -> AgentToolCall:
    return AgentToolCall(call_id, True, announced, server, tool, "t", "other", None)


@pytest.mark.requirement("A-046")
@pytest.mark.parametrize(
    ("profile", "report", "expected"),
    [
        (OFFICIAL, event(server=SERVER, tool="bash_9f"), True),
        (OFFICIAL, event(server=SERVER, tool="nope"), False),
        (OFFICIAL, event(server="other", tool="bash_9f"), False),
        (OFFICIAL, event(), False),
        (OFFICIAL, event(announced=False), None),
        (OFFICIAL, event("interaction_1"), None),
        (STRICT, event(f"mcp_{SERVER}_bash_9f__1"), False),
        (GEMINI, event(f"mcp_{SERVER}_bash_9f__1"), True),
        (GEMINI, event(f"mcp_{SERVER}_bash_9f__1", announced=False), True),
        (GEMINI, event("run_shell_command__1"), False),
        (GEMINI, event("mcp_other_bash_9f__1", announced=False), False),
    ],
)
def test_reported_activity_is_ours_or_not(profile: AgentProfile, report: AgentToolCall, expected: bool | None) -> None:
    assert is_ours(profile, report, server_name=SERVER, exported=EXPORTED) is expected
    assert is_ours(profile, report, server_name="", exported=()) is (None if expected is None else False)


@pytest.mark.parametrize("profile", [*PROFILES, STRICT])
def test_a_profile_leaves_room_for_a_name(profile: AgentProfile) -> None:
    prefix = profile.tool_prefix(SERVER)
    assert SERVER in prefix
    assert profile.name_budget(SERVER) == 64 - len(prefix)
    assert profile.name_budget(SERVER) >= 40


@pytest.mark.requirement("A-015")
@pytest.mark.parametrize(
    ("name", "shape", "answered"),
    [
        ("antigravity-acp", "official", "allow_once"),
        ("gemini-cli", "gemini", "proceed_once"),
        ("gemini-cli", "shell", None),
        ("antigravity-acp", "title_only", None),
        ("antigravity-acp", "other_server", None),
        ("antigravity-acp", "other_tool", None),
        ("antigravity-acp", "contradiction", None),
        ("antigravity-acp", "always_only", None),
        ("antigravity-acp", "two_once", None),
        ("antigravity-acp", "question", None),
        ("antigravity-acp", "malformed", None),
    ],
)
async def test_over_the_wire_only_proof_is_answered_with_allow(name: str, shape: str, answered: str | None) -> None:
    async with agent({"name": name, "list_at": "call"}) as one:
        session = await one.new_session(McpEndpoint(SERVER, "http://127.0.0.1:9/mcp", ()))

        def decide(request: PermissionRequest) -> PermissionAnswer:
            found = judge(one.profile, request, server_name=SERVER, exported=EXPORTED)
            return Allow(found.option_id) if isinstance(found, Ours) else Cancelled()

        seen = await play(session, {"ask": shape, "tool": "bash_9f", "exact": True}, answer=decide)
        told = msgspec.json.decode(seen.text.removeprefix("outcome:"))
        assert len(seen.asked) == 1
        if answered:
            assert told == {"outcome": "selected", "optionId": answered}
        else:
            assert told == {"outcome": "cancelled"}


async def test_a_refusal_names_the_option_and_the_turn_goes_on() -> None:
    async with agent({"list_at": "call"}) as one:
        session = await one.new_session(McpEndpoint(SERVER, "http://127.0.0.1:9/mcp", ()))
        step = {"ask": "other_server", "tool": "x", "exact": True}
        seen = await play(session, step, {"say": " end"}, answer=lambda request: Reject("reject_once"))
        assert seen.text == 'outcome:{"optionId": "reject_once", "outcome": "selected"} end'


async def test_a_request_of_another_session_or_after_the_turn_is_cancelled() -> None:
    async with agent({"list_at": "call"}) as one:
        session = await one.new_session(McpEndpoint(SERVER, "http://127.0.0.1:9/mcp", ()))
        step = {"ask": "official", "tool": "bash_9f", "exact": True, "session": "somebody"}
        seen = await play(session, step, answer=lambda request: Allow("allow_once"))
        assert seen.asked == []
        assert '"cancelled"' in seen.text


async def test_a_decision_that_fails_allows_nothing_and_ends_the_prompt() -> None:
    async with agent({"list_at": "call"}) as one:
        session = await one.new_session(McpEndpoint(SERVER, "http://127.0.0.1:9/mcp", ()))

        def broken(request: PermissionRequest) -> PermissionAnswer:
            raise ValueError("decision")

        with pytest.raises(ValueError, match="decision"):
            await play(
                session, {"ask": "official", "tool": "bash_9f", "exact": True}, {"wait_cancel": 20}, answer=broken
            )
        assert one.alive
