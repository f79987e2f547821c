"""`control check` and `control explain`: one question, one answer.

Owns: how a decision is shown, and its exit code.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from antigravity_acp.contract import LlmError
from antigravity_control import Decision, Policy, Request

from ._control_files import policy
from .failures import ASKED, DENIED, CliError
from .output import JsonLines, plain

T = TypeVar("T")
#: The tool of the Python host that does what a question is about, so that rules by tool name have their say.
_TOOLS: Final = {"read_file": "read_file", "write_file": "write_file", "command": "run_command"}
_OWN: Final = "host/"
#: Faults of rules that a check names on stderr; `control lint` has all of them.
_FAULTS: Final = 5


@dataclass(frozen=True, kw_only=True)
class Question:
    """:param action: one of the engine's actions. :param tool: which tool does it; the Python host's when ``None``.
    :param files: files with rules; none are where the host looks. :param plugin: a file with the plugin's settings."""

    action: Any
    target: str
    tool: str | None = None
    files: Sequence[str] = ()
    plugin: str | None = None
    workspace: str | None = None
    headless: bool = False

    def policy(self) -> tuple[Policy, list[str]]:
        """As :func:`._control_files.policy`."""
        if not self.target.strip():
            raise CliError("USAGE", "The target is empty; say what the action is about.")
        return policy(self.files, self.workspace, self.plugin, headless=self.headless)


def request_of(action: Any, target: str, ruled: Policy, tool: str | None = None) -> Request:
    """What is asked about; with the tool's name where rules by tool name are in force."""
    if tool is None and ruled.names:
        own = target.removeprefix(_OWN) if action == "mcp" and target.startswith(_OWN) else None
        tool = own or _TOOLS.get(action)
    return Request(action, target, tool)


def run_check(question: Question, *, as_json: bool) -> int:
    """Decide and say it in one line.

    :returns: 0 allow, 10 ask, 11 deny.
    :raises CliError: ``INVALID_SETTINGS``: rules cannot be read.
    """
    ruled, read = guarded(question.policy, as_json=as_json)
    made = ruled.decide(request_of(question.action, question.target, ruled, question.tool))
    if as_json:
        JsonLines().show({"event": "decision", **_fields(made, question, ruled), "files": read})
    else:
        print(one_line(f"{word(made)}: {made.reason}{f' [{made.scope}]' if made.scope else ''}"))
        if not question.files:  # who names files knows them
            print(one_line(f"antigravity-acp: {_from(read)}"), file=sys.stderr)
        _show_faults(ruled)
    return 0 if made.allowed else ASKED if made.asks else DENIED


def run_explain(question: Question, *, as_json: bool) -> int:
    """Print the decision with every rule that was considered. Raises as :func:`run_check`."""
    ruled, read = guarded(question.policy, as_json=as_json)
    request = request_of(question.action, question.target, ruled, question.tool)
    text = ruled.explain(request)
    if as_json:
        fields = _fields(ruled.decide(request), question, ruled)
        JsonLines().show({"event": "explanation", **fields, "files": read, "text": text})
    else:
        print(plain(text))
        print(one_line(_from(read)))
    return 0


def guarded(work: Callable[[], T], *, as_json: bool) -> T:
    """What ``work`` makes; a failure is shown as an event, too.

    :raises CliError: what failed. :raises LlmError: likewise.
    """
    try:
        return work()
    except (CliError, LlmError) as error:
        if as_json:
            JsonLines().show({"event": "error", "code": error.code, "message": error.message})
        raise


def word(made: Decision) -> str:
    """The decision as one of three words."""
    return "ask" if made.asks else made.decision


def one_line(text: str) -> str:
    """Text that cannot draw on a terminal and stays on its line."""
    return plain(text).replace("\n", " ").replace("\t", " ")


def _fields(made: Decision, question: Question, ruled: Policy) -> dict[str, Any]:
    return {
        "action": question.action,
        "target": question.target,
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
        where = fault.file or "the settings"
        print(one_line(f"antigravity-acp: {where}, {fault.place}: {fault.told} ({fault.effect})"), file=sys.stderr)
    if len(ruled.faults) > _FAULTS:
        print(f"antigravity-acp: and {len(ruled.faults) - _FAULTS} more, see `control lint`", file=sys.stderr)
