"""Installers that are killed at random instants while another one runs.

``python -m helpers.killed_installs nursery|steady ROOT ARCHIVE`` are the two programs. The *nursery* imports everything
once and forks an installer for every line it reads, so that a kill costs milliseconds instead of a Python start; its
children install, damage or uninstall, and install again, until they are killed. The *steady* one only installs, again
and again, until its stdin ends.
"""

import asyncio
import os
import random
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from antigravity_provisioning.install import install, uninstall
from antigravity_provisioning.locate import OfficialServer
from antigravity_provisioning.store import Store

from .installs import Release, asset_of, left_over

#: Seconds until the kill, at most: a few installations of a small archive.
LONGEST_S = 0.25
BOUND_S = 60.0


@dataclass
class Outcome:
    """What a number of kills led to."""

    kills: int = 0
    interrupted: int = 0
    found: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def kill_installers(root: Path, given: Release, *, kills: int, seed: int) -> Outcome:
    """Kill that many installers, a second one running all the time, and look after every kill."""
    choose = random.Random(seed)
    store = Store(root)
    outcome = Outcome()
    nursery, steady = (_start(role, root, given.archive) for role in ("nursery", "steady"))
    try:
        _line(steady)
        for _ in range(kills):
            _write(nursery, f"{choose.random()}")
            victim = int(_line(nursery))
            time.sleep(choose.uniform(0, LONGEST_S))
            os.kill(victim, signal.SIGKILL)
            assert _line(nursery) == "dead", "the victim ended by itself: an installation failed"
            _look(store, given, outcome)
    finally:
        for process in (nursery, steady):
            assert process.stdin is not None
            process.stdin.close()
            assert process.stdout is not None
            process.stdout.close()
        codes = [process.wait(BOUND_S) for process in (nursery, steady)]
    assert codes == [0, 0], "the installer that was not killed failed"
    return outcome


def _look(store: Store, given: Release, outcome: Outcome) -> None:
    outcome.kills += 1
    outcome.interrupted += bool(left_over(store))
    health = store.health(given.asset)
    outcome.found[health] = outcome.found.get(health, 0) + 1
    # Nobody damages anything now, so what is found must be whole, whoever made it.
    if store.find(given.asset) is not None and (faults := store.verify(given.asset)):
        outcome.faults += [f"used although damaged: {fault}" for fault in faults]
    server = asyncio.run(install(asset=given.asset, store=store, archive=given.archive, prove=_prove))
    if faults := store.verify(given.asset):
        outcome.faults += [f"not repaired: {fault}" for fault in faults]
    if subprocess.run([server.path], capture_output=True, check=False).stdout != b"works\n":
        outcome.faults.append("the server does not run")
    if store.health(given.asset) != "proven":
        outcome.faults.append(f"installed and {store.health(given.asset)}")


def _start(role: str, root: Path, archive: Path) -> "subprocess.Popen[str]":
    tests = str(Path(__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-m", "helpers.killed_installs", role, str(root), str(archive)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (tests, os.environ.get("PYTHONPATH"))))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def _write(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], BOUND_S)[0], "no answer"
    return process.stdout.readline().strip()


async def _prove(_: OfficialServer) -> tuple[str, str]:
    return "antigravity-acp", "1.3.0"


async def _restless(store: Store, given: Release, choose: random.Random) -> None:
    while True:
        server = await install(asset=given.asset, store=store, archive=given.archive, prove=_prove)
        what = choose.randrange(4)
        try:
            if what == 0:
                await uninstall(store)
            elif what == 1:
                server.harness.unlink()
            elif what == 2:
                os.truncate(server.path, 3)
            else:
                (server.path.parent / "receipt.json").unlink()
        except FileNotFoundError:
            continue  # the other installer repairs at this very moment


async def _steady(store: Store, given: Release) -> None:
    while not select.select([sys.stdin], [], [], 0)[0]:
        await install(asset=given.asset, store=store, archive=given.archive, prove=_prove)
        await asyncio.sleep(0.01)


def _nursery(store: Store, given: Release) -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                asyncio.run(_restless(store, given, random.Random(line)))
            finally:
                os._exit(1)
        print(child, flush=True)
        status = os.waitpid(child, 0)[1]
        print("dead" if os.WIFSIGNALED(status) else "failed", flush=True)


def main() -> None:
    """One of the two programs."""
    role, root, path = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    given = Release(asset_of(path.read_bytes()), path)
    if role == "nursery":
        _nursery(Store(root), given)
    else:
        print("ready", flush=True)
        asyncio.run(_steady(Store(root), given))


if __name__ == "__main__":
    main()
