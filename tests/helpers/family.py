"""Agent processes with relatives, and finding what is left of them."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from antigravity_acp.acp import AgentCommand, AgentProcess

AGENT = Path(__file__).parent / "agents" / "family.py"
#: Every wait of a test has a bound, in seconds.
BOUND = 20.0
KINDS = ("group", "setsid", "subgroup", "daemon", "stranger", "family")


def family_command(*kinds: str, ignore_eof: bool = False, ignore_term: bool = False) -> AgentCommand:
    options = {"kinds": kinds, "ignore_eof": ignore_eof, "ignore_term": ignore_term}
    return AgentCommand((sys.executable, "-I", "-S", str(AGENT), json.dumps(options)))


class Family:
    """A running agent and the process ids of its relatives."""

    def __init__(self, process: AgentProcess, relatives: dict[str, list[int]]) -> None:
        self.process = process
        self.relatives = relatives
        self.supervisor = psutil.Process(process.pid).ppid()

    @property
    def everyone(self) -> list[int]:
        return [self.process.pid, *(pid for pids in self.relatives.values() for pid in pids)]


@asynccontextmanager
async def family(
    *kinds: str, ignore_eof: bool = False, ignore_term: bool = False, grace_ms: int = 200
) -> AsyncIterator[Family]:
    """A started agent that has said who its relatives are; ended within the bound."""
    command = family_command(*kinds, ignore_eof=ignore_eof, ignore_term=ignore_term)
    process = await AgentProcess.start(command, dispose_grace_ms=grace_ms)
    try:
        said = b""
        async with asyncio.timeout(BOUND):
            while not said.endswith(b"\n"):
                said += await process.read()
        one = Family(process, json.loads(said))
        assert set(one.relatives) == set(kinds)
        assert not gone(*one.everyone), "all of them live to begin with"
        yield one
    finally:
        async with asyncio.timeout(BOUND):
            await process.aclose()


def gone(*pids: int) -> set[int]:
    """Those of the processes that have ended; a zombie has."""
    return {pid for pid in pids if not lives(pid)}


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def until_gone(pids: Iterable[int], seconds: float = BOUND) -> float:
    """Wait until all have ended. :returns: the seconds that took."""
    began = time.monotonic()
    wanted = set(pids)
    while left := wanted - gone(*wanted):
        assert time.monotonic() - began < seconds, f"still there after {seconds} s: {left}"
        await asyncio.sleep(0.01)
    return time.monotonic() - began
