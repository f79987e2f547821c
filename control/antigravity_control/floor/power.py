"""Commands that stop the machine or every process on it, option by option.

Owns: ``shutdown`` and its kin, ``init``, ``systemctl``, messages to the login manager, ``kexec``, ``kill``. Pure.
"""

import posixpath
import re
from collections.abc import Sequence

from ..shell import Unit, Word
from ..shell.programs.options import read_options
from . import table
from .table import Entry

_SYSTEMCTL_TAKES = frozenset({"-H", "--host", "-M", "--machine", "-t", "--type", "--state", "-p", "--property", "-o",
                              "--output", "-n", "--lines", "-s", "--signal", "--root", "--image", "--job-mode",
                              "--kill-whom", "--kill-value", "--message", "--reboot-argument", "--when"})  # fmt: skip
_STARTING = frozenset({"start", "restart", "try-restart", "reload-or-restart"})
_UNIT = re.compile(
    r"(?:poweroff|reboot|halt|kexec|shutdown|soft-reboot|runlevel[06]|ctrl-alt-del)\.target"
    r"|systemd-(?:poweroff|reboot|halt|kexec|soft-reboot)(?:\.service)?"
)
_KILL_SIGNAL = frozenset({"-s", "-n", "--signal", "-q", "--queue"})
_EVERYBODY = re.compile(r"-0*1")
_KILL_LISTS = frozenset({"-l", "-L", "--list", "--table", "--help", "--version"})
_MESSAGE = re.compile(
    r"(?:login1|systemd1|ConsoleKit|UPower|SessionManager)\S*[. ]"
    r"(?:PowerOff|Reboot|Halt|KExec|SoftReboot|Stop|Restart|Shutdown)(?:WithFlags)?(?= |$)"
)
_SPOKEN = re.compile(r"(?i)\btell\s+app(?:lication)?\s+\"[^\"]*\"\s+to\s+(?:shut\s?down|restart)\b")
_LIMIT = 4_096
_PROGRAM_FOLDER = re.compile(r"(?:/usr(?:/local)?)?/s?bin")


def own_script(unit: Unit) -> bool:
    """Whether the command is a file of a project that only bears the name: ``./halt``, ``scripts/reboot``."""
    word = unit.argv[0]
    text = word.text
    if not word.literal or "/" not in text or text.startswith("/") or ".." in text.split("/"):
        return False
    if word.home:
        return True
    folder = posixpath.dirname(posixpath.normpath(posixpath.join(unit.cwd or ".", text)))
    return _PROGRAM_FOLDER.fullmatch(folder) is None


def power(_name: str, words: Sequence[Word], unit: Unit, _home: str | None) -> Entry | None:
    texts = [word.text for word in words]
    answers = bool(texts) and all(text in table.POWER_ANSWERS for text in texts)
    return None if answers or own_script(unit) else table.POWER


def init(_name: str, words: Sequence[Word], unit: Unit, _home: str | None) -> Entry | None:
    options = read_options(words, frozenset({"-t"}), None)
    operands = [word.text for word in words[options.first :]]
    return table.POWER if operands[:1] in (["0"], ["6"]) and not own_script(unit) else None


def systemctl(_name: str, words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    operands: list[str] = []
    place = 0
    while place < len(words):
        text = words[place].text
        if text in _SYSTEMCTL_TAKES:
            place += 1
        elif not text.startswith("-"):
            operands.append(text)
        place += 1
    verb, names = (operands[0], operands[1:]) if operands else ("", [])
    if verb == "isolate":
        names = [name if "." in name else f"{name}.target" for name in names]
    started = verb in _STARTING | {"isolate"} and any(_UNIT.fullmatch(name) for name in names)
    return table.POWER if verb in table.POWER_VERBS or started else None


def message(_name: str, words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    """``dbus-send``, ``busctl`` and ``gdbus`` to the manager that turns the machine off."""
    return table.POWER if _MESSAGE.search(" ".join(word.text for word in words)[:_LIMIT]) else None


def spoken(_name: str, words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    return table.POWER if any(_SPOKEN.search(word.text[:_LIMIT]) for word in words) else None


def kexec(_name: str, words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    short = re.compile(r"-[a-z]*e[a-z]*")
    return table.POWER if any(word.text == "--exec" or short.fullmatch(word.text) for word in words) else None


def kill(_name: str, words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    texts = [word.text for word in words]
    if any(text in _KILL_LISTS for text in texts):
        return None
    place = 0
    while place < len(texts) and texts[place] in _KILL_SIGNAL:
        place += 2
    if texts[place : place + 1] == ["--"]:
        place += 1
    elif place == 0 and texts and texts[0].startswith("-") and len(texts[0]) > 1:
        if texts == ["-1"]:
            return table.KILL_ALL
        place = 2 if texts[1:2] == ["--"] else 1
    return table.KILL_ALL if any(_EVERYBODY.fullmatch(text) for text in texts[place:]) else None


def killall5(_name: str, _words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    return table.KILL_ALL
