"""The directory of one agent, and the sweep of those that dead hosts left behind.

Owns: the directory (mode 0700) with the agent's working and temporary directory, the lock on it, and the record of
whose it is. Ends with :meth:`Scratch.remove`. :func:`sweep` ends what a host that died left running and deletes its
directories.
Never: touches a directory whose host lives, or that it cannot prove to be one of ours; follows a link.

What is swept. A record names the host by process id *and* start time, which decides wherever those ids mean the same
(one boot, one process namespace). Elsewhere, such as in containers that share a temporary directory, and before there
is a record, the lock decides: the host holds it for as long as it lives. A directory that is just being made may be
swept in the instant before it is locked; its maker sees that and makes another one.
"""

import json
import os
import re
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ._supervisor import tree
from ._supervisor.folder import remove

SCRATCH_PREFIX: Final = "antigravity-acp-agent-"
_NAME: Final = re.compile(re.escape(SCRATCH_PREFIX) + r"[a-z0-9_]{8}")
_LOCK: Final = "lock"
_RECORD: Final = "owner.json"
_NEW_RECORD: Final = "owner.json.new"
#: What goes last when a directory is deleted.
LAST: Final = (_RECORD, _LOCK)
_VERSION: Final = 1
#: Attempts at making a directory; a second one is needed only when a sweep came between.
_ATTEMPTS: Final = 8
#: A record has some 300 bytes.
_MAX_RECORD: Final = 4096
_MAX_PID: Final = 2**31 - 1
#: Directories that one sweep deletes at most, and seconds after which it begins with no further one. The next start
#: goes on.
_MAX_SWEPT: Final = 256
_SWEEP_S: Final = 10.0
#: Seconds for killing what one dead host's agent has left.
_KILL_S: Final = 2.0

_own_stamp: tuple[int, str] | None = None


class Scratch:
    """Made by :meth:`make`, which locks it; ended by :meth:`remove`."""

    def __init__(self, path: Path, lock: int | None) -> None:
        self.path = path
        #: The agent's working directory, and its directory for temporary files.
        self.cwd = path / "work"
        self.tmp = path / "tmp"
        #: Start time of the recorded agent, see :func:`tree.stamp`.
        self.began = ""
        self._lock = lock

    @classmethod
    def make(cls) -> "Scratch":
        """Make, lock and record a directory. :raises OSError: when there is no place for it."""
        for _ in range(_ATTEMPTS):
            path = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX)).resolve()
            try:
                lock = _make_lock(path)
            except FileNotFoundError:
                continue  # swept
            scratch = cls(path, lock)
            if lock is not None and not _still_there(path, lock):
                scratch._unlock()
                continue
            try:
                scratch.record(0)
                scratch.cwd.mkdir(mode=0o700)
                scratch.tmp.mkdir(mode=0o700)
            except BaseException:
                scratch.remove()
                raise
            return scratch
        raise OSError("no scratch directory could be made")

    def record(self, agent: int) -> None:
        """Write down whose this is. :param agent: process id of the agent, 0 while there is none."""
        self.began = tree.stamp(agent) if agent else ""
        content = {
            "version": _VERSION,
            "place": tree.place(),
            "host": {"pid": os.getpid(), "began": _stamp_of_host()},
            "agent": {"pid": agent, "began": self.began},
        }
        new = self.path / _NEW_RECORD
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file)
        new.replace(self.path / _RECORD)

    def remove(self) -> bool:
        """Delete it with all that is in it and let go of the lock. Blocks. :returns: whether it is gone."""
        gone = remove(str(self.path), LAST)
        self._unlock()
        return gone

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def sweep() -> None:
    """End and delete what dead hosts have left in the temporary directory. Blocks, bounded; never raises."""
    if sys.platform == "win32":
        # There the kernel ends the agents with their host, and a name that is in use cannot be deleted.
        return
    with suppress(OSError):
        root = os.open(tempfile.gettempdir(), os.O_RDONLY | os.O_DIRECTORY)
        try:
            _sweep(root)
        finally:
            os.close(root)


