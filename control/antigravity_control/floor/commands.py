"""One unit against the entries: what each dangerous command looks like, option by option.

Owns: the reading of ``rm``, ``find``, ``dd`` and their kin; ``power.py`` has those that stop the machine. Pure.
"""

import fnmatch
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..shell import Unit, Word
from . import power, table
from .table import Entry
from .targets import deleted, device_word, sysrq

_FIND_WIDE = frozenset({"-depth", "-d", "-xdev", "-mount", "-noleaf", "-ignore_readdir_race", "-noignore_readdir_race",
                        "-print", "-print0", "-ls", "-true", "-follow", "-daystart", "-a", "-and", "-o", "-or",
                        "-delete", "(", ")", ",", "-warn", "-nowarn", "-X", "-x", "-s", "-f", "-readable", "-writable",
                        "-executable"})  # fmt: skip
"""Parts of an expression that leave nothing out."""
_FIND_WIDE_VALUES = frozenset({"-mindepth", "-type", "-printf", "-fprint", "-fprint0", "-fls"})
_FIND_STARS = frozenset({"-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex"})
_FIND_ANY = frozenset({"*", "/*", "**", ".*", ".+", "/.*", "/.+"})
_FIND_OPTION = re.compile(r"-[HLPEXdsx]+|-O\d?|-D|--")
_FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FD_EXEC = frozenset({"-x", "--exec", "-X", "--exec-batch"})
_DELETERS = frozenset({"rm", "grm", "shred", "unlink", "rmdir", "srm"})
Check = Callable[[str, Sequence[Word], Unit, str | None], Entry | None]


def entry_of(unit: Unit, home: str | None) -> Entry | None:
    """The entry that ``unit`` falls under by its words."""
    if not unit.argv:
        return None
    if unit.argv[0].text.startswith("-"):
        # options of a ``time`` that this shell does not have: the command stands behind them
        first = next((place for place, word in enumerate(unit.argv) if word.text[:1] != "-"), len(unit.argv))
        later = [_from(unit, place) for place in (first, first + 1) if place < len(unit.argv)]
        return next((entry for one in later if one.argv[0].text[:1] != "-" and (entry := entry_of(one, home))), None)
    for name in _names(unit):
        check = _CHECKS.get(name) or _by_beginning(name)
        found = check(name, unit.argv[1:], unit, home) if check else None
        if found is not None:
            return found
    return None


def _from(unit: Unit, place: int) -> Unit:
    return replace(unit, argv=unit.argv[place:])


def _names(unit: Unit) -> tuple[str, ...]:
    if unit.guess is None:
        return ()
    if not any(piece.kind == "glob" for piece in unit.argv[0].pieces) or unit.guess == "[":
        return (unit.guess,)
    return tuple(name for name in sorted(table.FLOOR_NAMES) if fnmatch.fnmatchcase(name, unit.guess))


def _by_beginning(name: str) -> Check | None:
    beginning = name.startswith(table.FORMAT_BEGINNINGS)
    return _format if beginning and name.rpartition(".")[2] not in table.FILE_ENDINGS else None


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
    while place < len(words) and _FIND_OPTION.fullmatch(words[place].text):
        place += 2 if words[place].text == "-D" else 1
    roots: list[Word] = []
    while words[place : place + 1] and words[place].text == "-f":
        roots.extend(words[place + 1 : place + 2])
        place += 2
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
        elif text in _FIND_STARS and (following in _FIND_ANY or _prunes(expression, place)):
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


def _fd(_name: str, words: Sequence[Word], unit: Unit, home: str | None) -> Entry | None:
    """``fd . / -x rm``: everything under a folder handed to a deleting command."""
    place = next((place for place, word in enumerate(words) if word.text in _FD_EXEC), len(words))
    command = [word.text.rpartition("/")[2] for word in words[place + 1 :]]
    operands = [word for word in words[:place] if not word.text.startswith("-")]
    if not command or command[0] not in _DELETERS or (operands and operands[0].text not in {"", "."} | _FIND_ANY):
        return None
    entries = [deleted(word, unit.cwd, home) for word in operands[1:] or [Word.of(".")]]
    return next((entry for entry in entries if entry is not None), None)


def _dd(_name: str, words: Sequence[Word], unit: Unit, _home: str | None) -> Entry | None:
    return table.RAW_WRITE if any(device_word(word, "of=", unit.cwd) for word in words) else None


def _tee(_name: str, words: Sequence[Word], unit: Unit, _home: str | None) -> Entry | None:
    if any(sysrq(word) for word in words):
        return table.POWER
    return table.RAW_WRITE if any(device_word(word, cwd=unit.cwd) for word in words) else None


def _copy(_name: str, words: Sequence[Word], unit: Unit, _home: str | None) -> Entry | None:
    operands = [word for word in words if not word.text.startswith("-")]
    aimed = operands[-1:] if len(operands) > 1 else []
    return table.RAW_WRITE if any(device_word(word, cwd=unit.cwd) for word in aimed) else None


def _wipe(name: str, words: Sequence[Word], unit: Unit, _home: str | None) -> Entry | None:
    texts = {word.text for word in words}
    if name == "wipefs" and (not texts & {"-a", "--all", "-o", "--offset", "-af", "-fa"} or texts & {"-n", "--no-act"}):
        return None
    return table.RAW_WRITE if any(device_word(word, cwd=unit.cwd) for word in words) else None


def _format(_name: str, words: Sequence[Word], _unit: Unit, _home: str | None) -> Entry | None:
    texts = [word.text for word in words]
    return None if texts and all(text in {"--help", "--version", "-V"} for text in texts) else table.FORMAT


def _table(names: frozenset[str], check: Check) -> dict[str, Check]:
    return dict.fromkeys(names, check)


_CHECKS: dict[str, Check] = {
    **_table(table.REMOVERS, _rm),
    **_table(frozenset({"find", "gfind", "bfs"}), _find),
    **_table(frozenset({"fd", "fdfind"}), _fd),
    **_table(frozenset({"dd", "gdd", "dcfldd", "dc3dd"}), _dd),
    **_table(table.TEES, _tee),
    **_table(table.COPIERS, _copy),
    **_table(table.WIPERS, _wipe),
    **_table(table.FORMAT_NAMES, _format),
    **_table(table.POWER_NAMES, power.power),
    **_table(frozenset({"init", "telinit"}), power.init),
    **_table(frozenset({"systemctl", "loginctl"}), power.systemctl),
    **_table(table.MESSENGERS, power.message),
    "osascript": power.spoken,
    "kexec": power.kexec,
    **_table(frozenset({"kill", "gkill"}), power.kill),
    **_table(table.KILL_ALL_NAMES, power.killall5),
}
