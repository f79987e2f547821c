"""`control check` and `control explain`: one question, one answer.

Owns: how a decision is shown, and its exit code.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from antigravity_control import Decision, Policy, Request

from ._control_files import policy
from .failures import ASKED, DENIED, CliError
from .output import JsonLines, plain

T = TypeVar("T")
#: Faults of rules that a check names on stderr; `control lint` has all of them.
_FAULTS: Final = 5


def run_check(
    action: Any, target: str, files: Sequence[str], workspace: str | None, *, headless: bool, as_json: bool
) -> int:
    """Decide and say it in one line.

    :param action: one of the engine's actions. :returns: 0 allow, 10 ask, 11 deny.
    :raises CliError: ``INVALID_SETTINGS``: rules cannot be read.
    """
    ruled, read = guarded(lambda: policy(files, workspace, headless=headless), as_json=as_json)
    made = ruled.decide(Request(action, target))
    if as_json:
        JsonLines().show({"event": "decision", **_fields(made, action, target, ruled), "files": read})
    else:
        print(one_line(f"{word(made)}: {made.reason}{f' [{made.scope}]' if made.scope else ''}"))
        if not files:  # who names files knows them
            print(one_line(f"antigravity-acp: {_from(read)}"), file=sys.stderr)
        _show_faults(ruled)
    return 0 if made.allowed else ASKED if made.asks else DENIED


def run_explain(
    action: Any, target: str, files: Sequence[str], workspace: str | None, *, headless: bool, as_json: bool
) -> int:
    """Print the decision with every rule that was considered. Raises as :func:`run_check`."""
    ruled, read = guarded(lambda: policy(files, workspace, headless=headless), as_json=as_json)
    request = Request(action, target)
    text = ruled.explain(request)
    if as_json:
        fields = _fields(ruled.decide(request), action, target, ruled)
        JsonLines().show({"event": "explanation", **fields, "files": read, "text": text})
    else:
        print(plain(text))
        print(one_line(_from(read)))
    return 0


def guarded(work: Callable[[], T], *, as_json: bool) -> T:
    """What ``work`` makes; a failure is shown as an event, too.

    :raises CliError: what failed.
    """
    try:
        return work()
    except CliError as error:
        if as_json:
            JsonLines().show({"event": "error", "code": error.code, "message": error.message})
        raise


def word(made: Decision) -> str:
    """The decision as one of three words."""
    return "ask" if made.asks else made.decision


def one_line(text: str) -> str:
    """Text that cannot draw on a terminal and stays on its line."""
    return plain(text).replace("\n", " ").replace("\t", " ")


def _fields(made: Decision, action: str, target: str, ruled: Policy) -> dict[str, Any]:
    return {
        "action": action,
        "target": target,
        "decision": word(made),
        "soft": made.soft,
        "reason": made.reason,
        "source": made.source,
        "rule": made.rule,
        "scope": made.scope,
        "segment": made.segment,
        "floor": made.floor,
        "remedies": list(made.remedies),
        "faults": [str(fault) for fault in ruled.faults],
    }


def _from(read: Sequence[str]) -> str:
    return f"rules from {', '.join(read)}" if read else "no file holds rules; the defaults are in force"


def _show_faults(ruled: Policy) -> None:
    for fault in ruled.faults[:_FAULTS]:
        print(one_line(f"antigravity-acp: {fault} ({fault.effect})"), file=sys.stderr)
    if len(ruled.faults) > _FAULTS:
        print(f"antigravity-acp: and {len(ruled.faults) - _FAULTS} more, see `control lint`", file=sys.stderr)
