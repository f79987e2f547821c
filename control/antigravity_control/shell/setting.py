"""Commands that set a variable without an assignment, and those that read a word as an expression.

Owns: which names they set, and where an array index or a number in their words would be worked out by the shell: that
runs what a substitution in it says. Pure.
"""

import re
from collections.abc import Iterator, Sequence

from .text.ast import Compound, Param, Text
from .text.budget import Budget
from .values.model import Word

_NAME = re.compile(r"[A-Za-z_]\w*")
_OPERANDS = frozenset({"read", "mapfile", "readarray", "getopts", "unset", "let"})
_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})
COMMANDS = _OPERANDS | _DECLARING | {"printf", "wait", "test", "[", "set"}
_TAKES = {"read": "dinNptu", "mapfile": "dnOsuCc", "readarray": "dnOsuCc"}
"""Short options with an operand that is no name."""
_COMPARING = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"})
_COUNTS = frozenset({"?", "#", "$", "!"})
_INDEXED = re.compile(r"\[(?:\d+|[@*])\]\+?\Z")
_SET = re.compile(r"\A[A-Za-z_]\w*=(?!=)")
_NUMBER = re.compile(r"[\s\d:+-]*")
_DIGITS = re.compile(r"-?\d*")


def names(command: str, argv: Sequence[Word]) -> list[str]:
    """Variables that ``command`` sets or takes away."""
    found = (_NAME.match(word.text) for word in _places(command, argv))
    return [match.group() for match in found if match]


def computes(command: str, argv: Sequence[Word]) -> str | None:
    """Why the shell would work out a word that nobody has seen, None when it would not."""
    if any(not _named(word) for word in _places(command, argv)):
        return "a variable whose name is not literal"
    if command == "let" and any(_NAME.search(_SET.sub("", word.text)) for word in argv[1:]):
        return "arithmetic expansion"
    if command in _DECLARING and any(re.match(r"[-+][a-zA-Z]*[in]", word.text) for word in argv[1:]):
        return "a variable that is worked out when it is set"
    if command == "set" and any(_keyword(word.text, following.text) for word, following in _pairs(argv)):
        return "an option of the shell that changes how words are read"
    return None


def note_test(node: Compound, budget: Budget) -> None:
    """What ``[[ … ]]`` and ``(( … ))`` mean for the line."""
    if _holds_code(node):
        budget.ask("a test may run what an operand of it holds")
    if _tested(node):
        budget.exact("arithmetic expansion")


def _tested(node: Compound) -> bool:
    """Whether ``[[ … ]]`` compares numbers that are not written there."""
    marked = [word.unquoted() for word in node.words]
    if not any(text in _COMPARING for text in marked):
        return False
    for place, word in enumerate(node.words):
        near = {*marked[max(0, place - 1) : place], *marked[place + 1 : place + 2]} & _COMPARING
        if near and marked[place] not in _COMPARING and not all(_counted(part) for part in word.parts):
            return True
    return False


def _holds_code(node: Compound) -> bool:
    """Whether an operand of ``[[ … ]]`` has a substitution in quotes."""
    texts = (part.value for word in node.words for part in word.parts if isinstance(part, Text))
    return any("$(" in text or "`" in text for text in texts)


def indexed(part: Param) -> bool:
    """Whether an expansion works out an index or a place: ``${x[i]}``, ``${x:i}``."""
    if "[" in part.name:
        inside = part.name.partition("[")[2].rstrip("]")
        if inside not in {"@", "*"} and not _DIGITS.fullmatch(inside):
            return True
    return part.op == ":" and not all(
        _NUMBER.fullmatch(each.value) if isinstance(each, Text) else _counted(each) for each in part.operand
    )


def _counted(part: object) -> bool:
    if isinstance(part, Text):
        return _DIGITS.fullmatch(part.value) is not None
    return isinstance(part, Param) and (part.name in _COUNTS or part.name.startswith("#")) and not part.op


def _named(word: Word) -> bool:
    """Whether the part of ``word`` that names a variable is known."""
    for piece in word.pieces:
        if piece.kind == "unknown":
            return False
        if "=" in piece.text or "[" in piece.text:
            name, equals, _ = piece.text.partition("=")
            return "[" not in name or (_INDEXED.search(name) is not None and (bool(equals) or word.known))
    return True


def _places(command: str, argv: Sequence[Word]) -> Iterator[Word]:
    """The words that name variables."""
    if command in _DECLARING:
        yield from (word for word in argv[1:] if not word.text.startswith(("-", "+")))
    elif command in _OPERANDS:
        yield from _operands(argv, _TAKES.get(command, ""))
    elif command in {"printf", "wait", "test", "["}:
        option = "-p" if command == "wait" else "-v"
        for word, following in _pairs(argv):
            if word.text == option:
                yield following
            elif word.text.startswith(option) and command in {"printf", "wait"}:
                yield Word(word.text[2:], word.literal, word.raw, word.pieces)


def _operands(argv: Sequence[Word], takes: str) -> Iterator[Word]:
    skip = False
    for word in argv[1:]:
        text = word.text
        if skip or not text:
            skip = False
        elif text[0] == "-" and len(text) > 1:
            skip = text[-1] in takes
        else:
            yield word


def _pairs(argv: Sequence[Word]) -> Iterator[tuple[Word, Word]]:
    nothing = Word.of("")
    for place, word in enumerate(argv[1:], start=2):
        yield word, argv[place] if place < len(argv) else nothing


def _keyword(text: str, following: str) -> bool:
    if text in {"-o", "+o"}:
        return following in {"keyword", "histexpand"}
    return text[:1] == "-" and text[1:2] != "-" and any(letter in text for letter in "kH")
