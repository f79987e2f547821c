"""What a command leaves behind for the commands after it: variables and the current folder."""

import posixpath
from collections.abc import Sequence

from .ast import Assignment
from .budget import Budget
from .model import Piece, Word
from .words import State, joined, single

DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})
_READING = frozenset({"read", "mapfile", "readarray", "unset", "getopts", "let"})
_VALUE_LIMIT = 1_024
_PIECE_LIMIT = 32


def assign(assignments: Sequence[Assignment], state: State, budget: Budget) -> None:
    """Assignments without a command: they stay."""
    for item in assignments:
        value = single(item.value, state, budget)
        if item.elements:
            _array(item, state, budget)
        elif item.plain and _small(value.pieces):
            state.variables[item.name] = value.pieces
        elif item.plain:
            state.variables[item.name] = None
        else:
            state.variables[item.name] = _appended(state.variables.get(item.name), value)


def _array(item: Assignment, state: State, budget: Budget) -> None:
    """An array: its elements, all of them together, and the first one under the bare name."""
    words = [single(raw, state, budget) for raw in item.elements[:_PIECE_LIMIT]]
    known = [word.pieces if _small(word.pieces) else None for word in words]
    state.variables[item.name] = known[0]
    for place, pieces in enumerate(known):
        state.variables[f"{item.name}[{place}]"] = pieces
    everything = joined(words) if None not in known and len(words) == len(item.elements) else None
    state.variables[f"{item.name}[@]"] = state.variables[f"{item.name}[*]"] = everything


def _appended(before: tuple[Piece, ...] | None, value: Word) -> tuple[Piece, ...] | None:
    pieces = (*(before or ()), *value.pieces)
    return pieces if before and _small(pieces) else None


def _small(pieces: Sequence[Piece]) -> bool:
    return len(pieces) <= _PIECE_LIMIT and sum(len(piece.text) for piece in pieces) <= _VALUE_LIMIT


def after(argv: Sequence[Word], state: State) -> None:
    """What running ``argv`` changes."""
    name = argv[0].text
    while name in {"builtin", "command"} and len(argv) > 1:
        argv = argv[1:]
        name = argv[0].text
    if name in {"cd", "pushd"}:
        state.cwd = _folder([word for word in argv[1:] if word.text not in {"--", "-P", "-L", "-e"}], state.cwd)
    elif name == "popd":
        state.cwd = None
    elif name in DECLARING:
        _declare(argv[1:], state)
    elif name in _READING:
        for word in argv[1:]:
            state.variables[word.text.partition("=")[0]] = None
    elif name == "printf" and len(argv) > 2 and argv[1].text == "-v":
        state.variables[argv[2].text] = None
    elif name == "set" and len(argv) > 1 and argv[1].text == "--":
        state.give(tuple(argv[2:]))
    elif name in {"set", "shift"}:
        state.arguments = True


def _declare(words: Sequence[Word], state: State) -> None:
    for word in words:
        name, equals, _ = word.text.partition("=")
        if equals and name.isidentifier():
            known = word.known and _small(word.pieces)
            state.variables[name] = _without(word, len(name) + 1) if known else None


def _without(word: Word, cut: int) -> tuple[Piece, ...]:
    """The pieces of ``word`` after its first ``cut`` characters."""
    pieces: list[Piece] = []
    for piece in word.pieces:
        kept = piece.text[cut:]
        cut = max(0, cut - len(piece.text))
        if kept:
            pieces.append(Piece(piece.kind, kept))
    return tuple(pieces)


def _folder(operands: Sequence[Word], cwd: str | None) -> str | None:
    if not operands:
        return "~"
    word = operands[0]
    if not word.known or word.text == "-" or any(piece.kind == "glob" for piece in word.pieces):
        return None
    if word.home:
        return posixpath.normpath(word.text)
    if word.text.startswith("/"):
        return posixpath.normpath(word.text)
    return posixpath.normpath(posixpath.join(cwd, word.text)) if cwd is not None else None
