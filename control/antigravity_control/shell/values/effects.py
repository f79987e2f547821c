"""What a command leaves behind for the commands after it: variables and the current folder."""

import posixpath
import re
from collections.abc import Sequence

from ..text.ast import Assignment
from ..text.budget import Budget
from .arrays import array, clear, put, small
from .formats import formatted
from .model import Piece, Word, without
from .words import UNSET, State, single

DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})
_READING = frozenset({"read", "mapfile", "readarray", "getopts", "let"})
_FOLDERS = frozenset({"cd", "pushd", "popd"})
_CD_OPTION = re.compile(r"-[-LPe@]+")


def assign(assignments: Sequence[Assignment], state: State, budget: Budget) -> None:
    """Assignments without a command: they stay."""
    for item in assignments:
        value = single(item.value, state, budget)
        state.variables.pop(item.name + UNSET, None)
        if item.elements:
            array(item, state, budget)
        elif item.plain and small(value.pieces):
            put(item.name, _as_text(value.pieces), state)
        elif item.plain:
            put(item.name, None, state)
        elif item.add:
            put(item.name, _appended(state.variables.get(item.name), value), state)
        else:  # one element, and nobody knows which
            clear(item.name, state)
            put(item.name, None, state)


def _as_text(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Patterns stay what they are in an assignment: only an unquoted use expands them."""
    return tuple(Piece("text", piece.text) if piece.kind == "glob" else piece for piece in pieces)


def _appended(before: tuple[Piece, ...] | None, value: Word) -> tuple[Piece, ...] | None:
    pieces = (*(before or ()), *value.pieces)
    return pieces if before and small(pieces) else None


def after(argv: Sequence[Word], state: State, given: str | None = None) -> None:
    """What running ``argv`` changes. ``given``: the text at its input, where the line itself holds it."""
    name = argv[0].text
    if name in {"builtin", "command"}:
        argv = _bare(argv)
        name = argv[0].text
    if name in _FOLDERS:
        _go(name, argv, state)
    elif name in DECLARING:
        _declare(argv[1:], state)
    elif name == "read" and given is not None:
        _read(argv[1:], given, state)
    elif name in _READING:
        for word in argv[1:]:
            put(word.text.partition("=")[0], None, state)
    elif name == "printf" and len(argv) > 2 and argv[1].text == "-v":
        text = formatted([word.text for word in argv[3:]]) if all(word.known for word in argv[3:]) else None
        put(argv[2].text, None if text is None else (Piece("text", text),), state)
    elif name == "unset":
        _unset(argv[1:], state)
    elif name == "set":
        _set(argv[1:], state)
    elif name == "shift":
        _shift(argv[1:], state)
    elif name in {"source", "."}:
        _forget_empty(state)


def _bare(argv: Sequence[Word]) -> Sequence[Word]:
    """The words behind ``builtin``, ``command -p`` and the like."""
    behind = False
    while len(argv) > 1 and (argv[0].text in {"builtin", "command"} or (behind and argv[0].text in {"--", "-p"})):
        argv, behind = argv[1:], True
    return argv


def _go(name: str, argv: Sequence[Word], state: State) -> None:
    """``cd`` and its kin."""
    if name == "cd":
        _change(_folder([word for word in argv[1:] if not _CD_OPTION.fullmatch(word.text)], state.cwd), state)
    else:
        turns = name == "popd" or len(argv) < 2 or argv[1].text[:1] in {"-", "+"}
        _change(None if turns else _folder(argv[1:], state.cwd), state)


def _change(folder: str | None, state: State) -> None:
    """Goes to ``folder``; where that fails the line goes on where it was."""
    before, state.cwd = state.cwd, folder
    if before is not None and before != folder:
        state.maybe_in((before,))


def _read(words: Sequence[Word], given: str, state: State) -> None:
    """The first line of the input, cut into as many values as there are names."""
    names = [word.text for word in words if word.text.isidentifier()]
    line = given.split("\n", 1)[0].strip()
    values = line.split(None, len(names) - 1) if len(names) > 1 else [line]
    for place, name in enumerate(names or ["REPLY"]):
        value = values[place] if place < len(values) else ""
        put(name, (Piece("text", value),) if value else None, state)


def _unset(words: Sequence[Word], state: State) -> None:
    """A variable that is unset holds nothing, whatever the environment gave it."""
    if any(word.text.startswith("-") and "f" in word.text for word in words):
        return
    for word in words:
        clear(word.text, state)
        put(word.text, () if word.known else None, state)
        if word.known:
            state.variables[word.text + UNSET] = ()


def _set(words: Sequence[Word], state: State) -> None:
    """Options leave ``$1`` and the following alone, operands take their place."""
    place = 0
    while place < len(words):
        text = words[place].text
        if text in {"-", "--"}:
            state.give(tuple(words[place + 1 :]))
            return
        if text[:1] not in {"-", "+"}:
            break
        place += 2 if "o" in text else 1
    if place < len(words):
        state.give(tuple(words[place:]))


def _shift(words: Sequence[Word], state: State) -> None:
    """The arguments move to the front; there may be more of them than are known."""
    count = words[0].text if words else "1"
    kept, more = state.given(), state.arguments
    if not count.isdigit():
        state.give(())
        state.arguments = True
    elif more or int(count) <= len(kept):
        state.give(kept[int(count) :])
        state.arguments = state.arguments or more


def _forget_empty(state: State) -> None:
    """A file that is read here may set what is empty so far."""
    for name in [name for name, pieces in state.variables.items() if not pieces]:
        state.variables[name] = None


def _declare(words: Sequence[Word], state: State) -> None:
    for word in words:
        name, equals, _ = word.text.partition("=")
        if equals and name.isidentifier():
            known = word.known and small(word.pieces)
            put(name, without(word.pieces, len(name) + 1) if known else None, state)


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
