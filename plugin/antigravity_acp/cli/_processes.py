"""Counting the processes that a command started.

Owns: :class:`Census`, which looks at the system and touches nothing. A process is known by its id and its start time,
so that one whose parent is gone is still found, and a reused id is not mistaken for it.
"""

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

_PROC: Final = Path("/proc")
#: Seconds for one `ps`, and for ended processes to leave the process table.
_PS_S: Final = 5.0
_SETTLE_S: Final = 2.0
_LOOK_S: Final = 0.02


class Process(msgspec.Struct, frozen=True):
    """One living process. ``began`` is the system's own word for its start, only ever compared."""

    pid: int
    parent: int
    began: str


class Census:
    """The descendants of this process, as far as they were there at one of the looks."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], None] = {}

    @property
    def started(self) -> int:
        """How many were seen."""
        return len(self._seen)

    def look(self) -> None:
        """Remember every descendant that lives now."""
        for each in _below(os.getpid(), _living()):
            self._seen[each.pid, each.began] = None

    def left(self) -> int:
        """How many of those that were seen, or were started since, still live. Waits a moment for the dying."""
        deadline = time.monotonic() + _SETTLE_S
        while True:
            living = _living()
            known = {(each.pid, each.began) for each in living} & set(self._seen)
            left = known | {(each.pid, each.began) for each in _below(os.getpid(), living)}
            if not left or time.monotonic() > deadline:
                return len(left)
            time.sleep(_LOOK_S)


def _below(root: int, living: list[Process]) -> list[Process]:
    found: list[Process] = []
    parents = {root}
    while parents:
        children = [each for each in living if each.parent in parents]
        found += children
        parents = {each.pid for each in children}
    return found


def _living() -> list[Process]:
    return _from_proc() if _PROC.is_dir() else _from_ps()


def _from_proc() -> list[Process]:
    found = []
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            with suppress(OSError, IndexError):  # gone meanwhile
                # The name in parentheses may hold spaces and parentheses itself; the fields begin after the last one.
                fields = Path(entry.path, "stat").read_text("ascii", "replace").rpartition(")")[2].split()
                if fields[0] not in ("Z", "X"):
                    found.append(Process(int(entry.name), int(fields[1]), fields[19]))
    return found


def _from_ps() -> list[Process]:
    with subprocess.Popen(
        ["/bin/ps", "-Ao", "pid=,ppid=,stat=,lstart="], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as lister:
        try:
            listed = lister.communicate(timeout=_PS_S)[0].decode("ascii", "replace")
        except subprocess.TimeoutExpired:
            lister.kill()
            return []
    rows = (line.split(maxsplit=3) for line in listed.splitlines())
    return [
        Process(int(row[0]), int(row[1]), row[3])
        for row in rows
        if len(row) == 4 and row[0].isdigit() and int(row[0]) != lister.pid and not row[2].startswith("Z")
    ]
