"""One unit against the entries: what each dangerous command looks like, option by option.

Owns: the reading of ``rm``, ``find``, ``dd``, ``kill``, ``systemctl`` and their kin. Pure.
"""

import fnmatch
import re
from collections.abc import Callable, Sequence

from ..shell import Unit, Word
from ..shell.options import read_options
from . import table
from .table import Entry
from .targets import deleted, device_word

_FIND_WIDE = frozenset({"-depth", "-d", "-xdev", "-mount", "-noleaf", "-ignore_readdir_race", "-noignore_readdir_race",
                        "-print", "-print0", "-ls", "-true", "-follow", "-daystart", "-a", "-and", "-o", "-or",
                        "-delete", "(", ")", ",", "-warn", "-nowarn", "-X", "-x", "-s", "-f"})  # fmt: skip
"""Parts of an expression that leave nothing out."""
_FIND_WIDE_VALUES = frozenset({"-mindepth", "-type", "-printf", "-fprint", "-fprint0", "-fls"})
_FIND_STARS = frozenset({"-name", "-iname", "-path", "-ipath", "-wholename"})
_FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_DELETERS = frozenset({"rm", "grm", "shred", "unlink", "rmdir", "srm"})
_SYSTEMCTL_TAKES = frozenset({"-H", "--host", "-M", "--machine", "-t", "--type", "--state", "-p", "--property", "-o",
                              "--output", "-n", "--lines", "-s", "--signal", "--root", "--image", "--job-mode",
                              "--kill-whom", "--kill-value", "--message", "--reboot-argument", "--when"})  # fmt: skip
_KILL_SIGNAL = frozenset({"-s", "-n", "--signal", "-q", "--queue"})
_EVERYBODY = re.compile(r"-0*1")
_KILL_LISTS = frozenset({"-l", "-L", "--list", "--table", "--help", "--version"})
Check = Callable[[str, Sequence[Word], Unit, str | None], Entry | None]


def entry_of(unit: Unit, home: str | None) -> Entry | None:
    """The entry that ``unit`` falls under by its words."""
    if not unit.argv:
        return None
    for name in _names(unit):
        check = _CHECKS.get(name) or _by_beginning(name)
        found = check(name, unit.argv[1:], unit, home) if check else None
        if found is not None:
            return found
    return None


def _names(unit: Unit) -> tuple[str, ...]:
    if unit.guess is None:
        return ()
    if not any(piece.kind == "glob" for piece in unit.argv[0].pieces) or unit.guess == "[":
        return (unit.guess,)
    return tuple(name for name in sorted(table.FLOOR_NAMES) if fnmatch.fnmatchcase(name, unit.guess))


def _by_beginning(name: str) -> Check | None:
    return _format if name.startswith(table.FORMAT_BEGINNINGS) else None


def _rm(_name: str, words: Sequence[Word], unit: Unit, home: str | None) -> Entry | None:
    recursive = False
    operands: list[Word] = []
    ended = False
    for word in words:
        text = _known(word)
        if ended or len(text) < 2 or text[0] != "-":
            operands.append(word)
        elif text == "--":
            ended = True
        elif text.startswith("--"):
            recursive = recursive or (len(text) > 2 and "--recursive".startswith(text))
        else:
            recursive = recursive or "r" in text or "R" in text
    if not recursive:
        return None
    entries = [deleted(word, unit.cwd, home) for word in operands]
    return next((entry for entry in entries if entry is not None), None)


def _known(word: Word) -> str:
    """The word without what is not known: an unset variable before an option leaves the option."""
    return word.text if word.known else "".join(piece.text for piece in word.pieces if piece.kind != "unknown")


def _find(_name: str, words: Sequence[Word], unit: Unit, home: str | None) -> Entry | None:
    place = 0
    while place < len(words) and words[place].text in {"-H", "-L", "-P", "-E", "-X", "-d", "-s", "-x"}:
        place += 1
    roots: list[Word] = []
    while place < len(words) and words[place].text[:1] not in {"-", "(", "!", ","}:
        roots.append(words[place])
        place += 1
    if not _deletes_all(words[place:]):
        return None
    if not roots:
        roots = [Word.of(".")]
    entries = [deleted(word, unit.cwd, home) for word in roots]
    return next((entry for entry in entries if entry is not None), None)


