"""Indexes count up from 0 in first-seen order, every start has its end, an end carries the whole block."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antigravity_acp.contract import (
    BlockEnd,
    BlockStart,
    ReasoningBlock,
    ReasoningDelta,
    StreamChunk,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
)
from antigravity_acp.turns.blocks import BlockWriter

pytestmark = pytest.mark.requirement("A-060")


def test_thought_text_and_calls_take_following_indexes() -> None:
    writer = BlockWriter()
    call = ToolCallBlock("c1", "read", '{"a":1}')
    chunks = [
        *writer.delta("hm", thinking=True),
        *writer.delta("o", thinking=False),
        *writer.delta("k", thinking=False),
        *writer.call(call),
        *writer.end(),
    ]
    assert chunks == [
        BlockStart(0, "reasoning"),
        ReasoningDelta(0, "hm"),
        BlockEnd(0, ReasoningBlock("hm")),
        BlockStart(1, "text"),
        TextDelta(1, "o"),
        TextDelta(1, "k"),
        BlockEnd(1, TextBlock("ok")),
        BlockStart(2, "tool-call"),
        ToolCallDelta(2, "c1", '{"a":1}', "read"),
        BlockEnd(2, call),
    ]
    assert writer.text == "ok"


@given(st.lists(st.tuples(st.sampled_from(["text", "thought", "call"]), st.text(max_size=4)), max_size=30))
def test_any_interleaving_keeps_the_contract(steps: list[tuple[str, str]]) -> None:
    writer = BlockWriter()
    chunks: list[StreamChunk] = []
    for number, (kind, text) in enumerate(steps):
        if kind == "call":
            chunks += writer.call(ToolCallBlock(f"c{number}", "t", text))
        else:
            chunks += writer.delta(text, thinking=kind == "thought")
    chunks += writer.end()
    open_at: int | None = None
    seen = -1
    parts: list[str] = []
    for chunk in chunks:
        match chunk:
            case BlockStart(index=index):
                assert open_at is None
                assert index == seen + 1
                open_at = seen = index
                parts = []
            case BlockEnd(index=index, block=block):
                assert index == open_at
                assert "".join(parts) == (block.arguments if isinstance(block, ToolCallBlock) else block.text)
                open_at = None
            case TextDelta(index=index, text=text) | ReasoningDelta(index=index, text=text):
                assert index == open_at
                parts.append(text)
            case ToolCallDelta(index=index, arguments_delta=text):
                assert index == open_at
                parts.append(text)
    assert open_at is None
    assert writer.count == seen + 1
