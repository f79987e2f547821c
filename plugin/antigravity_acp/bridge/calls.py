"""Tool calls that wait for the host: parked, joined, gathered, answered or given up.

Owns: :class:`ParkedCall` (what the host sees) and :class:`Desk` (the calls of one endpoint). A call ends when the host
resolves it, when its client goes away before the host has seen it, or when the desk closes.
A request that is sent again under the same id, with the same tool and arguments, joins the call that waits for it, so
the host runs it once (X-010); ids count per client only, so an equal id alone means nothing.
Never: keeps anything of a call that was answered and delivered, except counts.
"""

import asyncio
import logging
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Final, NamedTuple

from antigravity_acp.contract import ContentBlock
from antigravity_acp.limits import (
    BRIDGE_CLOSE_S,
    GATHER_QUIET_S,
    GATHER_S,
    MAX_LATE_RESULTS,
    MAX_PARKED_CALLS,
    PARALLEL_QUIET_S,
)

from .results import CallResult, error_result, tool_result

log = logging.getLogger("antigravity_acp.bridge")

#: Passes of the event loop without news that gathering takes at least. A connection that waits to be accepted needs
#: four until its request is seen, however slow the machine is.
_QUIET_PASSES: Final = 6

_CLOSED: Final = "The turn ended before this tool call was answered. Its outcome is unknown."
_FULL: Final = f"{MAX_PARKED_CALLS} tool calls are open already. Wait for their results, then call again."


class RequestKey(NamedTuple):
    """What makes two requests the same: JSON-RPC id (as canonical JSON), exported tool and argument text."""

    request_id: str
    tool: str
    arguments: str


class ParkedCall:
    """One tool call that waits for the host.

    :ivar id: fresh correlation id, ``call_`` and hex digits.
    :ivar name: the host's own name of the tool.
    :ivar arguments: the argument object as the agent wrote it, JSON text.
    """

    __slots__ = (
        "_answer",
        "_delivered",
        "_desk",
        "_given_up",
        "_handed_out",
        "_key",
        "_readers",
        "arguments",
        "id",
        "name",
    )

    def __init__(self, desk: "Desk", key: RequestKey, name: str, arguments: str) -> None:
        self.id = "call_" + secrets.token_hex(12)
        self.name = name
        self.arguments = arguments
        self._desk = desk
        self._key = key
        self._answer: asyncio.Future[CallResult | None] = asyncio.get_running_loop().create_future()
        self._readers = 0
        self._handed_out = False
        self._given_up = False
        self._delivered = False

    @property
    def undelivered(self) -> bool:
        """Whether the call has no client left: it hung up or cancelled. A repeated request changes that."""
        return self._given_up or (self._readers == 0 and not self._delivered)

    def resolve(self, content: Sequence[ContentBlock], *, is_error: bool) -> bool:
        """Answer the call.

        :param content: the host's result; text is added where it has none.
        :param is_error: whether it is an error or a denial.
        :returns: whether a client was waiting. ``False`` is a recorded outcome and no failure: the client had gone, or
            the call was answered before.
        """
        return self._desk._settle(self, tool_result(content, is_error=is_error))


