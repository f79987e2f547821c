"""The decision itself.

Owns: :func:`decide`, and what becomes of a question that nobody can answer. With a policy in the context what the call
does counts (:class:`~antigravity_control.engine.Policy`), and rules by tool name beside it; without one the tool's
name alone. Order: deny, ask, allow, default. The default asks: a call that no rule names needs a person.
"""

from dataclasses import replace
from typing import Final

from .decision import Call, Decision, DecisionContext, Verdict

_REASONS: Final[dict[str, tuple[Verdict, str]]] = {
    "deny": ("deny", "The rule `{rule}` denies this tool."),
    "ask": ("ask", "The rule `{rule}` asks about this tool."),
    "allow": ("allow", "The rule `{rule}` allows this tool."),
}


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
        remedy = f"take the rule `{decision.rule}` away and allow `{call.name}`"
    elif decision.remedies:
        remedy = "a rule under `permissions.allow` of the settings would allow it"
    elif decision.source == "default":
        remedy = f"the rule `{call.name}` would allow it"
    else:
        remedy = "run it where a person can answer"
    reason = f"`{call.name}` needs an approval and nobody can be asked here; {remedy}."
    return replace(decision, decision="deny", reason=reason, source="headless", soft=True)
