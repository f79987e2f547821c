"""The decision itself.

Owns: :class:`DecisionContext`, :func:`decide`, and what becomes of a question that nobody can answer. With a policy in
the context what the call does counts (:class:`~antigravity_control.engine.Policy`), and rules by tool name beside it;
without one the tool's name alone. Order: deny, ask, allow, default. The default asks: a call that no rule names needs a
person.
"""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from .decision import Call, Decision, Verdict
from .language.rules import Rules

if TYPE_CHECKING:
    from .engine import Policy

_REASONS: Final[dict[str, tuple[Verdict, str]]] = {
    "deny": ("deny", "The rule `{rule}` denies this tool."),
    "ask": ("ask", "The rule `{rule}` asks about this tool."),
    "allow": ("allow", "The rule `{rule}` allows this tool."),
}


@dataclass(frozen=True, slots=True)
class DecisionContext:
    """What a decision depends on beside the call.

    :param rules: the rules by tool name in force.
    :param headless: nobody can be asked; what would ask is then a soft denial.
    :param policy: rules about what the call does, and the floor; none means that only the tool's name counts.
    :param cwd: the folder that relative paths of the call start from; the policy's workspace when it is ``None``.
    """

    rules: Rules = field(default_factory=Rules)
    headless: bool = False
    policy: "Policy | None" = None
    cwd: str | None = None


def decide(call: Call, context: DecisionContext) -> Decision:
    """May this call run?

    :returns: the decision with its reason and the rule that decided. In a headless context it never asks.
    """
    if context.policy is not None:
        attendance = "headless" if context.headless else context.policy.mode.attendance
        policy = context.policy if attendance == context.policy.mode.attendance else context.policy.attended("headless")
        return policy.decide_call(call.name, call.arguments, context.cwd, context.rules)
    match = context.rules.match(call.name)
    if match is None:
        decision = Decision("ask", "No rule names this tool, so a person has to approve it.", "default")
    else:
        kind, rule = match
        verdict, reason = _REASONS[kind]
        decision = Decision(verdict, reason.format(rule=rule), "rule", rule)
    return nobody_to_ask(call, decision) if context.headless and decision.asks else decision


def nobody_to_ask(call: Call, decision: Decision) -> Decision:
    """The soft denial that an ask becomes where nobody can be asked.

    A rule that asks stays in force beside one that allows, so the reason names what would really help.
    """
    if decision.source == "rule":
        remedy = f"the rule `{decision.rule}` stands in the way"
    elif decision.remedies:
        remedy = "a rule under `permissions.allow` of the settings would allow it"
    elif decision.source == "default":
        remedy = (
            f"the rule `{call.name}` would allow it, among the rules by tool name that the host's approver was given"
        )
    else:
        remedy = "run it where a person can answer"
    reason = f"`{call.name}` needs an approval and nobody can be asked here; {remedy}."
    return replace(decision, decision="deny", reason=reason, source="headless", soft=True)
