"""Variables that the line sets, arrays among them.

Owns: how an array is kept among the variables: each element under ``name[0]``, ``name[1]`` …, all of them together
under ``name[@]`` and ``name[*]``, and the first one under the bare name, as bash reads it.
"""

from collections.abc import Sequence

from ..text.ast import Assignment
from ..text.budget import Budget
from .model import Piece, Word
from .words import State, joined, single

_VALUE_LIMIT = 1_024
_PIECE_LIMIT = 32


def put(name: str, pieces: tuple[Piece, ...] | None, state: State) -> None:
    """A new value of a variable, None for one that is not known: of an array the first element."""
    state.variables[name] = pieces
    if f"{name}[@]" in state.variables:
        state.variables[f"{name}[0]"] = pieces
        _together(name, _elements(name, state) if pieces is not None else [], state)


def array(item: Assignment, state: State, budget: Budget) -> None:
    """All elements at once, or more behind those that are there."""
    words = [single(raw, state, budget) for raw in item.elements[:_PIECE_LIMIT]]
    if item.add:
        words = [*_elements(item.name, state), *words][:_PIECE_LIMIT]
    clear(item.name, state)
    known = [word.pieces if small(word.pieces) else None for word in words]
    state.variables[item.name] = known[0]
    for place, pieces in enumerate(known):
        state.variables[f"{item.name}[{place}]"] = pieces
    _together(item.name, words if None not in known else [], state)


def clear(name: str, state: State) -> None:
    """The variable is no array any more."""
    for key in [key for key in state.variables if key.startswith(f"{name}[")]:
        del state.variables[key]


def small(pieces: Sequence[Piece]) -> bool:
    """Whether a value is kept; one that is larger counts as not known."""
    return len(pieces) <= _PIECE_LIMIT and sum(len(piece.text) for piece in pieces) <= _VALUE_LIMIT


def _together(name: str, words: list[Word], state: State) -> None:
    everything = joined(words) if words and len(words) < _PIECE_LIMIT else None
    state.variables[f"{name}[@]"] = state.variables[f"{name}[*]"] = everything


def _elements(name: str, state: State) -> list[Word]:
    """The elements that an array has already; a plain variable is its own first one."""
    found: list[Word] = []
    pieces = state.variables.get(f"{name}[0]", state.variables.get(name))
    while pieces is not None and len(found) < _PIECE_LIMIT:
        found.append(Word("".join(piece.text for piece in pieces), False, name, pieces))
        pieces = state.variables.get(f"{name}[{len(found)}]")
    return found
