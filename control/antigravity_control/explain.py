"""A decision for a person: what was decided, why, and every rule that was considered.

Owns: :func:`explain`. Each rule is tried by itself, so the text says of every one whether it meets the request. Shows
what the request says: it is for the person who sees the request anyway, not for a log.
"""

from typing import Final, Protocol

from .decision import Decision
from .judging.finding import Finding
from .language.actions import FILE_ACTIONS, ActionName, Request
from .language.grammar import Rule, RuleFault
from .language.modes import Mode
from .language.rules import Rules
from .language.scopes import KINDS
from .sets.ruleset import RuleSet

_SHOWN: Final = 200
#: Rules of other actions that have a say.
_ALSO: Final[dict[ActionName, frozenset[ActionName]]] = {
    "read_file": FILE_ACTIONS,
    "write_file": FILE_ACTIONS,
    "command": frozenset({"command", "read_file", "write_file", "read_url"}),
    "unsandboxed": frozenset({"unsandboxed", "read_file", "write_file", "read_url"}),
    "read_url": frozenset({"read_url", "read_file"}),
    "execute_url": frozenset({"execute_url", "read_file"}),
    "mcp": frozenset({"mcp"}),
}
_WORDS: Final = {"allow": "allowed", "ask": "ask", "force_ask": "ask", "deny": "denied"}


class Explained(Protocol):
    """What is asked of a policy; the engine's own imports this module."""

    mode: Mode
    faults: tuple[RuleFault, ...]
    layers: tuple[RuleSet, ...]
    names: Rules

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule in force."""

    def decide(self, request: Request) -> Decision:
        """The decision."""

    def judge(self, request: Request) -> Finding:
        """What the rules say."""

    def restricted_to(self, rule: Rule) -> "Explained":
        """The same with one rule."""


def explain(policy: Explained, request: Request) -> str:
    """Several lines of text, without a line break at the end."""
    made = policy.decide(request)
    lines = [
        f"{request.action}({_plain(request.target)})",
        f"decision: {_WORDS[made.decision]}{' (soft: nobody can be asked)' if made.soft else ''}",
        f"reason:   {_plain(made.reason)}",
        f"source:   {made.source}",
        f"mode:     {policy.mode.attendance}, {policy.mode.name}",
    ]
    if made.floor:
        lines.append(f"floor:    {made.floor}")
    if made.rule:
        lines.append(f"rule:     {_plain(made.rule)}{f' ({made.scope})' if made.scope else ''}")
    if made.segment and made.segment != request.target:
        lines.append(f"part:     {_plain(made.segment)}")
    lines.extend(f"allow by: {_plain(rule)}" for rule in made.remedies)
    considered = sorted(
        (rule for rule in policy.rules if rule.action in _ALSO[request.action]),
        key=lambda rule: (KINDS.index(rule.kind), rule.order),
    )
    lines.append(f"rules considered: {len(considered)}" if considered else "rules considered: none")
    met = [(rule, _meets(policy, request, rule)) for rule in considered]
    meeting = [(rule, how) for rule, how in met if how != "does not match"]
    others = [(rule, how) for rule, how in met if how == "does not match"]
    shown = [*meeting, *others][:_SHOWN]
    lines.extend(f"  {rule.kind:5} {_plain(rule.text)}  [{rule.origin}]: {how}" for rule, how in shown)
    named = policy.names.match(request.native_name) if request.native_name is not None else None
    if named is not None:
        lines.append(f"rule by the name of the tool `{request.native_name}`: {named[1]}")
    if len(met) > len(shown):
        lines.append(f"  and {len(met) - len(shown)} more that do not match")
    lines.extend(f"fault: {_plain(str(fault))} ({fault.effect})" for fault in policy.faults[:_SHOWN])
    return "\n".join(lines)


def _meets(policy: Explained, request: Request, rule: Rule) -> str:
    """How one rule by itself meets the request."""
    found = policy.restricted_to(rule).judge(request)
    if found.rule == rule:
        return "may match" if found.outcome == "ask" and rule.kind == "deny" else "matches"
    if rule.kind == "allow" and _allows_part(policy, request, rule):
        return "matches a part"
    return "does not match"


def _allows_part(policy: Explained, request: Request, rule: Rule) -> bool:
    """Whether an allow rule covers some command of a line."""
    from .shell import read_line

    index = policy.restricted_to(rule).layers[0].lines("allow", request.action)
    if index is None:
        return False
    line = read_line(request.target)
    return any(index.allows(unit) is not None for unit in line.units if unit.role == "command")


def _plain(text: str) -> str:
    """Text without characters that could hide or fake what is shown."""
    return "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in text)
