"""Who says whether a call may run: rules first, then a person, and nobody means no.

Owns: :class:`PolicyApprover` (rules by tool name), :class:`GovernedApprover` (all rules), :class:`TerminalApprover` (a
person) and :class:`Approvals`, which joins them with what the hooks said: the strictest of hooks and rules counts, and
only what still asks reaches the person. Every answer has a reason. A grant "for this turn" ends with the turn; for a
command it is the exact line, and without a governor there is none for tools that execute commands. "Always" writes the
rule that was shown, and nothing else. A question that the turn's end leaves without an answer is on record as one.
Never: runs a tool, or logs an argument; offers to write, or names where nobody is there, a rule that holds a secret.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Protocol, Self

import msgspec

from antigravity_acp.governing import Governor, Offers
from antigravity_acp.governing.records import Unanswered
from antigravity_acp.governing.rules_file import RulesFileError
from antigravity_acp.hooks.calls import ToolCall, governed
from antigravity_control import Call, Decision, DecisionContext, Rules, decide, nobody_to_ask, strictest

from ._card import card, plain
from .console import LineReader
from .context import Context

#: What decided when the ledger could not record a call; see `_calls.py`.
LEDGER: Final = "ledger"
#: How often a person is asked who gives no answer.
_TRIES: Final = 3


class ApprovalRequest(msgspec.Struct, frozen=True):
    """A call that wants to run.

    :param call: the call.
    :param opinion: the strictest opinion of the hooks, when they have one.
    """

    call: ToolCall
    opinion: Decision | None = None


@dataclass(frozen=True, slots=True)
class Answer(Decision):
    """What a person answered.

    :param extent: how far a yes goes: ``once``, once ``sandboxed`` or ``unrestricted`` where settings say otherwise,
        ``turn``, ``folder`` or ``always``; empty for a no.
    """

    extent: str = ""


@dataclass(frozen=True, slots=True)
class _AskedTwice(Decision):
    """A question of the hooks about a tool that no rule by name names either. :param also: what the hooks want."""

    also: str = ""


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
        """The rules' answer, or a stricter one of the hooks; it may be that somebody has to be asked."""
        asked = DecisionContext(self._context.rules)
        ruled = decide(Call(request.call.name, request.call.arguments), asked)
        judged = _joined(ruled, request.opinion)
        if judged is ruled and ruled.source == "default" and request.opinion is not None and request.opinion.asks:
            settings = "a rule under `permissions.allow` of the settings"
            also = settings if request.opinion.remedies else "that no plugin asks"
            judged = _AskedTwice(**_fields(judged), also=also)
        return _nobody(request.call, judged) if self._context.headless and judged.asks else judged


class GovernedApprover:
    """Decides by everything that the governor knows: rules about what a call does, the floor, modes and grants.

    :param governor: it knows, too, whether somebody can be asked. :param attended: says so in its place.
    """

    def __init__(self, governor: Governor, *, attended: bool | None = None) -> None:
        self._governor = governor
        self._attended = governor.attended if attended is None else attended

    async def decide(self, request: ApprovalRequest) -> Decision:
        """The governor's answer, or a stricter one of the hooks; it may be that somebody has to be asked."""
        await self._governor.ready()
        judged = _joined(self._governor.decide(governed(request.call), attended=self._attended), request.opinion)
        if judged.asks and not self._attended:
            return _nobody(request.call, judged)
        return _nameable(request.call, judged)

    async def left_open(self, call: ToolCall, question: Decision, *, seconds: float) -> None:
        """The wait for a person's answer was ended from outside; it is on record so, unless something else decides."""
        await self._governor.record(governed(call), Unanswered.of(question), seconds=seconds)


