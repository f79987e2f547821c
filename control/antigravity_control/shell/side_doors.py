"""Options and operands of common tools that run a program or write a file beside what the tool is for.

Owns: the table and its reading. ``needs`` is what a unit needs besides itself; ``touches`` names the files its
operands probably mean. A door with no literal target has the target None.
"""

from collections.abc import Sequence

from .doors import DOORS, GIT, GIT_GLOBAL_RUNS, GIT_GLOBAL_TAKES, GIT_RUNNING, SSH_RUNS, Doors
from .model import Requirement, Word
from .scripts import awk_doors, sed_doors

_GENERIC_WRITES = frozenset({"--output", "--output-file", "--outfile", "--out-file", "--log-file", "--logfile"})
_WRITERS = frozenset(
    {"tee", "sponge", "rm", "mv", "touch", "mkdir", "rmdir", "truncate", "shred", "unlink", "chmod", "chown", "chgrp",
     "ln", "cp", "install", "rsync", "mktemp", "mkfifo", "mknod", "setfacl", "patch", "split", "csplit"}
)  # fmt: skip
_TEXT_TOOLS = frozenset({"echo", "printf", "true", "false", ":", "test", "[", "kill", "sleep", "exit", "export", "set"})


def needs(name: str, argv: Sequence[Word]) -> tuple[Requirement, ...]:
    """What this unit needs beside the permission to run its command."""
    found = _scan(name, DOORS.get(name, Doors()), argv[1:])
    special = _OPERANDS.get(name)
    if special is not None:
        found.extend(special(argv))
    return tuple(found)


def _scan(name: str, doors: Doors, words: Sequence[Word]) -> list[Requirement]:
    found: list[Requirement] = []
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else None
        door = _door(name, doors, word, following)
        if door is not None:
            found.append(door)
    return found


def _door(name: str, doors: Doors, word: Word, following: Word | None) -> Requirement | None:
    text = word.text
    if text in doors.words or (doors.starts and text.startswith(doors.starts)):
        return Requirement("write_file" if text == "-delete" else "command", None, f"{name} {_shown(text)}")
    if not text.startswith("-"):
        return None
    option, equals, value = text.partition("=")
    if _named(option, equals, doors.runs):
        return Requirement("command", None, f"{name} {_shown(option)}")
    if _named(option, equals, doors.writes) or option in _GENERIC_WRITES:
        return _write(name, option, Word.of(value, literal=word.literal) if equals else following)
    return _attached(name, word, doors, following)


def _write(name: str, option: str, target: Word | None) -> Requirement | None:
    if target is not None and target.text == "-":
        return None
    return Requirement("write_file", target.text if target and target.literal else None, f"{name} {_shown(option)}")


def _named(option: str, equals: str, names: frozenset[str]) -> bool:
    """Whether ``option`` is one of ``names``, also shortened as long options may be."""
    if option in names or (equals and option + "=" in names):
        return True
    return len(option) > 4 and option.startswith("--") and any(name.rstrip("=").startswith(option) for name in names)


def _attached(name: str, word: Word, doors: Doors, following: Word | None) -> Requirement | None:
    """A short option inside a cluster or with its value attached: ``-Ifoo``, ``-uo x``."""
    text = word.text
    if text.startswith("--") or len(text) < 3:
        return None
    for place in range(1, len(text) if doors.cluster else 2):
        option = "-" + text[place]
        if option in doors.runs:
            return Requirement("command", None, f"{name} {option}")
        if option in doors.writes:
            rest = text[place + 1 :]
            return _write(name, option, Word.of(rest, literal=word.literal) if rest else following)
        if text[place] in doors.stops:
            return None
    return None


def _git(argv: Sequence[Word]) -> list[Requirement]:
    found: list[Requirement] = []
    place = 1
    while place < len(argv) and argv[place].text.startswith("-"):
        option, equals, _ = argv[place].text.partition("=")
        if option in GIT_GLOBAL_RUNS or (equals and option + "=" in GIT_GLOBAL_RUNS):
            found.append(Requirement("command", None, f"git {_shown(option)}"))
        place += 2 if option in GIT_GLOBAL_TAKES and not equals else 1
    if place < len(argv):
        verb = argv[place].text
        if verb in GIT_RUNNING:
            found.append(Requirement("command", None, f"git {verb}"))
        doors = GIT.get(verb, Doors())
        found.extend(_scan(f"git {_shown(verb)}", doors, argv[place + 1 :]))
    return found


def _ssh(argv: Sequence[Word]) -> list[Requirement]:
    found: list[Requirement] = []
    for place, word in enumerate(argv[1:], start=1):
        following = argv[place + 1].text if place + 1 < len(argv) else ""
        setting = following if word.text == "-o" else word.text[2:] if word.text.startswith("-o") else ""
        if setting.strip().lower().startswith(SSH_RUNS) or word.text[:2] in {"-F", "-S"}:
            found.append(Requirement("command", None, f"{argv[0].text} {_shown(word.text[:2])}"))
    return found


def _tar(argv: Sequence[Word]) -> list[Requirement]:
    """The first operand may be a cluster of options without a hyphen."""
    first = argv[1].text if len(argv) > 1 else ""
    if not first.startswith("-") and any(letter in first for letter in "IF") and first.isalpha():
        return [Requirement("command", None, f"tar {_shown(first)}")]
    return []


def _shown(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"


def _dd(argv: Sequence[Word]) -> list[Requirement]:
    found: list[Requirement] = []
    for word in argv[1:]:
        name, equals, value = word.text.partition("=")
        target = value if word.literal else None
        if equals and name == "of":
            found.append(Requirement("write_file", target, "dd of="))
        elif equals and name == "if":
            found.append(Requirement("read_file", target, "dd if="))
    return found


def _tee(argv: Sequence[Word]) -> list[Requirement]:
    return [
        Requirement("write_file", word.text if word.literal else None, "tee")
        for word in argv[1:]
        if not word.text.startswith("-")
    ]


def _wget(argv: Sequence[Word]) -> list[Requirement]:
    named = any(word.text.startswith(("-O", "--output-d", "-qO")) for word in argv)
    return [] if named else [Requirement("write_file", None, "wget writes a file of the server's name")]


def _uniq(argv: Sequence[Word]) -> list[Requirement]:
    operands = [word for word in argv[1:] if not word.text.startswith("-")]
    return [Requirement("write_file", word.text if word.literal else None, argv[0].text) for word in operands[1:2]]


_OPERANDS = {
    "dd": _dd, "tee": _tee, "sponge": _tee, "wget": _wget, "uniq": _uniq, "awk": awk_doors, "gawk": awk_doors,
    "mawk": awk_doors, "nawk": awk_doors, "original-awk": awk_doors, "sed": sed_doors, "gsed": sed_doors, "git": _git,
    "ssh": _ssh, "scp": _ssh, "sftp": _ssh, "tar": _tar, "gtar": _tar, "bsdtar": _tar,
}  # fmt: skip


def touches(name: str, argv: Sequence[Word]) -> tuple[Requirement, ...]:
    """Files that the operands probably name. At most 256 of them."""
    if name in _TEXT_TOOLS:
        return ()
    action = "write_file" if name in _WRITERS else "read_file"
    found: list[Requirement] = []
    for word in argv[1:257]:
        text = word.text
        if text.startswith("-"):
            text = text.partition("=")[2]
        if text and (word.known or word.literal) and "\n" not in text:
            found.append(Requirement("write_file" if action == "write_file" else "read_file", text, name))
    return tuple(found)
