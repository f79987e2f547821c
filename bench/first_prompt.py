"""The wait between a request and its ``session/prompt`` on the wire: cold, pooled, prepared.

Against a stand-in agent with a tenth of the official server's delays. Also what unfinished turns cost: processes and
memory of the host for 1, 8 and 16 of them.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from antigravity_acp.adapter import AntigravityAdapter
from antigravity_acp.contract import BlockEnd, GenerateOptions, TextBlock, ToolCallBlock, ToolSchema, user
from antigravity_acp.settings import Settings

NAME = "first_prompt"
RUNS = 7
UNFINISHED = (1, 8, 16)
TOOL = ToolSchema("echo", "Answers.", {"type": "object", "properties": {}})
AGENT = Path(__file__).parent / "agents" / "slow.py"


@asynccontextmanager
async def adapter(**settings: Any) -> AsyncIterator[AntigravityAdapter]:
    """An adapter on the stand-in agent."""
    command = {"command": sys.executable, "args": ["-I", "-S", str(AGENT)]}
    one = AntigravityAdapter(Settings.from_mapping({**command, **settings}))
    try:
        yield one
    finally:
        await one.dispose()


def request(session: str, text: str = "go") -> GenerateOptions:
    return GenerateOptions(
        provider="antigravity-acp", model="second", messages=(user(text),), tools=(TOOL,), session_id=session
    )


async def wait_of(one: AntigravityAdapter, session: str) -> float:
    """Seconds from the request to the arrival of its prompt at the agent."""
    begin = time.monotonic()
    blocks = [chunk.block async for chunk in one.stream(request(session)) if isinstance(chunk, BlockEnd)]
    text = "".join(block.text for block in blocks if isinstance(block, TextBlock))
    return float(json.loads(text)) - begin


async def prepared(one: AntigravityAdapter) -> None:
    while one.diagnostics()["prepared_sessions"] == 0:  # noqa: ASYNC110 - the adapter has no event for it
        await asyncio.sleep(0.01)


async def waits() -> dict[str, list[float]]:
    """The three kinds in turns, so that a slow moment of the machine hits all of them."""
    found: dict[str, list[float]] = {"cold": [], "pooled": [], "prepared": []}
    async with adapter(prepareSessions=False) as pooled, adapter() as ahead:
        await wait_of(pooled, "warm")
        await wait_of(ahead, "warm")
        for number in range(RUNS):
            async with adapter() as cold:
                found["cold"].append(await wait_of(cold, "s"))
            found["pooled"].append(await wait_of(pooled, f"s{number}"))
            await prepared(ahead)
            found["prepared"].append(await wait_of(ahead, f"s{number}"))
    return found


async def unfinished(count: int) -> dict[str, float]:
    """Processes, and MB of this process, while so many turns wait for their host."""
    host = psutil.Process()
    before = host.memory_info().rss
    async with adapter() as one:

        async def turn(number: int) -> None:
            blocks = [
                chunk.block async for chunk in one.stream(request(f"u{number}", "call")) if isinstance(chunk, BlockEnd)
            ]
            assert any(isinstance(block, ToolCallBlock) for block in blocks)

        await asyncio.gather(*(turn(number) for number in range(count)))
        found = one.diagnostics()
        assert found["active_turns"] == found["parked_calls"] == count
        return {"processes": found["processes"], "host MB more": (host.memory_info().rss - before) / 2**20}


async def measure() -> dict[str, Any]:
    found = await waits()
    medians = {kind: statistics.median(times) for kind, times in found.items()}
    loads = {count: await unfinished(count) for count in UNFINISHED}
    return {
        "ratios": {
            "prepared over pooled": medians["prepared"] / medians["pooled"],
            "pooled over cold": medians["pooled"] / medians["cold"],
            **{f"processes of {count} unfinished turns": loads[count]["processes"] for count in UNFINISHED},
        },
        "bounds": {
            "prepared over pooled": 0.03,
            **{f"processes of {count} unfinished turns": count for count in UNFINISHED},
        },
        "seconds": {kind: {"median": medians[kind], "all": times} for kind, times in found.items()},
        "unfinished turns": {str(count): load for count, load in loads.items()},
    }


def run() -> dict[str, Any]:
    """Ratios with their bounds; see the module."""
    return asyncio.run(measure())
