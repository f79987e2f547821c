"""What a parameter expansion makes of a value that is known: ``${x%/*}``, ``${x//a/b}``, ``${x:0:1}`` and the like.

Owns: the operators. The home folder takes part under a stand-in; a result that keeps only a part of that is not known.
"""

import fnmatch
import re
from collections.abc import Sequence

from ..text.ast import Part, Text
from .model import Piece

CUTTING = frozenset({"#", "##", "%", "%%", "/", "//", ":", "^", "^^", ",", ",,"})
"""Operators that :func:`operated` knows."""
_HOME = "/home/\uf8ffhome"
_PLACE = "\uf8ff"
_LIMIT = 1_024
_SEARCH_LIMIT = 96
"""Characters of a value in which a pattern is searched at every place."""
_RANGE = re.compile(r"\s*(-?\d{1,5})\s*(?::\s*(-?\d{1,5})\s*)?")


def operated(
    name: str, pieces: Sequence[Piece], op: str, operand: Sequence[Part], *, quoted: bool
) -> tuple[Piece, ...] | None:
    """The pieces of ``name`` after ``op``, None when they cannot be known. ``quoted``: the expansion stands in double
    quotes. Of ``$@`` and of an array each value is taken by itself; nulls stand between them."""
    source = _source(operand, quoted)
    if source is None or any(piece.kind in {"unknown", "glob"} for piece in pieces):
        return None
    text = "".join(_HOME if piece.kind == "home" else piece.text for piece in pieces)
    if len(text) > _LIMIT or len(source) > _LIMIT:
        return None
    if name in {"@", "*"} or name.endswith(("[@]", "[*]")):
        result = _of_each(text.split("\0") if text else [], op, source, first=1 if len(name) == 1 else 0)
    else:
        result = _result(text, op, source)
    return None if result is None else _pieces(result)


def _of_each(values: list[str], op: str, source: str, *, first: int) -> str | None:
    """``op`` on several values; ``first`` is the number of the first one of them."""
    if op != ":":
        results = [_result(value, op, source) for value in values]
        return None if None in results else "\0".join(result for result in results if result is not None)
    match = _RANGE.fullmatch(source)
    if match is None or int(match.group(1)) in range(first) or (match.group(2) or "").startswith("-"):
        return None
    start = int(match.group(1))
    kept = values[max(0, start - first) :] if start >= 0 else values[start:] if -start <= len(values) else []
    return "\0".join(kept[: int(match.group(2))] if match.group(2) else kept)


def _source(operand: Sequence[Part], quoted: bool) -> str | None:
    """The operand with a backslash before every character that is quoted."""
    if not all(isinstance(part, Text) for part in operand):
        return None
    texts = [part for part in operand if isinstance(part, Text)]
    if quoted:
        source = "".join(part.value for part in texts)
        return None if "'" in source else source
    return "".join("".join("\\" + char for char in part.value) if part.quoted else part.value for part in texts)


def _result(text: str, op: str, source: str) -> str | None:
    if op[0] in "#%":
        return _trimmed(text, op, _pattern(source))
    if op[0] == "/":
        return _replaced(text, op, source)
    if op == ":":
        return _part(text, source)
    if source:
        return None
    changed = text.upper() if op[0] == "^" else text.lower()
    return changed if len(op) == 2 else changed[:1] + text[1:]


def _pattern(source: str) -> str:
    """The pattern in the notation of :mod:`fnmatch`."""

    def one(match: re.Match[str]) -> str:
        char = match.group(1)
        return f"[{char}]" if char in "*?[" else char

    return re.sub(r"\\(.)", one, source, flags=re.DOTALL)


def _trimmed(text: str, op: str, pattern: str) -> str:
    places = range(len(text) + 1)
    if op[0] == "#":
        order = places if op == "#" else reversed(places)
        return next((text[place:] for place in order if fnmatch.fnmatchcase(text[:place], pattern)), text)
    order = reversed(places) if op == "%" else places
    return next((text[:place] for place in order if fnmatch.fnmatchcase(text[place:], pattern)), text)


def _replaced(text: str, op: str, source: str) -> str | None:
    cut = re.match(r"((?:\\.|[^\\/])+)(?:/(.*))?", source, re.DOTALL)
    if cut is None or len(text) > _SEARCH_LIMIT:
        return None
    pattern = _pattern(cut.group(1))
    instead = re.sub(r"\\(.)", r"\1", cut.group(2) or "")
    if pattern[:1] in {"#", "%"}:
        return None
    done, place = "", 0
    while place < len(text):
        ends = range(len(text), place, -1)
        end = next((end for end in ends if fnmatch.fnmatchcase(text[place:end], pattern)), None)
        if end is None:
            done, place = done + text[place], place + 1
            continue
        done, place = done + instead, end
        if op == "/":
            break
    return done + text[place:]


def _part(text: str, source: str) -> str | None:
    match = _RANGE.fullmatch(source)
    if match is None:
        return None
    start, length = int(match.group(1)), match.group(2)
    if start < 0:
        start += len(text)
    if length is None:
        return text[max(0, start) :]
    end = int(length)
    return text[max(0, start) : end if end < 0 else max(0, start) + end]


def _pieces(text: str) -> tuple[Piece, ...] | None:
    before, *others = text.split(_HOME)
    pieces = [Piece("text", before)] if before else []
    for other in others:
        pieces.extend((Piece("home", "~"), *([Piece("text", other)] if other else [])))
    return None if any(_PLACE in piece.text for piece in pieces) else tuple(pieces)
