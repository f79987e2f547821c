"""The wire between the SDK's connection and an agent's pipes: newline-delimited JSON, hardened.

Owns: framing, the routing of session updates, and what of an agent's traffic may reach the SDK at all. It is a
``Transport`` of ``agent-client-protocol``; the SDK's receive loop drives it. Ends with the pipe, with a breach of the
protocol (``failure`` says which), or with :meth:`AgentTransport.close`.

The SDK sees responses to its own requests and permission requests, nothing else, because it logs what its handlers
cannot take with payload and traceback to the root logger. ``session/update`` goes to the session that is registered
for its id, in order and awaited, so that a slow consumer slows the agent and nothing piles up here. Unknown requests
are answered with -32601, the rest is counted and dropped.
Never: logs or raises anything that holds the agent's text.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

import msgspec

from ..contract import LlmError
from ..limits import MAX_CONSECUTIVE_NOISE, MAX_FRAME_BYTES
from ._frames import CHUNK_MARK, DECODE_ERRORS, Json, decode_chunk, decode_object, encode_frame
from .updates import AgentEvent, Counters

_log = logging.getLogger("antigravity_acp.acp")

#: Updates that are kept for sessions whose ``session/new`` is not answered yet.
MAX_EARLY_UPDATES: Final = 256
#: Bytes of the frames that such updates came in, all together.
MAX_EARLY_BYTES: Final = 4 * 1024 * 1024
#: Lines after which the rest of the host gets a turn. What is read ahead can hold half a million empty ones, and none
#: of them waits for anything.
_LINES_IN_A_ROW: Final = 256
#: Permission requests of one agent that may be unanswered at the same time; a real one asks for one at a time.
MAX_OPEN_REQUESTS: Final = 256


class Pipe(Protocol):
    """The two ends of an agent's process that a transport needs."""

    async def read(self) -> bytes:
        """Some bytes of stdout; ``b""`` at its end, for ever after."""

    def write(self, data: bytes) -> None:
        """Queue bytes for stdin. :raises ConnectionError: when it is closed."""

    async def drain(self) -> None:
        """Wait until stdin takes more. :raises ConnectionError: when it is closed."""


class UpdateSink(Protocol):
    """Where the updates of one session go."""

    def read(self, update: dict[str, Any]) -> AgentEvent | None:
        """One raw update as an event, ``None`` when there is nothing to deliver."""

    async def deliver(self, events: list[AgentEvent]) -> None:
        """Take events in order; returns when they are taken, or at once when the turn is over."""

    def turn_over(self) -> None:
        """The prompt's answer has arrived; what comes after it belongs to no turn."""


