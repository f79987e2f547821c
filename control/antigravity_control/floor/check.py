"""The floor over a whole line: the first entry that any command of it falls under.

Stands above every rule, grant, mode and switch. Pure. A line that is not understood is looked into as far as it goes;
a line that only mentions such a command passes.
"""

import re
from dataclasses import dataclass

from ..shell import Line, Redirection, Unit, read_line
from ..shell.budget import SIZE_LIMIT
from ..shell.model import SEGMENT_LIMIT
from ..shell.names import visible
from . import table, windows_commands
from .commands import entry_of
from .table import Entry
from .targets import deleted, device_word, raw_device

_BOMB = re.compile(r"(?<![\w:.'\"-])([\w:.-]{1,32})\s?\(\s?\)\s?\{\s?\1\s?\|\s?\1\s?&")
"""The fork bomb as it is often written, with blanks left out so that it does not even read."""
_WRITING = frozenset({"write", "append", "read_write"})
_SYSRQ = frozenset({"/proc/sysrq-trigger"})
_WINDOWS_SHELLS = frozenset({"cmd", "powershell", "pwsh"})
_ROOT_LISTERS = frozenset({"find", "gfind", "bfs", "ls"})


@dataclass(frozen=True, slots=True)
class FloorHit:
    """``entry`` is the name of the table's entry, ``segment`` the part of the line (bounded)."""

    entry: str
    reason: str
    segment: str


def check(line: Line | str, *, home: str | None = None) -> FloorHit | None:
    """The hit that denies ``line``, None when the floor is silent. ``home``: the home folder's own path, where it is
    known, so that its absolute spelling counts too."""
    read = read_line(line) if isinstance(line, str) else line
    found = _check(read, home)
    shown = visible(read.text[:SIZE_LIMIT])
    if found is None and shown != read.text[:SIZE_LIMIT]:
        found = _check(read_line(shown), home)
    return found


def _check(read: Line, home: str | None) -> FloorHit | None:
    for text in read.bombs:
        return _hit(table.FORK_BOMB, text)
    bomb = None if read.understood else _BOMB.search(read.text[:SIZE_LIMIT])
    if bomb:
        return _hit(table.FORK_BOMB, bomb.group())
    for unit in (*read.units, *read.salvaged):
        entry = _of_unit(unit, home)
        if entry is not None:
            return _hit(entry, unit.text)
    piped = _piped_delete(read, home)
    if piped is not None:
        return piped
    if read.dialect != "bash" or any(unit.guess in _WINDOWS_SHELLS for unit in read.units):
        windows = windows_commands.check(read.text)
        if windows is not None:
            return _hit(*windows)
    return None


def _hit(entry: Entry, segment: str) -> FloorHit:
    return FloorHit(entry.name, entry.reason, segment[:SEGMENT_LIMIT])


def _of_unit(unit: Unit, home: str | None) -> Entry | None:
    found = entry_of(unit, home)
    if found is not None:
        return found
    for redirection in unit.redirections:
        found = _of_redirection(redirection)
        if found is not None:
            return found
    for requirement in unit.extra:
        if requirement.action == "write_file" and requirement.target and raw_device(requirement.target):
            return table.RAW_WRITE
    return None


def _of_redirection(redirection: Redirection) -> Entry | None:
    word = redirection.word
    if redirection.kind not in _WRITING or word is None:
        return None
    if word.text in _SYSRQ:
        return table.POWER
    return table.RAW_REDIRECT if device_word(word) else None


def _piped_delete(line: Line, home: str | None) -> FloorHit | None:
    """``find / | xargs rm``: the listing of such a folder that a deleting ``xargs`` takes."""
    if not any(unit.guess == "rm" and "wrapper:xargs" in unit.via for unit in line.units):
        return None
    for unit in line.units:
        if unit.guess not in _ROOT_LISTERS:
            continue
        words = [word for word in unit.argv[1:] if not word.text.startswith("-")]
        narrowed = any(
            word.text in {"-name", "-iname", "-path", "-newer", "-mtime", "-size", "-regex"} for word in unit.argv
        )
        entries = [deleted(word, unit.cwd, home) for word in words]
        entry = next((entry for entry in entries if entry is not None), None)
        if entry is not None and not narrowed:
            return _hit(entry, line.text)
    return None
