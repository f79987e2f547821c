"""What one part of a request comes to, before the answer is put together.

Owns: :class:`Finding` and the order among findings. Inside the wing only.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from ..language.grammar import Rule

Outcome = Literal["allow", "ask", "deny"]
_STRICTNESS: Final[dict[Outcome, int]] = {"allow": 0, "ask": 2, "deny": 4}


@dataclass(frozen=True, slots=True)
class Finding:
    """An answer about one part.

    :param source: ``floor``, ``rule``, ``default`` or ``mode``.
    :param segment: the part of a command line.
    :param firm: an ask that the escape hatch does not lift, because a deny may apply.
    :param remedies: rules that would allow it, as they would be written.
    """

    outcome: Outcome
    reason: str
    source: str
    rule: Rule | None = None
    segment: str | None = field(default=None, repr=False)
    firm: bool = False
    remedies: tuple[str, ...] = field(default=(), repr=False)
    floor: str | None = None

    @property
    def weight(self) -> int:
        return _STRICTNESS[self.outcome] + self.firm


def strongest(findings: Iterable[Finding]) -> Finding | None:
    """The strictest finding, the first of them when equal; the remedies of all that ask with it."""
    every = list(findings)
    top = max(every, key=lambda each: each.weight, default=None)
    if top is None or top.outcome != "ask" or len(every) == 1:
        return top
    remedies = tuple(dict.fromkeys(rule for each in every if each.outcome == "ask" for rule in each.remedies))
    return Finding(top.outcome, top.reason, top.source, top.rule, top.segment, top.firm, remedies)