class AgentTransport:
    """One agent's wire.

    :param pipe: the process. :param counters: where dropped and tolerated frames are counted.
    :param on_end: called once when nothing more will come.
    """

    def __init__(self, pipe: Pipe, counters: Counters, *, on_end: Callable[[], None]) -> None:
        self._pipe = pipe
        self._counters = counters
        self._on_end = on_end
        self._lines: Iterator[bytes] = iter(())
        self._tail: list[bytes] = []
        self._tail_bytes = 0
        self._noise = 0
        self._lines_in_a_row = 0
        self._ended = False
        self._sinks: dict[str, UpdateSink] = {}
        self._expecting = 0
        self._early: deque[tuple[str, Json]] = deque()
        self._early_bytes = 0
        self._requests: dict[int, str | None] = {}
        self._open: set[int | str] = set()
        #: Why the connection was given up, when the agent broke the protocol.
        self.failure: LlmError | None = None

    # ---- sessions ---------------------------------------------------------------------------------------------------
    @contextmanager
    def expecting_session(self) -> Iterator[None]:
        """While a ``session/new`` is open: keep the updates of session ids that nobody knows yet."""
        self._expecting += 1
        try:
            yield
        finally:
            self._expecting -= 1
            if not self._expecting:
                self._counters.foreign_updates += len(self._early)
                self._early.clear()
                self._early_bytes = 0

    def register(self, session_id: str, sink: UpdateSink) -> list[Json]:
        """Route a session's updates to ``sink``.

        :returns: its raw updates that came too early, in order.
        """
        self._sinks[session_id] = sink
        early = [update for key, update in self._early if key == session_id]
        self._early = deque(item for item in self._early if item[0] != session_id)
        return early

    # ---- the SDK's side ---------------------------------------------------------------------------------------------
    async def send(self, message: Json) -> None:
        """Write one message of the SDK.

        :raises ConnectionError: when the agent's stdin is closed; never for a response, which the SDK would log.
        """
        method = message.get("method")
        if method is None:
            self._open.discard(message.get("id", ""))
        elif "id" in message:
            params = message.get("params") or {}
            self._requests[message["id"]] = params.get("sessionId") if method == "session/prompt" else None
        try:
            # A cancel must not wait behind a full pipe: the one who sends it wants the agent to stop.
            await self._write(message, wait=method != "session/cancel")
        except ConnectionError:
            if method is not None:
                raise

    async def receive(self) -> Json | None:
        """The next message for the SDK, ``None`` when nothing more will come. Never raises but for cancellation."""
        message = None
        try:
            if not self._ended:
                message = await self._next()
        except Exception as error:  # noqa: BLE001 - the SDK would log it with its context to the root logger
            _log.error("reading from the agent failed: %s", type(error).__name__)
            self._fail("Its output could not be processed.")
        if message is None:
            self._end()
        return message

    async def close(self) -> None:
        """Stop: later calls of :meth:`receive` return ``None``. The pipe belongs to the process and is ended there."""
        self._end()

    # ---- reading ----------------------------------------------------------------------------------------------------
    async def _next(self) -> Json | None:
        while not self._ended:
            session_id, events, line = self._text_run()
            if events:
                await self._deliver(session_id, events)
            if line is not None:
                self._lines_in_a_row += 1
                if self._lines_in_a_row >= _LINES_IN_A_ROW:
                    self._lines_in_a_row = 0
                    await asyncio.sleep(0)
                message = await self._general(line)
                if message is not None:
                    return message
            elif not await self._refill():
                return None
        return None

    def _text_run(self) -> tuple[str, list[AgentEvent], bytes | None]:
        """The text chunks that come next for one session, and the line that ended the run.

        The hot path: nothing is awaited between two chunks, and a delivery is paid for once a run.
        """
        session_id = ""
        events: list[AgentEvent] = []
        for line in self._lines:
            if CHUNK_MARK not in line:
                return session_id, events, line
            try:
                frame = decode_chunk(line)
            except DECODE_ERRORS:
                return session_id, events, line
            params = frame.params
            if frame.id is not msgspec.UNSET or (events and params.session_id != session_id):
                return session_id, events, line
            session_id = params.session_id
            events.append(params.update.content)
            self._noise = 0
        return session_id, events, None

    async def _refill(self) -> bool:
        """Make more lines out of the next chunk; false at the end of stdout."""
        chunk = await self._pipe.read()
        if not chunk:
            # The last frame of an agent that ends without a newline still counts.
            rest = b"".join(self._tail)
            self._tail, self._tail_bytes = [], 0
            self._lines = iter((rest,))
            return bool(rest)
        head, newline, rest = chunk.rpartition(b"\n")
        if newline:
            if self._tail:
                self._tail.append(head)
                head = b"".join(self._tail)
            self._tail, self._tail_bytes = [rest], len(rest)
            self._lines = iter(head.split(b"\n"))
        else:
            self._tail.append(rest)
            self._tail_bytes += len(rest)
        if max(self._tail_bytes, len(head)) > MAX_FRAME_BYTES:
            longest = max(map(len, head.split(b"\n")), default=0)
            if max(self._tail_bytes, longest) > MAX_FRAME_BYTES:
                self._fail(f"One line of its output is longer than {MAX_FRAME_BYTES} bytes.")
                return False
        return True

    async def _general(self, line: bytes) -> Json | None:
        """Handle one line; returns what the SDK must see."""
        if not line or line.isspace():
            return None
        message, repaired = decode_object(line)
        if message is None:
            self._counters.noise_lines += 1
            self._noise += 1
            if self._noise > MAX_CONSECUTIVE_NOISE:
                self._fail(f"More than {MAX_CONSECUTIVE_NOISE} lines on its stdout, one after another, are not ACP.")
            return None
        self._noise = 0
        self._counters.repaired_frames += repaired
        method = message.get("method")
        if method is None:
            return self._response(message)
        if "id" in message:
            return await self._request(message, method)
        if method == "session/update":
            await self._update(message.get("params"), len(line))
        else:
            self._counters.unknown_notifications += 1
        return None

    def _response(self, message: Json) -> Json | None:
        key = message.get("id")
        # bool is an int, and True would find the request 1. `id: null` reports an error about a line nobody can name.
        if type(key) is not int or key not in self._requests:
            self._counters.unmatched_responses += 1
            return None
        session_id = self._requests.pop(key)
        if session_id is not None and (sink := self._sinks.get(session_id)):
            sink.turn_over()
        if "error" not in message or message["error"] is None:
            return {"id": key, "result": message.get("result")}
        error = message["error"] if isinstance(message["error"], dict) else {}
        number = error.get("code")
        text = error.get("message")
        return {
            "id": key,
            "error": {
                # The number goes into messages, and an integer of JSON can carry thousands of digits of the agent's.
                "code": number if type(number) is int and -(2**31) <= number < 2**31 else -32603,
                "message": text if isinstance(text, str) else "",
                "data": error.get("data"),
            },
        }

    async def _request(self, message: Json, method: object) -> Json | None:
        key = message["id"]
        if isinstance(key, bool) or not isinstance(key, (int, str)):
            self._counters.malformed_frames += 1
            return None
        if method == "session/request_permission":
            self._open.add(key)
            if len(self._open) > MAX_OPEN_REQUESTS:
                self._fail(f"It has more than {MAX_OPEN_REQUESTS} unanswered requests.")
                return None
            params = message.get("params")
            return {"id": key, "method": method, "params": params if isinstance(params, dict) else {}}
        self._counters.unknown_requests += 1
        with suppress(ConnectionError):  # the end of the pipe is noticed by reading
            await self._write({"jsonrpc": "2.0", "id": key, "error": {"code": -32601, "message": "Method not found"}})
        return None

    async def _update(self, params: object, size: int) -> None:
        session_id = params.get("sessionId") if isinstance(params, dict) else None
        update = params.get("update") if isinstance(params, dict) else None
        if not isinstance(session_id, str) or not isinstance(update, dict):
            self._counters.malformed_frames += 1
            return
        sink = self._sinks.get(session_id)
        if sink is None:
            if not self._expecting:
                self._counters.foreign_updates += 1
            elif len(self._early) < MAX_EARLY_UPDATES and self._early_bytes + size <= MAX_EARLY_BYTES:
                self._early.append((session_id, update))
                self._early_bytes += size
            else:
                self._counters.overflowed_updates += 1
            return
        event = sink.read(update)
        if event is not None:
            await sink.deliver([event])

    async def _deliver(self, session_id: str, events: list[AgentEvent]) -> None:
        sink = self._sinks.get(session_id)
        if sink is None:
            # Text before the session is known has no prompt that it could answer.
            self._counters.foreign_updates += len(events)
        else:
            await sink.deliver(events)

    # ---- writing and ending -----------------------------------------------------------------------------------------
    async def _write(self, message: Json, *, wait: bool = True) -> None:
        self._pipe.write(encode_frame(message))
        if wait:
            await self._pipe.drain()

    def _fail(self, what: str) -> None:
        if self.failure is None:
            self.failure = LlmError(
                "ACP_PROTOCOL_ERROR",
                f"The agent broke the protocol. {what} "
                "Check that `command` starts an ACP agent that prints nothing else on stdout.",
            )
        self._end()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._on_end()
