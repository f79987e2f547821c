"""What is asked and what is answered.

Owns: :class:`Call`, :class:`DecisionContext`, :class:`Decision` and the order of strictness among decisions.
Every decision carries its reason, so that a host can say *why* to the model, to a person and to a log.
Never: puts an argument of the call into a reason.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from .rules import Rules

Verdict = Literal["allow", "ask", "force_ask", "deny"]

_STRICTNESS: Final[dict[str, int]] = {"allow": 0, "ask": 1, "force_ask": 2, "deny": 3}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that wants to run.

    :param name: the host's own name of the tool.
    :param arguments: the argument object, already parsed.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """What a decision depends on beside the call.

    :param rules: the rules in force.
    :param headless: nobody can be asked; what would ask is then a soft denial.
    """

    rules: Rules = field(default_factory=Rules)
    headless: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer with its reason.

    :param decision: ``allow``, ``ask`` (earlier grants count), ``force_ask`` (they do not) or ``deny``.
    :param reason: one sentence for the model and for people.
    :param source: what decided: ``rule``, ``default``, ``headless``, ``hook:<plugin>`` or ``person``.
    :param rule: the rule as it was written, when a rule decided.
    :param soft: a denial only because nobody could be asked; the run goes on, a rule would allow the call.
    """

    decision: Verdict
    reason: str
    source: str
    rule: str | None = None
    soft: bool = False

    @property
    def allowed(self) -> bool:
        """Whether the call may run now."""
        return self.decision == "allow"

    @property
    def asks(self) -> bool:
        """Whether a person has to decide."""
        return self.decision in ("ask", "force_ask")


def strictest(decisions: Iterable[Decision]) -> Decision | None:
    """The strictest of several decisions, the first of them when equal; ``None`` when there is none."""
    return max(decisions, key=lambda each: _STRICTNESS[each.decision], default=None)
