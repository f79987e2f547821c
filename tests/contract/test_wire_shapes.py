"""The host's JSON shapes survive the round trip; wrong ones name the field and never a value."""

import pickle
from typing import Any

import pytest

from antigravity_acp.contract import (
    ERRORS,
    AbortController,
    BlockEnd,
    BlockStart,
    Finish,
    FinishReason,
    GenerateOptions,
    LlmError,
    Message,
    OpaqueBlock,
    StreamChunk,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
    Usage,
    chunk_from_wire,
)

REQUEST: dict[str, Any] = {
    "provider": "antigravity-acp",
    "model": "server-default",
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "s"}], "source": {"kind": "system-prompt"}, "id": "m0"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "later-kind", "x": [1]}]},
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "hm"},
                {"type": "tool-call", "id": "c1", "name": "bash", "arguments": '{"a": 1e2}'},
            ],
        },
        {"role": "tool", "toolCallId": "c1", "isError": True, "content": [{"type": "text", "text": "no"}]},
    ],
    "tools": [{"name": "bash", "description": "d", "parameters": {"type": "object"}}],
    "toolHistory": {"tools": [], "updates": []},
    "sessionId": "s1",
    "purpose": "compaction",
    "reasoningEffort": "high",
    "maxTokens": 5,
    "temperature": 0.5,
    "stop": ["x"],
}


def test_request_round_trip_loses_nothing() -> None:
    assert GenerateOptions.from_wire(REQUEST).to_wire() == REQUEST


def test_unknown_fields_and_block_kinds_are_tolerated() -> None:
    options = GenerateOptions.from_wire(REQUEST | {"fieldOfNextYear": 1})
    assert options.messages[1].content[1] == OpaqueBlock({"type": "later-kind", "x": [1]})


def test_older_tool_result_shape_is_read() -> None:
    old = {
        "role": "user",
        "content": [{"type": "tool-result", "toolCallId": "c1", "content": [{"type": "text", "text": "x"}]}],
    }
    assert Message.from_wire(old) == Message("tool", (TextBlock("x"),), tool_call_id="c1")


def test_string_content_is_read_as_text() -> None:
    assert Message.from_wire({"role": "user", "content": "hi"}).content == (TextBlock("hi"),)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"provider": 7}, "provider"),
        ({"messages": "SECRET"}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": []}]}, "messages[0]"),
        ({"messages": [{"role": "tool", "content": []}]}, "toolCallId"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": ["SECRET"]}]}, "messages[0].content[0]"),
        ({"tools": [{"name": 1}]}, "tools"),
        ({"maxTokens": "SECRET"}, "maxTokens"),
    ],
)
@pytest.mark.requirement("A-063")
def test_wrong_shapes_name_the_place_and_no_value(change: dict[str, Any], named: str) -> None:
    with pytest.raises(LlmError) as caught:
        GenerateOptions.from_wire(REQUEST | change)
    assert caught.value.code == "INVALID_REQUEST"
    assert named in caught.value.message
    assert "SECRET" not in caught.value.message


@pytest.mark.parametrize(
    ("chunk", "wire"),
    [
        (BlockStart(0, "text"), {"type": "block-start", "index": 0, "blockType": "text"}),
        (TextDelta(0, ""), {"type": "text-delta", "index": 0, "text": ""}),
        (
            ToolCallDelta(1, "c", "{}", "bash"),
            {"type": "tool-call-delta", "index": 1, "id": "c", "name": "bash", "argumentsDelta": "{}"},
        ),
        (
            BlockEnd(1, ToolCallBlock("c", "bash", "{}")),
            {
                "type": "block-end",
                "index": 1,
                "block": {"type": "tool-call", "id": "c", "name": "bash", "arguments": "{}"},
            },
        ),
        (Usage(TokenUsage(3, 4)), {"type": "usage", "usage": {"inputTokens": 3, "outputTokens": 4}}),
        (Finish(FinishReason("stop")), {"type": "finish", "reason": {"kind": "stop"}}),
        (
            Finish.of(LlmError("ACP_QUOTA", "later", status=429, retry_after_ms=10)),
            {
                "type": "finish",
                "reason": {
                    "kind": "error",
                    "failure": {"message": "later", "code": "ACP_QUOTA", "status": 429, "providerRetryAfterMs": 10},
                },
            },
        ),
    ],
)
def test_chunk_shapes(chunk: StreamChunk, wire: dict[str, Any]) -> None:
    assert chunk.to_wire() == wire
    assert chunk_from_wire(wire) == chunk


def test_abort_finishes_as_aborted() -> None:
    assert Finish.of(LlmError("ABORTED")).reason.kind == "aborted"


def test_errors_survive_pickling_and_every_code_says_what_to_do() -> None:
    error = LlmError("ACP_QUOTA", retry_after_ms=5)
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.message, again.retry_after_ms) == (error.code, error.message, 5)
    for code, row in ERRORS.items():
        assert row.happened.endswith("."), code
        assert row.remedy.endswith("."), code


async def test_signal_fires_once_also_for_late_listeners() -> None:
    controller = AbortController()
    heard: list[str] = []
    remove = controller.signal.add_listener(lambda: heard.append("removed"))
    controller.signal.add_listener(lambda: heard.append("kept"))
    remove()
    controller.abort({"kind": "user"})
    controller.abort("again")
    controller.signal.add_listener(lambda: heard.append("late"))
    await controller.signal.wait()
    assert heard == ["kept", "late"]
    assert controller.signal.reason == {"kind": "user"}