class Desk:
    """The calls of one endpoint. Not thread-safe; lives on one event loop.

    :param connecting: how many connections were accepted whose first request has not been read yet.
    """

    def __init__(self, counters: Counter[str], connecting: Callable[[], int] = lambda: 0) -> None:
        self._counters = counters
        self._connecting = connecting
        self._parked: dict[str, ParkedCall] = {}
        self._by_request: dict[RequestKey, ParkedCall] = {}
        self._late: OrderedDict[RequestKey, CallResult] = OrderedDict()
        self._fresh: list[ParkedCall] = []
        self._news = asyncio.Event()
        self._arriving = 0
        self._moves = 0
        self._parallel = False
        self._closed = False
        self._reading = 0
        self._idle = asyncio.Event()
        self._idle.set()
        #: Calls that wait for the host, by correlation id; a view.
        self.parked: Mapping[str, ParkedCall] = MappingProxyType(self._parked)

    # The client's side.

    @contextmanager
    def arrival(self) -> Iterator[Callable[[], None]]:
        """Count a request from its headers until it is parked or answered; :meth:`gather` waits for it that long.

        Yields the function that says the request has arrived; leaving the block says it too.
        """
        self._arriving += 1
        self._moves += 1
        open_ = True

        def arrived() -> None:
            nonlocal open_
            if open_:
                open_ = False
                self._arriving -= 1
                self._moves += 1

        try:
            yield arrived
        finally:
            arrived()

    async def call(self, key: RequestKey, name: str, arguments: str, arrived: Callable[[], None]) -> "Reading":
        """Park a call, or join the one that is parked for the same request, and wait for its end.

        Cancel the wait when the client goes away; then give the reading back with :meth:`done`.

        :returns: the answer; ``result`` is ``None`` when the client cancelled the request.
        """
        if (late := self._late.pop(key, None)) is not None:
            self._counters["late_results_fetched"] += 1
            return Reading(None, late)
        call = self._by_request.get(key)
        if call is not None:
            self._counters["joined_calls"] += 1
        elif self._closed:
            return Reading(None, error_result(_CLOSED))
        elif len(self._parked) >= MAX_PARKED_CALLS:
            self._counters["refused_calls"] += 1
            return Reading(None, error_result(_FULL))
        else:
            call = self._park(key, name, arguments)
        call._readers += 1
        self._read(1)
        arrived()
        delivered = False
        try:
            # Shielded: several requests may wait for one call, and one that goes must not take the answer with it.
            result = await asyncio.shield(call._answer)
            delivered = True
        finally:
            if not delivered:
                self._leave(call)
        return Reading(call, result)

    def done(self, reading: "Reading", *, delivered: bool) -> None:
        """Give back a reading once its response was written, or could not be."""
        call = reading.call
        if call is None:
            return
        call._readers -= 1
        self._read(-1)
        if reading.result is None:
            return
        call._delivered = call._delivered or delivered
        if call.undelivered:
            self._keep_late(call, reading.result)

    def cancel(self, request_id: str) -> bool:
        """End the wait of the request that its client cancelled; the host's side goes on.

        :param request_id: canonical JSON of the id.
        :returns: whether exactly one call was meant. Ids of two clients may meet; a cancellation that could mean
            either ends neither, since the wrong one would lose a result that somebody waits for.
        """
        meant = [call for key, call in self._by_request.items() if key.request_id == request_id]
        if len(meant) != 1:
            return False
        call = meant[0]
        self._counters["cancelled_calls"] += 1
        call._given_up = True
        del self._by_request[call._key]
        call._answer.set_result(None)
        if not call._handed_out:
            self._withdraw(call)
        return True

    # The host's side.

    async def gather(self) -> list[ParkedCall]:
        """Wait for calls that were not handed out yet and return those that came together, in order of arrival.

        No fixed wait: the loop runs until there was no news for :data:`~antigravity_acp.limits.GATHER_QUIET_S`, or
        for the longer ``PARALLEL_QUIET_S`` once this agent has shown that it makes calls side by side; at most
        :data:`~antigravity_acp.limits.GATHER_S` in all. Empty once closed.
        """
        while True:
            while not self._fresh and not self._closed:
                self._news.clear()
                await self._news.wait()
            await self._quiet()
            if self._fresh or self._closed:
                calls, self._fresh = self._fresh, []
                for call in calls:
                    call._handed_out = True
                return calls

    async def _quiet(self) -> None:
        loop = asyncio.get_running_loop()
        now = moved = loop.time()
        deadline, passes, seen = now + GATHER_S, 0, self._moves
        quiet = PARALLEL_QUIET_S if self._parallel else GATHER_QUIET_S
        # A pass of the loop and no timer: the loop's timers are a millisecond coarse, longer than all of this takes.
        while now < deadline and (passes < _QUIET_PASSES or now - moved < quiet):
            await asyncio.sleep(0)
            now = loop.time()
            passes += 1
            if self._moves != seen or self._arriving or self._connecting():
                passes, seen, moved = 0, self._moves, now

    def close(self) -> None:
        """Answer every parked call with an error result; later ones are answered at once. Idempotent."""
        self._closed = True
        for call in self._parked.values():
            if not call._given_up:
                call._answer.set_result(error_result(_CLOSED))
        for kept in (self._parked, self._by_request, self._late, self._fresh):
            kept.clear()
        self._news.set()

    async def written(self) -> None:
        """Return when no answer is on its way any more, at most after the bridge's closing time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(BRIDGE_CLOSE_S):
                await self._idle.wait()

    def _read(self, change: int) -> None:
        self._reading += change
        if self._reading:
            self._idle.clear()
        else:
            self._idle.set()

    def _park(self, key: RequestKey, name: str, arguments: str) -> ParkedCall:
        call = ParkedCall(self, key, name, arguments)
        self._parked[call.id] = call
        self._parallel = self._parallel or len(self._parked) > 1
        self._by_request[key] = call
        self._fresh.append(call)
        self._moves += 1
        self._counters["calls"] += 1
        self._news.set()
        return call

    def _leave(self, call: ParkedCall) -> None:
        """A client hung up while it waited."""
        call._readers -= 1
        self._read(-1)
        if call._readers or call._given_up:
            return
        if call._answer.done():
            # The answer and the hang-up met in one pass of the loop.
            if (result := call._answer.result()) is not None:
                self._keep_late(call, result)
        elif not call._handed_out:
            self._withdraw(call)

    def _withdraw(self, call: ParkedCall) -> None:
        """Nobody waits for the call and the host has not seen it: it never was."""
        self._counters["withdrawn_calls"] += 1
        self._parked.pop(call.id, None)
        self._by_request.pop(call._key, None)
        if call in self._fresh:
            self._fresh.remove(call)

    def _settle(self, call: ParkedCall, result: CallResult) -> bool:
        if self._parked.pop(call.id, None) is None:
            return False
        if self._by_request.get(call._key) is call:
            del self._by_request[call._key]
        if call._given_up:
            self._counters["undelivered_results"] += 1
            return False
        if call._readers == 0:
            self._keep_late(call, result)
            return False
        call._answer.set_result(result)
        return True

    def _keep_late(self, call: ParkedCall, result: CallResult) -> None:
        self._counters["undelivered_results"] += 1
        log.info("a tool result could not be delivered: the agent had hung up")
        if self._closed:
            return
        self._late[call._key] = result
        while len(self._late) > MAX_LATE_RESULTS:
            self._late.popitem(last=False)


class Reading(NamedTuple):
    """One request's view of a call: the call (``None`` when nothing was parked) and its answer."""

    call: ParkedCall | None
    result: CallResult | None
