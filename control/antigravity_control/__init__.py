"""May this call run? The one answer that every host of the project asks for.

Owns: the rules (:class:`Policy`), the floor, the decision (:func:`decide`, :meth:`Policy.decide`) and its reason.
Looks up where paths lead and reads the settings files it is told to; else pure: keeps no state, asks nobody.
Never: runs a tool, talks to a person, or imports another wing.

What reads command lines is loaded when it is first asked for: a host that only starts up does not wait for a grammar.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from .decision import Call, Decision, Verdict, strictest
from .language.actions import ACTIONS, Action, ActionName, Request
from .language.rules import Rules, RulesError
from .language.scopes import Scope
from .policy import DecisionContext, decide, nobody_to_ask

if TYPE_CHECKING:
    from .engine import Policy
    from .judging.suggest import rules_for
    from .language.grammar import Rule, RuleFault
    from .language.modes import Mode
    from .sources.settings import Source, read_file, standard_sources
    from .tools import requests_of

_LATE: Final = {
    "Mode": "language.modes",
    "Policy": "engine",
    "Rule": "language.grammar",
    "RuleFault": "language.grammar",
    "Source": "sources.settings",
    "read_file": "sources.settings",
    "requests_of": "tools",
    "rules_for": "judging.suggest",
    "standard_sources": "sources.settings",
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
