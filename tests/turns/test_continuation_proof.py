"""A continuation is accepted only on exact proof; everything else is a fresh start or an explicit failure."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antigravity_acp.contract import (
    GenerateOptions,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolSchema,
    tool_result,
    user,
)
from antigravity_acp.turns.continuation import Suspension, Verdict, judge_continuation

pytestmark = pytest.mark.requirement("A-019", "A-020", "A-021")

TOOLS = (ToolSchema("read", "Reads.", {"type": "object"}), ToolSchema("write", "Writes.", {"type": "object"}))
CALLS = (ToolCallBlock("call_1", "read", '{"path": "a", "n": 1.0}'), ToolCallBlock("call_2", "write", '{"ok": true}'))


def request(**changes: Any) -> GenerateOptions:
    base: dict[str, Any] = {
        "provider": "antigravity-acp",
        "model": "server-default",
        "messages": (Message("system", (TextBlock("be brief"),)), user("go")),
        "tools": TOOLS,
        "session_id": "s1",
    }
    return GenerateOptions(**(base | changes))


ASSISTANT = Message("assistant", (ReasoningBlock("hm"), TextBlock("Reading."), *CALLS))
RESULTS = (tool_result("call_1", "one"), tool_result("call_2", "two"))
SUSPENDED = Suspension.of(request(), "Reading.", CALLS)


def follow_up(*added: Message, **changes: Any) -> GenerateOptions:
    first = changes.pop("messages", request().messages)
    return request(messages=(*first, *added), **changes)


def verdict(*added: Message, **changes: Any) -> Verdict:
    return judge_continuation(SUSPENDED, follow_up(*added, **changes))


def test_exact_continuation_is_accepted() -> None:
    assert verdict(ASSISTANT, *RESULTS) is Verdict.CONTINUES


def test_order_of_results_and_of_tools_does_not_matter() -> None:
    assert verdict(ASSISTANT, *reversed(RESULTS), tools=tuple(reversed(TOOLS))) is Verdict.CONTINUES


def test_ids_provenance_and_thoughts_are_the_hosts_business() -> None:
    rebuilt = Message("assistant", (TextBlock(" Reading.\n"), *CALLS), id="m7", source={"kind": "model"})
    assert verdict(rebuilt, *RESULTS) is Verdict.CONTINUES


def test_arguments_may_be_written_again_with_the_same_meaning() -> None:
    again = ToolCallBlock("call_1", "read", '{"n":1,"path":"a"}')
    assert verdict(Message("assistant", (TextBlock("Reading."), again, CALLS[1])), *RESULTS) is Verdict.CONTINUES


@pytest.mark.parametrize("arguments", ['{"path":"b","n":1}', '{"path":"a","n":true}', '{"path":"a"}', "{", '[{"n":1}]'])
def test_other_arguments_are_another_context(arguments: str) -> None:
    forged = ToolCallBlock("call_1", "read", arguments)
    assert verdict(Message("assistant", (TextBlock("Reading."), forged, CALLS[1])), *RESULTS) is Verdict.CHANGED


@pytest.mark.parametrize(
    "results",
    [
        pytest.param((), id="none"),
        pytest.param(RESULTS[:1], id="one missing"),
        pytest.param((*RESULTS, RESULTS[0]), id="one twice"),
        pytest.param((RESULTS[0], RESULTS[0]), id="one twice, one missing"),
        pytest.param((*RESULTS, tool_result("call_9", "x")), id="one foreign"),
        pytest.param((RESULTS[0], tool_result("call_9", "x")), id="one forged"),
    ],
)
def test_wrong_results_fail_explicitly(results: tuple[Message, ...]) -> None:
    assert verdict(ASSISTANT, *results) is Verdict.RESULTS_WRONG


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"model": "other"}, id="model"),
        pytest.param({"provider": "other"}, id="provider"),
        pytest.param({"system": "other"}, id="system option"),
        pytest.param({"session_id": "s2"}, id="session"),
        pytest.param({"tools": TOOLS[:1]}, id="tool gone"),
        pytest.param({"tools": (TOOLS[0], msgspec.structs.replace(TOOLS[1], description="!"))}, id="tool text"),
        pytest.param({"tools": (TOOLS[0], msgspec.structs.replace(TOOLS[1], parameters={}))}, id="tool schema"),
        pytest.param({"messages": (Message("system", (TextBlock("be long"),)), user("go"))}, id="system message"),
        pytest.param({"messages": (Message("system", (TextBlock("be brief"),)), user("stop"))}, id="prefix"),
        pytest.param({"messages": (user("go"),)}, id="message gone"),
        pytest.param({"purpose": "compaction"}, id="purpose"),
    ],
)
def test_changed_context_is_never_continued(changes: dict[str, Any]) -> None:
    assert verdict(ASSISTANT, *RESULTS, **changes) is Verdict.CHANGED


@pytest.mark.parametrize(
    "added",
    [
        pytest.param((), id="nothing added"),
        pytest.param(RESULTS, id="no assistant message"),
        pytest.param((ASSISTANT, *RESULTS, user("and now?")), id="a user message after the results"),
        pytest.param((Message("assistant", (TextBlock("Reading."), CALLS[0])), *RESULTS), id="a call gone"),
        pytest.param((Message("assistant", (TextBlock("No."), *CALLS)), *RESULTS), id="other text"),
        pytest.param((Message("user", (TextBlock("Reading."), *CALLS)), *RESULTS), id="another role"),
        pytest.param((Message("assistant", (TextBlock("Reading."), *CALLS, CALLS[0])), *RESULTS), id="a call twice"),
    ],
)
def test_other_tails_start_anew(added: tuple[Message, ...]) -> None:
    assert verdict(*added) is Verdict.CHANGED


TEXT = st.text(max_size=12)
MESSAGES = st.lists(
    st.builds(
        lambda role, text: Message(role, (TextBlock(text),)), st.sampled_from(["system", "user", "developer"]), TEXT
    ),
    min_size=1,
    max_size=5,
)


@given(MESSAGES, MESSAGES)
def test_only_the_same_prefix_continues(first: list[Message], second: list[Message]) -> None:
    suspended = Suspension.of(request(messages=tuple(first)), "Reading.", CALLS)
    now = follow_up(ASSISTANT, *RESULTS, messages=tuple(second))
    same = [(m.role, m.text) for m in first] == [(m.role, m.text) for m in second]
    assert (judge_continuation(suspended, now) is Verdict.CONTINUES) == same
