"""Chunks of one stream call: stable block indexes, every start with its end.

Owns: the numbering and the open block of one generation. Text and thoughts each continue their open block; a change of
kind closes one and opens the next; tool calls are blocks of their own. ``end`` closes whatever is open.
"""

from collections.abc import Sequence

from ..contract import (
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


class BlockWriter:
    """Turns text, thoughts and calls into chunks."""

    def __init__(self) -> None:
        self._next = 0
        self._parts: list[str] = []
        self._thinking = False
        self._open = False
        self._texts: list[str] = []

    @property
    def count(self) -> int:
        """Blocks begun so far."""
        return self._next

    @property
    def text(self) -> str:
        """All visible text so far."""
        return "".join(self._texts)

    def delta(self, text: str, *, thinking: bool) -> Sequence[StreamChunk]:
        """More text of the answer or of a thought: one chunk, after those that open its block."""
        before: Sequence[StreamChunk] = ()
        if not self._open or self._thinking is not thinking:
            before = (*self.end(), BlockStart(self._next, "reasoning" if thinking else "text"))
            self._open, self._thinking = True, thinking
            self._next += 1
        self._parts.append(text)
        index = self._next - 1
        return (*before, ReasoningDelta(index, text) if thinking else TextDelta(index, text))

    def call(self, block: ToolCallBlock) -> Sequence[StreamChunk]:
        """A whole tool call."""
        before = self.end()
        index = self._next
        self._next += 1
        delta = ToolCallDelta(index, block.id, block.arguments, block.name)
        return (*before, BlockStart(index, "tool-call"), delta, BlockEnd(index, block))

    def end(self) -> Sequence[StreamChunk]:
        """Close the open block, if there is one."""
        if not self._open:
            return ()
        whole = "".join(self._parts)
        self._parts = []
        self._open = False
        if not self._thinking:
            self._texts.append(whole)
        return (BlockEnd(self._next - 1, ReasoningBlock(whole) if self._thinking else TextBlock(whole)),)
