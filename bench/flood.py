"""Updates from an agent's stdout to ``StreamChunk``, against a bare client of the ACP SDK.

Both sides get the same flood of message chunks from the same agent program, in turns, in one run. The clock runs from
the first update that a side is given to the end of its turn, so that starting processes does not count.
"""

import asyncio
import json
import statistics
import sys
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

from antigravity_acp.adapter import AntigravityAdapter
from antigravity_acp.contract import GenerateOptions, TextDelta, user
from antigravity_acp.settings import Settings

NAME = "flood"
UPDATES = 20_000
ROUNDS = 5
AGENT = Path(__file__).parents[1] / "tests" / "helpers" / "agents" / "loopback.py"
ARGUMENTS = ("-I", "-S", str(AGENT), json.dumps({"steps": [{"flood": UPDATES}]}))


async def ours(adapter: AntigravityAdapter) -> float:
    """Updates per second of the adapter, down to the chunks that a host reads."""
    options = GenerateOptions(provider="antigravity-acp", model="server-default", messages=(user("go"),))
    count, first = 0, 0.0
    async with aclosing(adapter.stream(options)) as stream:  # type: ignore[type-var]
        async for chunk in stream:
            if type(chunk) is TextDelta:
                if not count:
                    first = time.perf_counter()
                count += 1
    took = time.perf_counter() - first
    assert count == UPDATES, f"{count} chunks of {UPDATES} updates"
    return count / took


class _Counter:
    """The least that a client of the SDK can do with an update."""

    def __init__(self) -> None:
        self.count, self.first = 0, 0.0

    async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
        if not self.count:
            self.first = time.perf_counter()
        self.count += 1


async def bare() -> float:
    """Updates per second of the SDK's own client."""
    from acp import spawn_agent_process, text_block

    client = _Counter()
    quiet = {"stderr": asyncio.subprocess.DEVNULL}
    async with spawn_agent_process(
        client,  # type: ignore[arg-type] # the SDK takes any object with the methods that are called
        sys.executable,
        *ARGUMENTS,
        transport_kwargs=quiet,
    ) as (connection, _):
        await connection.initialize(protocol_version=1)
        session = await connection.new_session(cwd="/", mcp_servers=[])
        await connection.prompt(session_id=session.session_id, prompt=[text_block("go")])
        took = time.perf_counter() - client.first
    assert client.count == UPDATES, f"{client.count} of {UPDATES} updates"
    return client.count / took


async def measure(rounds: int) -> dict[str, Any]:
    """Run both sides ``rounds`` times, one after the other."""
    adapter = AntigravityAdapter(Settings.from_mapping({"command": sys.executable, "args": list(ARGUMENTS)}))
    speeds: dict[str, list[float]] = {"ours": [], "bare": []}
    try:
        await ours(adapter)
        await bare()
        for _ in range(rounds):
            speeds["ours"].append(await ours(adapter))
            speeds["bare"].append(await bare())
    finally:
        await adapter.dispose()
    return {
        "updates": UPDATES,
        "ratios": {
            "updates per second over bare SDK": statistics.median(speeds["ours"]) / statistics.median(speeds["bare"])
        },
        "at_least": {"updates per second over bare SDK": 4.0},
        "updates_per_second": {side: round(statistics.median(found)) for side, found in speeds.items()},
    }


def run() -> dict[str, Any]:
    """Ratios with their bounds; see the module."""
    return asyncio.run(measure(ROUNDS))
