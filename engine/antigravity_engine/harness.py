"""One harness: an SDK conversation in a thread and an event loop of its own.

Owns the harness process from spawn to reaping. Starting and closing block in the SDK (a stuck process for minutes), so
nothing of it runs in the engine's loop; every wait here has a bound, and what exceeds it is killed. A harness is used
for turns until one of them does not end normally: after a cancel or an error it is closed, and the session goes on with
a new one that resumes the conversation from disk. That leaves no room for the two ways in which the harness loses a
session (late answers to hooks; a prompt just after a cancel, which it swallows).
"""

import asyncio
import contextlib
import re
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from antigravity_engine import errors, limits
from antigravity_engine.errors import EngineError
from antigravity_engine.plan import Gate, Plan

if TYPE_CHECKING:
    from antigravity_engine.sdk import Link  # the SDK takes a second to import: in the thread, when it is needed

T = TypeVar("T")
StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
#: delta("text" | "thought", text), awaited before the next step is taken.
Delta = Callable[[str, str], Awaitable[None]]

_INVALID_TOOL = re.compile(r"encountered invalid tool (.+?): ")
_STOPS: dict[str, StopReason] = {
    "MAX_MODEL_CALLS_EXCEEDED": "max_turn_requests",
    "MAX_TOOL_CALLS_EXCEEDED": "max_turn_requests",
    "MAX_INPUT_TOKENS_EXCEEDED": "max_tokens",
    "MAX_OUTPUT_TOKENS_EXCEEDED": "max_tokens",
    "MAX_TOTAL_TOKENS_EXCEEDED": "max_tokens",
}


class NotDeliveredError(Exception):
    """The prompt did not reach the harness: it had died while it was idle. Nothing happened."""


@dataclass(slots=True)
class TurnEnd:
    """How a turn ended. usage: the SDK's counters of this turn, None when the model reported none."""

    stop: StopReason
    usage: Any = None
    #: False when the harness must not be used again.
    clean: bool = True


@dataclass(slots=True)
class _Turn:
    cancelled: bool = False
    bad: set[int] = field(default_factory=set)
    empty: set[int] = field(default_factory=set)


