"""Short ways to make policies and to ask them, for tests of the rule engine."""

from collections.abc import Callable, Iterable
from typing import Any

from antigravity_control import ActionName, Decision, Policy, Request, Source
from antigravity_control.language.modes import Attendance

Lines = Iterable[str]


def policy(
    *,
    allow: Lines = (),
    ask: Lines = (),
    deny: Lines = (),
    workspace: str = "/w",
    mode: Attendance = "interactive",
    flags: Lines = (),
    home: str | None = "/home/person",
    folds: Callable[[str], bool] | None = None,
    **settings: Any,
) -> Policy:
    """A policy of one source; other keywords are settings beside ``permissions``."""
    data = {"permissions": {"allow": list(allow), "ask": list(ask), "deny": list(deny)}, **settings}
    return Policy.compile([Source("global", data)], workspace=workspace, mode=mode, flags=flags, home=home, folds=folds)


def judged(action: ActionName, target: str, **options: Any) -> Decision:
    """One decision of a policy made for it."""
    return policy(**options).decide(Request(action, target))


def verdict(action: ActionName, target: str, **options: Any) -> str:
    """The word of that decision; ``soft`` for a soft denial."""
    made = judged(action, target, **options)
    return "soft" if made.soft else made.decision
