"""The stream: what an adapter yields.

Owns: the closed union :data:`StreamChunk` and its JSON shapes (DeepSeek Harness 0.2.1).
Invariants that every adapter keeps: indexes count up from 0 in first-seen order; every start has its end, which
carries the whole block; usage comes before finish; finish comes once and last.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from .content import ContentBlock, block_from_wire, block_to_wire
from .errors import LlmError

BlockType = Literal["text", "reasoning", "tool-call"]


class _Chunk(msgspec.Struct, frozen=True, rename="camel", tag_field="type", omit_defaults=True):
    def to_wire(self) -> dict[str, Any]:
        """The chunk as the host's JSON."""
        wire: dict[str, Any] = msgspec.to_builtins(self)
        return wire


class BlockStart(_Chunk, frozen=True, tag="block-start"):
    """A block begins."""

    index: int
    block_type: BlockType


class TextDelta(_Chunk, frozen=True, tag="text-delta"):
    """More text of a text block."""

    index: int
    text: str


class ReasoningDelta(_Chunk, frozen=True, tag="reasoning-delta"):
    """More text of a reasoning block."""

    index: int
    text: str


class ToolCallDelta(_Chunk, frozen=True, tag="tool-call-delta"):
    """More of a tool call; ``arguments_delta`` is raw JSON text."""

    index: int
    id: str
    arguments_delta: str
    name: str | None = None


class BlockEnd(msgspec.Struct, frozen=True):
    """A block is complete; ``block`` is the whole of it."""

    index: int
    block: ContentBlock

    def to_wire(self) -> dict[str, Any]:
        """The chunk as the host's JSON."""
        return {"type": "block-end", "index": self.index, "block": block_to_wire(self.block)}


class TokenUsage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Token counts of one model call, disjoint: ``input_tokens`` is uncached input only."""

    input_tokens: int
    output_tokens: int
    total_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class Usage(_Chunk, frozen=True, tag="usage"):
    """Real counters of the provider; never an estimate and never context occupancy."""

    usage: TokenUsage


class Failure(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Facts of a failure. ``provider_retry_after_ms`` is in milliseconds."""

    message: str
    code: str
    status: int | None = None
    provider_retry_after_ms: int | None = None

    @classmethod
    def of(cls, error: LlmError) -> "Failure":
        """The failure that an error stands for."""
        return cls(error.message, error.code, error.status, error.retry_after_ms)


class FinishReason(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why the response stopped; ``failure`` is there for ``aborted`` and ``error`` only."""

    kind: Literal["stop", "tool-calls", "max-tokens", "aborted", "error"]
    failure: Failure | None = None


class Finish(_Chunk, frozen=True, tag="finish"):
    """The one terminal chunk."""

    reason: FinishReason

    @classmethod
    def of(cls, error: LlmError) -> "Finish":
        """The terminal chunk of a failed generation: kind ``aborted`` for ABORTED, else ``error``."""
        return cls(FinishReason("aborted" if error.code == "ABORTED" else "error", Failure.of(error)))


StreamChunk: TypeAlias = BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | BlockEnd | Usage | Finish
_Simple: TypeAlias = BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | Usage | Finish


def chunk_from_wire(value: dict[str, Any]) -> StreamChunk:
    """Read one chunk from the host's JSON.

    :raises LlmError: ``INVALID_REQUEST`` with the place that is wrong.
    """
    try:
        if value.get("type") == "block-end":
            block = block_from_wire(value.get("block"), "chunk.block")
            return BlockEnd(msgspec.convert(value.get("index"), int), block)
        simple: _Simple = msgspec.convert(value, _Simple)
        return simple
    except msgspec.ValidationError as error:
        raise LlmError("INVALID_REQUEST", f"chunk: {error}") from None
