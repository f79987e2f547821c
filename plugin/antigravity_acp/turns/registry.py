"""Which exchange a request belongs to.

Owns: the unfinished exchanges of one adapter, how a request finds its own, and the bound on how many there may be.
A request with a session id is looked up by it; one without by the call ids in its results. Auxiliary requests (with a
purpose) find nothing: titles and compaction never touch a turn.
Never: waits. Ended exchanges that still release what they held are kept until that is done, so that a disposal can wait
for them.
"""

import asyncio
from collections.abc import Iterator

from ..contract import GenerateOptions, LlmError
from .continuation import Verdict, judge_continuation
from .exchange import Exchange


class TurnRegistry:
    """The exchanges of one adapter.

    :param limit: how many turns with tools may be unfinished at the same time.
    """

    def __init__(self, limit: int) -> None:
        #: May change; it holds for the turns that begin afterwards.
        self.limit = limit
        self._exchanges: dict[Exchange, None] = {}

    def __iter__(self) -> Iterator[Exchange]:
        return iter(list(self._exchanges))

    @property
    def active(self) -> int:
        """Exchanges that hold a process."""
        return sum(not exchange.released for exchange in self._exchanges)

    @property
    def parked_calls(self) -> int:
        """Calls of all agents that wait for their hosts."""
        return sum(exchange.parked_calls for exchange in self._exchanges)

    def add(self, exchange: Exchange) -> None:
        """Own a new exchange from here on.

        :raises LlmError: ``ACP_SESSION_LIMIT`` when too many turns with tools are unfinished.
        """
        unfinished = sum(one.with_tools and not one.released for one in self._exchanges)
        if exchange.with_tools and unfinished >= self.limit:
            raise LlmError("ACP_SESSION_LIMIT")
        self._sweep()
        self._exchanges[exchange] = None

    def claim(self, options: GenerateOptions) -> Exchange | None:
        """The suspended exchange that this request continues, its results handed over; ``None`` for a fresh start.

        An exchange whose context has changed is ended.

        :raises LlmError: ``ACP_TOOL_RESULTS_MISSING`` when the results do not match, ``ACP_SESSION_BUSY`` when the
            session's last generation still runs.
        """
        if options.purpose is not None:
            return None
        exchange = self._find(options)
        if exchange is None:
            return None
        if exchange.suspension is None:
            raise LlmError("ACP_SESSION_BUSY")
        verdict = judge_continuation(exchange.suspension, options)
        if verdict is Verdict.CONTINUES:
            exchange.resume(options.messages[len(exchange.suspension.prefix) + 1 :])
            return exchange
        self.drop(exchange)
        if verdict is Verdict.RESULTS_WRONG:
            raise LlmError("ACP_TOOL_RESULTS_MISSING")
        return None

    def drop(self, exchange: Exchange) -> None:
        """End a suspended exchange that nobody will continue."""
        exchange.abort()

    async def dispose(self) -> None:
        """End every exchange and wait until each has released what it held."""
        for exchange in self:
            exchange.abort(LlmError("ACP_DISPOSED"))
        await asyncio.gather(*(exchange.settled() for exchange in self))
        self._sweep()

    def _find(self, options: GenerateOptions) -> Exchange | None:
        if options.session_id is not None:
            return next(
                (one for one in self._live() if one.session_id == options.session_id and not one.auxiliary), None
            )
        results = {message.tool_call_id for message in options.messages if message.role == "tool"}
        return next(
            (
                one
                for one in self._live()
                if one.session_id is None
                and one.suspension
                and any(call.id in results for call in one.suspension.calls)
            ),
            None,
        )

    def _live(self) -> Iterator[Exchange]:
        return (one for one in self._exchanges if not one.released or one.suspension is not None)

    def _sweep(self) -> None:
        for one in self:
            if one.suspension is None and one.released and not one.settling:
                del self._exchanges[one]
        # What failed while its host ran tools waits to say so; if its session never comes back it may not pile up.
        failed = [one for one in self if one.released and one.suspension is not None]
        for one in failed[: max(0, len(failed) - self.limit)]:
            one.abort()
            del self._exchanges[one]
