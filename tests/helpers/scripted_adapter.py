"""A second adapter, without agent or network: it answers from a list of replies and records what it was asked."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from antigravity_acp.contract import (
    BlockEnd,
    BlockStart,
    Finish,
    FinishReason,
    GenerateOptions,
    LlmAdapter,
    ModelInfo,
    ProviderInfo,
    StreamChunk,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolCallDelta,
)

#: One reply: chunks, exceptions to raise, events to wait for; or a function that makes the stream itself.
Reply = Sequence[Any] | Callable[[GenerateOptions], AsyncIterator[StreamChunk]]


def text(words: str, index: int = 0) -> list[StreamChunk]:
    """A whole text block."""
    return [BlockStart(index, "text"), TextDelta(index, words), BlockEnd(index, TextBlock(words))]


def call(name: str, arguments: str = "{}", *, call_id: str = "call_1", index: int = 0) -> list[StreamChunk]:
    """A whole tool-call block."""
    return [
        BlockStart(index, "tool-call"),
        ToolCallDelta(index, call_id, arguments, name),
        BlockEnd(index, ToolCallBlock(call_id, name, arguments)),
    ]


def done(kind: Any = "stop") -> Finish:
    """The finish of a reply that went well."""
    return Finish(FinishReason(kind))


class ScriptedAdapter(LlmAdapter):
    """Gives its replies in order.

    Attributes: ``requests`` as received, ``closed`` counts generators that ended, ``disposed`` counts disposals.
    """

    def __init__(self, *replies: Reply, name: str = "Scripted") -> None:
        self.replies = list(replies)
        self.name = name
        self.requests: list[GenerateOptions] = []
        self.closed = 0
        self.disposed = 0

    def provider_info(self, provider: str) -> ProviderInfo:
        return ProviderInfo(provider, self.name)

    async def list_models(self, provider: str) -> Sequence[ModelInfo]:
        return [ModelInfo(provider, "small", "Small"), ModelInfo(provider, "large", "Large")]

    async def stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        self.requests.append(options)
        reply = self.replies.pop(0)
        try:
            if callable(reply):
                async for chunk in reply(options):
                    yield chunk
                return
            for item in reply:
                if isinstance(item, BaseException):
                    raise item
                if isinstance(item, asyncio.Event):
                    await item.wait()
                    continue
                yield item
        finally:
            self.closed += 1

    async def dispose(self) -> None:
        self.disposed += 1
