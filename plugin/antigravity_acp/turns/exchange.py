"""One ACP prompt and everything that it holds, across the stream calls of a turn.

Owns: the agent process it checked out, its session, its bridge endpoint, the running prompt and its watchers. It lives
from :meth:`Exchange.open` until the prompt has ended, it failed, or it was closed; between two stream calls it is
*suspended*: the agent's MCP requests and its prompt stay pending while the host runs tools. Whatever ends it, the
release of what it holds is not the stream call's affair: a healthy process is back before the last chunk is read, and
an unhealthy one is ended by a task of its own, which neither a cancelled caller nor a consumer that walks away can
interrupt; the owner of the exchange waits for it when it is disposed (:meth:`Exchange.settled`).
Never: executes a tool, keeps history, resumes a finished session.
"""

import asyncio
import logging
from asyncio import Lock
from collections.abc import AsyncGenerator, Callable, Sequence

import anyio

from ..acp import (
    AgentClient,
    AgentEvent,
    AgentPool,
    AgentSession,
    AgentText,
    AgentThought,
    AgentToolCall,
    PermissionAnswer,
    PermissionRequest,
    PromptOutcome,
)
from ..acp.permissions import Cancelled
from ..bridge import Bridge, Catalogue, Endpoint, ParkedCall
from ..contract import (
    AbortSignal,
    Finish,
    FinishReason,
    GenerateOptions,
    LlmError,
    Message,
    StreamChunk,
    ToolCallBlock,
)
from ..limits import MAX_QUEUED_UPDATES
from ..prompt import build_prompt, has_images
from ..settings import Settings
from .blocks import BlockWriter
from .continuation import Suspension
from .deadlines import Patience
from .guard import NativeToolGuard
from .mailbox import Calls, Failed, Mailbox
from .opening import Wanted, open_session, select_model
from .outcome import last_chunks

_log = logging.getLogger("antigravity_acp.turns")


