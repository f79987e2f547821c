"""The value of a word: quotes gone, braces and tildes expanded, variables where the line itself sets them.

Owns: what a word comes to without running anything. A part that cannot be known stays unknown; a part that is known
only under an assumption (a variable that the line sets, an ``echo`` in a substitution) gives a guess, which is good
enough to deny or to ask and never enough to allow.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .ast import Param, Part, Program, RawWord, Sub, Text
from .braces import expand
from .budget import Budget
from .model import Piece, Word

_PATTERN = re.compile(r"([*?[])")
_SETTING = re.compile(r"[A-Za-z_]\w*=")
_SETTING_TILDE = re.compile(r"(?<=[=:])(~)(?=[/:]|$)")
_SPECIAL = re.compile(r"[*?[~{]")
_DEFAULTS = frozenset({":-", "-", ":=", "="})
_KEEPING = frozenset({"", ":?", "?", ":-", "-", ":=", "=", "%", "%%"})
_SPACE = " \t\n"
_SPLIT = "\0"
"""Stands in a piece where bash would cut the word."""
_CUTS = dict.fromkeys(map(ord, _SPACE), _SPLIT)


@dataclass(slots=True)
class State:
    """What the line has said so far about its own shell."""

    variables: dict[str, tuple[Piece, ...] | None] = field(default_factory=dict)
    """Values that the line gives; None for a variable whose value is not known any more."""
    arguments: bool = False
    """Whether ``$1`` and the like may hold something: inside functions and for ``sh -c TEXT NAME ARGUMENT``."""
    functions: set[str] = field(default_factory=set)
    cwd: str | None = None
    """The current folder; ``~`` stands for home."""
    output: Callable[[Program, "State"], str | None] = lambda _program, _state: None
    """Gives what a program certainly prints, or None."""

    def give(self, arguments: tuple[Word, ...]) -> None:
        """Sets ``$1`` and the following, as a script with these arguments has them."""
        self.arguments = False
        for name in [name for name in self.variables if _empty_argument(name)]:
            del self.variables[name]
        for place, word in enumerate(arguments[:64], start=1):
            self.variables[str(place)] = word.pieces
        if arguments:
            self.variables["@"] = self.variables["*"] = joined(arguments[:64])

    def copy(self) -> "State":
        return State(dict(self.variables), self.arguments, set(self.functions), self.cwd, self.output)


def joined(words: Sequence[Word]) -> tuple[Piece, ...]:
    """All of ``words`` in one value that is cut between them again."""
    pieces: list[Piece] = []
    for place, word in enumerate(words):
        pieces.extend((*([Piece("text", _SPLIT)] if place else []), *word.pieces))
    return tuple(pieces)


@dataclass(slots=True)
class _Value:
    """A word that is being put together. ``exact`` falls with the first guess."""

    pieces: list[Piece] = field(default_factory=list)
    exact: bool = True
    quoted: bool = False

    def add(self, kind: str, text: str) -> None:
        last = self.pieces[-1] if self.pieces else None
        if last and last.kind == kind and kind == "text":
            self.pieces[-1] = Piece("text", last.text + text)
        else:
            self.pieces.append(Piece(kind, text))  # type: ignore[arg-type]  # callers pass literals of Piece


def words(raw: RawWord, state: State, budget: Budget) -> list[Word]:
    """The words that one word of the line becomes."""
    budget.spend(12)
    if len(raw.parts) == 1:
        part = raw.parts[0]
        if isinstance(part, Text) and (part.quoted or not _SPECIAL.search(part.value)):
            return [Word(part.value, True, raw.raw, (Piece("text", part.value),) if part.value else ())]
    results: list[Word] = []
    expanded = expand(raw)
    if expanded is None:
        budget.ask("a brace expansion with too many words")
        expanded = (raw,)
    if len(expanded) > 1:
        budget.exact("brace expansion")
    for word in expanded:
        budget.spend(4 * len(word.parts))
        results.extend(_fields(_value(word.parts, state, budget), raw.raw))
    return results


def single(raw: RawWord, state: State, budget: Budget) -> Word:
    """The value where bash neither splits nor expands braces: assignments, here-documents, redirections."""
    value = _value(raw.parts, state, budget)
    pieces = tuple(Piece(piece.kind, piece.text.replace(_SPLIT, " ")) for piece in value.pieces)
    return _word(pieces, value.exact, raw.raw)


def _value(parts: tuple[Part, ...], state: State, budget: Budget) -> _Value:
    value = _Value()
    for place, part in enumerate(parts):
        if isinstance(part, Text):
            _text(part, value, first=place == 0, rest=parts[place + 1 :])
        elif isinstance(part, Param):
            _param(part, value, state, budget)
        else:
            _sub(part, value, state, budget)
    return value


def _text(part: Text, value: _Value, *, first: bool, rest: tuple[Part, ...]) -> None:
    text = part.value
    if part.quoted:
        value.quoted = True
        if text:
            value.add("text", text)
        return
    if first and text.startswith("~"):
        name, slash, _ = text[1:].partition("/")
        if slash or not rest:
            value.add("unknown" if name[:1] in set("+-0123456789") else "home", "~" + name)
            text = text[1 + len(name) :]
    elif first and "~" in text and _SETTING.match(text):
        # bash expands tildes in every word that looks like an assignment: dd of=~/x
        value.exact = False
        for place, run in enumerate(_SETTING_TILDE.split(text)):
            _text_run("~" if place % 2 else run, value, rest, home=place % 2 == 1)
        return
    _text_run(text, value, rest, home=False)


def _text_run(text: str, value: _Value, rest: tuple[Part, ...], *, home: bool) -> None:
    if home:
        value.add("home", "~")
        return
    for place, run in enumerate(_PATTERN.split(text)):
        if run:
            value.add("glob" if place % 2 and _is_pattern(run, text, rest) else "text", run)


def _is_pattern(char: str, text: str, rest: tuple[Part, ...]) -> bool:
    """A bracket that never closes is an ordinary character: ``[`` is also the name of a command."""
    return char != "[" or bool(rest) or "]" in text[text.index("[") :]


def _param(part: Param, value: _Value, state: State, budget: Budget) -> None:
    value.exact = False
    if part.quoted:
        value.quoted = True
    if part.name == "IFS" and part.op in _KEEPING | {":"} and not part.quoted:
        value.add("text", _SPLIT)
        return
    pieces = _known(part, state, budget)
    if pieces is None:
        value.add("unknown", part.raw)
        return
    budget.spend(2 * len(pieces))
    for piece in pieces:
        text = piece.text
        if piece.kind == "text" and not part.quoted:
            text = text.translate(_cuts(state))
            budget.spend(len(text) // 16)
        value.add(piece.kind, text)


def _cuts(state: State) -> dict[int, str]:
    """Where bash cuts unquoted values: the line may say otherwise."""
    pieces = state.variables.get("IFS")
    if pieces is None:
        return _CUTS
    return _CUTS | dict.fromkeys(map(ord, "".join(piece.text for piece in pieces)), _SPLIT)


def _known(part: Param, state: State, budget: Budget) -> tuple[Piece, ...] | None:
    name, op = part.name, part.op
    if name == "HOME" and name not in state.variables and op in _KEEPING:
        return (Piece("home", "~"),)
    if name == "PWD" and state.cwd is not None and op in _KEEPING:
        return _folder(state.cwd)
    if name in state.variables and op in _KEEPING:
        return state.variables[name]
    if _empty_argument(name) and not state.arguments and not op:
        return ()
    if op in _DEFAULTS and name not in state.variables:
        return tuple(_value(part.operand, state, budget).pieces)
    return None


def _folder(cwd: str) -> tuple[Piece, ...]:
    if cwd == "~" or cwd.startswith("~/"):
        return (Piece("home", "~"), Piece("text", cwd[1:]))
    return (Piece("text", cwd),)


def _empty_argument(name: str) -> bool:
    return name in {"@", "*"} or (name.isdigit() and name != "0")


def _sub(part: Sub, value: _Value, state: State, budget: Budget) -> None:
    value.exact = False
    value.quoted = value.quoted or part.quoted
    text = state.output(part.programs[0], state) if part.kind == "command" else None
    if text is None:
        value.add("unknown", part.raw)
        return
    budget.spend(len(text))
    if not part.quoted:
        text = text.translate(_cuts(state))
    value.add("text", text)


def _fields(value: _Value, raw: str) -> list[Word]:
    """Cuts at the places where unquoted values held blanks. An empty word stays only when it was quoted."""
    groups: list[list[Piece]] = [[]]
    for piece in value.pieces:
        first, *others = piece.text.split(_SPLIT)
        if first:
            groups[-1].append(Piece(piece.kind, first))
        groups.extend([Piece(piece.kind, text)] if text else [] for text in others)
    cut = len(groups) > 1
    kept = [group for group in groups if group] or ([[]] if value.quoted else [])
    return [_word(tuple(group), value.exact and not cut, raw) for group in kept]


def _word(pieces: tuple[Piece, ...], exact: bool, raw: str) -> Word:
    text = "".join(piece.text for piece in pieces)
    literal = exact and all(piece.kind in {"text", "home"} for piece in pieces)
    return Word(text, literal, raw, pieces)
