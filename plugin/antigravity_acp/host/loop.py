"""The agent loop: model, tools, model again, until the model stops.

Owns: the history of one conversation and the turn that runs. It works with any adapter, through ``ctx.llm`` only. One
turn at a time; a turn ends with a :class:`TurnResult`, whatever failed on the way. However it ends, the history stays
valid: every tool call in it has its result. Calls of one message run at the same time, within a bound; their results
stand in the order of the calls. A model call is repeated only when its failure says that it may be, and only if
nothing of it was streamed.
Never: leaves a call running, or an adapter waiting for results that will not come: a turn that does not end by itself
fires the signal that the adapter holds.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from antigravity_acp.contract import (
    ERRORS,
    AbortController,
    AbortSignal,
    Failure,
    FinishReason,
    GenerateOptions,
    LlmError,
    Message,
    ReasoningDelta,
    StreamChunk,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolSchema,
    Usage,
)
from antigravity_acp.hooks import ToolResult
from antigravity_acp.limits import (
    MAX_LOOP_STEPS,
    MAX_MODEL_ATTEMPTS,
    MAX_PARALLEL_TOOLS,
    MAX_RETRY_DELAY_S,
    RETRY_DELAY_S,
)

from ._calls import CallRunner, cancelled_result
from .approvals import Approvals, Approver
from .assembler import Assembler
from .context import Context
from .events import (
    LoopEvent,
    RetryPlanned,
    StepEnded,
    TextArrived,
    ThoughtArrived,
    TurnEnded,
    TurnKind,
    UsageReported,
)
from .models import ModelChoice
from .tools import Workspace

_log = logging.getLogger("antigravity_acp.host.loop")

#: Codes of the original host's own adapters that mean the same as our retryable ones.
_RETRYABLE_ELSEWHERE = frozenset({"TRANSPORT", "TIMEOUT", "SERVER", "RATE_LIMIT"})


class LoopLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a loop; the defaults are in ``limits.py``. Times are in seconds."""

    max_steps: int = MAX_LOOP_STEPS
    max_parallel_tools: int = MAX_PARALLEL_TOOLS
    max_attempts: int = MAX_MODEL_ATTEMPTS
    retry_delay_s: float = RETRY_DELAY_S


class TurnResult(msgspec.Struct, frozen=True):
    """How a turn ended.

    :param kind: ``stop`` and ``max-tokens`` are the model's; the others are failures.
    :param text: the text of the last assistant message.
    :param steps: model calls that were made.
    :param failure: what failed, for ``aborted``, ``error`` and ``step-limit``.
    """

    kind: TurnKind
    text: str
    steps: int
    failure: Failure | None = None


class AgentLoop:
    """One conversation.

    :param ctx: the host's context; uses its services ``llm`` and ``tools``, and ``hooks`` and ``governor`` where there
        are any.
    :param model: which model answers; may be changed between turns.
    :param workspace: directory of the file tools.
    :param approver: says which calls may run; ``Approvals.of(ctx)`` when left out, where nobody can be asked.
    :param system: the system prompt; it is the first message of every request.
    :param history: messages to go on from.
    :param listener: told what happens; it must not block, and what it raises is logged and ignored.
    """

    def __init__(
        self,
        ctx: Context,
        *,
        model: ModelChoice,
        workspace: Workspace | Path | str,
        approver: Approver | None = None,
        system: str = "",
        history: Sequence[Message] = (),
        session_id: str | None = None,
        listener: Callable[[LoopEvent], None] | None = None,
        limits: LoopLimits | None = None,
    ) -> None:
        self.model = model
        self.session_id = session_id or f"session_{uuid4().hex}"
        self._ctx = ctx
        self._workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace)
        self._approver = approver or Approvals.of(ctx)
        self._listener = listener
        self._limits = limits or LoopLimits()
        self._history = list(history)
        self._head = (_message("system", system, {"kind": "system-prompt"}),) if system else ()
        self._running = False

    @property
    def history(self) -> tuple[Message, ...]:
        """The conversation so far, without the system prompt."""
        return tuple(self._history)

    async def run(self, prompt: str | Message, *, signal: AbortSignal | None = None) -> TurnResult:
        """Carry out one turn.

        :param prompt: what the user says.
        :param signal: cancels the turn; running tools and the stream are ended.
        :raises LlmError: ``ACP_SESSION_BUSY`` while another turn of this conversation runs.
        """
        if self._running:
            raise LlmError("ACP_SESSION_BUSY")
        self._running = True
        controller = AbortController()
        remove = signal.add_listener(lambda: controller.abort(signal.reason)) if signal else lambda: None
        self._history.append(prompt if isinstance(prompt, Message) else _message("user", prompt, {"kind": "user"}))
        turn = _Turn(self._ctx, self, controller.signal)
        result: TurnResult | None = None
        try:
            result = await turn.run()
        finally:
            remove()
            self._running = False
            if result is None or result.kind not in ("stop", "max-tokens"):
                # An adapter may still hold calls of this turn open; they will not get results.
                controller.abort("the turn ended")
        self._tell(TurnEnded(result.kind, result.steps, result.failure))
        return result

    def _tell(self, event: LoopEvent) -> None:
        if self._listener is None:
            return
        try:
            self._listener(event)
        except Exception as error:  # noqa: BLE001 - a listener may raise anything; it only watches
            _log.warning("the listener failed with %s", type(error).__name__)


