"""May this call run? The one answer that every host of the project asks for.

Owns: the rules (:class:`Policy`), the floor, the decision (:func:`decide`, :meth:`Policy.decide`) and its reason.
Looks up where paths lead and reads the settings files it is told to; else pure: keeps no state, asks nobody.
Never: runs a tool, talks to a person, or imports another wing.

What reads command lines is loaded when it is first asked for: a host that only starts up does not wait for a grammar.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .actions import ACTIONS, Action, ActionName, Request
from .decision import Call, Decision, Verdict, strictest
from .policy import DecisionContext, decide, nobody_to_ask
from .rules import Rules, RulesError
from .scopes import Scope

if TYPE_CHECKING:
    from .engine import Policy
    from .grammar import Rule, RuleFault
    from .modes import Mode
    from .settings import Source, read_file, standard_sources
    from .suggest import rules_for
    from .tools import requests_of

_LATE: Final = {
    "Mode": "modes",
    "Policy": "engine",
    "Rule": "grammar",
    "RuleFault": "grammar",
    "Source": "settings",
    "read_file": "settings",
    "requests_of": "tools",
    "rules_for": "suggest",
    "standard_sources": "settings",
}

__all__ = [
    "ACTIONS",
    "Action",
    "ActionName",
    "Call",
    "Decision",
    "DecisionContext",
    "Mode",
    "Policy",
    "Request",
    "Rule",
    "RuleFault",
    "Rules",
    "RulesError",
    "Scope",
    "Source",
    "Verdict",
    "decide",
    "nobody_to_ask",
    "read_file",
    "requests_of",
    "rules_for",
    "standard_sources",
    "strictest",
]


def __getattr__(name: str) -> Any:
    module = _LATE.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