class TerminalApprover:
    """Asks a person on the terminal, one question at a time.

    :param reader: where answers come from.
    :param write: where questions go; standard error by default.
    :param governor: takes what is answered for the turn and for ever; without one a person can say "this turn" of a
        tool, and never "always".
    """

    #: For records: where the person sits.
    via: Final = "terminal"

    def __init__(
        self,
        reader: LineReader | None = None,
        write: Callable[[str], None] | None = None,
        governor: Governor | None = None,
    ) -> None:
        self._reader = reader or LineReader()
        self._write = write or _write_stderr
        self._governor = governor
        # Calls of one message run at the same time; their questions may not.
        self._one_at_a_time = asyncio.Lock()
        self._turn = ""
        self._granted: set[str] = set()

    async def decide(self, request: ApprovalRequest) -> Decision:
        """Once, this turn, always, or no. The end of the input, and anything that is no answer three times, is no."""
        call = request.call
        async with self._one_at_a_time:
            if call.turn_id != self._turn:
                self._turn, self._granted = call.turn_id, set()
            forced = request.opinion is not None and request.opinion.decision == "force_ask"
            offers, by_name = (Offers(), call.kind != "execute") if self._governor is None else (Offers(), False)
            unwritten = ""
            if self._governor is not None and not forced:
                # Again: the answer about the call before this one may have been meant for this one, too.
                await self._governor.ready()
                ruled = self._governor.decide(governed(call), attended=True)
                if ruled.allowed and not _by_hook(request):
                    return ruled
                offers = self._governor.offers(governed(call))
                if unwritten := _why_unwritten(offers.always):
                    offers = msgspec.structs.replace(offers, always=())
                by_name = ruled.allowed and call.kind != "execute"
            if by_name and call.name in self._granted and not forced:
                return Answer("allow", "The person allowed this tool for this turn.", "person", extent="turn")
            self._reader.forget_typed()
            file = str(self._governor.rules_file) if self._governor is not None else ""
            self._write(card(call, request.opinion, offers, file, unwritten))
            return await self._answer(request, offers, by_name=by_name)

    async def _answer(self, request: ApprovalRequest, offers: Offers, *, by_name: bool) -> Decision:
        call, opinion = request.call, request.opinion
        rule, scope = (opinion.rule, opinion.scope) if opinion is not None else (None, None)
        turn = by_name or bool(offers.turn)
        words = [
            "[o]nce",
            *(["once in the [s]andbox"] if offers.confined is False else []),
            *(["once [u]nrestricted"] if offers.confined else []),
            *(["this [t]urn"] if turn else []),
            *(["its [f]older for this turn"] if offers.folder else []),
            *(["[a]lways"] if offers.always else []),
        ]
        for _ in range(_TRIES):
            # The name once more: what is shown of the arguments can be longer than the screen.
            self._write(f"Allow {plain(call.name)}? {', '.join(words)} or [n]o: ")
            line = await self._reader.readline()
            if line is None:
                self._write("\n")
                return Answer("deny", "The input ended before the person answered.", "person", rule, scope=scope)
            answer = line.strip().lower()
            if answer in ("o", "once", "y", "yes"):
                return Answer("allow", "The person allowed this call.", "person", rule, scope=scope, extent="once")
            if offers.confined is not None and answer == ("u" if offers.confined else "s"):
                extent = "unrestricted" if offers.confined else "sandboxed"
                reason = f"The person allowed this call, {'outside' if offers.confined else 'inside'} the sandbox."
                return Answer("allow", reason, "person", rule, scope=scope, extent=extent)
            if turn and answer in ("t", "turn"):
                return self._for_turn(call, offers.turn)
            if offers.folder and answer in ("f", "folder"):
                return self._for_turn(call, offers.folder, "folder")
            if offers.always and answer in ("a", "always"):
                return await self._always(offers.always)
            if answer in ("n", "no"):
                return Answer("deny", "The person did not allow this call.", "person", rule, scope=scope)
            self._write("That is none of the answers: type the letter in brackets.\n")
        reason = f"The person gave {_TRIES} answers that are none, so this call is not allowed."
        return Answer("deny", reason, "person", rule, scope=scope)

    def _for_turn(self, call: ToolCall, rules: tuple[str, ...], extent: str = "turn") -> Decision:
        if self._governor is None or not rules:
            self._granted.add(call.name)
            return Answer("allow", "The person allowed this tool for this turn.", "person", extent=extent)
        self._governor.grant(call.turn_id, rules)
        reason = f"The person allowed {'what this call does' if extent == 'turn' else 'the folder'} for this turn."
        return Answer("allow", reason, "person", scope="turn", extent=extent)

    async def _always(self, rules: tuple[str, ...]) -> Decision:
        assert self._governor is not None  # noqa: S101 - only a governor offers rules
        try:
            await self._governor.keep(rules)
        except RulesFileError as error:
            self._write(f"{plain(str(error))} The call is allowed this once.\n")
            return Answer("allow", "The person allowed this call.", "person", extent="once")
        reason = "The person allowed what this call does from now on."
        return Answer("allow", reason, "person", "; ".join(rules), scope="plugin", extent="always")


