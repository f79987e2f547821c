"""The floor for ``cmd`` and PowerShell lines: textual and careful, since those are not parsed."""

import re
from collections.abc import Sequence

from ..shell.windows import commands
from . import table
from .table import Entry

_DELETERS = frozenset({"remove-item", "ri", "rm", "rmdir", "rd", "del", "erase"})
_RECURSIVE = re.compile(r"(?i)-r(?:e(?:c(?:u(?:r(?:se?)?)?)?)?)?$|/s$|-rf$|-fr$")
_ROOT = re.compile(
    r"(?i)(?:[a-z]:)?[\\/]+(?:\*(?:\.\*)?)?|[a-z]:|[a-z]:\*|%systemdrive%[\\/]*\*?|\$env:systemdrive[\\/]*\*?"
)
_SYSTEM = re.compile(
    r"(?i)(?:[a-z]:[\\/]+(?:windows(?:[\\/]+system32)?|users|program files(?: \(x86\))?|programdata)"
    r"|%(?:systemroot|windir|programfiles|programdata)%|\$env:(?:systemroot|windir|programfiles|programdata))[\\/]*\*?"
)
_HOME = re.compile(r"(?i)(?:~|\$home|\$env:userprofile|%userprofile%|%homepath%|%homedrive%%homepath%)[\\/]*\*?")
_DEVICE = re.compile(r"(?i)\\\\[.?]\\(?:physicaldrive\d+|[a-z]:)")
_POWER = frozenset({"stop-computer", "restart-computer"})
_FORMATS = frozenset({"format-volume", "clear-disk", "initialize-disk"})


def check(text: str) -> tuple[Entry, str] | None:
    """The entry that a command of the line falls under, and that command."""
    if re.search(r"%0\s*\|\s*%0", text):
        return table.FORK_BOMB, "%0|%0"
    for fields in commands(text):
        entry = _entry(fields)
        if entry is not None:
            return entry, " ".join(fields)[:400]
    return None


def _entry(fields: Sequence[str]) -> Entry | None:
    name = fields[0].lower().removesuffix(".exe").rpartition("\\")[2]
    words = fields[1:]
    if name in _DELETERS:
        return _deleted(words)
    if name in _POWER or (name == "shutdown" and any(re.match(r"(?i)[/-][srpgh]", word) for word in words)):
        return table.POWER
    if name in _FORMATS or (name == "format" and any(re.fullmatch(r"(?i)[a-z]:", word) for word in words)):
        return table.FORMAT
    if name in {"dd", "out-file", "set-content"} and any(_DEVICE.search(word) for word in words):
        return table.RAW_WRITE
    if name == "taskkill" and "*" in words and any(word.lower() == "/f" for word in words):
        return table.KILL_ALL
    return None


def _deleted(words: Sequence[str]) -> Entry | None:
    if not any(_RECURSIVE.search(word) for word in words):
        return None
    for word in words:
        for pattern, entry in ((_ROOT, table.ROOT), (_SYSTEM, table.SYSTEM), (_HOME, table.HOME)):
            if pattern.fullmatch(word):
                return entry
    return None
