"""A real MCP server (the `mcp` SDK's low-level server, HTTP on loopback) that lends tools to the engine under test."""

import asyncio
import base64
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel.server import Server

ToolBody = Callable[[dict[str, Any]], Awaitable[str] | str]


class ToolFailed(Exception):
    """Raised by a tool body: the call is answered with `isError`."""


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the signals belong to pytest


class ToolServer:
    """Tools by name; `calls` is what really arrived, in order."""

    def __init__(self, *, name: str = "host", token: str = "loopback-token") -> None:
        self.name = name
        self.token = token
        self.tools: dict[str, tuple[types.Tool, ToolBody]] = {}
        self.images: dict[str, bytes] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.listed = 0
        self.url = ""

    def add(
        self, name: str, body: ToolBody, *, schema: dict[str, Any] | None = None, image: bytes | None = None
    ) -> None:
        schema = schema or {"type": "object", "properties": {}, "additionalProperties": True}
        self.tools[name] = (types.Tool(name=name, description=f"The tool {name}", input_schema=schema), body)
        if image is not None:
            self.images[name] = image

    def hold(self, name: str = "hold") -> asyncio.Event:
        """Adds a tool that answers when the returned event is set; `started` tells that it runs."""
        release = asyncio.Event()

        async def body(_: dict[str, Any]) -> str:
            self.started.set()
            try:
                await release.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "released"

        self.add(name, body)
        return release

    def descriptor(self) -> dict[str, Any]:
        """The entry of ACP's `mcpServers`."""
        headers = [{"name": "Authorization", "value": f"Bearer {self.token}"}]
        return {"type": "http", "name": self.name, "url": self.url, "headers": headers}

    async def _list(self, _ctx: Any, _params: Any) -> types.ListToolsResult:
        self.listed += 1
        return types.ListToolsResult(tools=[tool for tool, _ in self.tools.values()])

    async def _call(self, _ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = dict(params.arguments or {})
        self.calls.append((params.name, arguments))
        try:
            answer = self.tools[params.name][1](arguments)
            text = answer if isinstance(answer, str) else await answer
        except ToolFailed as error:
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(error))], is_error=True)
        content: list[Any] = [types.TextContent(type="text", text=text)]
        if (image := self.images.get(params.name)) is not None:
            data = base64.b64encode(image).decode()
            content.append(types.ImageContent(type="image", data=data, mime_type="image/png"))
        return types.CallToolResult(content=content)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator["ToolServer"]:
        server: Server[Any] = Server(self.name, on_list_tools=self._list, on_call_tool=self._call)
        app = server.streamable_http_app(streamable_http_path="/mcp", stateless_http=True)
        guarded = _bearer(app, self.token)
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        config = uvicorn.Config(guarded, log_level="critical", timeout_graceful_shutdown=1, lifespan="on")
        http = _Uvicorn(config)
        task = asyncio.create_task(http.serve(sockets=[listener]))
        try:
            while not http.started:
                await asyncio.sleep(0)
                if task.done():
                    task.result()
            yield self
        finally:
            http.should_exit = True
            await asyncio.wait_for(task, 10)
            listener.close()


def _bearer(app: Any, token: str) -> Any:
    async def guarded(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != f"Bearer {token}".encode():
            await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return guarded
