"""The chunk contract, enforced on whatever an adapter yields.

Owns: :class:`StreamGuard`, a plain state machine without a loop. What comes out keeps the contract whatever goes in:
indexes count up, a delta belongs to an open block of its kind, every start has its end, and finish comes once and last.
A delta without a start is forgiven, as the original host does; other breaks end the stream as an error.
"""

from antigravity_acp.contract import (
    BlockEnd,
    BlockStart,
    BlockType,
    ContentBlock,
    Finish,
    FinishReason,
    LlmError,
    ReasoningBlock,
    ReasoningDelta,
    StreamChunk,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
    Usage,
)

from .assembler import BlockBuilder

_KIND_OF_DELTA: dict[type, BlockType] = {
    TextDelta: "text",
    ReasoningDelta: "reasoning",
    ToolCallDelta: "tool-call",
}
_KIND_OF_BLOCK: dict[type, BlockType] = {
    TextBlock: "text",
    ReasoningBlock: "reasoning",
    ToolCallBlock: "tool-call",
}


class ContractBreakError(Exception):
    """The adapter broke the chunk contract; the text is ours."""


class StreamGuard:
    """Follows one stream. ``finished`` is true once the finish chunk was given out."""

    def __init__(self) -> None:
        self.finished = False
        self._open: dict[int, BlockBuilder] = {}
        self._seen = 0
        self._calls: set[str] = set()

    def take(self, chunk: StreamChunk) -> list[StreamChunk]:
        """What the consumer gets for one chunk of the adapter.

        :raises ContractBreakError: when the chunk cannot be repaired; end the stream with :meth:`end`.
        """
        if isinstance(chunk, (TextDelta, ReasoningDelta, ToolCallDelta)):
            opened = self._start_if_new(chunk.index, _KIND_OF_DELTA[type(chunk)])
            self._open[chunk.index].add(chunk)
            return [*opened, chunk]
        if isinstance(chunk, BlockStart):
            if chunk.index != self._seen:
                raise ContractBreakError(f"block {chunk.index} was started where {self._seen} is next")
            return self._start_if_new(chunk.index, chunk.block_type)
        if isinstance(chunk, BlockEnd):
            return self._end_block(chunk)
        if isinstance(chunk, Finish):
            if chunk.reason.kind == "tool-calls" and not self._calls:
                raise ContractBreakError("it finished for tool calls without having made one")
            return self.end(chunk.reason)
        if isinstance(chunk, Usage):
            return [chunk]
        raise ContractBreakError("it yielded something that is no chunk")

    def end(self, reason: FinishReason) -> list[StreamChunk]:
        """Close what is open and finish; nothing when the stream is finished already."""
        if self.finished:
            return []
        self.finished = True
        closing: list[StreamChunk] = [BlockEnd(index, self._open[index].build()) for index in sorted(self._open)]
        self._open.clear()
        return [*closing, Finish(reason)]

    def _start_if_new(self, index: int, kind: BlockType) -> list[StreamChunk]:
        block = self._open.get(index)
        if block is not None:
            if block.kind != kind:
                raise ContractBreakError(f"block {index} is of kind {block.kind} and got a chunk of kind {kind}")
            return []
        if index != self._seen:
            raise ContractBreakError(f"block {index} is not open")
        self._seen += 1
        self._open[index] = BlockBuilder(kind)
        return [BlockStart(index, kind)]

    def _end_block(self, chunk: BlockEnd) -> list[StreamChunk]:
        kind = self._kind_of(chunk.index, chunk.block)
        if isinstance(chunk.block, ToolCallBlock) and chunk.block.id in self._calls:
            raise ContractBreakError("two tool calls of one message have the same id")
        # Nothing below may fail: a block that was opened and not given out would be closed without ever having begun.
        opened = self._start_if_new(chunk.index, kind)
        if isinstance(chunk.block, ToolCallBlock):
            self._calls.add(chunk.block.id)
        del self._open[chunk.index]
        return [*opened, chunk]

    def _kind_of(self, index: int, block: ContentBlock) -> BlockType:
        kind = _KIND_OF_BLOCK.get(type(block))
        if kind is None:
            raise ContractBreakError(f"block {index} is of a kind that no stream carries")
        return kind


def as_error(error: BaseException) -> LlmError:
    """The typed form of whatever an adapter raised: its own code, or ``UNKNOWN`` without a word of its text."""
    if isinstance(error, LlmError):
        return error
    if isinstance(error, ContractBreakError):
        return LlmError("UNKNOWN", f"The adapter broke the stream contract: {error}.")
    return LlmError("UNKNOWN", f"The adapter failed with {type(error).__name__}; this is a fault of that plugin.")
