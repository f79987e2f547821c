"""One tool call from the model's words to its result.

Owns: the path of a call: parse, validate, ask the hooks, ask the approver, record, run, show the hooks, record. Each
step that fails becomes an error result; nothing of it escapes as an exception except cancellation of the whole turn's
task. A call whose decision could not be recorded runs only when a person says so.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from antigravity_acp.contract import AbortSignal, ContentBlock, TextBlock, ToolCallBlock
from antigravity_acp.governing import Governor, confined
from antigravity_acp.governing.records import Ended, Unanswered
from antigravity_acp.hooks import PluginManager, ToolCall, ToolError, ToolResult
from antigravity_acp.hooks.calls import governed
from antigravity_acp.limits import APPROVAL_TIMEOUT_S, MAX_RESULT_CHARS, TOOL_RUN_TIMEOUT_S
from antigravity_control import Decision

from ._ending import to_the_end
from .approvals import LEDGER, ApprovalRequest, Approver
from .events import LoopEvent, ToolDecided, ToolEnded, ToolStarted
from .tools import ToolContext, ToolRegistry, Workspace
from .tools.registry import RegisteredTool

_log = logging.getLogger("antigravity_acp.host.loop")

T = TypeVar("T")

#: What the model is told of a call that the turn's cancellation ended, or kept from running.
CANCELLED = "The turn was cancelled before this call had a result."


#: What an answer says about the sandbox.
_CONFINED = {"sandboxed": True, "unrestricted": False}
_UNRECORDED = "The ledger could not record this call."


class _AbortedError(Exception):
    """The turn's signal fired."""


