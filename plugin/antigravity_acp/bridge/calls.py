"""Tool calls that wait for the host: parked, joined, gathered, answered or given up.

Owns: :class:`Desk`, the calls of one endpoint. A call ends when the host resolves it, when its client goes away before
the host has seen it, or when the desk closes.
A request that is sent again under the same id, with the same tool and arguments, joins the call that waits for it, so
the host runs it once (X-010); ids count per client only, so an equal id alone means nothing.
A request that waits longer than the desk's patience is answered with a ticket. The call goes on: it stays parked, and
its result is kept until a request with the ticket has taken it, once (X-011). A result that nobody can take any more
is counted and logged, whatever the reason.
Never: keeps anything of a call that was answered and delivered, except counts.
"""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Final

from antigravity_acp.limits import (
    BRIDGE_CLOSE_S,
    GATHER_QUIET_S,
    GATHER_S,
    MAX_LATE_RESULTS,
    MAX_PARKED_CALLS,
    PARALLEL_QUIET_S,
)

from ._requests import Answer, Kind, ParkedCall, Reading, Request, RequestKey
from ._waiting import TAKEN, new_ticket, no_ticket, still_result, ticket_result
from .results import CallResult, error_result

log = logging.getLogger("antigravity_acp.bridge")

#: Passes of the event loop without news that gathering takes at least. A connection that waits to be accepted needs
#: four until its request is seen, however slow the machine is.
_QUIET_PASSES: Final = 6

_CLOSED: Final = "The turn ended before this tool call was answered. Its outcome is unknown."
_FULL: Final = f"{MAX_PARKED_CALLS} tool calls are open already. Wait for their results, then call again."


