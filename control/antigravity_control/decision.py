"""What is asked and what is answered.

Owns: :class:`Call`, :class:`Decision` and the order of strictness among decisions.
Every decision carries its reason, so that a host can say *why* to the model, to a person and to a log.
Never: puts an argument of the call into a reason.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from .language.scopes import Scope

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
class Decision:
    """An answer with its reason.

    :param decision: ``allow``, ``ask`` (earlier grants count), ``force_ask`` (they do not) or ``deny``.
    :param reason: one sentence for the model and for people.
    :param source: what decided: ``floor``, ``rule``, ``default``, ``mode``, ``flag`` (the escape hatch), ``headless``,
        ``hook:<plugin>`` or ``person``.
    :param rule: the rule as it was written, when a rule decided.
    :param soft: a denial only because nobody could be asked; the run goes on, a rule would allow the call.
    :param scope: where the rule comes from; ``turn`` for a grant of this turn.
    :param segment: the part of a command line that decided, at most 400 characters; holds what the call says.
    :param floor: name of the floor's entry that denied.
    :param hatch: the escape hatch made this allow out of an ask.
    :param remedies: rules that would allow what is asked about or softly denied; hold what the call says.
    """

    decision: Verdict
    reason: str
    source: str
    rule: str | None = None
    soft: bool = False
    scope: Scope | None = None
    segment: str | None = field(default=None, repr=False)
    floor: str | None = None
    hatch: bool = False
    remedies: tuple[str, ...] = field(default=(), repr=False)

    @property
    def allowed(self) -> bool:
        """Whether the call may run now."""
        return self.decision == "allow"

    @property
    def asks(self) -> bool:
        """Whether a person has to decide."""
        return self.decision in ("ask", "force_ask")


def strictest(decisions: Iterable[Decision]) -> Decision | None:
    """The strictest of several decisions, the first of them when equal; ``None`` when there is none. A denial that only
    stands for a question is less strict than one by a rule."""
    return max(decisions, key=lambda each: (_STRICTNESS[each.decision], not each.soft), default=None)
