"""The official MCP clients of both languages, in both eras, against the bridge."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

import pytest
from helpers.bridge import answer, exported, gathered, node_client, opened, python_client, until

from antigravity_acp.bridge import Endpoint
from antigravity_acp.contract import ImageAttachment, ImageBlock, TextBlock

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"


class Called(NamedTuple):
    content: list[dict[str, Any]]
    is_error: bool


class Client(NamedTuple):
    """One client, whatever its language: its tools, a call, and a call that can be given up."""

    version: str
    names: Callable[[], Awaitable[list[str]]]
    call: Callable[..., Awaitable[Called]]
    give_up: Callable[[dict[str, Any]], Awaitable[Callable[[], Awaitable[None]]]]


@asynccontextmanager
async def python(endpoint: Endpoint, mode: str) -> AsyncIterator[Client]:
    async with python_client(endpoint, mode) as client:

        async def names() -> list[str]:
            return [tool.name for tool in (await client.list_tools()).tools]

        async def call(arguments: dict[str, Any], timeout: float = 30) -> Called:
            result = await client.call_tool(exported(endpoint), arguments, read_timeout_seconds=timeout)
            return Called(
                [block.model_dump(by_alias=True, exclude_none=True) for block in result.content], result.is_error
            )

        async def give_up(arguments: dict[str, Any]) -> Callable[[], Awaitable[None]]:
            task = asyncio.create_task(call(arguments))

            async def cancel() -> None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

            return cancel

        yield Client(client.protocol_version, names, call, give_up)


@asynccontextmanager
async def typescript(endpoint: Endpoint, package: str, mode: str) -> AsyncIterator[Client]:
    async with node_client(endpoint, package, mode) as client:

        async def names() -> list[str]:
            return [tool["name"] for tool in await client.ask("list")]

        async def call(arguments: dict[str, Any], timeout: float = 30) -> Called:
            command = {"name": exported(endpoint), "arguments": arguments, "timeout": int(timeout * 1_000)}
            result = await client.ask("call", **command)
            return Called(result["content"], result.get("isError", False))

        async def give_up(arguments: dict[str, Any]) -> Callable[[], Awaitable[None]]:
            key, future = client.start("call", name=exported(endpoint), arguments=arguments)

            async def cancel() -> None:
                client.write({"op": "abort", "key": key})
                await asyncio.gather(future, return_exceptions=True)

            return cancel

        yield Client(await client.ask("version"), names, call, give_up)


CLIENTS: dict[str, tuple[str, Callable[[Endpoint], AbstractAsyncContextManager[Client]]]] = {
    "python-auto": (MODERN, lambda endpoint: python(endpoint, "auto")),
    "python-legacy": (HANDSHAKE, lambda endpoint: python(endpoint, "legacy")),
    "typescript-1": (HANDSHAKE, lambda endpoint: typescript(endpoint, "v1", "legacy")),
    "typescript-2-legacy": (HANDSHAKE, lambda endpoint: typescript(endpoint, "v2", "legacy")),
    "typescript-2-auto": (MODERN, lambda endpoint: typescript(endpoint, "v2", "auto")),
}


@pytest.mark.requirement("A-009", "A-012", "A-013", "A-040", "A-042")
@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_lists_calls_is_denied_gives_up_and_calls_64_times_at_once(name: str) -> None:
    version, connect = CLIENTS[name]
    async with opened() as (bridge, endpoint), connect(endpoint) as client:
        assert client.version == version
        assert await client.names() == [exported(endpoint)]
        assert endpoint.contacted

        pending = asyncio.create_task(client.call({"q": "é😀", "n": 1.5}))
        (call,) = await gathered(endpoint, 1)
        assert call.name == "search"
        png = ImageBlock(ImageAttachment(media_type="image/png", data="iVBORw0KGgo="))
        assert call.resolve([TextBlock("found"), png], is_error=False)
        image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
        assert await pending == Called([{"type": "text", "text": "found"}, image], False)

        pending = asyncio.create_task(client.call({"q": "x"}))
        (call,) = await gathered(endpoint, 1)
        assert answer(call, "The user said no.", is_error=True)
        assert await pending == Called([{"type": "text", "text": "The user said no."}], True)

        invalid = await client.call({"q": 7})
        assert invalid.is_error
        assert "/q: expected string" in invalid.content[0]["text"]

        cancel = await client.give_up({"q": "given up"})
        (call,) = await gathered(endpoint, 1)
        await cancel()
        await until(lambda: call.undelivered)
        assert not answer(call, "too late")

        calls = [asyncio.create_task(client.call({"q": str(index)})) for index in range(64)]
        parked = await gathered(endpoint, 64)
        assert len(endpoint.parked) == 64
        for call in reversed(parked):
            assert answer(call)
        assert [(await call).content[0]["text"] for call in calls] == [f'for {{"q":"{index}"}}' for index in range(64)]
        assert bridge.counters["calls"] == 67


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_survives_a_call_that_becomes_a_stream(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antigravity_acp.bridge._app.STREAM_AFTER_S", 0.05)
    monkeypatch.setattr("antigravity_acp.bridge._app.KEEP_ALIVE_S", 0.05)
    async with opened() as (_, endpoint), CLIENTS[name][1](endpoint) as client:
        pending = asyncio.create_task(client.call({"q": "slow"}))
        (call,) = await gathered(endpoint, 1)
        done, _ = await asyncio.wait({pending}, timeout=0.4)
        assert not done
        assert answer(call, "at last\n" * 20_000)
        assert (await pending).content[0]["text"] == "at last\n" * 20_000


@pytest.mark.requirement("A-010")
@pytest.mark.soak
@pytest.mark.timeout(500)
async def test_every_client_survives_a_call_that_is_parked_for_330_seconds() -> None:
    """Node's fetch gives up after 300 s without headers, and after 300 s without a byte of the body."""

    async def one(name: str) -> str:
        async with opened() as (_, endpoint), CLIENTS[name][1](endpoint) as client:
            pending = asyncio.create_task(client.call({"q": "very slow"}, timeout=400))
            (call,) = await gathered(endpoint, 1)
            await asyncio.wait({pending}, timeout=330)
            assert answer(call, f"for {name}")
            return str((await pending).content[0]["text"])

    assert await asyncio.gather(*map(one, CLIENTS)) == [f"for {name}" for name in CLIENTS]
