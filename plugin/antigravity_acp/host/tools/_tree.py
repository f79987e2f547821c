"""Ending everything that a command started, also what left its process group.

Owns: finding and killing. Members of the command's group are found by its number. Beyond that, a command gets a mark in
its environment that its descendants inherit; on Linux every process that bears it is found through ``/proc``, also one
that started a session of its own and lost its parent. Elsewhere the descendants that are still linked to the command
are found through ``ps``. A process that leaves the group and drops its environment *and* its parent escapes; this is a
tidy end, not a sandbox.
"""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

#: The name of the mark. Its value is random for each command.
MARK: Final = "ANTIGRAVITY_ACP_COMMAND"
#: Seconds that killing may take in all, and between two looks.
_LIMIT_S: Final = 3.0
_LOOK_S: Final = 0.02
_PROC: Final = Path("/proc")


def kill_tree(leader: int, mark: str) -> None:
    """Kill the group of ``leader``, its descendants and every process that bears ``mark``. Blocks, bounded.

    :param leader: pid of the command, which is the leader of its own group; it may have ended already.
    """
    deadline = time.monotonic() + _LIMIT_S
    while True:
        # Descendants first: once their parents are dead they can no longer be told from strangers.
        found = _related(leader) | _marked(mark)
        # The group may be killed even after its leader was reaped: its number stays taken while members live.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
        for pid in found - {leader, os.getpid()}:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found or time.monotonic() > deadline:
            return
        time.sleep(_LOOK_S)


def _marked(mark: str) -> set[int]:
    wanted = f"{MARK}={mark}".encode()
    found: set[int] = set()
    if not _PROC.is_dir():
        return found
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            with suppress(OSError):  # not ours to read, or gone
                # A zombie's environment is empty, so the dead are not counted.
                if wanted in Path(entry.path, "environ").read_bytes().split(b"\0"):
                    found.add(int(entry.name))
    return found


def _related(leader: int) -> set[int]:
    """Living members of a process's group, and its descendants by the parent links that exist now."""
    rows = _processes()
    children: dict[int, list[int]] = {}
    for pid, parent, _ in rows:
        children.setdefault(parent, []).append(pid)
    found = {pid for pid, _, group in rows if group == leader}
    todo = [leader]
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in found:
                found.add(pid)
            todo.append(pid)
    return found


def _processes() -> list[tuple[int, int, int]]:
    """Process id, parent and group of everything that lives."""
    if not _PROC.is_dir():
        return _processes_by_ps()
    rows = []
    for entry in os.scandir(_PROC):
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                # The command's name stands in parentheses and may itself hold some: what counts is after the last one.
                fields = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()
                if fields[0] not in (b"Z", b"X"):
                    rows.append((int(entry.name), int(fields[1]), int(fields[2])))
    return rows


def _processes_by_ps() -> list[tuple[int, int, int]]:
    try:
        listed = subprocess.run(
            ["/bin/ps", "-Ao", "pid=,ppid=,pgid=,stat="], capture_output=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = (line.split() for line in listed.stdout.decode("ascii", "replace").splitlines())
    return [(int(row[0]), int(row[1]), int(row[2])) for row in rows if len(row) == 4 and not row[3].startswith("Z")]
