"""One ACP session: its model, its MCP servers, its turns one after another, and the harness behind them.

Owns the harness's life: started ahead of the first prompt, kept between turns that end normally, replaced by one that
resumes the conversation after everything else (a cancel, an error, a change of model, a tool that the harness dropped).
Ends with `aclose`. The conversation lives on disk under the session's id, so a replacement loses nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from antigravity_engine import limits
from antigravity_engine.backends import Services
from antigravity_engine.calls import ToolCalls
from antigravity_engine.errors import INVALID_REQUEST, EngineError, invalid_params
from antigravity_engine.harness import Harness, NotDeliveredError, TurnEnd
from antigravity_engine.loading import load_sdk
from antigravity_engine.options import Options
from antigravity_engine.plan import Gate, McpServer, Plan
from antigravity_engine.state import State
from antigravity_engine.wire import Wire

log = logging.getLogger("antigravity_engine.session")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all sessions of a process share."""

    wire: Wire
    options: Options
    services: Services
    state: State
    starts: asyncio.Semaphore


@dataclass(slots=True)
class _Turn:
    task: "asyncio.Task[TurnEnd] | None" = None
    cancelled: bool = False
    delivered: bool = False


class Session:
    """`id` is also the conversation's id in the harness: 32 hex digits."""

    def __init__(
        self, session_id: str, cwd: str, servers: tuple[McpServer, ...], models: tuple[str, ...], shared: Surroundings
    ) -> None:
        self.id = session_id
        self.models = models
        self.model = models[0]
        self._cwd = cwd
        self._servers = servers
        self._shared = shared
        self._calls = ToolCalls(self._update, self._permission, native=shared.options.native_tools)
        #: The harness, or its start; a failed start is replaced by the next one.
        self._engine: asyncio.Task[Harness] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._disabled_tools: frozenset[str] = frozenset()
        self._turn: _Turn | None = None
        self._turn_over = asyncio.Event()
        self._turn_over.set()
        self._closed = False

    # ---- the model ---------------------------------------------------------------------------------------------------
    def select_model(self, model: Any) -> None:
        """Takes effect with the next prompt; the conversation goes on. Raises `EngineError`."""
        if model not in self.models:
            raise invalid_params("the model is not one of the session's models", kind="invalid_model")
        if model != self.model:
            self.model = model
            if self._turn is None:
                self._retire()
                self.prepare()

    # ---- turns -------------------------------------------------------------------------------------------------------
    async def prompt(self, parts: list[tuple[str, Any]]) -> dict[str, Any]:
        """One turn; the result of session/prompt. Raises `EngineError`."""
        while self._turn is not None:
            if not self._turn.cancelled:
                raise EngineError("busy", "a prompt of this session is still running", code=INVALID_REQUEST)
            await self._turn_over.wait()  # bounded: a cancelled turn ends within CANCEL_S
        if self._closed:
            raise EngineError("session_not_found", "the session is closed", code=INVALID_REQUEST)
        turn = self._turn = _Turn()
        self._turn_over.clear()
        try:
            return await self._run(turn, parts)
        finally:
            self._turn = None
            self._turn_over.set()

    def cancel(self) -> None:
        """Ends the running turn soon; without one it does nothing. Waits for nothing."""
        turn = self._turn
        if turn is None or turn.cancelled:
            return
        turn.cancelled = True
        if turn.task is None:
            return
        harness = self._harness
        if harness is None or not turn.delivered:
            turn.task.cancel()
            return
        harness.cancel()
        asyncio.get_running_loop().call_later(limits.CANCEL_S, turn.task.cancel)

    async def _run(self, turn: _Turn, parts: list[tuple[str, Any]]) -> dict[str, Any]:
        self._calls.begin()
        turn.task = asyncio.get_running_loop().create_task(self._deliver(turn, parts), name="turn")
        try:
            end = await turn.task
        except asyncio.CancelledError:
            if not turn.cancelled:  # the process is ending
                turn.task.cancel()
                self._retire()
                raise
            end = TurnEnd("cancelled", clean=not turn.delivered)
        except EngineError:
            self._retire()
            if not turn.cancelled:
                raise
            end = TurnEnd("cancelled", clean=False)
        finally:
            await self._calls.give_up()
        if turn.cancelled:
            end.stop = "cancelled"
        self._settle(end)
        result: dict[str, Any] = {"stopReason": end.stop}
        if end.usage is not None:
            result["usage"] = _usage(end.usage)
        return result

    async def _deliver(self, turn: _Turn, parts: list[tuple[str, Any]]) -> TurnEnd:
        for _ in range(2):
            harness = await self._ready()
            turn.delivered = True
            try:
                return await harness.prompt(parts, self._delta)
            except NotDeliveredError:
                # It died while it was idle, and the prompt was never in it: a second harness may take it.
                turn.delivered = False
                self._retire()
        raise EngineError("harness_died", "the harness does not take the prompt; try again")

    def _settle(self, end: TurnEnd) -> None:
        """Decides whether the harness is used again."""
        harness = self._harness
        if harness is None:
            return
        if dropped := harness.invalid_tools() - self._disabled_tools:
            log.warning("%d tool definition(s) of an MCP server are invalid and left out from now on", len(dropped))
            self._disabled_tools |= dropped
        if not end.clean or dropped or harness.plan.model != self.model or self._shared.options.max_model_calls:
            self._retire()

    # ---- the harness -------------------------------------------------------------------------------------------------
    def prepare(self) -> None:
        """Starts a harness ahead of the prompt. A failure is not reported: the prompt tries again and reports."""
        if not self._closed and (self._engine is None or _failed(self._engine)):
            self._engine = asyncio.get_running_loop().create_task(self._start(), name="harness-start")
            self._engine.add_done_callback(_failed)  # looked at, so that an unused start does not complain

    @property
    def _harness(self) -> Harness | None:
        engine = self._engine
        return engine.result() if engine is not None and engine.done() and not _failed(engine) else None

    @property
    def idle_since(self) -> float | None:
        """When an unused harness became so (monotonic); None without one, or while it is used."""
        harness = self._harness
        return harness.idle_since if harness is not None and self._turn is None else None

    def release(self) -> None:
        """Closes the idle harness; the next prompt resumes. For a process that holds too many."""
        if self._turn is None:
            self._retire()

    async def aclose(self) -> None:
        """Ends the turn, the harness and what it wrote. Bounded; idempotent."""
        self._closed = True
        self.cancel()
        if self._turn is not None:
            await asyncio.wait({asyncio.ensure_future(self._turn_over.wait())}, timeout=limits.CANCEL_S + 0.5)
        self._retire()
        if self._background:
            await asyncio.wait(self._background, timeout=limits.CLOSE_S + limits.KILL_S)
        await asyncio.to_thread(self._shared.state.forget, self.id)

    async def _ready(self) -> Harness:
        """A harness that may be prompted, of the right model. Raises `EngineError`."""
        for _ in range(2):
            self.prepare()
            if self._engine is None:
                break
            harness = await asyncio.shield(self._engine)
            if harness.usable and harness.plan.model == self.model:
                return harness
            self._retire()
        raise EngineError("harness_died", "the harness ends as soon as it has started; try again")

    async def _start(self) -> Harness:
        """After all earlier harnesses of the session have ended: two at once would write one conversation."""
        await asyncio.to_thread(load_sdk)
        if self._background:
            await asyncio.wait(self._background, timeout=limits.CLOSE_S + limits.KILL_S)
        shared, options = self._shared, self._shared.options
        plan = Plan(
            conversation_id=self.id,
            backend=await shared.services.endpoint(),
            model=self.model,
            system_text=options.system_text,
            workspace=self._cwd,
            servers=self._servers,
            disabled_tools=self._disabled_tools,
            native_tools=options.native_tools,
            app=shared.state.app,
            save=shared.state.save,
            home=shared.state.home,
            mcp_timeout_s=options.mcp_timeout_s,
            model_retries=options.model_retries,
            max_model_calls=options.max_model_calls,
            environment=options.environment,
        )
        calls = self._calls
        gate = Gate(_hop(calls.before), _hop(calls.ask), _hop(calls.after), _hop(calls.failed))
        harness = Harness(plan, gate, busy=lambda: calls.busy)
        async with shared.starts:
            await harness.start()
        return harness

    def _retire(self) -> None:
        """Closes the harness in the background; the next start waits for it."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.cancel()  # a start that still runs; it cleans up after itself
            self._spawn(_end(engine))

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work, name="harness-retire")
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    # ---- to the client -----------------------------------------------------------------------------------------------
    async def _update(self, update: dict[str, Any]) -> None:
        await self._shared.wire.notify("session/update", {"sessionId": self.id, "update": update})

    async def _permission(self, call: dict[str, Any], options: list[dict[str, str]]) -> Any:
        params = {"sessionId": self.id, "toolCall": call, "options": options}
        return await self._shared.wire.request("session/request_permission", params)

    async def _delta(self, kind: str, text: str) -> None:
        if self._turn is None or self._turn.cancelled:
            return
        name = "agent_thought_chunk" if kind == "thought" else "agent_message_chunk"
        await self._update({"sessionUpdate": name, "content": {"type": "text", "text": text}})


def _hop(function: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """The same function for the harness's loop; it runs in the engine's, where it is made."""
    loop = asyncio.get_running_loop()

    async def call(argument: Any) -> Any:
        return await function(argument)

    async def hopped(argument: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(argument), loop))

    return hopped


def _failed(engine: "asyncio.Task[Harness]") -> bool:
    return engine.done() and (engine.cancelled() or engine.exception() is not None)


async def _end(engine: "asyncio.Task[Harness]") -> None:
    await asyncio.wait({engine})
    if not _failed(engine):
        await engine.result().aclose()


def _usage(usage: Any) -> dict[str, int]:
    """ACP's counters of a turn. The SDK counts thoughts beside the output, and cached tokens inside the input."""
    counts = {
        "inputTokens": usage.prompt_token_count or 0,
        "outputTokens": usage.candidates_token_count or 0,
        "totalTokens": usage.total_token_count or 0,
    }
    if usage.thoughts_token_count is not None:
        counts["thoughtTokens"] = usage.thoughts_token_count
    if usage.cached_content_token_count is not None:
        counts["cachedReadTokens"] = usage.cached_content_token_count
    return counts