def _sweep(root: int) -> None:
    deadline = time.monotonic() + _SWEEP_S
    with os.scandir(root) as entries:
        names = [entry.name for entry in entries if _NAME.fullmatch(entry.name)]
    swept = 0
    for name in names:
        if swept >= _MAX_SWEPT or time.monotonic() > deadline:
            return
        with suppress(OSError):
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=root)
            try:
                swept += _sweep_one(root, name, folder)
            finally:
                os.close(folder)


def _sweep_one(root: int, name: str, folder: int) -> bool:
    if os.fstat(folder).st_uid != os.geteuid():
        return False
    path = os.path.join(os.path.realpath(tempfile.gettempdir()), name)
    lock = _take_lock(folder)
    try:
        record = _read_record(folder)
        if record is None:
            # Its host died while making it, so there is hardly anything in it. Anything else is not ours, and what
            # is not locked by us may be getting its lock at this moment.
            for own in (_NEW_RECORD, _LOCK) if lock is not None else ():
                with suppress(FileNotFoundError):
                    os.unlink(own, dir_fd=folder)
            os.rmdir(name, dir_fd=root)
            return True
        if record["place"] == tree.place():
            if _lives(record["host"], locked=lock is None):
                return False
            agent = record["agent"]
            if not tree.kill_tree(agent["pid"], agent["began"], os.fsencode(os.path.join(path, "tmp")), _KILL_S):
                return False
        elif lock is None:
            return False
        return remove(path, LAST)
    finally:
        if lock is not None:
            os.close(lock)


def _lives(host: dict[str, Any], *, locked: bool) -> bool:
    """Whether the process of a record is there. What cannot be found out counts as alive while it is locked."""
    now = tree.stamp(host["pid"])
    if now and host["began"]:
        return bool(now == host["began"])
    try:
        os.kill(host["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return locked


# ---- lock -----------------------------------------------------------------------------------------------------------
def _make_lock(path: Path) -> int | None:
    """Create and take the lock. :returns: ``None`` where files cannot be locked."""
    if sys.platform == "win32":
        return None
    import fcntl

    descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise FileNotFoundError("a sweep has it") from None
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _still_there(path: Path, lock: int) -> bool:
    """Whether the locked file is the one that others find."""
    try:
        return os.path.samestat(os.stat(path / _LOCK, follow_symlinks=False), os.fstat(lock))
    except FileNotFoundError:
        return False


def _take_lock(folder: int) -> int | None:
    """:returns: ``None`` when somebody holds it, there is none, or files cannot be locked here."""
    import fcntl

    try:
        descriptor = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


# ---- record ---------------------------------------------------------------------------------------------------------
def _read_record(folder: int) -> dict[str, Any] | None:
    """The record, its shape checked; ``None`` when there is none.

    :raises OSError: for one that is not ours or not as we write them; such a directory is left alone.
    """
    try:
        descriptor = os.open(_RECORD, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_size > _MAX_RECORD:
            raise OSError("not a record")
        content = file.read(_MAX_RECORD)
    try:
        record = json.loads(content)
        fine = (
            record["version"] == _VERSION
            and isinstance(record["place"], str)
            and all(_is_process(record[who]) for who in ("host", "agent"))
        )
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        fine = False
    if not fine:
        raise OSError("not a record")
    return record  # type: ignore[no-any-return]  # what was read of it was checked above


def _is_process(value: Any) -> bool:
    return type(value["pid"]) is int and 0 <= value["pid"] <= _MAX_PID and isinstance(value["began"], str)


def _stamp_of_host() -> str:
    global _own_stamp
    pid = os.getpid()
    if _own_stamp is None or _own_stamp[0] != pid:
        _own_stamp = (pid, tree.stamp(pid))
    return _own_stamp[1]
