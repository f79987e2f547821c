"""Where something was found.

Owns: :class:`Finding` and :func:`merged`.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret's place, not the secret. :param kind: what it is. :param start: :param end: offsets in characters."""

    kind: str
    start: int
    end: int


def merged(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """In order, none overlapping: what lies together becomes one, of the kind that covers most of it."""
    kept: list[Finding] = []
    size = 0
    for each in sorted(found, key=lambda each: (each.start, each.end, each.kind)):
        if kept and each.start < kept[-1].end:
            last = kept[-1]
            kind, size = (last.kind, size) if each.end - each.start <= size else (each.kind, each.end - each.start)
            kept[-1] = Finding(kind, last.start, max(last.end, each.end))
        else:
            kept.append(each)
            size = each.end - each.start
    return tuple(kept)
