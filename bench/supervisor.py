"""What the supervisor costs: starting and ending an agent with it, against the same without it.

In turn, one of each after the other, so that a busy machine slows down all. The small agent is a shell that prints a
line and reads its input, so that what is measured is everything but the agent; the Python one imports ``asyncio``,
which is less than any real agent does. The yardstick is a Python that does nothing: a supervisor cannot cost less.
"""

import asyncio
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from antigravity_acp.acp import AgentCommand, AgentProcess, process
from antigravity_acp.acp._group import Tree
from antigravity_acp.acp._supervised import SupervisedTree

NAME = "supervisor"
RUNS = 41
SMALL = AgentCommand(("/bin/sh", "-c", "echo up; read line"))
EMPTY = AgentCommand((sys.executable, "-I", "-S", "-c", "print('up', flush=True); input()"))
PYTHON = AgentCommand((sys.executable, "-I", "-c", "import asyncio; print('up', flush=True); input()"))


async def cycle(command: AgentCommand) -> tuple[float, float]:
    """Milliseconds from the start to the first output, and for the end."""
    began = time.perf_counter()
    agent = await AgentProcess.start(command, dispose_grace_ms=5000)
    await agent.read()
    up = time.perf_counter()
    await agent.aclose()
    return (up - began) * 1000, (time.perf_counter() - up) * 1000


def memory_of_parent(pid: int) -> dict[str, float]:
    """The memory of a process's parent in MB: resident, and what is its own alone. Empty where it is not told."""
    if not Path("/proc/self/smaps_rollup").exists():
        return {}
    parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    rows = Path(f"/proc/{parent}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {row.split(":")[0]: int(row.split()[1]) / 1024 for row in rows}
    return {"rss": sizes["Rss"], "private": sizes["Private_Clean"] + sizes["Private_Dirty"]}


async def memory() -> dict[str, float]:
    """A supervisor's memory."""
    agent = await AgentProcess.start(SMALL, dispose_grace_ms=5000)
    try:
        await agent.read()
        return memory_of_parent(agent.pid)
    finally:
        await agent.aclose()


async def measure(runs: int) -> dict[str, Any]:
    kinds = {"with": [SupervisedTree, Tree], "without": [Tree]}
    commands = {"small": SMALL, "empty": EMPTY, "python": PYTHON}
    times: dict[str, list[tuple[float, float]]] = {f"{kind} {name}": [] for kind in kinds for name in commands}
    usual = process.kinds
    try:
        for run in range(runs + 1):
            for name, command in commands.items():
                for kind, trees in kinds.items():
                    process.kinds = lambda trees=trees: list(trees)  # type: ignore[misc]  # for the length of one cycle
                    took = await cycle(command)
                    if run:  # the first of each fills caches
                        times[f"{kind} {name}"].append(took)
    finally:
        process.kinds = usual
    starts = {name: statistics.median(start for start, _ in found) for name, found in times.items()}
    ends = {name: statistics.median(end for _, end in found) for name, found in times.items()}
    size = await memory()
    return {
        "runs": runs,
        "ratios": {
            "start of a Python agent over one without": starts["with python"] / starts["without python"],
            "start over that of an empty Python": starts["with small"] / starts["without empty"],
            **({"resident memory over 12 MB": size["rss"] / 12} if size else {}),
        },
        "bounds": {
            "start of a Python agent over one without": 1.5,
            "start over that of an empty Python": 2.5,
            **({"resident memory over 12 MB": 1.0} if size else {}),
        },
        "added_to_a_start_ms": starts["with small"] - starts["without small"],
        "start_ms": starts,
        "end_ms": ends,
        "memory_mb": size,
    }


def run(runs: int = RUNS) -> dict[str, Any]:
    """Ratios with their bounds; see the module."""
    return asyncio.run(measure(runs))
