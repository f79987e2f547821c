"""The value of a word: quotes gone, braces and tildes expanded, variables where the line itself sets them.

Owns: what a word comes to without running anything. A part that cannot be known stays unknown; a part that is known
only under an assumption (a variable that the line sets, an ``echo`` in a substitution) gives a guess, which is good
enough to deny or to ask and never enough to allow.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..text.ast import Param, Part, Program, RawWord, Sub, Text
from ..text.budget import Budget
from .braces import expand
from .model import Piece, Word
from .parameters import CUTTING, operated

_PATTERN = re.compile(r"([*?[])")
_SETTING = re.compile(r"[A-Za-z_]\w*=")
_SETTING_TILDE = re.compile(r"(?<=[=:])(~)(?=[/:]|$)")
_LOGIN = re.compile(r"[^/:]*")
"""What may stand between a tilde and the end of its prefix."""
_SPECIAL = re.compile(r"[*?[~{]")
_DEFAULTS = frozenset({":-", "-", ":=", "="})
_KEEPING = frozenset({"", ":?", "?", ":-", "-", ":=", "=", "%", "%%"})
_DEMANDS = frozenset({":?", "?"})
_INSTEAD = frozenset({":+", "+"})
_SUM = re.compile(r"\$\(\(\s*(-?(?:0|[1-9]\d{0,8}))\s*(?:([-+*])\s*(0|[1-9]\d{0,8})\s*)?\)\)")
_OUTPUT_HOME = re.compile(r"(?:(?<=[\0\s])|^)~(?=[/\0\s]|$)")
_SPACE = " \t\n"
_PLACES = 4
"""Folders beside the current one that are kept in mind."""
_SPLIT = "\0"
"""Stands in a piece where bash would cut the word."""
UNSET = "?"
"""Behind the name of a variable that the line has unset: a key of its own among the variables."""
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
    elsewhere: tuple[str, ...] = ()
    """Other folders where the line may be: it goes on where it was when a ``cd`` fails."""
    output: Callable[[Program, "State"], str | None] = lambda _program, _state: None
    """Gives what a program certainly prints, or None."""

    def give(self, arguments: tuple[Word, ...]) -> None:
        """Sets ``$1`` and the following, as a script with these arguments has them."""
        for name in [name for name in self.variables if _empty_argument(name)]:
            del self.variables[name]
        self.arguments = any(_open(word) for word in arguments)
        for place, word in enumerate(arguments[:64], start=1):
            self.variables[str(place)] = word.pieces
        if arguments:
            self.variables["@"] = self.variables["*"] = joined(arguments[:64])

    def given(self) -> tuple[Word, ...]:
        """The arguments as :meth:`give` got them: at least those that are known."""
        found: list[Word] = []
        while (pieces := self.variables.get(str(len(found) + 1))) is not None:
            found.append(Word("".join(piece.text for piece in pieces), False, "", pieces))
        return tuple(found)

    def take(self, inner: "State") -> None:
        """What a function that was called may have set; what it leaves empty is not known any more."""
        for name, pieces in inner.variables.items():
            if not _empty_argument(name) and self.variables.get(name, ()) != pieces:
                self.variables[name] = pieces or None
        self.cwd = inner.cwd
        self.elsewhere = inner.elsewhere

    def maybe_in(self, folders: Sequence[str]) -> None:
        """The line may be in one of ``folders`` as well."""
        if folders:
            self.elsewhere = tuple(dict.fromkeys((*self.elsewhere, *folders)))[:_PLACES]

    def left(self, folder: str | None) -> bool:
        """Whether the line has left ``folder``, where it may be still."""
        if (self.cwd or "").rstrip("/") == (folder or "").rstrip("/"):
            return False
        self.maybe_in(() if folder is None else (folder,))
        return True

    def doubt(self, before: Mapping[str, tuple[Piece, ...] | None]) -> None:
        """What was emptied since ``before`` may have been left as it was."""
        for name, pieces in self.variables.items():
            if pieces == () and before.get(name) != ():
                self.variables[name] = None

    def unsure(self) -> None:
        """For what runs later: what is empty now may hold something then."""
        for name in [name for name, pieces in self.variables.items() if pieces == ()]:
            self.variables[name] = None

    def copy(self) -> "State":
        functions = set(self.functions)
        return State(dict(self.variables), self.arguments, functions, self.cwd, self.elsewhere, self.output)


def _open(word: Word) -> bool:
    """Whether the word may come to several, or to none."""
    return not word.known or any(piece.kind == "glob" for piece in word.pieces)


def joined(words: Sequence[Word]) -> tuple[Piece, ...]:
    """All of ``words`` in one value that is cut between them again."""
    pieces: list[Piece] = []
    for place, word in enumerate(words):
        pieces.extend((*([Piece("text", _SPLIT)] if place else []), *word.pieces))
    return tuple(pieces)


def script_of(word: Word) -> str:
    """``word`` as text that a shell reads once more: the home folder in a spelling that counts inside quotes too."""
    if all(piece.kind != "home" for piece in word.pieces[1:]) and not word.home:
        return word.text
    text, quote = "", ""
    for piece in word.pieces:
        if piece.kind == "home":
            if quote or text[-1:].strip():
                text += "'\"$HOME\"'" if quote == "'" else "$HOME"
                continue
            text += piece.text
            continue
        escaped = False
        for char in piece.text:
            if not escaped and char in "'\"" and quote in {"", char}:
                quote = "" if quote else char
            escaped = not escaped and char == "\\" and quote != "'"
        text += piece.text
    return text


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
    if expanded[0] is not raw:
        budget.exact("brace expansion")
    for word in expanded:
        if any(isinstance(part, Param) for part in word.parts) and all(_vanishes(part, state) for part in word.parts):
            continue
        budget.spend(4 * len(word.parts))
        results.extend(_fields(_value(word.parts, state, budget), raw.raw))
    return results


def _vanishes(part: Part, state: State) -> bool:
    """``"$@"`` without arguments is no word at all."""
    if isinstance(part, Text):
        return part.quoted and not part.value
    return isinstance(part, Param) and part.name == "@" and not part.op and _said("@", state) == (True, ())


def single(raw: RawWord, state: State, budget: Budget) -> Word:
    """The value where bash neither splits nor expands braces: assignments, here-documents, redirections."""
    value = _value(raw.parts, state, budget)
    pieces = tuple(Piece(piece.kind, piece.text.replace(_SPLIT, " ")) for piece in value.pieces)
    return _word(pieces, value.exact, raw.raw)


def _value(parts: tuple[Part, ...], state: State, budget: Budget) -> _Value:
    value = _Value()
    for place, part in enumerate(parts):
        if isinstance(part, Text):
            _text(part, value, state, first=place == 0, rest=parts[place + 1 :])
        elif isinstance(part, Param):
            _param(part, value, state, budget)
        else:
            _sub(part, value, state, budget)
    return value


def _text(part: Text, value: _Value, state: State, *, first: bool, rest: tuple[Part, ...]) -> None:
    text = part.value
    if part.quoted:
        value.quoted = True
        if text:
            value.add("text", text)
        return
    if first and text.startswith("~"):
        name = _LOGIN.match(text, 1).group()  # type: ignore[union-attr]  # it matches nothing as well
        if len(text) > len(name) + 1 or not rest:
            _tilde(name, value, state)
            text = text[1 + len(name) :]
    elif first and "~" in text and _SETTING.match(text):
        # bash expands tildes in every word that looks like an assignment: dd of=~/x
        value.exact = False
        for place, run in enumerate(_SETTING_TILDE.split(text)):
            _text_run("~" if place % 2 else run, value, rest, home=place % 2 == 1)
        return
    _text_run(text, value, rest, home=False)


def _tilde(name: str, value: _Value, state: State) -> None:
    if name == "+" and state.cwd is not None:
        value.exact = False
        for piece in _folder(state.cwd):
            value.add(piece.kind, piece.text)
        return
    value.add("unknown" if name[:1] in set("+-0123456789") else "home", "~" + name)


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
    pieces = _known(part, state, budget)
    if part.name == "IFS" and (pieces is None or part.quoted) and part.name not in state.variables:
        value.add("text", " " if part.quoted else _SPLIT)  # text that is read once more is cut at the blank
        return
    if pieces is None:
        value.add("unknown", part.raw)
        return
    budget.spend(2 * len(pieces))
    for piece in pieces:
        if piece.kind == "text" and not part.quoted:
            _cut(piece.text, value, state, budget)
        else:
            value.add(piece.kind, piece.text)


def _cut(text: str, value: _Value, state: State, budget: Budget) -> None:
    """Adds a value that stands unquoted: bash cuts it, and expands the patterns in it."""
    text = text.translate(_cuts(state))
    budget.spend(len(text) // 16)
    for place, run in enumerate(_PATTERN.split(text)):
        if run:
            value.add("glob" if place % 2 and _is_pattern(run, text, ()) else "text", run)


def _cuts(state: State) -> dict[int, str]:
    """Where bash cuts unquoted values: the line may say otherwise."""
    pieces = state.variables.get("IFS")
    if pieces is None:
        return _CUTS
    return _CUTS | dict.fromkeys(map(ord, "".join(piece.text for piece in pieces)), _SPLIT)


def _known(part: Param, state: State, budget: Budget) -> tuple[Piece, ...] | None:
    name, op = part.name, part.op
    said, pieces = _said(name, state)
    if op in _DEFAULTS and (not said or (pieces == () and (op[0] == ":" or _gone(name, state)))):
        instead: tuple[Piece, ...] | None = tuple(_value(part.operand, state, budget).pieces)
        if not instead and not said:
            return None  # the environment may give it a value
        if op[-1] == "=":
            state.variables[name] = instead
        return instead
    if pieces is None:
        return None
    if op in _INSTEAD:
        holds = pieces or (op == "+" and not _gone(name, state))
        return tuple(_value(part.operand, state, budget).pieces) if holds else ()
    if op in CUTTING:
        budget.spend(sum(len(piece.text) for piece in pieces))
        return operated(name, pieces, op, part.operand, quoted=part.quoted)
    if op not in _KEEPING or (op in _DEMANDS and not pieces):
        return None
    return pieces


def _gone(name: str, state: State) -> bool:
    """Whether a variable that holds nothing is not even set: ``${x-y}`` tells the two from each other."""
    return name + UNSET in state.variables or (_empty_argument(name) and name not in state.variables)


def _said(name: str, state: State) -> tuple[bool, tuple[Piece, ...] | None]:
    """Whether the line says what ``name`` holds, and the value where it can be known."""
    if name in state.variables:
        return True, state.variables[name]
    if name in {"HOME", "HOME[0]"}:
        return True, (Piece("home", "~"),)
    if name == "PWD" and state.cwd is not None:
        return True, _folder(state.cwd)
    if name == "IFS":
        return True, (Piece("text", _SPACE),)
    if _empty_argument(name) and not state.arguments:
        return True, ()
    return False, None


def _folder(cwd: str) -> tuple[Piece, ...]:
    if cwd == "~" or cwd.startswith("~/"):
        return (Piece("home", "~"), Piece("text", cwd[1:]))
    return (Piece("text", cwd),)


def _empty_argument(name: str) -> bool:
    return name in {"@", "*"} or (name.isdigit() and name != "0")


def _sub(part: Sub, value: _Value, state: State, budget: Budget) -> None:
    value.exact = False
    value.quoted = value.quoted or part.quoted
    text = state.output(part.programs[0], state) if part.kind == "command" else _number(part)
    if text is None:
        value.add("unknown", part.raw)
        return
    budget.spend(len(text))
    for place, run in enumerate(_OUTPUT_HOME.split(text)):
        if place:
            value.add("home", "~")
        if part.quoted and run:
            value.add("text", run)
        elif run:
            _cut(run, value, state, budget)


def _number(part: Sub) -> str | None:
    """What arithmetic of two plain numbers at most comes to."""
    match = _SUM.fullmatch(part.raw) if part.kind == "arithmetic" else None
    if match is None:
        return None
    first, sign, second = int(match[1]), match[2], int(match[3] or 0)
    return str(first * second if sign == "*" else first - second if sign == "-" else first + second)


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
