"""The control for a host in another process: may this call run, and how did it end?

Owns: the rules that the settings hold, as the control wing reads them, and the counters of what was decided.
Never: runs a tool; asks a person; keeps an argument.
"""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from antigravity_acp.contract import LlmError
from antigravity_acp.settings import Settings

from .frames import Json

if TYPE_CHECKING:
    from antigravity_control import Rules

_PREFIXES: Final = {"allow": "", "ask": "?", "deny": "!"}


class Control:
    """Decisions by the settings in force.

    :raises LlmError: ``INVALID_SETTINGS``; names the rule that is malformed.
    """

    def __init__(self, settings: Settings) -> None:
        self.counters: Counter[str] = Counter()
        self.update(settings)

    def update(self, settings: Settings) -> None:
        """Take over new settings, for the next decision.

        :raises LlmError: ``INVALID_SETTINGS``; nothing is changed then.
        """
        self._rules = read_rules(settings)
        self._on = settings.control

    def decide(self, call: Json, *, attended: bool) -> Json:
        """Decide about a call.

        :param call: as in ``control/decide``. :param attended: whether a person can be asked.
        :returns: the result of ``control/decide``.
        """
        if not self._on:
            return {"decision": "allow", "reason": "control is off"}
        # Late: a host that only starts up does not wait for what it may never ask.
        from antigravity_control import Call, DecisionContext, Rules, decide

        arguments = call.get("arguments")
        asked = Call(call["name"], arguments if isinstance(arguments, Mapping) else {})
        made = decide(asked, DecisionContext(self._rules or Rules(), headless=not attended))
        decision = "ask" if made.asks else made.decision
        self.counters[f"control_{decision}"] += 1
        return {"decision": decision, "reason": made.reason, **({"rule": made.rule} if made.rule else {})}

    def report(self, outcome: str) -> None:
        """Count how a call ended."""
        self.counters[f"control_outcome_{outcome}"] += 1


def read_rules(settings: Settings) -> "Rules | None":
    """The rules that the setting ``permissions`` holds, ``None`` for none.

    :raises LlmError: ``INVALID_SETTINGS``; names the place of the rule, never what it says.
    """
    if not (settings.permissions.allow or settings.permissions.ask or settings.permissions.deny):
        return None
    from antigravity_control import Rules

    found: dict[str, frozenset[str]] = {}
    for kind, prefix in _PREFIXES.items():
        names = getattr(settings.permissions, kind)
        for index, name in enumerate(names):
            # The list says what the rule does, so none may say it again or hold a second one.
            if not name.strip() or name[0] in "!?" or "," in name or not _reads(prefix + name):
                raise LlmError(
                    "INVALID_SETTINGS",
                    f"Setting `permissions.{kind}[{index}]` is not valid: expected a tool name or `*`.",
                )
        found[kind] = frozenset(name.strip() for name in names)
    return Rules(**found)


def _reads(rule: str) -> bool:
    from antigravity_control import Rules, RulesError

    try:
        Rules.parse(rule)
    except RulesError:
        return False
    return True
