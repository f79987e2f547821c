"""Chunks of one stream call: stable block indexes, every start with its end.

Owns: the numbering and the open block of one generation. Text and thoughts each continue their open block; a change of
kind closes one and opens the next; tool calls are blocks of their own. ``end`` closes whatever is open.
"""

from collections.abc import Iterator

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

    def delta(self, text: str, *, thinking: bool) -> Iterator[StreamChunk]:
        """More text of the answer or of a thought."""
        if not self._open or self._thinking is not thinking:
            yield from self.end()
            self._open, self._thinking = True, thinking
            self._next += 1
            yield BlockStart(self._next - 1, "reasoning" if thinking else "text")
        self._parts.append(text)
        yield ReasoningDelta(self._next - 1, text) if thinking else TextDelta(self._next - 1, text)

    def continues(self, *, thinking: bool) -> bool:
        """Whether the open block is of this kind, so that one more delta is one chunk."""
        return self._open and self._thinking is thinking

    def more(self, text: str) -> StreamChunk:
        """One more delta of the open block; only after :meth:`continues` said so."""
        self._parts.append(text)
        index = self._next - 1
        return ReasoningDelta(index, text) if self._thinking else TextDelta(index, text)

    def call(self, block: ToolCallBlock) -> Iterator[StreamChunk]:
        """A whole tool call."""
        yield from self.end()
        index = self._next
        self._next += 1
        yield BlockStart(index, "tool-call")
        yield ToolCallDelta(index, block.id, block.arguments, block.name)
        yield BlockEnd(index, block)

    def end(self) -> Iterator[StreamChunk]:
        """Close the open block, if there is one."""
        if not self._open:
            return
        whole = "".join(self._parts)
        self._parts = []
        self._open = False
        if not self._thinking:
            self._texts.append(whole)
        yield BlockEnd(self._next - 1, ReasoningBlock(whole) if self._thinking else TextBlock(whole))
