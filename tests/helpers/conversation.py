"""A host in a few lines: keeps the history, asks, returns results, and holds each stream against the contract."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

from antigravity_acp.adapter import AntigravityAdapter
from antigravity_acp.contract import (
    AbortController,
    BlockEnd,
    BlockStart,
    ContentBlock,
    Finish,
    GenerateOptions,
    LlmError,
    Message,
    ReasoningBlock,
    StreamChunk,
    TextBlock,
    ToolCallBlock,
    ToolSchema,
    Usage,
    tool_result,
    user,
)
from antigravity_acp.settings import Settings

from .loopback import directive, loopback_settings

#: Every wait of a test has a bound, in seconds.
BOUND = 20.0


def schema(name: str, **properties: Any) -> ToolSchema:
    """A tool that takes these properties, all optional, and nothing else."""
    return ToolSchema(
        name, f"The tool {name}.", {"type": "object", "properties": properties, "additionalProperties": False}
    )


TOOLS = (
    schema("read_file", path={"type": "string"}),
    schema("bash", command={"type": "string"}, n={"type": "number"}),
    schema("third.tool", x={}),
)


class Reply:
    """What one stream call gave."""

    def __init__(self, chunks: Sequence[StreamChunk]) -> None:
        self.chunks = list(chunks)
        self.blocks = [chunk.block for chunk in chunks if isinstance(chunk, BlockEnd)]
        self.usage = next((chunk.usage for chunk in chunks if isinstance(chunk, Usage)), None)
        finish = chunks[-1]
        assert isinstance(finish, Finish)
        self.kind = finish.reason.kind

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    @property
    def thoughts(self) -> str:
        return "".join(block.text for block in self.blocks if isinstance(block, ReasoningBlock))

    @property
    def calls(self) -> list[ToolCallBlock]:
        return [block for block in self.blocks if isinstance(block, ToolCallBlock)]

    @property
    def message(self) -> Message:
        return Message("assistant", tuple(self.blocks), source={"kind": "model"})


async def collect(stream: AsyncGenerator[StreamChunk, None]) -> Reply:
    """Read a stream to its end, within the bound, and hold it against the contract."""
    async with asyncio.timeout(BOUND), aclosing(stream):
        chunks = [chunk async for chunk in stream]
    check_contract(chunks)
    return Reply(chunks)


def check_contract(chunks: Sequence[StreamChunk]) -> None:
    open_block: int | None = None
    started = -1
    for at, chunk in enumerate(chunks):
        if isinstance(chunk, BlockStart):
            assert open_block is None, "a block starts inside another"
            assert chunk.index == started + 1, "indexes count up from 0"
            open_block = started = chunk.index
        elif isinstance(chunk, BlockEnd):
            assert chunk.index == open_block, "an end without its start"
            open_block = None
        elif isinstance(chunk, Finish):
            assert at == len(chunks) - 1, "finish comes once and last"
        elif not isinstance(chunk, Usage):
            assert chunk.index == open_block, "a delta outside its block"
    assert open_block is None, "a block without its end"
    assert isinstance(chunks[-1], Finish), "no finish"


class Conversation:
    """One session of a host."""

    def __init__(
        self,
        adapter: AntigravityAdapter,
        *,
        session_id: str | None = "s1",
        tools: Sequence[ToolSchema] = TOOLS,
        model: str = "server-default",
    ) -> None:
        self.adapter = adapter
        self.controller = AbortController()
        self.messages: list[Message] = []
        self.base: dict[str, Any] = {
            "provider": "antigravity-acp",
            "model": model,
            "tools": tuple(tools),
            "session_id": session_id,
        }

    def options(self, **changes: Any) -> GenerateOptions:
        return GenerateOptions(
            **{"messages": tuple(self.messages), "signal": self.controller.signal, **self.base, **changes}
        )

    async def generate(self, **changes: Any) -> Reply:
        """One stream call with the history as it is; the answer goes into the history."""
        reply = await collect(self.adapter.stream(self.options(**changes)))
        self.messages.append(reply.message)
        return reply

    async def play(self, *steps: dict[str, Any], **changes: Any) -> Reply:
        """A user message that directs the loopback agent."""
        self.messages.append(user(directive(*steps)))
        return await self.generate(**changes)

    async def generate_hello(self) -> Reply:
        """A plain user message: the agent plays what its options say."""
        self.messages.append(user("hello"))
        return await self.generate()

    async def answer(self, results: Mapping[str, str | Message], **changes: Any) -> Reply:
        """One tool message for each call id."""
        self.messages += [
            value if isinstance(value, Message) else tool_result(call_id, value) for call_id, value in results.items()
        ]
        return await self.generate(**changes)


def blocks(*content: ContentBlock) -> tuple[ContentBlock, ...]:
    return content


@asynccontextmanager
async def running(settings: Settings | None = None, **agent: Any) -> AsyncIterator[AntigravityAdapter]:
    """An adapter on the loopback agent; disposed within the bound, and really empty afterwards."""
    adapter = AntigravityAdapter(settings or loopback_settings(agent))
    try:
        yield adapter
    finally:
        async with asyncio.timeout(BOUND):
            await adapter.dispose()
        left = adapter.diagnostics()
        assert (left["processes"], left["active_turns"], left["parked_calls"]) == (0, 0, 0)


async def code_of(stream: AsyncGenerator[StreamChunk, None], *, opened: bool = False) -> str:
    """The code with which a stream fails; what came before it must still have closed its blocks.

    :param opened: the caller has read some chunks already, so the rest is not a whole stream.
    """
    chunks: list[StreamChunk] = []
    try:
        async with asyncio.timeout(BOUND), aclosing(stream):
            async for chunk in stream:
                chunks.append(chunk)  # noqa: PERF401 - what came before a failure is wanted too
    except LlmError as error:
        if not opened:
            check_contract([*chunks, Finish.of(error)])
        return error.code
    raise AssertionError("the stream did not fail")


async def until(condition: Any, what: str) -> None:
    """Let the loop run until a condition of this process holds, within the bound."""
    try:
        async with asyncio.timeout(BOUND):
            while not condition():
                await asyncio.sleep(0)
    except TimeoutError:
        raise AssertionError(f"never happened: {what}") from None
