"""What holds for every test: nothing may outlive the case that started it."""

import asyncio
import gc
import inspect
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

#: A temporary root of this run alone, so that a leftover is ours and not another run's; removed at the end.
TEMP = Path(tempfile.mkdtemp(prefix="antigravity-acp-tests-")).resolve()
os.environ["TMPDIR"] = tempfile.tempdir = str(TEMP)

#: No test may leave the machine: what would (an installation of the official server, say) meets a closed port at once.
for _name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
    os.environ[_name] = "http://127.0.0.1:9"
os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost,::1"
#: Nor may it find what happens to be installed here.
os.environ["XDG_CACHE_HOME"] = str(TEMP / "cache")
#: Nor the rules and the ledger of whoever runs it.
os.environ["XDG_CONFIG_HOME"] = str(TEMP / "config")
os.environ["XDG_STATE_HOME"] = str(TEMP / "state")

#: A run in the background of a shell ignores Ctrl-C, and so would every program that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: A test's leftovers get this long to finish ending; it is a bound, not a pause: the check passes at once when clean.
SETTLE_S = 5.0


def pytest_unconfigure() -> None:
    shutil.rmtree(TEMP, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if inspect.iscoroutinefunction(getattr(item, "function", None)):
            item.fixturenames.append("no_task_left")  # type: ignore[attr-defined]


#: Linux with CONFIG_PROC_CHILDREN tells a process's children directly.
_KERNEL_LISTS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _direct_children() -> str:
    found = ""
    for thread in os.listdir("/proc/self/task"):
        try:
            found += Path(f"/proc/self/task/{thread}/children").read_text()
        except OSError:
            continue  # that thread has just ended
    return found.strip()


def _children() -> set[int]:
    # A look into /proc costs a thirtieth of a walk over every process of the machine, and it is taken twice a test.
    if _KERNEL_LISTS_CHILDREN and not _direct_children():
        return set()
    return {child.pid for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE}


def _sockets_and_pipes() -> set[str]:
    found = set()
    for entry in os.scandir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        try:
            target = os.readlink(entry.path)
        except OSError:
            continue
        if target.startswith(("socket:", "pipe:")):
            found.add(target)
    return found


def _scratch(root: Path) -> set[str]:
    return {entry.name for entry in root.iterdir() if entry.name.startswith(("antigravity", "agy"))}


def _threads() -> set[int]:
    # The default executor of a closed loop and pytest-timeout's own timer are not a test's leftovers.
    return {t.ident or 0 for t in threading.enumerate() if not t.name.startswith(("pytest_timeout", "asyncio_"))}


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Fails a test after which a process, socket, pipe, thread or scratch directory is left."""
    before = (_children(), _sockets_and_pipes(), _threads(), _scratch(TEMP))
    yield
    deadline = time.monotonic() + SETTLE_S
    while True:
        now = (_children(), _sockets_and_pipes(), _threads(), _scratch(TEMP))
        left = [new - old for new, old in zip(now, before, strict=True)]
        if not any(left):
            return
        if time.monotonic() > deadline:
            break
        gc.collect()
        time.sleep(0.02)
    kinds = ("processes", "sockets and pipes", "threads", "scratch directories")
    text = "; ".join(f"{kind}: {sorted(map(str, some))}" for kind, some in zip(kinds, left, strict=True) if some)
    pytest.fail(f"left behind by this test: {text}")


@pytest.fixture
async def no_task_left() -> AsyncIterator[None]:
    """Fails an async test after which a task is left in its loop."""
    before = asyncio.all_tasks()
    yield
    deadline = time.monotonic() + SETTLE_S
    while left := {task for task in asyncio.all_tasks() - before - {asyncio.current_task()} if not task.done()}:
        if time.monotonic() > deadline:
            pytest.fail(
                f"tasks left behind by this test: {sorted(task.get_name() + repr(task.get_coro()) for task in left)}"
            )
        await asyncio.sleep(0.01)
