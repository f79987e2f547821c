"""The ledger's folder: its files, their names and who may touch them.

Owns: the default place, the names ``ledger-000001.db`` …, and the check before anything is written: the folder is ours,
0700 and no link; every file in it is ours, 0600, a regular file and no link. What is not is refused, never mended:
somebody may have read or changed it. Never: opens a database file with anything but SQLite; closing a second descriptor
of it would drop the locks that SQLite holds on it for the whole process.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from .errors import LedgerError, from_system

_NAME: Final = re.compile(r"ledger-(\d{6,12})\.db\Z")
_POSIX: Final = hasattr(os, "geteuid")
_NOT_OWN: Final = "it must be a file of its own and not a link; remove it or name another place"
#: For every file here: no link is followed, no program that is started inherits it, no byte is translated.
OPEN_FLAGS: Final = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"))


class LedgerFile(NamedTuple):
    """One file of a ledger. :param number: from 1, in the order in which they were begun."""

    number: int
    path: Path


def default_path() -> Path:
    """The ledger of this user."""
    # Late: only a command line or a host that names no folder needs it.
    from platformdirs import user_state_path

    return user_state_path("antigravity-acp", appauthor=False) / "ledger"


def file_at(folder: Path, number: int) -> LedgerFile:
    """The file of that number, whether it is there or not."""
    return LedgerFile(number, folder / f"ledger-{number:06d}.db")


def files_of(folder: Path) -> list[LedgerFile]:
    """The files that are there, the oldest first.

    :raises LedgerError: ``missing`` or another kind when the folder cannot be listed.
    """
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise from_system(error, folder) from None
    found = (LedgerFile(int(match[1]), folder / name) for name in names if (match := _NAME.match(name)))
    return sorted(found)


def prepare(folder: Path) -> None:
    """Make the folder, or check the one that is there.

    :raises LedgerError: ``unsafe`` with what to do, or why it cannot be made.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = False
        try:
            folder.mkdir(mode=0o700)
            made = True
        except FileExistsError:
            pass
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise LedgerError("unsafe", folder, "it must be a folder and not a link; name another place")
        if made:
            # The process's umask may have taken bits away that we need ourselves.
            folder.chmod(0o700)
            sync_folder(folder.parent)
        else:
            _check(folder, found, 0o700)
        for entry in _ours(folder):
            check_file(entry)
    except OSError as error:
        raise from_system(error, folder) from None


def create(path: Path) -> bool:
    """Make an empty file that only we may read; whether it was not there before.

    :raises OSError: it cannot be made.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | OPEN_FLAGS
    try:
        os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        return False
    sync_folder(path.parent)
    return True


def check_file(path: Path) -> None:
    """Check one file of the ledger; one that is not there is in order.

    :raises LedgerError: ``unsafe`` with what to do.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    # Only the key is ever linked to, for an instant, while it is made.
    linked = found.st_nlink > 1 and _NAME.match(path.name) is not None
    if not stat.S_ISREG(found.st_mode) or linked:
        raise LedgerError("unsafe", path, _NOT_OWN)
    _check(path, found, 0o600)


def check_regular(path: Path) -> None:
    """Check that what is to be read is a file: a reader of a pipe would wait for ever, a link shows something else. One
    that is not there is in order.

    :raises LedgerError: ``unsafe``. :raises OSError: it cannot be looked at.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise LedgerError("unsafe", path, _NOT_OWN)


def sync_folder(folder: Path) -> None:
    """See to it that a name that was just made is still there after a power cut."""
    if not _POSIX:
        return
    descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check(path: Path, found: os.stat_result, mode: int) -> None:
    if not _POSIX:
        return
    if found.st_uid != os.geteuid():
        raise LedgerError("unsafe", path, "it belongs to another user; name a place that is yours")
    if found.st_mode & 0o777 & ~mode:
        raise LedgerError("unsafe", path, f"others may use it; look at who did, then run: chmod {mode:o} '{path}'")


def _ours(folder: Path) -> Iterator[Path]:
    for name in os.listdir(folder):
        if name in ("head", "digest.key") or name.startswith("ledger-"):
            yield folder / name