class _Turn:
    """The state of one turn of a loop."""

    def __init__(self, ctx: Context, loop: AgentLoop, signal: AbortSignal) -> None:
        self._llm = ctx.llm
        self._loop = loop
        self._limits = loop._limits
        self._history = loop._history
        self._signal = signal
        self._tell = loop._tell
        # The catalogue stays the same for the whole turn: a continuation is only accepted on an unchanged one.
        self._tools: tuple[ToolSchema, ...] = ctx.tools.schemas()
        self._places = asyncio.Semaphore(self._limits.max_parallel_tools)
        self._runner = CallRunner(
            tools=ctx.tools,
            hooks=ctx.get("hooks"),
            approver=loop._approver,
            workspace=loop._workspace,
            session_id=loop.session_id,
            turn_id=uuid4().hex,
            signal=signal,
            emit=loop._tell,
            governor=ctx.get("governor"),
        )
        self._steps = 0
        self._text = ""

    async def run(self) -> TurnResult:
        while True:
            self._steps += 1
            reply = await self._generate()
            finish = reply.finish or FinishReason("error", Failure.of(LlmError("UNKNOWN")))
            self._tell(StepEnded(self._steps, finish.kind))
            message = reply.message(with_calls=finish.kind in ("stop", "tool-calls"))
            self._text = message.text
            if message.content:
                self._history.append(message)
            if finish.kind in ("aborted", "error"):
                return self._end("aborted" if finish.kind == "aborted" else "error", finish.failure)
            if not message.tool_calls:
                return self._end("max-tokens" if finish.kind == "max-tokens" else "stop")
            last = self._steps >= self._limits.max_steps
            await self._answer_calls(message.tool_calls, run=not last)
            if self._signal.aborted:
                return self._end("aborted", Failure.of(LlmError("ABORTED")))
            if last:
                text = f"The turn was ended after {self._steps} model calls; ask it to go on, or ask for less."
                return self._end("step-limit", Failure(text, "ACP_TURN_LIMIT"))

    def _end(self, kind: TurnKind, failure: Failure | None = None) -> TurnResult:
        return TurnResult(kind, self._text, self._steps, failure)

    # ---- the model --------------------------------------------------------------------------------------------

    async def _generate(self) -> Assembler:
        attempt = 1
        while True:
            reply = await self._stream()
            delay = self._retry_delay(reply, attempt)
            if delay is None:
                return reply
            failure = reply.finish and reply.finish.failure
            self._tell(RetryPlanned(attempt + 1, failure.code if failure else "UNKNOWN", delay))
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._signal.wait()
            attempt += 1

    async def _stream(self) -> Assembler:
        model = self._loop.model
        reply = Assembler(model.provider, model.model)
        options = GenerateOptions(
            provider=model.provider,
            model=model.model,
            messages=(*self._loop._head, *self._history),
            tools=self._tools,
            tool_history=_tool_history(self._tools),
            session_id=self._loop.session_id,
            signal=self._signal,
        )
        async with aclosing(self._llm.stream(options)) as chunks:
            async for chunk in chunks:
                reply.feed(chunk)
                self._report(chunk)
        return reply

    def _report(self, chunk: StreamChunk) -> None:
        if isinstance(chunk, TextDelta):
            self._tell(TextArrived(chunk.text))
        elif isinstance(chunk, ReasoningDelta):
            self._tell(ThoughtArrived(chunk.text))
        elif isinstance(chunk, Usage):
            self._tell(UsageReported(chunk.usage))

    def _retry_delay(self, reply: Assembler, attempt: int) -> float | None:
        """Seconds until the next attempt; ``None`` when there is to be none."""
        failure = reply.finish.failure if reply.finish else None
        if failure is None or reply.started or self._signal.aborted or attempt >= self._limits.max_attempts:
            return None
        row = ERRORS.get(failure.code)
        if not (row.retryable if row else failure.code in _RETRYABLE_ELSEWHERE):
            return None
        wished = (failure.provider_retry_after_ms or 0) / 1000
        return min(max(wished, self._limits.retry_delay_s * float(1 << (attempt - 1))), MAX_RETRY_DELAY_S)

    # ---- the tools --------------------------------------------------------------------------------------------

    async def _answer_calls(self, calls: Sequence[ToolCallBlock], *, run: bool) -> None:
        """Append one result for each call, in the order of the calls, also when this task is cancelled."""
        results: dict[str, ToolResult] = {}
        try:
            if run:
                async with asyncio.TaskGroup() as group:
                    for call in calls:
                        group.create_task(self._one(call, results), name=f"tool {call.name}")
        finally:
            for call in calls:
                result = results.get(call.id) or (cancelled_result() if run else _LIMIT_RESULT)
                source = {"kind": "tool", "callId": call.id}
                self._history.append(
                    Message(
                        role="tool",
                        content=result.content or (TextBlock(""),),
                        id=f"msg_{uuid4().hex}",
                        source=source,
                        tool_call_id=call.id,
                        is_error=result.is_error,
                    )
                )

    async def _one(self, call: ToolCallBlock, results: dict[str, ToolResult]) -> None:
        async with self._places:
            results[call.id] = await self._runner.run(call)


#: The result of calls that the step bound kept from running.
_LIMIT_RESULT = ToolResult.of("The turn reached its bound of model calls; this call was not run.", is_error=True)


def _message(role: Any, text: str, source: dict[str, Any]) -> Message:
    return Message(role=role, content=(TextBlock(text),), id=f"msg_{uuid4().hex}", source=source)


def _tool_history(tools: tuple[ToolSchema, ...]) -> dict[str, Any] | None:
    return {"tools": [msgspec.to_builtins(tool) for tool in tools], "updates": []} if tools else None
