"""What the bridge's tests share: an open endpoint, a client that writes raw HTTP, and the official MCP clients."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antigravity_acp.bridge import Bridge, Catalogue, Endpoint, ParkedCall
from antigravity_acp.contract import TextBlock, ToolSchema

NODE = Path(__file__).resolve().parents[1] / "node"
SEARCH = ToolSchema(
    "search",
    "Search the workspace.",
    {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "number"}}, "required": ["q"]},
)
#: A bound for things that happen at once; nothing waits this long unless it is broken.
SOON_S = 10.0


@asynccontextmanager
async def opened(*tools: ToolSchema) -> AsyncIterator[tuple[Bridge, Endpoint]]:
    """A bridge with one endpoint for these tools (the tool `search` when none are given)."""
    bridge = Bridge()
    try:
        yield bridge, await bridge.open(Catalogue.build(tools or (SEARCH,), name_budget=48))
    finally:
        await bridge.aclose()


def exported(endpoint: Endpoint, name: str = "search") -> str:
    """The exported name of a tool."""
    return endpoint.catalogue.names[name]


def port_of(endpoint: Endpoint) -> int:
    return int(endpoint.url.removeprefix("http://127.0.0.1:").removesuffix("/mcp"))


async def gathered(endpoint: Endpoint, count: int) -> list[ParkedCall]:
    """Gather until so many calls were handed out."""
    calls: list[ParkedCall] = []
    async with asyncio.timeout(SOON_S):
        while len(calls) < count:
            calls += await endpoint.gather()
    return calls


async def until(condition: Any) -> None:
    """Wait until something that the loop brings about is true."""
    async with asyncio.timeout(SOON_S):
        while not condition():
            await asyncio.sleep(0.001)


def answer(call: ParkedCall, text: str = "", *, is_error: bool = False) -> bool:
    return call.resolve([TextBlock(text or f"for {call.arguments}")], is_error=is_error)


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The JSON-RPC message, out of plain JSON or out of an event stream."""
        if self.headers.get("content-type") == "text/event-stream":
            (line,) = [line for line in self.body.splitlines() if line.startswith(b"data: ")]
            return json.loads(line.removeprefix(b"data: "))
        return json.loads(self.body)

    def result(self) -> Any:
        return self.json()["result"]

    def text(self) -> str:
        """The text of a tool result."""
        return "\n".join(block["text"] for block in self.result()["content"] if block["type"] == "text")


@dataclass
class Raw:
    """One HTTP connection, written by hand."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    endpoint: Endpoint

    def send(self, method: str, path: str, headers: Mapping[str, str | None], body: bytes) -> None:
        """Write a request; a header of ``None`` leaves the usual one out."""
        usual: dict[str, str | None] = {
            "Host": f"127.0.0.1:{port_of(self.endpoint)}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content-Length": str(len(body)),
            **dict(self.endpoint.headers),
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in (usual | dict(headers)).items() if value is not None)
        self.writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)

    async def head(self) -> Response:
        async with asyncio.timeout(SOON_S):
            lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines[1:] if line)
        return Response(int(lines[0].split()[1]), {name.lower(): value.strip() for name, _, value in pairs}, b"")

    async def response(self) -> Response:
        response = await self.head()
        async with asyncio.timeout(SOON_S):
            if "content-length" in response.headers:
                response.body = await self.reader.readexactly(int(response.headers["content-length"]))
            while response.headers.get("transfer-encoding") == "chunked":
                if not (chunk := await self.chunk()):
                    break
                response.body += chunk
        return response

    async def chunk(self) -> bytes:
        async with asyncio.timeout(SOON_S):
            size = int(await self.reader.readline(), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def request(
        self,
        body: bytes = b"{}",
        *,
        method: str = "POST",
        path: str = "/mcp",
        headers: Mapping[str, str | None] | None = None,
    ) -> Response:
        self.send(method, path, headers or {}, body)
        return await self.response()

    async def rpc(self, message: Mapping[str, Any], headers: Mapping[str, str | None] | None = None) -> Response:
        return await self.request(json.dumps({"jsonrpc": "2.0", **message}).encode(), headers=headers)

    def call(self, request_id: Any, name: str, arguments: str = '{"q":"x"}', **headers: str | None) -> None:
        """Write a tools/call with this JSON text as arguments, and wait for nothing."""
        text = (
            f'{{"jsonrpc":"2.0","id":{json.dumps(request_id)},"method":"tools/call",'
            f'"params":{{"name":{json.dumps(name)},"arguments":{arguments}}}}}'
        )
        self.send("POST", "/mcp", {key.replace("_", "-"): value for key, value in headers.items()}, text.encode())

    async def close(self) -> None:
        self.writer.transport.abort()
        with suppress(OSError):
            await self.writer.wait_closed()


@asynccontextmanager
async def raw(endpoint: Endpoint) -> AsyncIterator[Raw]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(endpoint))
    client = Raw(reader, writer, endpoint)
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def raws(endpoint: Endpoint, count: int) -> AsyncIterator[list[Raw]]:
    """So many connections at once."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(raw(endpoint)) for _ in range(count)]


