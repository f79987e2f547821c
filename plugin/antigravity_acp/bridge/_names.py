"""Exported tool names: what the agent's model sees instead of the host's names.

A name is a readable stem of the original and a hash of it, so two host names that normalise to the same stem stay
apart (A-043). Characters are ``[a-z0-9_]`` without ``__``, which agents use to join server and tool.
Never: depends on anything but the set of names and the budget, so the same catalogue always exports the same names.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from typing import Final

#: Hex digits of the hash. Names that meet in stem and hash all the same get more digits.
HASH_DIGITS: Final = 8
#: The smallest budget that leaves a stem of one character and room for a longer hash.
MIN_BUDGET: Final = 2 + 2 * HASH_DIGITS

_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FOREIGN = re.compile(r"[^a-z0-9]+")


def export_names(names: Iterable[str], budget: int) -> dict[str, str]:
    """Map every original name to its exported one.

    :param budget: characters that one exported name may have.
    :raises ValueError: when the budget is smaller than :data:`MIN_BUDGET`.
    """
    if budget < MIN_BUDGET:
        raise ValueError(f"an exported name needs at least {MIN_BUDGET} characters, {budget} are left")
    exported: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(set(names)):
        digest = _digest(name)
        digits = HASH_DIGITS
        candidate = _join(name, digest[:digits], budget)
        while candidate in taken:
            # Two of at most 256 names that agree in 32 bits are no accident; 64 and more bits keep even those apart.
            digits += HASH_DIGITS
            candidate = _join(name, digest[: min(digits, budget - 2)], budget)
            if digits > len(digest):
                raise ValueError("two tool names cannot be told apart within the budget")
        taken.add(candidate)
        exported[name] = candidate
    return exported


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _join(name: str, digest: str, budget: int) -> str:
    plain = unicodedata.normalize("NFKD", _WORD_BREAK.sub("_", name)).encode("ascii", "ignore").decode().lower()
    stem = _FOREIGN.sub("_", plain).strip("_") or "tool"
    return f"{stem[: budget - 1 - len(digest)].rstrip('_')}_{digest}"
