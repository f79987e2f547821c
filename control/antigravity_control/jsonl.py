"""Decisions for programs that ask in JSON lines.

Owns: the objects of ``control decide`` and ``control floor``: one object in, one out. Bad input becomes
``{"id": …, "error": …}``; nothing here raises for what an object holds.
"""

from collections.abc import Callable, Mapping
from typing import Any

from .engine import Policy
from .floor import check
from .language.actions import ACTIONS, Request
from .language.modes import Attendance
from .sources.settings import Source


class _InputError(ValueError):
    """The object is not what was asked for."""


def decide_vector(
    item: object, *, home: str | None = None, compiled: Callable[..., Policy] = Policy.compile
) -> dict[str, Any]:
    """``{"id","settings","workspace","mode","flags","call":{"action","target"}}`` in,
    ``{"id","decision","soft","reason","source","rule"}`` out, and ``faults``, a list of texts, when something in the
    settings or the flags is not what it should be.

    Beside the call and the workspace everything may be left out, and other keys are passed over. ``workspace`` may be a
    list, of which relative paths start from the first. A call may also have ``cwd``.

    :param home: what ``~`` stands for. :param compiled: makes the policy, with the arguments of ``Policy.compile``.
    """
    try:
        fields = _object(item, "an object")
        call = _object(fields.get("call"), "`call` as an object with action and target")
        request = Request(_action(call.get("action")), _string(call, "target"), cwd=_optional(call, "cwd"))
        policy = _policy(fields, home, compiled)
    except _InputError as error:
        return {"id": _id(item), "error": str(error)}
    made = policy.decide(request)
    return {
        "id": _id(item),
        "decision": "ask" if made.asks else made.decision,
        "soft": made.soft,
        "reason": made.reason,
        "source": made.source,
        "rule": made.rule,
        **({"faults": [str(fault) for fault in policy.faults]} if policy.faults else {}),
    }


def floor_vector(item: object, *, home: str | None = None) -> dict[str, Any]:
    """``{"id","command"}`` in, ``{"id","decision": "deny" | "pass","entry","reason"}`` out."""
    try:
        command = _string(_object(item, "an object"), "command")
    except _InputError as error:
        return {"id": _id(item), "error": str(error)}
    hit = check(command, home=home)
    if hit is None:
        return {"id": _id(item), "decision": "pass", "entry": None, "reason": None}
    return {"id": _id(item), "decision": "deny", "entry": hit.entry, "reason": hit.reason}


def _policy(fields: Mapping[str, Any], home: str | None, compiled: Callable[..., Policy]) -> Policy:
    settings = _object(_given(fields, "settings", {}), "`settings` as an object")
    workspace = fields.get("workspace")
    folders = [workspace] if isinstance(workspace, str) else workspace
    if not isinstance(folders, list) or not folders or not all(isinstance(each, str) and each for each in folders):
        raise _InputError("expected `workspace` as an absolute path")
    mode = _given(fields, "mode", "interactive")
    if mode not in ("interactive", "headless"):
        raise _InputError("expected `mode` as `interactive` or `headless`")
    flags = _given(fields, "flags", [])
    if not isinstance(flags, list) or not all(isinstance(each, str) for each in flags):
        raise _InputError("expected `flags` as a list of switches")
    attendance: Attendance = "headless" if mode == "headless" else "interactive"
    try:
        return compiled([Source("global", settings)], workspace=folders, mode=attendance, flags=flags, home=home)
    except ValueError as error:
        raise _InputError(f"the workspace cannot be used: {error}") from error


def _given(fields: Mapping[str, Any], key: str, default: Any) -> Any:
    """A value that may be left out, or be ``null``."""
    value = fields.get(key)
    return default if value is None else value


def _action(value: object) -> Any:
    if value not in ACTIONS:
        raise _InputError(f"expected `call.action` as one of {', '.join(ACTIONS)}")
    return value


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _InputError(f"expected {what}")
    return value


def _string(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str):
        raise _InputError(f"expected `{key}` as a text")
    return value


def _optional(fields: Mapping[str, Any], key: str) -> str | None:
    return _string(fields, key) if fields.get(key) is not None else None


def _id(item: object) -> Any:
    return item.get("id") if isinstance(item, Mapping) else None
