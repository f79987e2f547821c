"""A host that is killed leaves nothing running after five seconds, and nothing at all after the next start."""

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from helpers.family import until_gone
from helpers.hosts import Nursery, hosts

#: The promise: seconds after which nothing of a dead host runs.
PROMISE_S = 5.0


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with hosts() as one:
        yield one


def of(tmp: Path, but: Sequence[Path] = ()) -> dict[int, str]:
    """Everything that runs on behalf of hosts: agents and their relatives by mark, supervisors by argument.

    :param tmp: temporary directory of a host, or one that holds several. :param but: those of hosts left out.
    """
    found = {}
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            for what, paths in (("supervisor", process.cmdline()), ("agent", [process.environ().get("TMPDIR", "")])):
                if any(_inside(path, tmp) and not any(_inside(path, out) for out in but) for path in paths):
                    found[process.pid] = what
                    break
        except psutil.Error:
            continue
    return found


def _inside(path: str, tmp: Path) -> bool:
    """Whether a path lies in the scratch directory of an agent whose host had its temporary directory in ``tmp``."""
    return path.startswith(f"{tmp}/") and "/antigravity-acp-agent-" in path


def directories(tmp: Path) -> list[str]:
    return sorted(entry.name for entry in tmp.iterdir())


async def until_nothing_runs(tmp: Path, seconds: float = PROMISE_S, but: Sequence[Path] = ()) -> float:
    began = time.monotonic()
    while left := of(tmp, but):
        assert time.monotonic() - began < seconds, f"still there {seconds} s after the host: {left}"
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def until_empty(tmp: Path, seconds: float = PROMISE_S) -> None:
    began = time.monotonic()
    while left := directories(tmp):
        assert time.monotonic() - began < seconds, f"still there: {left}"
        await asyncio.sleep(0.05)


@pytest.mark.requirement("A-036", "A-037")
@pytest.mark.parametrize("stage", ["start", "session", "prompt", "parked", "closing"])
async def test_nothing_runs_five_seconds_after_a_host_was_killed(stage: str, nursery: Nursery, tmp_path: Path) -> None:
    host = await nursery.host(tmp_path, stage)
    assert "agent" in of(tmp_path).values()
    os.kill(host, signal.SIGKILL)
    await until_nothing_runs(tmp_path)
    # The supervisor does the next start's work where it can.
    await until_empty(tmp_path)


async def test_a_polite_agent_of_a_killed_host_may_end_by_itself(nursery: Nursery, tmp_path: Path) -> None:
    host = await nursery.host(tmp_path, "session", polite=True)
    os.kill(host, signal.SIGKILL)
    assert await until_nothing_runs(tmp_path) < 1.0


@pytest.mark.requirement("A-037")
async def test_the_next_start_ends_and_removes_what_not_even_the_supervisor_could(
    nursery: Nursery, tmp_path: Path
) -> None:
    host = await nursery.host(tmp_path, "parked")
    supervisors = [pid for pid, what in of(tmp_path).items() if what == "supervisor"]
    agents = [child.pid for pid in supervisors for child in psutil.Process(pid).children()]
    assert agents
    for pid in (host, *supervisors):
        os.kill(pid, signal.SIGKILL)
    if sys.platform == "linux":
        # The agent itself goes with its supervisor, long before that would have ended it for its dead host.
        await until_gone(agents, 0.9)
    # The child in a session of its own has lost everybody who knew it.
    assert of(tmp_path)
    assert directories(tmp_path)
    await nursery.host(tmp_path, "once", polite=True)
    await until_nothing_runs(tmp_path, 1.0)
    await until_empty(tmp_path, 1.0)


@pytest.mark.requirement("A-037")
async def test_two_hosts_side_by_side_do_not_touch_each_other(nursery: Nursery, tmp_path: Path) -> None:
    first = await nursery.host(tmp_path, "parked", polite=True)
    before = of(tmp_path)
    second = await nursery.host(tmp_path, "session", polite=True)
    await nursery.host(tmp_path, "once", polite=True)
    assert before.keys() <= of(tmp_path).keys()
    assert len(directories(tmp_path)) >= 2
    os.kill(first, signal.SIGKILL)
    while of(tmp_path).keys() & before.keys():
        await asyncio.sleep(0.02)
    # The other one lives, and so does its agent.
    await nursery.host(tmp_path, "once", polite=True)
    assert sorted(of(tmp_path).values()) == ["agent", "supervisor"]
    assert len(directories(tmp_path)) == 1
    os.kill(second, signal.SIGKILL)
    await until_nothing_runs(tmp_path)
    await until_empty(tmp_path)


@pytest.mark.requirement("A-036", "A-037")
@pytest.mark.timeout(120)
async def test_twenty_random_deaths_of_a_busy_host(nursery: Nursery, tmp_path: Path) -> None:
    seed = int(os.environ.get("KILL_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
    print(f"\nKILL_SEED={seed}")
    chance = random.Random(seed)
    seen = 0

    async def life(tmp: Path, seconds: float, *, supervisors_too: bool) -> int:
        host = await nursery.host(tmp, "busy")
        await asyncio.sleep(seconds)
        running = of(tmp)
        victims = [host, *(pid for pid, what in running.items() if supervisors_too and what == "supervisor")]
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                assert pid != host
        return len(running)

    for batch in range(2):
        folders = [tmp_path / f"{batch}-{number}" for number in range(10)]
        for folder in folders:
            folder.mkdir()
        # Some lose their supervisors as well: then it is up to the next start alone.
        lives = [
            life(folder, chance.uniform(0.0, 3.0), supervisors_too=number < 3) for number, folder in enumerate(folders)
        ]
        seen += sum(await asyncio.gather(*lives))
        await until_nothing_runs(tmp_path, but=folders[:3])
        await asyncio.gather(*(nursery.host(folder, "once", polite=True) for folder in folders))
        await until_nothing_runs(tmp_path, 1.0)
        for folder in folders:
            await until_empty(folder, 1.0)
    assert seen > 20, "the hosts were not busy"
