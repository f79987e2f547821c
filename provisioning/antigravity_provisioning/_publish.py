"""Putting things in their place so that a crash at any instant leaves the old state or the new.

Owns: the order of the writes. Data reaches the disk before the name that makes it count; a folder appears and goes by
one rename. Everything here blocks and is called from a thread. Raises ``OSError`` as the system gave it; who calls
turns it into words.

Facts: anti-virus programs and indexers on Windows hold files for moments after they were written, so that a rename
fails with error 5, 32 or 33 and works a little later (astral-sh/uv#17679, conan-io/conan#6560).
"""

import errno
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from .errors import ProvisioningError, Stage

#: Seconds between attempts of a rename that somebody's open file forbids: 8 s in all, then it is really in use.
RENAME_PAUSES: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.4, 2.4)
#: Windows: access denied, sharing violation, lock violation. Only there has an OSError this number.
_HELD: Final = frozenset({5, 32, 33})


def is_held(error: OSError) -> bool:
    """Whether an operation failed because another program uses the file."""
    return getattr(error, "winerror", None) in _HELD or error.errno in (errno.EBUSY, errno.ETXTBSY)


def disk_fault(stage: Stage, error: OSError, what: str) -> ProvisioningError:
    """A fault of the file system in words. :param what: what could not be done, a sentence without its full stop."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ProvisioningError(stage, "disk-full", f"{what}: the disk is full. Make room and try again.")
    if is_held(error):
        return ProvisioningError(
            stage, "busy", f"{what}: a file there is in use. End every running Antigravity server and try again."
        )
    return ProvisioningError(
        stage, "disk", f"{what}: {error.strerror or 'the file system failed'}. Correct it and try again."
    )


def move(source: Path, target: Path, *, pause: Callable[[float], None] = time.sleep) -> None:
    """Rename a folder or file to a name that is free, patiently where others hold it for a moment.

    :raises OSError: of the last attempt.
    """
    for seconds in RENAME_PAUSES:
        try:
            os.rename(source, target)
        except OSError as error:
            if not is_held(error):
                raise
            pause(seconds)
        else:
            return
    os.rename(source, target)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet, down to the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, data: bytes, *, scratch: Path, pause: Callable[[float], None] = time.sleep) -> None:
    """Write a small file in one step, whether it is there or not. :param scratch: a free name on the same disk."""
    try:
        write_new(scratch, data)
        for seconds in (*RENAME_PAUSES, None):
            try:
                os.replace(scratch, path)
                break
            except OSError as error:
                if seconds is None or not is_held(error):
                    raise
                pause(seconds)
    except BaseException:
        with suppress(OSError):
            scratch.unlink()
        raise
    sync_folder(path.parent)


def publish(staging: Path, folder: Path, receipt: Path, data: bytes, *, aside: Path) -> None:
    """Give a complete staging folder its place.

    :param receipt: the file that makes the folder count; written last. :param data: its content.
    :param aside: where a damaged folder in that place goes; a free name on the same disk. It goes back should the new
        one not get its place.
    :raises OSError: the old state is still there, except when only the last write to the disk failed.
    """
    _sync_tree(staging)
    write_new(receipt, data)
    sync_folder(staging)
    if not os.path.lexists(folder):
        move(staging, folder)
    else:
        move(folder, aside)
        try:
            move(staging, folder)
        except BaseException:
            with suppress(OSError):
                os.rename(aside, folder)
            raise
    sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Names in a folder reach the disk. Windows has no such call and needs none."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network and FUSE file systems cannot sync a folder; there is nothing more to be had from them.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _sync_tree(folder: Path) -> None:
    # Without it a power cut may leave files of the right size that are full of zeros under a receipt that is fine.
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            # Windows flushes only what is open for writing.
            with open(os.path.join(parent, name), "r+b" if sys.platform == "win32" else "rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(parent))


def remove(path: Path, *, pause: Callable[[float], None] = time.sleep) -> bool:
    """Delete a file, a link (never what it leads to) or a whole folder. False when something of it stayed."""
    for seconds in (0.0, 0.0, 0.1, 0.4, 1.0):
        if seconds and sys.platform == "win32":
            pause(seconds)
        try:
            status = path.lstat()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        if stat.S_ISDIR(status.st_mode):
            shutil.rmtree(path, ignore_errors=True)
            if os.path.lexists(path):
                _allow_writing(path)
        else:
            with suppress(OSError):
                path.unlink()
    return not os.path.lexists(path)


def _allow_writing(folder: Path) -> None:
    """What is read-only stands in the way of its own removal; links are left alone."""
    with suppress(OSError):
        folder.chmod(0o700)
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *(files if sys.platform == "win32" else ())):
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                with suppress(OSError):
                    os.chmod(path, 0o700)


def size_of(path: Path) -> int:
    """Bytes of a file or of all files under a folder; links are not followed, what cannot be read counts nothing."""
    total = 0
    with suppress(OSError):
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            return status.st_size if stat.S_ISREG(status.st_mode) else 0
        for parent, _, names in os.walk(path):
            for name in names:
                with suppress(OSError):
                    total += os.lstat(os.path.join(parent, name)).st_size
    return total
