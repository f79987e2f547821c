"""From chunks to an assistant message.

Owns: :class:`BlockBuilder` (one block from its deltas) and :class:`Assembler` (one message from a whole stream). Both
expect a stream that keeps the contract, as the registry's streams do. Where a block came with its end, that is taken
as it is; deltas only serve those who could not wait.
"""

from typing import Any
from uuid import uuid4

from antigravity_acp.contract import (
    BlockEnd,
    BlockStart,
    BlockType,
    ContentBlock,
    Finish,
    FinishReason,
    Message,
    ReasoningBlock,
    ReasoningDelta,
    StreamChunk,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
    Usage,
)


class BlockBuilder:
    """Collects the deltas of one block."""

    __slots__ = ("_id", "_name", "_parts", "kind")

    def __init__(self, kind: BlockType) -> None:
        self.kind = kind
        self._parts: list[str] = []
        self._id = ""
        self._name = ""

    def add(self, delta: TextDelta | ReasoningDelta | ToolCallDelta) -> None:
        """Take one more delta of the block's own kind."""
        if isinstance(delta, ToolCallDelta):
            self._id = delta.id or self._id
            self._name = delta.name or self._name
            self._parts.append(delta.arguments_delta)
        else:
            self._parts.append(delta.text)

    def build(self) -> ContentBlock:
        """The block as far as it came; a cut tool call has cut arguments."""
        text = "".join(self._parts)
        if self.kind == "text":
            return TextBlock(text)
        if self.kind == "reasoning":
            return ReasoningBlock(text)
        return ToolCallBlock(self._id, self._name, text)


class Assembler:
    """Collects the blocks, the usage and the end of one stream.

    :param provider: route that answers; goes into the message's source.
    :param model: model that answers.
    """

    def __init__(self, provider: str, model: str) -> None:
        self._source: dict[str, Any] = {"kind": "model", "provider": provider, "model": model}
        self._blocks: dict[int, ContentBlock] = {}
        self.usage: TokenUsage | None = None
        self.finish: FinishReason | None = None
        self.started = False

    def feed(self, chunk: StreamChunk) -> None:
        """Take the next chunk."""
        if isinstance(chunk, BlockEnd):
            self._blocks[chunk.index] = chunk.block
        elif isinstance(chunk, Usage):
            self.usage = chunk.usage
        elif isinstance(chunk, Finish):
            self.finish = chunk.reason
        self.started = self.started or isinstance(chunk, BlockStart)

    def message(self, *, with_calls: bool = True) -> Message:
        """The assistant message.

        :param with_calls: leave tool calls out where they will never get a result: a history with an unanswered call
            is not valid.
        """
        blocks = (self._blocks[index] for index in sorted(self._blocks))
        content = tuple(block for block in blocks if with_calls or not isinstance(block, ToolCallBlock))
        return Message(role="assistant", content=content, id=f"msg_{uuid4().hex}", source=dict(self._source))
