"""Options of common tools that run a program or write a file beside what the tool is for.

Owns: the reading of the table in ``doors.py``. ``needs`` is what a unit needs besides itself. A door with no literal
target has the target None.
"""

from collections.abc import Sequence

from ..values.model import Requirement, Word
from .doors import DOORS, NONE, Doors
from .git_doors import git_doors
from .operand_doors import OPERANDS, shown

_GENERIC_WRITES = frozenset({"--output", "--output-file", "--outfile", "--out-file", "--log-file", "--logfile"})
_PYTHONS = ("python", "pypy")
_FORMATS = frozenset(
    {"kubectl", "oc", "aws", "az", "helm", "gcloud", "gh", "docker", "terraform", "pip", "poetry", "uv"}
)
"""Tools whose ``--output`` names a format."""
_VERBS_FIRST = frozenset({"npm", "gh"})
"""Tools whose subcommand is the first operand: later the same word is a name."""
_WHOLE = frozenset({"--cookie", "--log", "--no"})
"""Options that are no beginning of a longer one."""


def needs(name: str, argv: Sequence[Word]) -> tuple[Requirement, ...]:
    """What this unit needs beside the permission to run its command."""
    found = scan(name, DOORS.get(name, NONE), argv[1:])
    if name == "git":
        found.extend(git_doors(argv, scan))
    special = OPERANDS.get(name)
    if special is not None:
        found.extend(special(argv))
    if name.startswith(_PYTHONS):
        module = _module(argv)
        found.extend(needs(module[0].text, module) if module else ())
    return tuple(found)


def _module(argv: Sequence[Word]) -> Sequence[Word]:
    """The words from a Python module on that is run as a program: ``python -m pytest -p x``."""
    for place, word in enumerate(argv[1:], start=1):
        if word.text == "-m":
            return argv[place + 1 :]
        if not word.text.startswith("-"):
            break
    return ()


def scan(name: str, doors: Doors, words: Sequence[Word]) -> list[Requirement]:
    found: list[Requirement] = []
    verb = _verbs_end(words) if name in _VERBS_FIRST else len(words)
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else None
        if place >= verb and word.text in doors.words:
            continue
        door = _door(name, doors, word, following)
        if door is not None:
            found.append(door)
    return found


def _verbs_end(words: Sequence[Word]) -> int:
    """The place from which on no word is the subcommand any more: one has gone before it that is no option's value."""
    for place, word in enumerate(words):
        known = not word.text.startswith("-") and word.known
        if known and not (place and words[place - 1].text.startswith("-")):
            return place + 1
    return len(words)


def _door(name: str, doors: Doors, word: Word, following: Word | None) -> Requirement | None:
    text = word.text
    if text in doors.words or (doors.starts and text.startswith(doors.starts)):
        return Requirement("write_file" if text == "-delete" else "command", None, f"{name} {shown(text)}")
    if not text.startswith("-"):
        return None
    option, equals, value = text.partition("=")
    if _named(option, equals, doors.runs):
        return _run(name, option, value if equals else following.text if following is not None else "", doors)
    if _named(option, equals, doors.writes) or (name not in _FORMATS and option in _GENERIC_WRITES):
        return _write(name, option, Word.of(value, literal=word.literal) if equals else following)
    return _attached(name, word, doors, following)


def _run(name: str, option: str, value: str, doors: Doors) -> Requirement | None:
    """``pytest -p no:cacheprovider`` runs nothing, ``pytest -p x`` does."""
    if doors.harmless and value.startswith(doors.harmless):
        return None
    return Requirement("command", None, f"{name} {shown(option)}")


def _write(name: str, option: str, target: Word | None) -> Requirement | None:
    if target is not None and (target.text == "-" or target.pipe):
        return None
    return Requirement("write_file", target.text if target and target.literal else None, f"{name} {shown(option)}")


def _named(option: str, equals: str, names: frozenset[str]) -> bool:
    """Whether ``option`` is one of ``names``, also shortened as long options may be."""
    if option in names or (equals and option + "=" in names):
        return True
    if option in _WHOLE:
        return False
    return len(option) > 2 and option.startswith("--") and any(name.rstrip("=").startswith(option) for name in names)


def _attached(name: str, word: Word, doors: Doors, following: Word | None) -> Requirement | None:
    """A short option inside a cluster or with its value attached: ``-Ifoo``, ``-uo x``."""
    text = word.text
    if text.startswith("--") or len(text) < 3:
        return None
    for place in range(1, len(text) if doors.cluster else 2):
        option = "-" + text[place]
        if option in doors.runs:
            rest = text[place + 1 :]
            return _run(name, option, rest or (following.text if following is not None else ""), doors)
        if option in doors.writes:
            rest = text[place + 1 :]
            return _write(name, option, Word.of(rest, literal=word.literal) if rest else following)
        if text[place] in doors.stops:
            return None
    return None
