"""The little languages of ``awk`` and ``sed``: which programs of them run a command or write a file.

Owns: finding the programs among the arguments and a careful look at them. What is not surely harmless is a door.
"""

import re
from collections.abc import Sequence

from ..values.model import Requirement, Word

_AWK_TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<note>#[^\n]*)|(?P<word>[A-Za-z_]\w*|[\d.]+)|(?P<blank>[ \t]+)|(?P<other>.|\n)'
)
_AWK_BEFORE_REGEX = frozenset({"print", "printf", "return", "in", "case", "else", "do", "getline", "BEGIN", "END"})
_AWK_CALLS = re.compile(r"\bsystem\s*\(|@\w|\bgetline\b")
"""Looked for in strings and patterns too: what they are is not sure."""
_AWK_RUNS = re.compile(r"(?<!\|)\|(?!\|)|\|&")
_AWK_GROUP = re.compile(r"\([^()]*\)")
_AWK_ELSEWHERE = (
    "-f",
    "--file",
    "-E",
    "--exec",
    "-i",
    "--include",
    "-l",
    "--load",
    "-e",
    "--source",
    "-D",
    "--debug",
    "-W",
)
_AWK_REPORTS = ("-p", "--profile", "-o", "--pretty", "-d", "--dump")
_AWK_WRITES = re.compile(r"\bprintf?\b[^;{}\n]*>")
_DEPTH = 8
"""Parentheses of an awk program that are looked into."""
_SED_ADDRESS = re.compile(r"(?:\d+(?:~\d+)?|\$|\+\d+|~\d+)")


def awk_doors(argv: Sequence[Word]) -> list[Requirement]:
    """Doors of an awk command line."""
    found: list[Requirement] = []
    program = _awk_program(argv, found)
    if program is None:
        return found
    if not program.known:
        found.append(Requirement("command", None, "an awk program that is not literal"))
    text = program.text.replace("\\\n", "")
    calls = _AWK_CALLS.search(text)
    text = _awk_bare(text)
    if calls or _AWK_RUNS.search(text):
        found.append(Requirement("command", None, "an awk program that runs commands"))
    for _ in range(_DEPTH):
        text = _AWK_GROUP.sub(" ", text)
    if _AWK_WRITES.search(text):
        found.append(Requirement("write_file", None, "an awk program that writes files"))
    return found


def _awk_bare(text: str) -> str:
    """The program without its strings, patterns and comments."""
    bare: list[str] = []
    before = ""
    place = 0
    open_end = False
    while place < len(text):
        if text[place] == "/" and not _ends_operand(before) and not open_end:
            end = _part(text, place + 1, "/", brackets=True)
            open_end = end < 0
            if not open_end and "\n" not in text[place:end]:
                place, before = end + 1, '"'
                bare.append('""')
                continue
        token = _AWK_TOKEN.match(text, place)
        if token is None:
            break
        if text[place] == '"' and token.lastgroup != "text":
            # a string that does not end: it is no program, or not what it seems
            return "|"
        place = token.end()
        if token.lastgroup == "text":
            bare.append('""')
            before = '"'
        elif token.lastgroup != "note":
            bare.append(token.group())
            before = before if token.lastgroup == "blank" else token.group()
    return "".join(bare)


def _ends_operand(token: str) -> bool:
    """Whether a slash after ``token`` divides."""
    return token[-1:] in {")", "]", '"', "$"} or (token[-1:].isalnum() and token not in _AWK_BEFORE_REGEX)


def _awk_program(argv: Sequence[Word], found: list[Requirement]) -> Word | None:
    place = 1
    while place < len(argv):
        text = argv[place].text
        if text == "--":
            return argv[place + 1] if place + 1 < len(argv) else None
        if not text.startswith("-") or text == "-":
            return argv[place]
        if text.startswith(_AWK_ELSEWHERE):
            found.append(Requirement("command", None, "an awk program from elsewhere"))
        elif text.startswith(_AWK_REPORTS):
            found.append(Requirement("write_file", None, "an awk report"))
        place += 2 if text in {"-v", "-F", "-f", "-e", "-i", "-l", "-E", "--assign", "--field-separator"} else 1
    return None


def sed_doors(argv: Sequence[Word]) -> list[Requirement]:
    """Doors of a sed command line: ``e``, ``w`` and ``r`` in its scripts, files edited in place."""
    found: list[Requirement] = []
    scripts: list[Word] = []
    files: list[Word] = []
    in_place = False
    place = 1
    while place < len(argv):
        taken, kind, script = _sed_option(argv, place)
        place += taken
        in_place = in_place or kind == "in-place"
        if kind == "in-place" and "/" in argv[place - taken].text:
            found.append(Requirement("write_file", None, "sed -i"))
        if kind == "script" and script is not None:
            scripts.append(script)
        elif kind == "file":
            found.append(Requirement("command", None, "a sed script from a file"))
        elif kind == "operand":
            files.append(argv[place - 1])
    if not scripts and files and not any(door.reason.startswith("a sed script from") for door in found):
        scripts.append(files.pop(0))
    if in_place:
        found.extend(Requirement("write_file", word.text if word.literal else None, "sed -i") for word in files)
    for word in scripts:
        found.extend(_sed_script(word))
    return found


