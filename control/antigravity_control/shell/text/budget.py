"""Bounds of a reading: work, depth and what was noticed on the way. One instance serves a whole line.

Owns: the limits and the notes (reasons). Ends: with the call that made it.
"""

from dataclasses import dataclass, field

SIZE_LIMIT = 65_536
DEPTH_LIMIT = 48
UNIT_LIMIT = 2_000


class TooMuchError(Exception):
    """The line costs more than a reading may cost."""


class BrokenError(Exception):
    """The text is no program that this reader knows."""


@dataclass(slots=True)
class Budget:
    """``steps`` are about a microsecond each."""

    steps: int
    depth: int = 0
    unknown: dict[str, None] = field(default_factory=dict)
    """Why the line is not understood, in the order found."""
    inexact: dict[str, None] = field(default_factory=dict)
    """Why its units cannot be matched by prefix."""

    @classmethod
    def for_text(cls, text: str) -> "Budget":
        return cls(steps=15_000 + 20 * len(text))

    def spend(self, steps: int = 1) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise TooMuchError("the line is too long or too deeply nested")

    def enter(self) -> None:
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            raise TooMuchError("the line is nested too deeply")

    def leave(self) -> None:
        self.depth -= 1

    def ask(self, reason: str) -> None:
        """Something that is not modelled."""
        self.unknown.setdefault(reason)

    def exact(self, reason: str) -> None:
        """Something that switches prefix matching off."""
        self.inexact.setdefault(reason)