class Harness:
    """Made and used in the engine's loop. `busy()` tells whether a tool runs or a permission is open."""

    def __init__(self, plan: Plan, gate: Gate, *, busy: Callable[[], bool]) -> None:
        self.plan = plan
        self._gate = gate
        self._busy = busy
        self._loop = asyncio.get_running_loop()
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._link: Link | None = None
        self._turn: _Turn | None = None
        self._leave: asyncio.Event | None = None
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._ended = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None
        self._halting: asyncio.Task[None] | None = None
        self._killed = False
        self.idle_since = time.monotonic()

    # ---- life --------------------------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Raises `EngineError`; then nothing is left."""
        threading.Thread(target=self._run, name="harness", daemon=True).start()
        try:
            await asyncio.wait_for(asyncio.shield(self._started), limits.START_S)
        except TimeoutError:
            await self.aclose()
            raise EngineError("harness_start", f"the harness did not start within {limits.START_S:.0f} s") from None
        except BaseException:
            await asyncio.shield(self.aclose())
            raise

    @property
    def usable(self) -> bool:
        """Whether a prompt may be sent: started, connected, not closing."""
        process, link = self._process, self._link
        return (
            self._closing is None
            and link is not None
            and process is not None
            and process.poll() is None
            and link.connected
        )

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def aclose(self) -> None:
        """Ends process and thread: politely, then by force. Bounded; idempotent; callers share one closing."""
        if self._closing is None:
            self._closing = self._loop.create_task(self._close(), name="harness-close")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._call_soon(self._leave_now)
        if await self._has_ended(limits.CLOSE_S):
            return
        self._kill()
        await self._has_ended(limits.KILL_S)

    async def _has_ended(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._ended.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _kill(self) -> None:
        self._killed = True
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._process.kill()

    def _leave_now(self) -> None:
        if self._link is not None:
            with contextlib.suppress(AttributeError):  # not open yet
                self._link.guard.cut()
        if self._leave is not None:
            self._leave.set()

    # ---- turns -------------------------------------------------------------------------------------------------------
    async def prompt(self, parts: list[tuple[str, Any]], delta: Delta) -> TurnEnd:
        """Runs one turn. Raises `EngineError`, or `NotDeliveredError`; after either the harness must be closed."""
        # Known before the thread sees it: a cancel that comes at once must find it.
        turn = self._turn = _Turn()
        try:
            return await self._submit(self._run_turn(turn, parts, delta))
        finally:
            self._turn = None
            self.idle_since = time.monotonic()

    def cancel(self) -> None:
        """Asks the harness to stop the running turn; returns at once, the turn's own call returns when it has ended."""
        self._call_soon(self._halt)

    def invalid_tools(self) -> frozenset[str]:
        """MCP tools that the harness dropped. One is enough to end the session at its next turn."""
        if self._link is None:
            return frozenset()
        return frozenset(
            found[1] for line in self._link.stderr_lines() if (found := _INVALID_TOOL.search(line)) is not None
        )

    # ---- the thread --------------------------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            asyncio.run(self._own())
        except BaseException as error:  # noqa: BLE001 - a thread has nobody to raise to
            self._report(error)
        finally:
            self._reap()
            with contextlib.suppress(RuntimeError):  # the engine's loop has gone
                self._loop.call_soon_threadsafe(self._ended.set)

    async def _own(self) -> None:
        self._own_loop = asyncio.get_running_loop()
        self._leave = asyncio.Event()
        from antigravity_engine.sdk import Link

        try:
            link = Link(self.plan, self._gate, self._on_process)
            await link.open()
        except Exception as error:  # noqa: BLE001 - the SDK raises many kinds
            self._report(_start_error(error))
            return
        self._link = link
        self._report(None)
        await self._until_over(link, self._leave)
        with contextlib.suppress(Exception):  # a harness that ended with an error is as closed as any
            await link.close()

    async def _until_over(self, link: "Link", leave: asyncio.Event) -> None:
        """Until somebody closes the harness, or it dies while nobody uses it: it is reaped at once, not at the next
        prompt. A turn that runs learns of its death by itself, and then the session closes it."""
        wish = asyncio.ensure_future(leave.wait())
        try:
            await asyncio.wait({wish, link.reader}, return_when=asyncio.FIRST_COMPLETED)
            if self._turn is not None:
                await wish
        finally:
            wish.cancel()

    def _on_process(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        if self._killed:
            process.kill()

    def _report(self, error: BaseException | None) -> None:
        def settle() -> None:
            if self._started.done():
                return
            if error is None:
                self._started.set_result(None)
            else:
                self._started.set_exception(
                    error
                    if isinstance(error, EngineError)
                    else EngineError("harness_start", "the harness did not start")
                )
                self._started.exception()  # read, so that an abandoned start does not complain

        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(settle)

    def _reap(self) -> None:
        process = self._process
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limits.KILL_S)
        pipes = [process.stdin, process.stdout]
        if self._link is None or self._link.stderr_drained(limits.CLOSE_S):
            pipes.append(process.stderr)
        for pipe in pipes:
            with contextlib.suppress(OSError, ValueError):
                if pipe is not None:
                    pipe.close()

    def _call_soon(self, function: Callable[[], None]) -> None:
        if self._own_loop is not None:
            with contextlib.suppress(RuntimeError):  # already closed
                self._own_loop.call_soon_threadsafe(function)

    async def _submit(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            if self._own_loop is None:
                raise NotDeliveredError
            future: asyncio.Future[T] = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._own_loop))
        except (NotDeliveredError, RuntimeError):  # RuntimeError: the loop is closed
            work.close()
            raise NotDeliveredError from None
        # A loop that ends at this moment takes the work and never does it.
        ended: asyncio.Future[Any] = asyncio.ensure_future(self._ended.wait())
        try:
            waiting: set[asyncio.Future[Any]] = {future, ended}
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not future.done():
                raise EngineError("harness_died", "the harness ended in the middle of the turn; prompt again to go on")
            return future.result()
        finally:
            ended.cancel()
            future.cancel()

    # ---- inside the thread -------------------------------------------------------------------------------------------
    def _halt(self) -> None:
        turn, link = self._turn, self._link
        if turn is None or link is None or turn.cancelled:
            return
        turn.cancelled = True
        link.guard.cut()
        self._halting = asyncio.get_running_loop().create_task(_quietly(link.conversation.cancel()))

    async def _run_turn(self, turn: _Turn, parts: list[tuple[str, Any]], delta: Delta) -> TurnEnd:
        link = self._link
        if link is None:
            raise NotDeliveredError
        if turn.cancelled:
            return TurnEnd("cancelled", clean=False)
        try:
            await link.send(parts)
        except Exception as error:
            raise NotDeliveredError from error
        return await self._follow(link, turn, delta)

    async def _follow(self, link: "Link", turn: _Turn, delta: Delta) -> TurnEnd:
        steps = link.conversation.receive_steps()
        silence, status, last_error, begun = limits.FIRST_SIGN_S, 0, "", False
        while True:
            step = asyncio.ensure_future(anext(steps))
            try:
                await self._await_step(step, silence)
            finally:
                step.cancel()
            silence = limits.SILENCE_S
            if step.cancelled() or (turn.cancelled and step.exception() is not None):
                # The SDK's own cancellation is a CancelledError; anything that ends a cancelled turn is the cancel.
                return TurnEnd("cancelled", clean=False)
            if (error := step.exception()) is not None:
                if not begun and not link.connected:
                    # It died with the prompt in its socket. The echo of the prompt comes before the model is asked.
                    raise NotDeliveredError
                if isinstance(error, StopAsyncIteration):
                    return self._ended_by_itself(link)
                raise self._error(error, last_error, status)
            begun = True
            update = step.result()
            if turn.cancelled:
                continue
            if update.status.value == "ERROR" and update.source.value == "SYSTEM":
                last_error, status = update.error, int(getattr(update, "http_code", 0) or 0)
                if (stop := self._judge(update, turn)) is not None:
                    self._halt()
                    return TurnEnd(stop, usage=link.conversation.last_turn_usage, clean=False)
            elif (
                update.source.value == "MODEL"
                and update.target.value == "TARGET_USER"
                and update.status.value != "ERROR"
            ):
                if update.thinking_delta:
                    await self._in_engine(delta("thought", update.thinking_delta))
                if update.content_delta:
                    await self._in_engine(delta("text", update.content_delta))

    async def _await_step(self, step: "asyncio.Future[Any]", seconds: float) -> None:
        while True:
            done, _ = await asyncio.wait({step}, timeout=seconds)
            if done:
                return
            if not self._busy():
                raise EngineError("model_silent", f"nothing was heard from the model for {seconds:.0f} s")

    def _judge(self, step: Any, turn: _Turn) -> StopReason | None:
        """What an error step of the harness means for the turn; None lets the harness try again."""
        verdict = errors.judge_output(step.error)
        if verdict == "refusal":
            return "refusal"
        if verdict == "max_tokens":
            return "max_tokens"
        turn.bad.add(step.step_index)
        if verdict == "empty":
            turn.empty.add(step.step_index)
        if len(turn.empty) >= limits.MAX_EMPTY_OUTPUTS:
            raise EngineError("empty_output", f"the model answered with nothing {len(turn.empty)} times in a row")
        if len(turn.bad) >= limits.MAX_BAD_OUTPUTS:
            raise EngineError("model_output", f"the model gave {len(turn.bad)} answers that cannot be used")
        return None

    def _ended_by_itself(self, link: "Link") -> TurnEnd:
        if not link.connected:
            raise EngineError("harness_died", "the harness ended in the middle of the turn; prompt again to go on")
        reason = link.stop_reason.value
        if reason == "QUOTA_EXHAUSTED":
            raise EngineError("quota", "the model's quota is used up")
        stop = _STOPS.get(reason, "end_turn")
        return TurnEnd(stop, usage=link.conversation.last_turn_usage, clean=stop == "end_turn")

    def _error(self, error: BaseException, last_step: str, status: int) -> EngineError:
        if isinstance(error, EngineError):
            return error
        process = self._process
        if type(error).__name__ == "AntigravityConnectionError" and not 400 <= status <= 599:
            dead = (
                process is None or process.poll() is not None or (self._link is not None and not self._link.connected)
            )
            if dead:
                return EngineError("harness_died", "the harness ended in the middle of the turn; prompt again to go on")
        return errors.classify(f"{error}\n{last_step}", status=status, scripted=self.plan.backend.kind == "script")

    async def _in_engine(self, work: Coroutine[Any, Any, T] | Awaitable[T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_await(work), self._loop))


async def _await(work: Awaitable[T]) -> T:
    return await work


async def _quietly(work: Awaitable[None]) -> None:
    with contextlib.suppress(Exception):  # the connection has gone: then there is nothing to stop
        await work


def _start_error(error: Exception) -> EngineError:
    if isinstance(error, EngineError):
        return error
    if isinstance(error, OSError) or "localharness" in str(error):
        return EngineError(
            "harness_start",
            "the harness cannot be run: its binary does not fit this machine, or the session's directory has gone",
        )
    return EngineError("harness_start", f"the harness did not start ({type(error).__name__})")
