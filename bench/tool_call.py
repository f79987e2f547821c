"""What a tool call costs on top of MCP itself.

The agent times each call: from writing ``tools/call`` to reading its answer. At the bridge that is the arrival, the
host holding ``finish(tool-calls)``, the host's result and the answer on the wire; the host answers at once. Beside it,
in the same turn and from the same client, one round trip of a bare low-level ``mcp`` server in this process.
"""

import asyncio
import contextlib
import json
import socket
import statistics
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel.server import Server

from antigravity_acp.adapter import AntigravityAdapter
from antigravity_acp.contract import (
    BlockEnd,
    GenerateOptions,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolSchema,
    tool_result,
    user,
)
from antigravity_acp.settings import Settings

NAME = "tool_call"
TURNS = 500
SEQUENTIAL = 300
RESULT = "x" * 8192
TOOL = ToolSchema("echo", "Answers.", {"type": "object", "properties": {"n": {"type": "integer"}}})
AGENT = Path(__file__).parent / "agents" / "stopwatch.py"


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def bare_server() -> AsyncIterator[str]:
    """A low-level MCP server as its documentation shows it: JSON answers, stateless."""

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        tool = {"name": TOOL.name, "description": TOOL.description, "inputSchema": TOOL.parameters}
        return types.ListToolsResult(tools=[types.Tool.model_validate(tool)])

    async def call_tool(_context: Any, _params: Any) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text=RESULT)])

    app = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    config = uvicorn.Config(
        app.streamable_http_app(json_response=True, stateless_http=True),
        log_level="error",
        access_log=False,
        ws="none",
        http="h11",
        timeout_graceful_shutdown=1,
    )
    server = _Uvicorn(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await task


async def turn(adapter: AntigravityAdapter, session: str, calls: int) -> dict[str, list[float]]:
    """One turn of the agent; every call is answered at once."""
    messages = [user(f"calls={calls}")]
    while True:
        options = GenerateOptions(
            provider="antigravity-acp",
            model="server-default",
            messages=tuple(messages),
            tools=(TOOL,),
            session_id=session,
        )
        blocks = [chunk.block async for chunk in adapter.stream(options) if isinstance(chunk, BlockEnd)]
        messages.append(Message("assistant", tuple(blocks)))
        results = [tool_result(block.id, RESULT) for block in blocks if isinstance(block, ToolCallBlock)]
        if not results:
            text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
            times: dict[str, list[float]] = json.loads(text)
            return times
        messages += results


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def measure(turns: int, sequential: int) -> dict[str, Any]:
    """Run both measurements."""
    times: dict[str, list[float]] = {"bridge": [], "bare": []}
    async with bare_server() as url:
        adapter = AntigravityAdapter(
            Settings.from_mapping({"command": sys.executable, "args": ["-I", "-S", str(AGENT), url]})
        )
        try:
            await turn(adapter, "warm", 20)
            for number in range(turns):
                for key, found in (await turn(adapter, f"s{number}", 1)).items():
                    times[key] += found
            long = (await turn(adapter, "long", sequential))["bridge"]
        finally:
            await adapter.dispose()
    head, tail = long[10:60], long[-50:]
    return {
        "turns": turns,
        "ratios": {
            "median over bare mcp": statistics.median(times["bridge"]) / statistics.median(times["bare"]),
            "p99 over bare mcp": _quantile(times["bridge"], 0.99) / _quantile(times["bare"], 0.99),
            "p99 over median of bare mcp": _quantile(times["bridge"], 0.99) / statistics.median(times["bare"]),
            f"last 50 of {sequential} calls over first 50": statistics.median(tail) / statistics.median(head),
        },
        "bounds": {
            "median over bare mcp": 2.5,
            "p99 over bare mcp": 8.0,
            f"last 50 of {sequential} calls over first 50": 1.5,
        },
        "seconds": {
            key: {"median": statistics.median(found), "p99": _quantile(found, 0.99)} for key, found in times.items()
        },
    }


def run() -> dict[str, Any]:
    """Ratios with their bounds; see the module."""
    return asyncio.run(measure(TURNS, SEQUENTIAL))