class CallRunner(msgspec.Struct, frozen=True):
    """What the calls of one turn share."""

    tools: ToolRegistry
    hooks: PluginManager | None
    approver: Approver
    workspace: Workspace
    session_id: str
    turn_id: str
    signal: AbortSignal
    emit: Callable[[LoopEvent], None]
    governor: Governor | None = None

    async def run(self, block: ToolCallBlock) -> ToolResult:
        """Carry out one call; always a result."""
        began = time.monotonic()
        self.emit(ToolStarted(block.id, block.name, block.arguments))
        result = _bounded_text(await self._result(block))
        self.emit(ToolEnded(block.id, block.name, result.text, result.is_error, time.monotonic() - began))
        return result

    async def _result(self, block: ToolCallBlock) -> ToolResult:
        tool = self.tools.get(block.name)
        if tool is None:
            return _error("There is no tool of this name.")
        arguments = _parse(block.arguments)
        if arguments is None:
            return _error("The arguments are not a JSON object.")
        if faults := tool.schema.faults(arguments):
            return _error(f"The arguments are not valid: {'; '.join(faults)}.")
        call = ToolCall(
            id=block.id,
            name=block.name,
            arguments=arguments,
            kind=tool.kind,
            session_id=self.session_id,
            turn_id=self.turn_id,
            workspace=str(self.workspace.root),
        )
        outcome: Ended = "cancelled"
        try:
            try:
                result, outcome = await self._decided_and_run(tool, call)
            except _AbortedError:
                result = _error(CANCELLED)
            return await self._shown_to_hooks(call, result)
        finally:
            if self.governor is not None:
                # Also when the turn's task is cancelled: a call that was let run has an end on record.
                await to_the_end(self._record_end(self.governor, call, outcome), "record the end of a call")

    async def _decided_and_run(self, tool: RegisteredTool, call: ToolCall) -> tuple[ToolResult, Ended]:
        began = time.monotonic()
        sandboxed = self._is_confined(call)
        judged = await self._judge(tool, call)
        # What was allowed was allowed as it was then: settings that change while it is recorded take no sandbox away.
        sandboxed = sandboxed or self._is_confined(call)
        decision = await self._recorded(call, judged, began)
        self.emit(
            ToolDecided(
                call.id,
                call.name,
                decision.decision,
                decision.reason,
                decision.source,
                decision.rule,
                decision.soft,
                decision.remedies if decision.soft else (),
            )
        )
        if decision.allowed:
            said = confined.set(_CONFINED.get(getattr(decision, "extent", ""), sandboxed or None))
            try:
                return await self._execute(tool, call)
            finally:
                confined.reset(said)
        return _error(f"The host denied this call. {decision.reason}"), "not_run"

    def _is_confined(self, call: ToolCall) -> bool:
        if self.governor is None or not self.governor.is_ready:
            return False
        try:
            return self.governor.confines_call(governed(call))
        except Exception as error:  # noqa: BLE001 - rules that cannot be asked decide about the call in their own place
            _log.warning("whether a call is sandboxed is not known: %s", type(error).__name__)
            return False

    async def _recorded(self, call: ToolCall, decision: Decision, began: float) -> Decision:
        """The decision, once it is on record; another one when it cannot be."""
        if self.governor is None:
            return decision
        via, extent = str(getattr(self.approver, "via", "person")), getattr(decision, "extent", "")
        approver = ":".join(filter(None, (via, extent))) if decision.source == "person" else ""
        seconds = time.monotonic() - began
        writing = self._record(self.governor, call, decision, seconds, approver)
        # To its end, so that a call whose decision is on record has an end there, too.
        if await to_the_end(writing, "record a decision"):
            return decision
        if not decision.allowed:
            return decision
        asked = Decision("force_ask", f"{_UNRECORDED} The log says why.", LEDGER)
        answer = await self._asked(ApprovalRequest(call, asked))
        if answer.allowed and answer.source == "person":
            # As it was first allowed: in the sandbox, say.
            return decision
        reason = f"{_UNRECORDED} It may not run without, and nobody let it."
        return Decision("deny", reason, LEDGER, soft=answer.soft)

    async def _record(
        self, governor: Governor, call: ToolCall, decision: Decision, seconds: float, approver: str
    ) -> bool:
        attended = governor.attended and bool(getattr(self.approver, "via", "person"))
        try:
            return await governor.record(
                governed(call), decision, seconds=seconds, approver=approver, attended=attended
            )
        except Exception as error:  # noqa: BLE001 - whatever keeps a decision from being recorded keeps the call from running
            _log.warning("a decision could not be recorded: %s", type(error).__name__)
            return False

    async def _record_end(self, governor: Governor, call: ToolCall, outcome: Ended) -> None:
        try:
            await governor.ended(governed(call), outcome)
        except Exception as error:  # noqa: BLE001 - the call has ended; all that is left is to say so
            _log.warning("the end of a call could not be recorded: %s", type(error).__name__)

    async def _judge(self, tool: RegisteredTool, call: ToolCall) -> Decision:
        opinion = await self._opinion(call)
        if opinion is not None and opinion.decision == "deny":
            return opinion
        if refused := await self._refused(tool, call):
            return refused
        began = time.monotonic()
        try:
            return await self._asked(ApprovalRequest(call, opinion))
        except (_AbortedError, asyncio.CancelledError):
            if self.governor is not None and opinion is not None and opinion.asks:
                # A hook's question, which an approver of any kind was to answer.
                question = Unanswered.of(opinion)
                seconds = time.monotonic() - began
                await to_the_end(self._record(self.governor, call, question, seconds, ""), "record a question")
            raise

    async def _refused(self, tool: RegisteredTool, call: ToolCall) -> Decision | None:
        """The denial of what the tool cannot do whoever allows it: nobody is asked about that, and no rule named."""
        try:
            reason = tool.refusal(call.arguments, self._context(call))
            if reason is None:
                return None
            if self.governor is not None:
                await self.governor.ready()
                ruled = self.governor.decide(governed(call))
                if ruled.decision == "deny" and not ruled.soft:
                    return ruled
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything; what it says as it runs is the result
            _log.warning("the tool `%s` could not say what it refuses: %s", call.name, type(error).__name__)
            return None
        return Decision("deny", reason, "default")

    def _context(self, call: ToolCall) -> ToolContext:
        return ToolContext(workspace=self.workspace, signal=self.signal, call_id=call.id, session_id=self.session_id)

    async def _asked(self, request: ApprovalRequest) -> Decision:
        try:
            decision: object = await self._until_aborted(lambda: self.approver.decide(request), APPROVAL_TIMEOUT_S)
        except _AbortedError:
            raise
        except TimeoutError:
            return Decision("deny", f"Nobody answered within {APPROVAL_TIMEOUT_S:g} s.", "headless", soft=True)
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything; the model gets an error result
            _log.warning("the approver failed with %s", type(error).__name__)
            return Decision("deny", "The approver failed, so the call is denied.", "default")
        if not isinstance(decision, Decision):
            _log.warning("the approver gave an answer that is none")
            return Decision("deny", "The approver failed, so the call is denied.", "default")
        if decision.asks:
            return Decision("deny", "The approver left the question open, so the call is denied.", "default")
        return decision

    async def _opinion(self, call: ToolCall) -> Decision | None:
        hooks = self.hooks
        return await self._until_aborted(lambda: hooks.before_tool(call), None) if hooks else None

    async def _execute(self, tool: RegisteredTool, call: ToolCall) -> tuple[ToolResult, Ended]:
        context = self._context(call)
        try:
            given: object = await self._until_aborted(
                lambda: tool.tool.run(call.arguments, context), TOOL_RUN_TIMEOUT_S
            )
        except _AbortedError:
            raise
        except TimeoutError:
            return _error(f"The tool took longer than {TOOL_RUN_TIMEOUT_S:g} s and was ended."), "timeout"
        except ToolError as error:
            return _error(str(error)), "error"
        except Exception as error:  # noqa: BLE001 - foreign code may raise anything; the model gets an error result
            _log.warning("the tool `%s` failed with %s", call.name, type(error).__name__)
            return _error(f"The tool failed with {type(error).__name__}."), "error"
        result = given if isinstance(given, ToolResult) else _error("The tool gave no result.")
        if not _is_sound(result):
            _log.warning("the tool `%s` gave a result that is none", call.name)
            result = _error("The tool gave a result that cannot be read.")
        return result, "error" if result.is_error else "ok"

    async def _shown_to_hooks(self, call: ToolCall, result: ToolResult) -> ToolResult:
        # Not under the signal: an audit must see how a cancelled call ended. Each hook has its own bound.
        shown = await self.hooks.after_tool(call, result) if self.hooks else result
        return shown if _is_sound(shown) else _error("A plugin made of the result what cannot be read.")

    async def _until_aborted(self, work: Callable[[], Awaitable[T]], limit_s: float | None) -> T:
        """Wait for something of this call; the turn's signal cancels it in place.

        :raises _AbortedError: when the signal fired, whatever the work made of its cancellation.
        :raises TimeoutError: when the limit was reached.
        """
        if self.signal.aborted:
            raise _AbortedError
        loop = asyncio.get_running_loop()
        # In place, not as a task of its own: a cancelled turn waits until the tool has really ended.
        async with asyncio.timeout(limit_s) as bound:
            # When the limit is being reached at this very moment, the cancellation is under way already.
            remove = self.signal.add_listener(lambda: None if bound.expired() else bound.reschedule(loop.time()))
            try:
                return await work()
            except TimeoutError:
                # A tool's own time-out is its failure, not the limit of this call.
                raise ToolError("The tool timed out.") from None
            finally:
                remove()
                if self.signal.aborted:
                    raise _AbortedError


def cancelled_result() -> ToolResult:
    """The result of a call that never ran because the turn ended."""
    return _error(CANCELLED)


def _parse(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _error(text: str) -> ToolResult:
    return ToolResult.of(text, is_error=True)


def _is_sound(result: ToolResult) -> bool:
    """Whether the blocks are blocks: a plugin's mistake must end its call, not the turn."""
    content: object = result.content
    return isinstance(content, tuple) and all(
        isinstance(block, ContentBlock) and isinstance(getattr(block, "text", ""), str) for block in content
    )


def _bounded_text(result: ToolResult) -> ToolResult:
    """The result with at most the allowed text; a tool of a plugin may know no bound."""
    room = MAX_RESULT_CHARS
    content: list[ContentBlock] = []
    for block in result.content:
        if isinstance(block, TextBlock) and len(block.text) > room:
            cut = len(block.text) - room
            content.append(TextBlock(f"{block.text[:room]}\n[{cut} characters cut here]"))
            room = 0
            continue
        room -= len(block.text) if isinstance(block, TextBlock) else 0
        content.append(block)
    return ToolResult(tuple(content), result.is_error)
