"""The floor over a whole line: the first entry that any command of it falls under.

Stands above every rule, grant, mode and switch. Pure. A line that is not understood is looked into as far as it goes;
a line that only mentions such a command passes.
"""

import re
from dataclasses import dataclass

from ..shell import Line, Redirection, Unit, read_line
from ..shell.text.budget import SIZE_LIMIT
from ..shell.values.model import SEGMENT_LIMIT
from ..shell.values.names import visible
from . import interpreters, table, windows_commands
from .commands import entry_of
from .launchers import launched
from .table import Entry
from .targets import deleted, device_word, raw_device, sysrq

_BOMB = re.compile(r"(?<![\w:.'\"-])([\w:.-]{1,32})\s?\(\s?\)\s?\{\s?\1\s?\|\s?\1\s?&")
"""The fork bomb as it is often written, with blanks left out so that it does not even read."""
_WRITING = frozenset({"write", "append", "read_write"})
_WIDE = re.compile(
    r"-(?:type|print0?|printf|ls|depth|d|xdev|x|mount|mindepth|maxdepth|noleaf|follow|true|[LHPEX]+|O\d|o|a)"
)
"""Options of ``find`` that leave nothing out."""
_ROOT_LISTERS = frozenset({"find", "gfind", "bfs", "ls"})


_DEPTH = 2
"""How often a launcher or an interpreter is looked through."""
_INNER_LIMIT = 4_096


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


def _check(read: Line, home: str | None, depth: int = _DEPTH) -> FloorHit | None:
    for text in read.bombs:
        return _hit(table.FORK_BOMB, text)
    bomb = None if read.understood else _BOMB.search(read.text[:SIZE_LIMIT])
    if bomb:
        return _hit(table.FORK_BOMB, bomb.group())
    for unit in (*read.units, *read.salvaged):
        entry = _of_unit(unit, home)
        if entry is not None:
            return _hit(entry, unit.text)
    inner = _handed_on(read, home, depth)
    if inner is not None:
        return inner
    piped = _piped_delete(read, home)
    if piped is not None:
        return piped
    return _of_windows(read)


def _of_windows(read: Line) -> FloorHit | None:
    units = (*read.units, *read.salvaged)
    names = {(unit.guess or "").lower() for unit in units}
    found = windows_commands.check(read.text) if read.dialect != "bash" or names & windows_commands.NAMES else None
    if found is not None:
        return _hit(*found)
    for unit in units:
        if unit.guess in windows_commands.SHARED:
            entry = windows_commands.entry_of([word.raw.strip("\"'") for word in unit.argv])
            if entry is not None:
                return _hit(entry, unit.text)
    return None


def _handed_on(read: Line, home: str | None, depth: int) -> FloorHit | None:
    """What launchers and the code of other languages run, read once more as a line."""
    for unit in read.units if depth else ():
        if interpreters.forks(unit, read.text):
            return _hit(table.FORK_BOMB, unit.text)
        given = launched(unit)
        for text in (*interpreters.commands(unit, read.text), *([] if given is None else [given])):
            found = _check(read_line(text[:_INNER_LIMIT], cwd=unit.cwd), home, depth - 1)
            if found is not None:
                return found
    return None


def _hit(entry: Entry, segment: str) -> FloorHit:
    return FloorHit(entry.name, entry.reason, segment[:SEGMENT_LIMIT])


def _of_unit(unit: Unit, home: str | None) -> Entry | None:
    found = entry_of(unit, home)
    if found is not None:
        return found
    for redirection in unit.redirections:
        found = _of_redirection(redirection, unit.cwd)
        if found is not None:
            return found
    for requirement in unit.extra:
        if requirement.action == "write_file" and requirement.target and raw_device(requirement.target):
            return table.RAW_WRITE
    return None


def _of_redirection(redirection: Redirection, cwd: str | None) -> Entry | None:
    word = redirection.word
    if redirection.kind not in _WRITING or word is None:
        return None
    if sysrq(word):
        return table.POWER
    return table.RAW_REDIRECT if device_word(word, cwd=cwd) else None


def _piped_delete(line: Line, home: str | None) -> FloorHit | None:
    """``find / | xargs rm`` and ``rm $(find /)``: the listing of such a folder that is handed to a deletion."""
    removers = [unit for unit in line.units if unit.guess in table.REMOVERS]
    fed = any("wrapper:xargs" in unit.via or "wrapper:parallel" in unit.via for unit in removers)
    looped = any("while" in unit.via and not all(word.known for word in unit.argv) for unit in removers)
    for unit in line.units if fed or looped else ():
        if not fed and not re.search(re.escape(unit.text) + r"\s*\|\s*(?:while|until)\b", line.text):
            continue
        entry = _listing(unit, home)
        if entry is not None:
            return _hit(entry, line.text)
    for unit in removers:
        for text in _substitutions(unit):
            listers = read_line(text, cwd=unit.cwd).units
            full = [one for one in listers if one.guess != "ls" or any(word.text == "-d" for word in one.argv)]
            entry = next((entry for one in full if (entry := _listing(one, home))), None)
            if entry is not None:
                return _hit(entry, unit.text)
    return None


def _listing(unit: Unit, home: str | None) -> Entry | None:
    """The entry of a folder that ``unit`` lists without leaving anything out."""
    options = [word.text for word in unit.argv[1:] if word.text.startswith("-")]
    if unit.guess not in _ROOT_LISTERS or (unit.guess != "ls" and not all(map(_WIDE.fullmatch, options))):
        return None
    words = [word for word in unit.argv[1:] if not word.text.startswith("-")]
    return next((entry for word in words if (entry := deleted(word, unit.cwd, home))), None)


def _substitutions(unit: Unit) -> list[str]:
    """The commands whose output becomes operands of ``unit``."""
    texts = [piece.text for word in unit.argv[1:9] for piece in word.pieces if piece.kind == "unknown"]
    cut = [text[2:-1] if text.startswith("$(") else text[1:-1] for text in texts if text.startswith(("$(", "`"))]
    return [text[:_INNER_LIMIT] for text in cut]
