"""One installer at a time.

Owns: the lock file, for as long as a block runs. It is a lock of the operating system on an open file: it ends with
the process that holds it, however that ends, and the file stays. Waiting never blocks the event loop and can be
cancelled at any time.
"""

import asyncio
import os
import stat
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from .errors import ProvisioningError
from .progress import Progress, Report

#: Seconds that an installer waits for another one: a whole download over a slow line fits.
WAIT_S: Final = 3_600.0
_FIRST_PAUSE_S: Final = 0.02
_LAST_PAUSE_S: Final = 0.25
_REPORT_EVERY_S: Final = 1.0


@asynccontextmanager
async def locked(path: Path, *, report: Report, wait_s: float = WAIT_S) -> AsyncIterator[None]:
    """Hold the lock while the block runs.

    :raises ProvisioningError: ``lock``/``busy`` after ``wait_s``; ``lock``/``disk`` when it cannot be had at all.
    """
    _check(path)
    # A soft lock would outlive a killed holder; a file that goes away with its holder would let two in.
    lock = FileLock(path, mode=0o600, thread_local=False, fallback_to_soft=False, preserve_lock_file=True)
    began = time.monotonic()
    pause, reported = _FIRST_PAUSE_S, 0.0
    while not _try(lock, path):
        now = time.monotonic()
        if now - began >= wait_s:
            raise ProvisioningError(
                "lock",
                "busy",
                f"Another process has been installing for {wait_s:.0f} seconds. Wait for it or end it, then try again.",
            )
        if not reported or now - reported >= _REPORT_EVERY_S:
            reported = now
            report(Progress("wait"))
        await asyncio.sleep(min(pause, wait_s - (now - began)))
        pause = min(pause * 1.5, _LAST_PAUSE_S)
    try:
        yield
    finally:
        lock.release()


def _check(path: Path) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    except OSError:
        raise _unusable(path) from None
    if not stat.S_ISREG(status.st_mode):
        raise ProvisioningError(
            "lock", "disk", f"The lock {path} is a link or not a file. Somebody put it there; delete it and try again."
        )


def _try(lock: FileLock, path: Path) -> bool:
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return False
    # NotImplementedError: a file system without locks.
    except (OSError, NotImplementedError):
        _check(path)
        raise _unusable(path) from None
    return True


def _unusable(path: Path) -> ProvisioningError:
    folder = os.path.dirname(path)
    return ProvisioningError(
        "lock",
        "disk",
        f"The lock {path} cannot be used. You must be able to write to {folder}, and it must lie on a disk that has "
        "file locks; XDG_CACHE_HOME chooses another place.",
    )
