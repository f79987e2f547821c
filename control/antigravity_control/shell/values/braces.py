"""Brace expansion: ``{a,b}`` and ``{1..3}`` before anything else is expanded.

Owns: the cutting of a word into the words that bash makes of it. Bounded: more than :data:`LIMIT` results are not made.
"""

import re

from ..text.ast import Param, Part, RawWord, Text

LIMIT = 64
GROUP_LIMIT = 40
"""Opening braces of one word that are looked at."""
_SEQUENCE = re.compile(r"([-+]?\d{1,18}|[A-Za-z])\.\.([-+]?\d{1,18}|[A-Za-z])(?:\.\.([-+]?\d{1,18}))?")
_PADDED = re.compile(r"[-+]?0\d")
_BARE = re.compile(r"\$[A-Za-z_]\w*", re.ASCII)
_NAME_CHARACTERS = re.compile(r"\w+", re.ASCII)
Atom = str | Part


def expand(word: RawWord) -> tuple[RawWord, ...] | None:
    """The words it becomes: the same one when it has no brace expansion, None when there would be too many."""
    text = "".join(part.value for part in word.parts if isinstance(part, Text) and not part.quoted)
    if "{" not in text or not ("," in text or ".." in text):
        return (word,)
    if text.count("{") > GROUP_LIMIT:
        return None
    atoms = _atoms(word.parts)
    results = _expand(atoms, LIMIT)
    if results is None:
        return None
    if results[0] is atoms:
        return (word,)
    return tuple(RawWord(tuple(_parts(atoms)), word.raw) for atoms in results)


def _atoms(parts: tuple[Part, ...]) -> list[Atom]:
    """Unquoted characters one by one, everything else as it is."""
    atoms: list[Atom] = []
    for part in parts:
        if isinstance(part, Text) and not part.quoted:
            atoms.extend(part.value)
        else:
            atoms.append(part)
    return atoms


def _parts(atoms: list[Atom]) -> list[Part]:
    parts: list[Part] = []
    run = ""
    for atom in atoms:
        if isinstance(atom, str):
            run += atom
            continue
        run = _into_name(parts, run)
        if run:
            parts.append(Text(run, quoted=False))
        parts.append(atom)
        run = ""
    run = _into_name(parts, run)
    if run:
        parts.append(Text(run, quoted=False))
    return parts


def _into_name(parts: list[Part], run: str) -> str:
    """Braces go first, and are text: ``$x{1,2}`` is ``$x1 $x2``. Returns what is left of ``run``."""
    last = parts[-1] if parts else None
    if not isinstance(last, Param) or last.quoted or not _BARE.fullmatch(last.raw):
        return run
    more = _NAME_CHARACTERS.match(run)
    if more is None:
        return run
    parts[-1] = Param(last.name + more.group(), "", (), quoted=False, raw=last.raw + more.group())
    return run[more.end() :]


def _expand(atoms: list[Atom], limit: int) -> list[list[Atom]] | None:
    for start, atom in enumerate(atoms):
        if atom != "{":
            continue
        found = _alternatives(atoms, start)
        if found is None:
            continue
        end, choices = found
        tails = _expand(atoms[end + 1 :], limit)
        if tails is None:
            return None
        results: list[list[Atom]] = []
        for choice in choices:
            inner = _expand(choice, limit)
            if inner is None or len(results) + len(inner) * len(tails) > limit:
                return None
            results.extend([*atoms[:start], *middle, *tail] for middle in inner for tail in tails)
        return results
    return [atoms]


def _alternatives(atoms: list[Atom], start: int) -> tuple[int, list[list[Atom]]] | None:
    """The place of the closing brace and the alternatives of the group that opens at ``start``."""
    depth = 0
    choices: list[list[Atom]] = [[]]
    for place in range(start + 1, len(atoms)):
        atom = atoms[place]
        if atom == "}" and depth == 0:
            if len(choices) > 1:
                return place, choices
            sequence = _sequence(choices[0])
            return (place, sequence) if sequence else None
        if atom == "," and depth == 0:
            choices.append([])
            continue
        depth += (atom == "{") - (atom == "}")
        choices[-1].append(atom)
    return None


def _sequence(atoms: list[Atom]) -> list[list[Atom]] | None:
    text = "".join(atom for atom in atoms if isinstance(atom, str))
    match = _SEQUENCE.fullmatch(text) if len(text) == len(atoms) else None
    if not match:
        return None
    first, last, step = match.groups()
    letters = not first[-1].isdigit()
    if letters != (not last[-1].isdigit()):
        return None
    low, high = (ord(first), ord(last)) if letters else (int(first), int(last))
    stride = abs(int(step or 1)) or 1
    values = range(low, high + 1, stride) if low <= high else range(low, high - 1, -stride)
    if len(values) > LIMIT:
        return [list(first), list(last)]
    # A number that is written with zeros before it gives its width to all of them.
    width = max(len(first), len(last)) if _PADDED.match(first) or _PADDED.match(last) else 0
    return [[chr(value)] if letters else list(str(value).zfill(width)) for value in values]