class Approvals:
    """Hooks and rules first, then a person, if there is one.

    :param policy: the rules.
    :param person: whom to ask; ``None`` is a headless host, where what asks is denied.
    """

    @classmethod
    def of(cls, ctx: Context, person: Approver | None = None) -> Self:
        """By everything that the host's governor knows, where it has one (``control`` is on); else by no rule at all,
        so that each call is asked about.

        :param ctx: the host's context, once its plugins are mounted. :param person: whom to ask.
        """
        governor = ctx.get("governor")
        if not isinstance(governor, Governor):
            return cls(None, person)
        return cls(GovernedApprover(governor, attended=person is not None), person)

    def __init__(self, policy: PolicyApprover | GovernedApprover | None = None, person: Approver | None = None) -> None:
        self._policy = policy or PolicyApprover()
        self._person = person

    @property
    def via(self) -> str:
        """For records: where the person sits, empty when there is none."""
        return str(getattr(self._person, "via", "person")) if self._person is not None else ""

    async def decide(self, request: ApprovalRequest) -> Decision:
        """Allow or deny, never ask."""
        judged = await self._policy.decide(request)
        if not judged.asks:
            return judged
        if self._person is None:
            return _nobody(request.call, judged)
        began = time.monotonic()
        try:
            return await self._person.decide(ApprovalRequest(request.call, judged))
        except asyncio.CancelledError:
            if isinstance(self._policy, GovernedApprover):
                await self._policy.left_open(request.call, judged, seconds=time.monotonic() - began)
            raise


def _joined(ruled: Decision, opinion: Decision | None) -> Decision:
    """The strictest of rules and hooks: an opinion that allows does not loosen a rule; one that asks or denies does not
    give way to one."""
    if opinion is None:
        return ruled
    # A soft denial is a question that nobody answers; where a hook asks as well, no rule would help.
    softly = replace(ruled, decision="ask") if ruled.soft and opinion.asks else ruled
    found = strictest([softly, opinion]) or ruled
    return opinion if found is softly and softly is not ruled else found


def _fields(decision: Decision) -> dict[str, Any]:
    return {each.name: getattr(decision, each.name) for each in fields(Decision)}


def _nobody(call: ToolCall, judged: Decision) -> Decision:
    if judged.source == LEDGER:
        return replace(judged, decision="deny", reason=f"{judged.reason} Nobody can be asked here.", soft=True)
    if isinstance(judged, _AskedTwice):
        takes = f"the rule `{call.name}` among the rules by tool name that the host's approver was given"
        reason = f"`{call.name}` needs an approval and nobody can be asked here; it takes {takes}, and {judged.also}."
        return replace(judged, decision="deny", reason=reason, source="headless", soft=True)
    return _nameable(call, nobody_to_ask(Call(call.name), judged))


def _nameable(call: ToolCall, judged: Decision) -> Decision:
    """A soft denial says which rules would help, and what is said where nobody sits ends up in logs."""
    why = _why_unwritten(judged.remedies) if judged.soft else ""
    if not why:
        return judged
    reason = f"`{call.name}` needs an approval and nobody can be asked here; a rule for this very call {why}."
    return replace(judged, reason=reason, remedies=())


def _why_unwritten(rules: tuple[str, ...]) -> str:
    if not rules:
        return ""
    # Late: only a question that a rule could answer has any.
    from antigravity_control.judging.suggest import why_unwritten

    return why_unwritten(rules)


def _by_hook(request: ApprovalRequest) -> bool:
    return request.opinion is not None and request.opinion.source.startswith("hook:")


def _write_stderr(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