class Desk:
    """The calls of one endpoint. Not thread-safe; lives on one event loop.

    :param connecting: how many connections were accepted whose first request has not been read yet.
    :param patience_s: seconds for which a request waits before it is answered with a ticket; ``None`` for ever.
    """

    def __init__(
        self,
        counters: Counter[str],
        connecting: Callable[[], int] = lambda: 0,
        *,
        patience_s: float | None = None,
    ) -> None:
        self.patience_s = patience_s
        self._counters = counters
        self._connecting = connecting
        self._parked: dict[str, ParkedCall] = {}
        #: Calls by the request that made them, as long as the same request sent again means them.
        self._by_request: dict[RequestKey, ParkedCall] = {}
        self._tickets: dict[str, ParkedCall] = {}
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

    async def call(self, key: RequestKey, name: str, arguments: str, arrived: Callable[[], None]) -> Reading:
        """Park a call, or join the one that was parked for the same request, and wait for an answer.

        Cancel the wait when the client goes away; else give the reading back with :meth:`done`.
        """
        if (late := self._late.pop(key, None)) is not None:
            self._counters["late_results_fetched"] += 1
            return Reading.note(late)
        call = self._by_request.get(key)
        if call is not None:
            self._counters["joined_calls"] += 1
        elif self._closed:
            return Reading.note(error_result(_CLOSED))
        elif len(self._parked) + sum(call._settled for call in self._tickets.values()) >= MAX_PARKED_CALLS:
            self._counters["refused_calls"] += 1
            return Reading.note(error_result(_FULL))
        else:
            call = self._park(key, name, arguments)
        request = call._request
        if request is None or request.key != key:
            request = Request(call, key)
            if call._ticket is None:
                call._request = request
            else:
                # The agent was given the ticket and asks for it again; somebody may be waiting with it already.
                request.settle(Answer(ticket_result(call._ticket), Kind.NOTE))
        return await self._read(request, arrived)

    async def wait(self, key: RequestKey, ticket: str, arrived: Callable[[], None]) -> Reading:
        """Wait for the result of the call that was answered with this ticket; as :meth:`call` otherwise.

        Of several requests with one ticket the newest gets the result: it is the one that certainly is read.
        """
        call = self._tickets.get(ticket)
        if call is None:
            self._counters["refused_tickets"] += 1
            return Reading.note(error_result(_CLOSED) if self._closed else no_ticket())
        self._counters["waits"] += 1
        request = call._request
        if request is None or request.key != key:
            if request is not None and request.open:
                request.settle(Answer(error_result(TAKEN), Kind.NOTE))
            elif request is not None and request.kind is Kind.RESULT:
                # It is being written. Should that fail, the ticket is good for a further call.
                return Reading.note(error_result(TAKEN))
            request = call._request = Request(call, key)
            if call._result is not None:
                request.settle(Answer(call._result, Kind.RESULT))
        return await self._read(request, arrived)

    def done(self, reading: Reading, *, delivered: bool) -> None:
        """Give back a reading once its response was written, or could not be."""
        if reading.request is not None:
            reading.request.delivered |= delivered
            self._leave(reading.request)

    def cancel(self, request_id: str) -> bool:
        """End the wait of the request that its client cancelled; the host's side goes on.

        :param request_id: canonical JSON of the id.
        :returns: whether exactly one call was meant. Ids of two clients may meet; a cancellation that could mean
            either ends neither, since the wrong one would lose a result that somebody waits for.
        """
        meant = [call for call in self._parked.values() if (key := call._held_open) and key.request_id == request_id]
        if len(meant) != 1:
            return False
        call = meant[0]
        self._counters["cancelled_calls"] += 1
        request, call._request = call._request, None
        if request is not None:
            request.settle(None)
        if call._ticket is None:
            call._given_up = True
            del self._by_request[call._key]
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
        """Answer every parked call with an error result; later ones are answered at once. Idempotent.

        Results that wait for a ticket are undelivered from now on.
        """
        self._closed = True
        for call in dict.fromkeys([*self._parked.values(), *self._tickets.values()]):
            request, call._ticket = call._request, None
            if request is not None and request.open:
                request.settle(Answer(error_result(_CLOSED), Kind.NOTE))
            elif call._result is not None and (request is None or request.kind is not Kind.RESULT):
                self._lose(call, call._result)
            call._result = None
        for kept in (self._parked, self._by_request, self._tickets, self._late, self._fresh):
            kept.clear()
        self._news.set()

    async def written(self) -> None:
        """Return when no answer is on its way any more, at most after the bridge's closing time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(BRIDGE_CLOSE_S):
                await self._idle.wait()

    # One request.

    async def _read(self, request: Request, arrived: Callable[[], None]) -> Reading:
        if request.open and request.timer is None and self.patience_s is not None:
            request.timer = asyncio.get_running_loop().call_later(self.patience_s, self._expire, request)
        request.readers += 1
        self._count(1)
        arrived()
        left = True
        try:
            # Shielded: several connections may wait for one answer, and one that goes must not take it along.
            answer = await asyncio.shield(request.answer)
            left = False
        finally:
            if left:
                self._leave(request)
        return Reading(request, answer)

    def _leave(self, request: Request) -> None:
        """A connection is through with a request: it wrote the answer, could not, or hung up before there was one."""
        request.readers -= 1
        self._count(-1)
        if request.readers:
            return
        call = request.call
        current = call._request is request
        if current:
            call._request = None
        if request.open:
            request.stop_timer()
            if current and call._ticket is None and not call._handed_out:
                self._withdraw(call)
        else:
            self._over(request, current=current)

    def _over(self, request: Request, *, current: bool) -> None:
        """The last connection of an answered request is through with it."""
        call, answer = request.call, request.answer.result()
        if answer is None or answer.kind is Kind.NOTE:
            return
        if answer.kind is Kind.RESULT:
            if request.delivered:
                call._delivered = True
                self._counters["results_by_ticket"] += call._ticket is not None
                self._forget_ticket(call)
            elif call._ticket is None:
                # Without a ticket, or the endpoint was closed meanwhile.
                self._lose(call, answer.result)
        elif current and not request.delivered:
            # The agent never learned of the ticket. If somebody came with it all the same, this is no longer current.
            result = call._result
            self._forget_ticket(call)
            if result is not None:
                self._lose(call, result)
            elif not self._closed:
                self._by_request[call._key] = call
                if not call._handed_out:
                    self._withdraw(call)

    def _expire(self, request: Request) -> None:
        """The agent is about to give up on a request."""
        request.timer = None
        call = request.call
        if call._ticket is not None:
            request.settle(Answer(still_result(call._ticket), Kind.NOTE))
            return
        ticket = call._ticket = new_ticket()
        self._tickets[ticket] = call
        self._counters["tickets"] += 1
        request.settle(Answer(ticket_result(ticket), Kind.TICKET))

    def _count(self, change: int) -> None:
        self._reading += change
        if self._reading:
            self._idle.clear()
        else:
            self._idle.set()

    # One call.

    def _park(self, key: RequestKey, name: str, arguments: str) -> ParkedCall:
        call = ParkedCall(self, key, name, arguments)
        # A call whose ticket is out does not count: its agent may make one call after another all the same.
        self._parallel = self._parallel or any(other._ticket is None for other in self._parked.values())
        self._parked[call.id] = call
        self._by_request[key] = call
        self._fresh.append(call)
        self._moves += 1
        self._counters["calls"] += 1
        self._news.set()
        return call

    def _withdraw(self, call: ParkedCall) -> None:
        """Nobody waits for the call and the host has not seen it: it never was."""
        self._counters["withdrawn_calls"] += 1
        self._parked.pop(call.id, None)
        self._by_request.pop(call._key, None)
        if call in self._fresh:
            self._fresh.remove(call)

    def settle(self, call: ParkedCall, result: CallResult) -> bool:
        """Answer a call, once; whether somebody can still take the result."""
        if call._settled:
            return False
        call._settled = True
        self._parked.pop(call.id, None)
        request = call._request
        if call._ticket is not None:
            call._result = result
        elif self._by_request.get(call._key) is call:
            del self._by_request[call._key]
        if request is not None and request.open:
            request.settle(Answer(result, Kind.RESULT))
            return True
        if call._ticket is not None:
            return True
        self._lose(call, result)
        return False

    def _forget_ticket(self, call: ParkedCall) -> None:
        if call._ticket is not None:
            self._tickets.pop(call._ticket, None)
            self._by_request.pop(call._key, None)
            call._ticket = call._result = None

    def _lose(self, call: ParkedCall, result: CallResult) -> None:
        """Record that a result could not be delivered, and keep it for the case that the same request comes again."""
        self._counters["undelivered_results"] += 1
        log.info("a tool result could not be delivered: the agent had hung up, or the turn had ended")
        if self._closed or call._given_up:
            return
        self._late[call._key] = result
        while len(self._late) > MAX_LATE_RESULTS:
            self._late.popitem(last=False)
