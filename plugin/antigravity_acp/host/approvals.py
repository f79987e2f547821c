"""Who says whether a call may run: rules first, then a person, and nobody means no.

Owns: :class:`PolicyApprover` (rules), :class:`TerminalApprover` (a person) and :class:`Approvals`, which joins them
with what the hooks said: the strictest of hooks and rules counts, and only what still asks reaches the person. Every
answer has a reason. A grant "for this turn" ends with the turn and is never given for tools that execute commands.
The terminal shows arguments to the person who has to judge them: escaped, so that a model cannot draw on the screen;
behind a bar, so that no line of an argument looks like one of ours; and whole, unless the tool only reads or edits.
Never: runs a tool, or logs an argument.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from antigravity_acp.hooks.calls import ToolCall
from antigravity_control import Call, Decision, DecisionContext, Rules, decide, nobody_to_ask, strictest

from .console import LineReader

#: Characters of one argument of a tool that reads or edits which the person is shown, half from each end.
_MAX_SHOWN: Final = 2_000


class ApprovalRequest(msgspec.Struct, frozen=True):
    """A call that wants to run.

    :param call: the call.
    :param opinion: the strictest opinion of the hooks, when they have one.
    """

    call: ToolCall
    opinion: Decision | None = None


class Approver(Protocol):
    """Says whether a call may run."""

    async def decide(self, request: ApprovalRequest) -> Decision:
        """The decision, with its reason. May be cancelled while it waits."""


class PolicyApprover:
    """Decides by rules.

    :param rules: allow, ask and deny by tool name; none means that everything asks.
    :param headless: what asks is denied, since nobody is there.
    """

    def __init__(self, rules: Rules | None = None, *, headless: bool = False) -> None:
        self._context = DecisionContext(rules or Rules(), headless)

    async def decide(self, request: ApprovalRequest) -> Decision:
        """The rules' answer; it may be that somebody has to be asked."""
        return decide(Call(request.call.name, request.call.arguments), self._context)


class TerminalApprover:
    """Asks a person on the terminal, one question at a time.

    :param reader: where answers come from.
    :param write: where questions go; standard error by default.
    """

    def __init__(self, reader: LineReader | None = None, write: Callable[[str], None] | None = None) -> None:
        self._reader = reader or LineReader()
        self._write = write or _write_stderr
        # Calls of one message run at the same time; their questions may not.
        self._one_at_a_time = asyncio.Lock()
        self._turn = ""
        self._granted: set[str] = set()

    async def decide(self, request: ApprovalRequest) -> Decision:
        """Once, this turn, or no. The end of the input, and anything that is no answer three times, is no."""
        call = request.call
        async with self._one_at_a_time:
            if call.turn_id != self._turn:
                self._turn, self._granted = call.turn_id, set()
            forced = request.opinion is not None and request.opinion.decision == "force_ask"
            if call.name in self._granted and not forced:
                return Decision("allow", "The person allowed this tool for this turn.", "person")
            self._reader.forget_typed()
            self._write(_card(request))
            return await self._answer(call)

    async def _answer(self, call: ToolCall) -> Decision:
        widen = call.kind != "execute"
        choices = "[o]nce, this [t]urn or [n]o" if widen else "[o]nce or [n]o"
        for _ in range(3):
            # The name once more: what is shown of the arguments can be longer than the screen.
            self._write(f"Allow {_plain(call.name)}? {choices}: ")
            line = await self._reader.readline()
            if line is None:
                self._write("\n")
                return Decision("deny", "The input ended before the person answered.", "person")
            answer = line.strip().lower()
            if answer in ("o", "once", "y", "yes"):
                return Decision("allow", "The person allowed this call.", "person")
            if widen and answer in ("t", "turn"):
                self._granted.add(call.name)
                return Decision("allow", "The person allowed this tool for this turn.", "person")
            if answer in ("n", "no"):
                break
        return Decision("deny", "The person did not allow this call.", "person")


class Approvals:
    """Hooks and rules first, then a person, if there is one.

    :param policy: the rules.
    :param person: whom to ask; ``None`` is a headless host, where what asks is denied.
    """

    def __init__(self, policy: PolicyApprover | None = None, person: Approver | None = None) -> None:
        self._policy = policy or PolicyApprover()
        self._person = person

    async def decide(self, request: ApprovalRequest) -> Decision:
        """Allow or deny, never ask."""
        ruled = await self._policy.decide(request)
        # An opinion that allows does not loosen a rule; one that asks or denies does not give way to one.
        judged = strictest([ruled, *([request.opinion] if request.opinion else [])]) or ruled
        if not judged.asks:
            return judged
        if self._person is None:
            return nobody_to_ask(Call(request.call.name), judged)
        return await self._person.decide(ApprovalRequest(request.call, judged))


def _card(request: ApprovalRequest) -> str:
    call = request.call
    lines = [f"\n{_plain(call.name)} wants to run."]
    for name, value in call.arguments.items():
        lines += _shown(_plain(name), value, whole=call.kind not in ("read", "edit"))
    if request.opinion is not None and request.opinion.source.startswith("hook:"):
        lines.append(f"  {_plain(request.opinion.source)}: {_plain(request.opinion.reason)}")
    return "\n".join(lines) + "\n"


def _shown(name: str, value: object, *, whole: bool) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    surplus = len(text) - _MAX_SHOWN
    if whole or surplus <= 0:
        return _barred(f"  {name}: ", text)
    half = _MAX_SHOWN // 2
    cut = f"  {name}: [{surplus} characters more, not shown] "
    return [*_barred(f"  {name}: ", text[:half]), *_barred(cut, text[-half:])]


def _barred(head: str, text: str) -> list[str]:
    first, *others = (_plain(line) for line in text.split("\n"))
    return [head + first, *(f"    | {line}" for line in others)]


def _plain(text: str) -> str:
    """Text without control, format and bidirectional characters, which could hide or fake what is shown."""
    return "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in text)


def _write_stderr(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
