"""May this call run? The one answer that every host of the project asks for.

Owns: the decision (:func:`decide`), its reason and its rules. Pure: reads no file, keeps no state, asks nobody.
Never: runs a tool, talks to a person, or imports another wing.
"""

from .decision import Call, Decision, DecisionContext, Verdict, strictest
from .policy import decide, nobody_to_ask
from .rules import Rules, RulesError

__all__ = [
    "Call",
    "Decision",
    "DecisionContext",
    "Rules",
    "RulesError",
    "Verdict",
    "decide",
    "nobody_to_ask",
    "strictest",
]
