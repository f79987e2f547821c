"""What a row says.

Owns: :class:`DecisionRow` and :class:`OutcomeRow`, and the bounds of everything that they hold. A row has room for
names, words, numbers and texts that are ours: rules, reasons, entries of the floor. Names that a model or a host chose
are cut and freed of everything that a terminal would obey. Never: holds a part of a command line, a path, an argument
or a result; arguments travel beside a row and become a digest (``digest.py``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

Decided = Literal["allow", "ask", "force_ask", "deny"]
Ended = Literal["ok", "error", "cancelled", "timeout", "not_run"]
Output = Literal["", "passed", "audited", "redacted", "blocked"]
#: No floats: every language writes an integer in the same way, so a row can be checked by any of them.
Field = str | int | bool | list[str]

#: Characters. Ids and names: the longest that protocols of this field allow is 128; texts are a sentence or a rule.
_BOUNDS: Final = {"reason": 512, "rule": 512}
_BOUND: Final = 128
#: Kinds of secrets that one result is said to have held.
_MOST_FINDINGS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRow:
    """A decision about a call; written before the call runs.

    :param call: the call's id, as the host has it. :param tool: the canonical name (``Bash``, ``mcp/server/tool``).
    :param native_tool: the name that the host or the model used. :param decision: what became of the question.
    :param source: what decided: ``floor``, ``rule``, ``default``, ``mode``, ``headless``, ``hook:<name>``, ``person``.
    :param rule: the rule as it was written. :param scope: where that rule stands. :param floor: the floor's entry.
    :param soft: denied only because nobody could be asked. :param approver: who answered a question, and how far the
        answer goes (``terminal:once``). :param mode: the permission mode. :param tier: ``interactive`` or
        ``background``. :param escape_hatch: asks were turned into allows by a switch at that time.
    :param duration_ms: how long the decision took, waiting for a person included.
    :param arguments: the call's arguments. Only their keyed digest is written; see :meth:`Ledger.open` for more.
    """

    call: str
    tool: str
    decision: Decided
    source: str
    native_tool: str = ""
    reason: str = ""
    rule: str = ""
    scope: str = ""
    floor: str = ""
    soft: bool = False
    approver: str = ""
    mode: str = ""
    tier: str = ""
    conversation: str = ""
    host: str = ""
    engine: str = ""
    escape_hatch: bool = False
    duration_ms: float = 0.0
    arguments: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRow:
    """How a call ended.

    :param decision_row: the number that :meth:`Ledger.decided` returned. :param output: what the scan of the result
        led to, empty for a call that has none. :param findings: the kinds of secrets that it found, never what it
        found.
    :param duration_ms: how long the call ran.
    """

    call: str
    outcome: Ended
    decision_row: int = 0
    tool: str = ""
    native_tool: str = ""
    conversation: str = ""
    host: str = ""
    engine: str = ""
    output: Output = "passed"
    findings: Sequence[str] = ()
    duration_ms: float = 0.0


def _texts(row: type[DecisionRow | OutcomeRow], *others: str) -> tuple[tuple[str, int], ...]:
    names = (each.name for each in fields(row))
    return tuple((name, _BOUNDS.get(name, _BOUND)) for name in names if name not in others)


_DECISION_TEXTS: Final = _texts(DecisionRow, "duration_ms", "arguments", "soft", "escape_hatch")
_OUTCOME_TEXTS: Final = _texts(OutcomeRow, "duration_ms", "decision_row", "findings")


def kind_of(row: DecisionRow | OutcomeRow) -> str:
    """``decision`` or ``outcome``."""
    return "decision" if isinstance(row, DecisionRow) else "outcome"


def to_fields(row: DecisionRow | OutcomeRow) -> dict[str, Field]:
    """What of a row is written: bounded, clean, and without what says nothing (empty texts, zero numbers).

    Flags are always there: that the escape hatch was *off* is a statement, too.
    """
    found: dict[str, Field] = {"duration_us": _microseconds(row.duration_ms)}
    texts = _DECISION_TEXTS if isinstance(row, DecisionRow) else _OUTCOME_TEXTS
    for name, bound in texts:
        if value := getattr(row, name):
            found[name] = clean(value if type(value) is str else str(value), bound)
    if isinstance(row, DecisionRow):
        found["soft"] = bool(row.soft)
        found["escape_hatch"] = bool(row.escape_hatch)
    else:
        if row.decision_row:
            found["decision_row"] = int(row.decision_row)
        if row.findings:
            found["findings"] = [clean(str(kind)) for kind in list(row.findings)[:_MOST_FINDINGS]]
    return found


def clean(text: str, bound: int = _BOUND) -> str:
    """Text of at most ``bound`` characters without control characters, line breaks, bidirectional controls, halves of
    surrogate pairs and other characters that cannot be seen; each becomes U+FFFD."""
    if len(text) > bound:
        text = text[: bound - 1] + "…"
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def _microseconds(milliseconds: float) -> int:
    # A clock that went wrong must not keep a row from being written: NaN and infinity are no integers.
    return round(milliseconds * 1000) if 0.0 <= milliseconds < 1e12 else 0