def _sed_option(argv: Sequence[Word], place: int) -> tuple[int, str, Word | None]:
    text = argv[place].text
    following = argv[place + 1] if place + 1 < len(argv) else None
    name, equals, value = text.partition("=")
    if not text.startswith("-") or text == "-":
        return 1, "operand", None
    if text.startswith("--"):
        return _sed_long(name, value if equals else None, argv[place], following)
    for at, letter in enumerate(text[1:], start=1):
        if letter in "ef":
            rest = text[at + 1 :]
            script = Word.of(rest, literal=argv[place].literal) if rest else following
            return (1 if rest else 2), ("script" if letter == "e" else "file"), script
        if letter in "iI":
            return 1, "in-place", None
        if letter == "l":
            return (1 if text[at + 1 :] else 2), "flag", None
    return 1, "flag", None


def _sed_long(name: str, value: str | None, word: Word, following: Word | None) -> tuple[int, str, Word | None]:
    for full, kind in (("--expression", "script"), ("--file", "file"), ("--in-place", "in-place")):
        if full.startswith(name) and len(name) > 3:
            if kind == "in-place" or value is not None:
                return 1, kind, Word.of(value or "", literal=word.literal)
            return 2, kind, following
    return 1, "flag", None


def _sed_script(word: Word) -> list[Requirement]:
    """Both readings of a delimiter in brackets: releases differ."""
    if not word.known:
        return [Requirement("command", None, "a sed script that is not literal")]
    found = _sed_commands(word.text, brackets=True)
    return found if found or "[" not in word.text else _sed_commands(word.text, brackets=False)


def _sed_commands(text: str, *, brackets: bool) -> list[Requirement]:
    found: list[Requirement] = []
    i = 0
    while i < len(text):
        i = _sed_skip(text, i, brackets)
        if i >= len(text):
            break
        command = text[i]
        i += 1
        if command in "sy":
            i, flags = _sed_substitution(text, i, brackets and command == "s")
            if i < 0:
                return [*found, Requirement("command", None, "a sed script that is not understood")]
            found.extend(_sed_flags(flags if command == "s" else ""))
        elif command == "e":
            found.append(Requirement("command", None, "a sed script that runs commands"))
            i = _line_end(text, i)
        elif command in "wW":
            found.append(Requirement("write_file", text[i : _line_end(text, i)].strip() or None, "sed w"))
            i = _line_end(text, i)
        elif command in "rR":
            found.append(Requirement("read_file", text[i : _line_end(text, i)].strip() or None, "sed r"))
            i = _line_end(text, i)
        elif command in "aic":
            i = _sed_text_end(text, i)
        elif command == "#":
            i = _line_end(text, i)
        elif command in ":btT":
            i = _sed_label(text, i)
    return found


def _sed_text_end(text: str, i: int) -> int:
    """The end of what ``a``, ``i`` and ``c`` add: lines whose end is escaped go on."""
    end = _line_end(text, i)
    while end < len(text):
        start = end
        while start > i and text[start - 1] == "\\":
            start -= 1
        if (end - start) % 2 == 0:
            break
        end = _line_end(text, end + 1)
    return end


def _sed_label(text: str, i: int) -> int:
    while i < len(text) and text[i] in " \t":
        i += 1
    while i < len(text) and text[i] not in " \t\n;}":
        i += 1
    return i


def _sed_skip(text: str, i: int, brackets: bool) -> int:
    """Steps over blanks, separators and addresses."""
    while i < len(text):
        number = _SED_ADDRESS.match(text, i)
        if text[i] in " \t\n;{},!I":
            i += 1
        elif number:
            i = number.end()
        elif text[i] == "/" or (text[i] == "\\" and i + 1 < len(text)):
            start = i if text[i] == "/" else i + 1
            end = _part(text, start + 1, text[start], brackets)
            if end < 0:
                return len(text)
            i = end + 1
        else:
            break
    return i


def _part(text: str, i: int, delimiter: str, brackets: bool) -> int:
    """The place of the next unescaped ``delimiter``, -1 when there is none. ``brackets``: none counts in brackets."""
    while i < len(text):
        if text[i] == "\\":
            i += 2
            continue
        if text[i] == delimiter:
            return i
        end = _bracket_end(text, i) if brackets and text[i] == "[" else i + 1
        brackets = brackets and end > 0
        i = end if end > 0 else i + 1
    return -1


def _bracket_end(text: str, i: int) -> int:
    """The place behind the bracket expression that begins at ``i``, -1 when it does not end."""
    if text.find("]", i + 1) < 0:
        return -1
    i += 2 if text.startswith("^", i + 1) else 1
    i += text.startswith("]", i)
    while i < len(text):
        if text[i] == "]":
            return i + 1
        if text[i] == "[" and text[i + 1 : i + 2] in {":", ".", "="}:
            i = text.find(text[i + 1] + "]", i + 2) + 1
            if not i:
                return -1
        i += 1
    return -1


def _sed_substitution(text: str, i: int, brackets: bool) -> tuple[int, str]:
    if i >= len(text):
        return -1, ""
    delimiter = text[i]
    middle = _part(text, i + 1, delimiter, brackets)
    end = _part(text, middle + 1, delimiter, brackets=False) if middle >= 0 else -1
    if end < 0:
        return -1, ""
    stop = end + 1
    while stop < len(text) and text[stop] not in ";}\n":
        stop += 1
        if text[stop - 1] == "w":
            stop = _line_end(text, stop)
    return stop, text[end + 1 : stop]


def _sed_flags(flags: str) -> list[Requirement]:
    head, write, target = flags.partition("w")
    found = []
    if "e" in head:
        found.append(Requirement("command", None, "a sed substitution that runs its result"))
    if write:
        found.append(Requirement("write_file", target.strip() or None, "sed s///w"))
    return found


def _line_end(text: str, i: int) -> int:
    end = text.find("\n", i)
    return len(text) if end < 0 else end