class Exchange:
    """One unfinished turn. See the module's contract."""

    def __init__(
        self, settings: Settings, options: GenerateOptions, pool: AgentPool[Endpoint | None], bridge: Bridge
    ) -> None:
        self.session_id = options.session_id
        self.with_tools = bool(options.tools)
        self.auxiliary = options.purpose is not None
        #: Set while the host runs tools.
        self.suspension: Suspension | None = None
        #: Whether it has given back, or is giving back, what it held.
        self.released = False
        self._settings = settings
        self._pool = pool
        self._bridge = bridge
        self._mailbox = Mailbox(MAX_QUEUED_UPDATES)
        self._client: AgentClient | None = None
        self._session: AgentSession | None = None
        self._endpoint: Endpoint | None = None
        self._guard: NativeToolGuard | None = None
        self._prompt: asyncio.Task[None] | None = None
        self._watchers: list[asyncio.Task[None]] = []
        self._settling: asyncio.Task[None] | None = None
        self._open_calls: dict[str, ParkedCall] = {}
        self._opening: anyio.CancelScope | None = None
        self._opened = asyncio.Event()
        self._wanted: Wanted | None = None
        self._patience: Patience | None = None
        self._rounds = 0
        self._turnstile: Lock | None = None
        self._healthy = False
        self._ended = False
        self._aborted: LlmError | None = None
        self._tool_timer: asyncio.TimerHandle | None = None
        self._forget_signal: Callable[[], None] = lambda: None

    @property
    def parked_calls(self) -> int:
        """Calls of the agent that wait for the host now."""
        return len(self._endpoint.parked) if self._endpoint else 0

    # ---- opening ----------------------------------------------------------------------------------------------

    async def open(self, options: GenerateOptions, catalogue: Catalogue | None, key: bytes, turnstile: Lock) -> None:
        """Check out a process with a fresh session of the right model and tools, and send the prompt.

        :param key: secret of this process for the prompt's boundary mark.
        :param turnstile: requests without tools pass one at a time, from here to their release.
        :raises LlmError: any code of the start; what was taken is released then.
        """
        self._listen(options.signal)
        try:
            with anyio.CancelScope() as self._opening:
                if self._aborted is None:
                    await self._open(options, Wanted.by(options, catalogue), key, turnstile)
            if self._aborted is not None:
                raise self._aborted
        except BaseException:
            self.release()
            raise
        finally:
            self._opening = None
            self._opened.set()

    async def _open(self, options: GenerateOptions, wanted: Wanted, key: bytes, turnstile: Lock) -> None:
        if wanted.catalogue is None:
            await turnstile.acquire()
            self._turnstile = turnstile
        client, standby = await self._pool.checkout(wanted.key)
        self._client = client
        if standby is not None:
            self._endpoint = standby.endpoint
        if has_images(options) and not client.images:
            raise LlmError("UNSUPPORTED_OPTION", "This agent does not announce image input; send the request without.")
        if standby is None:
            standby = await open_session(client, self._bridge, wanted)
        else:
            await select_model(standby, options.model)
        session, endpoint = standby.session, standby.endpoint
        self._session, self._endpoint, self._wanted = session, endpoint, wanted
        self._guard = NativeToolGuard(self._settings.native_tool_policy, client.profile, endpoint)
        blocks = build_prompt(options, server_name=endpoint.server_name if endpoint else None, key=key)
        self._prompt = asyncio.create_task(self._run_prompt(session, blocks), name="antigravity-acp prompt")
        self._watchers.append(asyncio.create_task(self._watch_client(client), name="antigravity-acp watch"))
        if endpoint:
            self._watchers.append(asyncio.create_task(self._collect(endpoint), name="antigravity-acp collect"))

    # ---- the agent's side -------------------------------------------------------------------------------------

    async def _run_prompt(self, session: AgentSession, blocks: list[dict[str, object]]) -> None:
        try:
            outcome = await session.prompt(blocks, on_event=self._on_event, on_permission=self._on_permission)
        except LlmError as error:
            self._end(Failed(error))
        except Exception as error:  # noqa: BLE001 - a fault of ours; without this the turn would wait for its time limit
            _log.error("a prompt failed inside the adapter: %s", type(error).__name__)
            self._end(Failed(LlmError("UNKNOWN")))
        else:
            self._end(outcome)

    async def _watch_client(self, client: AgentClient) -> None:
        await client.closed()
        self._end(Failed(client.failure()))

    async def _collect(self, endpoint: Endpoint) -> None:
        while calls := await endpoint.gather():
            self._mailbox.put(Calls(calls))

    async def _on_event(self, event: AgentEvent) -> None:
        if isinstance(event, AgentToolCall):
            if self._patience:
                self._patience.heard(asyncio.get_running_loop().time())
            if self._guard and (error := self._guard.on_tool_call(event)):
                self._end(Failed(error))
            return
        if self._mailbox.full:
            await self._mailbox.room()
        self._mailbox.put(event)

    def _on_permission(self, request: PermissionRequest) -> PermissionAnswer:
        if self._guard is None:
            return Cancelled()
        answer, error = self._guard.on_permission(request)
        if error:
            self._end(Failed(error))
        return answer

    def _end(self, item: PromptOutcome | Failed) -> None:
        """The prompt is over, one way or another; the first way counts."""
        if self._ended:
            return
        self._ended = True
        self._healthy = isinstance(item, PromptOutcome) and item.stop_reason != "cancelled"
        self._mailbox.put(item)
        if isinstance(item, Failed) or self.suspension:
            # Its place is free at once, also while the host runs tools; what was said until then is still read.
            self.release()

    # ---- the host's side --------------------------------------------------------------------------------------

    def resume(self, results: Sequence[Message]) -> None:
        """Hand over one result for each open call; the caller has proved that they match."""
        self._stop_tool_clock()
        self.suspension = None
        for message in results:
            call = self._open_calls.pop(message.tool_call_id or "", None)
            if call is not None:
                call.resolve(message.content, is_error=message.is_error)

    async def segment(self, options: GenerateOptions) -> AsyncGenerator[StreamChunk, None]:
        """One stream call: chunks until the agent calls tools or ends its turn.

        :raises LlmError: when the generation fails; open blocks are closed first.
        """
        writer = BlockWriter()
        patience = self._patience = Patience(
            self._settings, asyncio.get_running_loop().time(), first=self._endpoint is not None and self._rounds == 0
        )
        self._rounds += 1
        finished = False
        self._listen(options.signal)
        try:
            while not finished:
                item = self._mailbox.take()
                if item is None:
                    await self._wait(patience, answering=writer.count > 0)
                elif isinstance(item, AgentText | AgentThought):
                    for chunk in writer.delta(item.text, thinking=isinstance(item, AgentThought)):
                        yield chunk
                else:
                    for chunk in writer.end():
                        yield chunk
                    for chunk in self._conclude(item, options, writer):
                        # Before the yield: a consumer may stop right after the finish, and a suspended turn then stays.
                        finished = isinstance(chunk, Finish)
                        yield chunk
        finally:
            if not finished:
                self.abort()
            if self.suspension is None:
                self._forget_signal()

    async def _wait(self, patience: Patience, *, answering: bool) -> None:
        loop = asyncio.get_running_loop()
        if answering:
            # What was read until now is a sign.
            patience.heard(loop.time())
        while not self._mailbox.filled:
            try:
                async with asyncio.timeout_at(patience.until(answering=answering)):
                    await self._mailbox.wait()
            except TimeoutError:
                if self._endpoint is not None and self._endpoint.contacted:
                    patience.contacted()
                if error := patience.overdue(loop.time(), answering=answering):
                    self._mailbox.cut(Failed(error))

    def _conclude(
        self, item: Calls | PromptOutcome | Failed, options: GenerateOptions, writer: BlockWriter
    ) -> Sequence[StreamChunk]:
        """The last chunks of a stream call.

        :raises LlmError: when it failed.
        """
        if isinstance(item, Failed):
            raise item.error
        if isinstance(item, PromptOutcome):
            self.release()
            return last_chunks(item, writer.count)
        blocks = [ToolCallBlock(call.id, call.name, call.arguments) for call in item.calls]
        self._open_calls = {call.id: call for call in item.calls}
        self.suspension = Suspension.of(options, writer.text, blocks)
        if not self.released:
            self._tool_timer = asyncio.get_running_loop().call_later(
                self._settings.tool_timeout_ms / 1000, self._on_tool_timeout
            )
        return [*(chunk for block in blocks for chunk in writer.call(block)), Finish(FinishReason("tool-calls"))]

    def _on_tool_timeout(self) -> None:
        self._end(Failed(LlmError("ACP_TOOL_TIMEOUT")))
        self.release()

    def _stop_tool_clock(self) -> None:
        if self._tool_timer:
            self._tool_timer.cancel()
            self._tool_timer = None

    def _listen(self, signal: AbortSignal | None) -> None:
        # The listener stays when the stream call ends: a signal may fire while the host runs a tool.
        self._forget_signal()
        self._forget_signal = signal.add_listener(self.abort) if signal else lambda: None

    def abort(self, error: LlmError | None = None) -> None:
        """Stop now: what is unread is dropped and a running stream call ends with ``error`` (ABORTED by default)."""
        self._ended = True
        self.suspension = None
        self._aborted = self._aborted or error or LlmError("ABORTED")
        self._mailbox.cut(Failed(self._aborted))
        if self._opening:
            self._opening.cancel()
        elif self._opened.is_set():
            self.release()

    # ---- the end ----------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Give back what is held; harmless when it already was. Never waits: see :meth:`settled`."""
        if self.released:
            return
        self.released = True
        self._stop_tool_clock()
        self._forget_signal()
        self._mailbox.seal()
        for task in self._watchers:
            task.cancel()
        if self._healthy:
            # At once: when the host hears of the end, the process can serve its next request already.
            self._hand_back()
        else:
            # The next request need not wait for the end of a process that it will not use.
            self._leave_turnstile()
            self._settling = asyncio.create_task(self._settle(), name="antigravity-acp release")

    async def settled(self) -> None:
        """Return when everything that this exchange held is released; only after it was aborted or ended."""
        await self._opened.wait()
        tasks = {task for task in (self._settling, self._prompt, *self._watchers) if task is not None}
        if tasks:
            await asyncio.wait(tasks)

    @property
    def settling(self) -> bool:
        """Whether something of it still runs."""
        return self._settling is not None and not self._settling.done()

    def _hand_back(self) -> None:
        if self._endpoint:
            self._endpoint.close()
        if self._client:
            prepare = self._wanted.preparation(self._bridge) if self._wanted and self._prepares else None
            self._pool.give_back(self._client, healthy=self._healthy, prepare=prepare)
        self._leave_turnstile()

    async def _settle(self) -> None:
        try:
            await self._cancel_prompt()
        finally:
            self._hand_back()

    def _leave_turnstile(self) -> None:
        turnstile, self._turnstile = self._turnstile, None
        if turnstile:
            turnstile.release()

    @property
    def _prepares(self) -> bool:
        return self.with_tools and self._settings.prepare_sessions

    async def _cancel_prompt(self) -> None:
        """Cancel a prompt that still runs and give it its grace."""
        prompt = self._prompt
        if prompt is None or prompt.done():
            return
        if self._session and self._client and self._client.alive:
            await self._session.cancel()
            await asyncio.wait({prompt}, timeout=self._settings.cancel_grace_ms / 1000)
        prompt.cancel()
        await asyncio.wait({prompt}, timeout=1)