def _deletes_all(expression: Sequence[Word]) -> bool:
    """Whether the expression deletes, and has nothing that spares a file."""
    deletes = False
    place = 0
    while place < len(expression):
        text = expression[place].text
        following = expression[place + 1].text if place + 1 < len(expression) else ""
        if text in _FIND_ACTIONS:
            place, deleting = _action(expression, place + 1)
            deletes = deletes or deleting
            continue
        deletes = deletes or text == "-delete"
        if text in _FIND_WIDE:
            place += 1
        elif text in _FIND_WIDE_VALUES or (text == "-maxdepth" and following != "0"):
            place += 2
        elif text in {"!", "-not"} and following in _FIND_STARS:
            place += 3
        elif text in _FIND_STARS and (following in {"*", "/*"} or _prunes(expression, place)):
            place += 3 if _prunes(expression, place) else 2
        else:
            return False
    return deletes


def _prunes(expression: Sequence[Word], place: int) -> bool:
    return place + 2 < len(expression) and expression[place + 2].text == "-prune"


def _action(expression: Sequence[Word], place: int) -> tuple[int, bool]:
    """The place after an ``-exec``, and whether its command deletes what was found."""
    texts: list[str] = []
    while place < len(expression) and expression[place].text not in {";", "+"}:
        texts.append(expression[place].text.rpartition("/")[2])
        place += 1
    deleting = any(text in _DELETERS for text in texts) or any(" rm " in f" {text} " for text in texts)
    return place + 1, deleting


def _dd(_name: str, words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    return table.RAW_WRITE if any(device_word(word, "of=") for word in words) else None


def _tee(_name: str, words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    return table.RAW_WRITE if any(device_word(word) for word in words) else None


def _copy(_name: str, words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    operands = [word for word in words if not word.text.startswith("-")]
    aimed = operands[-1:] if len(operands) > 1 else []
    return table.RAW_WRITE if any(device_word(word) for word in aimed) else None


def _wipe(name: str, words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    texts = {word.text for word in words}
    if name == "wipefs" and (not texts & {"-a", "--all", "-o", "--offset", "-af", "-fa"} or texts & {"-n", "--no-act"}):
        return None
    return table.RAW_WRITE if any(device_word(word) for word in words) else None


def _format(_name: str, words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    texts = [word.text for word in words]
    return None if texts and all(text in {"--help", "--version", "-V"} for text in texts) else table.FORMAT


def _power(_name: str, words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    texts = [word.text for word in words]
    return None if texts and all(text in table.POWER_ANSWERS for text in texts) else table.POWER


def _init(_name: str, words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    options = read_options(words, frozenset({"-t"}), None)
    operands = [word.text for word in words[options.first :]]
    return table.POWER if operands[:1] in (["0"], ["6"]) else None


def _systemctl(_name: str, words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    operands: list[str] = []
    place = 0
    while place < len(words):
        text = words[place].text
        if text in _SYSTEMCTL_TAKES:
            place += 1
        elif not text.startswith("-"):
            operands.append(text)
        place += 1
    verb = operands[0] if operands else ""
    started = verb in {"start", "isolate"} and any(text in table.POWER_TARGETS for text in operands[1:])
    return table.POWER if verb in table.POWER_VERBS or started else None


def _kill(_name: str, words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
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
        place = 1
        if texts[0].startswith("--signal="):
            place = 1
        if texts[1:2] == ["--"]:
            place = 2
    return table.KILL_ALL if any(_EVERYBODY.fullmatch(text) for text in texts[place:]) else None


def _killall5(_name: str, _words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    return table.KILL_ALL


def _table(names: frozenset[str], check: Check) -> dict[str, Check]:
    return dict.fromkeys(names, check)


_CHECKS: dict[str, Check] = {
    **_table(table.REMOVERS, _rm),
    **_table(frozenset({"find", "gfind", "bfs"}), _find),
    **_table(frozenset({"dd", "gdd", "dcfldd", "ddrescue"}), _dd),
    **_table(table.TEES, _tee),
    **_table(table.COPIERS, _copy),
    **_table(table.WIPERS, _wipe),
    **_table(table.FORMAT_NAMES, _format),
    **_table(table.POWER_NAMES, _power),
    **_table(frozenset({"init", "telinit"}), _init),
    **_table(frozenset({"systemctl", "loginctl"}), _systemctl),
    **_table(frozenset({"kill", "gkill"}), _kill),
    **_table(table.KILL_ALL_NAMES, _killall5),
}