@dataclass
class NodeClient:
    """An official TypeScript client in a Node process."""

    process: asyncio.subprocess.Process
    answers: dict[str, asyncio.Future[Any]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    keys: int = 0

    async def ask(self, op: str, **command: Any) -> Any:
        return await self.start(op, **command)[1]

    def start(self, op: str, **command: Any) -> tuple[str, asyncio.Future[Any]]:
        self.keys += 1
        key = f"k{self.keys}"
        self.answers[key] = asyncio.get_running_loop().create_future()
        self.write({"key": key, "op": op, **command})
        return key, self.answers[key]

    def write(self, command: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command).encode() + b"\n")

    async def listen(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            message = json.loads(line)
            if "key" not in message:
                self.errors += [message["error"]] if "error" in message else []
                continue
            future = self.answers.pop(message["key"])
            if "failed" in message:
                future.set_exception(RuntimeError(message["failed"]))
            else:
                future.set_result(message["result"])


@asynccontextmanager
async def node_client(endpoint: Endpoint, package: str, mode: str = "legacy") -> AsyncIterator[NodeClient]:
    """Start Node with a client that is connected to the endpoint."""
    if not (NODE / "node_modules").is_dir():
        raise RuntimeError("the TypeScript clients are missing; run `python tests/node/install.py`")
    sys.path.insert(0, str(NODE))
    try:
        from install import node_program
    finally:
        sys.path.remove(str(NODE))
    config = {"package": package, "mode": mode, "url": endpoint.url, "headers": dict(endpoint.headers)}
    process = await asyncio.create_subprocess_exec(
        str(node_program()),
        str(NODE / "clients" / "mcp_client.mjs"),
        json.dumps(config),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", "")},
        limit=16 * 1024 * 1024,
    )
    client = NodeClient(process)
    assert process.stdout is not None
    assert process.stdin is not None
    listening = None
    try:
        async with asyncio.timeout(30):
            assert json.loads(await process.stdout.readline()) == {"ready": True}
        listening = asyncio.create_task(client.listen())
        yield client
        process.stdin.close()
        async with asyncio.timeout(SOON_S):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        if listening is not None:
            await listening
        for future in client.answers.values():
            future.cancel()


@asynccontextmanager
async def python_client(endpoint: Endpoint, mode: Any) -> AsyncIterator[Any]:
    """The official Python client; ``mode`` as its own `Client` takes it."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    timeout = httpx2.Timeout(30, read=600)
    limits = httpx2.Limits(max_connections=200, max_keepalive_connections=100)
    http = httpx2.AsyncClient(headers=dict(endpoint.headers), timeout=timeout, limits=limits, trust_env=False)
    async with http, Client(streamable_http_client(endpoint.url, http_client=http), mode=mode) as client:
        yield client
