"""The floor for ``cmd`` and PowerShell lines: textual and careful, since those are not parsed."""

import re
from collections.abc import Sequence

from ..shell.windows import commands
from . import table
from .table import Entry

NAMES = frozenset(
    {"remove-item", "ri", "rd", "del", "erase", "format", "stop-computer", "restart-computer", "format-volume", "%0",
     "clear-disk", "initialize-disk", "diskpart", "taskkill", "stop-process", "spps", "wmic", "gci", "get-childitem",
     "iex", "invoke-expression", "start", "call", "cmd", "powershell", "pwsh"}
)  # fmt: skip
"""Commands that only those shells have, so that a line with one of them is looked at as theirs."""
SHARED = frozenset({"rm", "rmdir"})
"""Commands that bash has too: one of them is looked at alone, as it was written."""
_DELETERS = frozenset({"remove-item", "ri", "rm", "rmdir", "rd", "del", "erase"})
_LISTERS = frozenset({"get-childitem", "gci", "ls", "dir"})
_GOING = frozenset({"cd", "chdir", "set-location", "sl", "pushd", "push-location"})
_RECURSIVE = re.compile(r"(?i)-r(?:e(?:c(?:u(?:r(?:se?)?)?)?)?)?(?::\$?true)?$|/s(?=/|$)|-rf$|-fr$")
_ROOT = re.compile(
    r"(?i)(?:[a-z]:)?[\\/]+(?:\*(?:\.\*)?)?|[a-z]:|[a-z]:\*|%systemdrive%[\\/]*\*?|\$env:systemdrive[\\/]*\*?"
)
_SYSTEM = re.compile(
    r"(?i)(?:[a-z]:[\\/]+(?:windows(?:[\\/]+system32)?|users|program files(?: \(x86\))?|programdata)"
    r"|%(?:systemroot|windir|programfiles|programdata|allusersprofile|public)%"
    r"|\$env:(?:systemroot|windir|programfiles|programdata|allusersprofile|public))[\\/]*\*?(?:\.\*)?"
)
_HOME = re.compile(
    r"(?i)(?:~|\$home|\$env:userprofile|%userprofile%|%homepath%|%homedrive%%homepath%|\$\{?env:userprofile\}?"
    r"|[a-z]:[\\/]+users[\\/]+(?:%username%|\$env:username))[\\/]*\*?(?:\.\*)?"
)
_DRIVE = re.compile(r"(?i)[a-z]:[\\/]|%\w+%|\$\{?env:")
_GET_ALL = re.compile(r"(?i)(?:^|[;({])\s*(?:get-process|gps|ps)\s*\|\s*(?:stop-process|spps|kill)\b")
_HERE = re.compile(r"\.?[\\/]?\*?(?:\.\*)?")
_DEVICE = re.compile(r"(?i)\\\\[.?]\\(?:physicaldrive\d+|[a-z]:)")
_NARROWING = re.compile(r"(?i)-(?:fi|inc|exc|name|file$)")
_POWER = frozenset({"stop-computer", "restart-computer"})
_FORMATS = frozenset({"format-volume", "clear-disk", "initialize-disk"})
_SHUTS = re.compile(r"(?i)\bwin32shutdown\s*\(|\bwmic\b[^|&]{0,200}\b(?:shutdown|reboot|win32shutdown)\b")


def check(text: str) -> tuple[Entry, str] | None:
    """The entry that a command of the line falls under, and that command."""
    if re.search(r"%0\s*\|\s*%0", text):
        return table.FORK_BOMB, "%0|%0"
    shuts = _SHUTS.search(text)
    if shuts:
        return table.POWER, shuts.group()[:400]
    folder: Entry | None = None
    listed: Entry | None = None
    for fields in commands(text):
        name, words = _name(fields), fields[1:]
        entry = _entry(name, words, text) or _gone_through(name, words, folder, listed)
        if entry is not None:
            return entry, " ".join(fields)[:400]
        folder = _place(words) if name in _GOING else folder
        listed = None if name not in _LISTERS or any(_NARROWING.match(word) for word in words) else _place(words)
    return None


def _name(fields: Sequence[str]) -> str:
    return fields[0].lower().removesuffix(".exe").removesuffix(".com").rpartition("\\")[2]


def entry_of(fields: Sequence[str]) -> Entry | None:
    """The entry of one command by itself; only operands that name a drive count, since bash reads the others."""
    kept = [field for field in fields[1:] if field.startswith("-") or _DRIVE.match(field)]
    return _entry(_name(fields), kept, " ".join(fields)) if fields else None


def _entry(name: str, words: Sequence[str], text: str) -> Entry | None:
    if name in _DELETERS:
        return _place(words) if any(_RECURSIVE.search(word) for word in words) else None
    if name in _POWER or (name == "shutdown" and any(re.match(r"(?i)[/-][srpgh]", word) for word in words)):
        return table.POWER
    if name in _FORMATS or (name == "format" and any(re.fullmatch(r"(?i)[a-z]:", word) for word in words)):
        return table.FORMAT
    if name == "diskpart" and (any(word.lower() == "/s" for word in words) or re.search(r"(?i)\bclean\b", text)):
        return table.FORMAT
    if name in {"dd", "out-file", "set-content"} and any(_DEVICE.search(word) for word in words):
        return table.RAW_WRITE
    if name == "taskkill" and "*" in words and any(word.lower() == "/f" for word in words):
        return table.KILL_ALL
    everything = "*" in words or _GET_ALL.search(text) is not None
    return table.KILL_ALL if name in {"stop-process", "spps"} and everything else None


def _gone_through(name: str, words: Sequence[str], folder: Entry | None, listed: Entry | None) -> Entry | None:
    """``cd C:\\`` before ``rd /s .``, and a listing that is piped into a deletion."""
    if name not in _DELETERS:
        return None
    if listed is not None and all(word.startswith("-") for word in words):
        return listed
    recursive = any(_RECURSIVE.search(word) for word in words)
    return folder if recursive and any(word and _HERE.fullmatch(word) for word in words) else None


def _place(words: Sequence[str]) -> Entry | None:
    """The entry of the first word that names a whole drive, a system folder or the home folder."""
    for word in words:
        for pattern, entry in ((_ROOT, table.ROOT), (_SYSTEM, table.SYSTEM), (_HOME, table.HOME)):
            if pattern.fullmatch(word):
                return entry
    return None
