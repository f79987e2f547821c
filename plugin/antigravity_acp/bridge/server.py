"""The bridge: the private MCP endpoints through which an agent reaches the host's tools.

Owns: one loopback listener for every endpoint of the process, started by the first :meth:`Bridge.open` and ended by
:meth:`Bridge.aclose`; and the endpoints. An endpoint lives until its ``close``: then its bearer is revoked and its
parked calls are answered with an error.
Never: runs a tool. A valid call is parked until the host resolves it; an invalid one never reaches the host. An agent
that gives up on calls sooner than the host may answer gets a ticket in time, and a tool of ours to fetch the result
with (:mod:`._waiting`).
"""

import asyncio
import math
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from antigravity_acp.contract import LlmError

from ._guard import Guard
from ._requests import ParkedCall
from ._waiting import WAIT_TOOL, patience, wait_tool
from .calls import Desk
from .catalogue import Catalogue

if TYPE_CHECKING:
    from ._app import App
    from ._listener import Listener

#: MCP server names are this and 8 random hex digits: no sanitiser changes them, no server of the user's has them, and
#: a model that was not given the name cannot guess it.
SERVER_NAME_PREFIX: Final = "dsh"
#: Length of every server name, for counting an agent's prefix before the endpoint exists.
SERVER_NAME_LENGTH: Final = len(SERVER_NAME_PREFIX) + 8


class Endpoint:
    """One private MCP endpoint: a catalogue behind a bearer; made by :meth:`Bridge.open`.

    :ivar server_name: name to announce it under, ``[a-z0-9]``, :data:`SERVER_NAME_LENGTH` characters.
    :ivar url: its address.
    :ivar headers: what a client must send, as ``(name, value)``; a secret.
    :ivar catalogue: the tools it lists.
    :ivar contacted: whether ``tools/list`` was answered at least once.
    """

    def __init__(self, url: str, token: str, catalogue: Catalogue, desk: Desk) -> None:
        self.server_name = SERVER_NAME_PREFIX + secrets.token_hex(4)
        self.url = url
        self.headers: tuple[tuple[str, str], ...] = (("Authorization", f"Bearer {token}"),)
        self.catalogue = catalogue
        self.desk = desk
        self.contacted = False
        self._with_own = catalogue.exported_names | {WAIT_TOOL}
        self._revoke: Callable[[], None] = lambda: None

    @property
    def exported_names(self) -> frozenset[str]:
        """The names under which the agent knows the tools, with the bridge's own where it is lent."""
        return self.catalogue.exported_names if self.desk.patience_s is None else self._with_own

    @property
    def parked(self) -> Mapping[str, ParkedCall]:
        """Calls that wait for the host, by correlation id."""
        return self.desk.parked

    def definitions(self) -> list[dict[str, Any]]:
        """The tools as MCP lists them, the bridge's own last."""
        own = [] if self.desk.patience_s is None else [wait_tool().definition]
        return self.catalogue.definitions() + own

    async def gather(self) -> list[ParkedCall]:
        """Wait until a call is parked that was not handed out yet; return all that came together with it.

        Calls that follow one another within :data:`~antigravity_acp.limits.GATHER_QUIET_S` count as together; there is
        no longer wait. Empty once the endpoint is closed. One caller at a time.
        """
        return await self.desk.gather()

    def close(self) -> None:
        """Revoke the bearer and answer parked calls with an error. Idempotent; answers go out on their own."""
        self._revoke()
        self.desk.close()

    async def aclose(self) -> None:
        """Close, and wait until the answers of the calls that were parked are written. Bounded."""
        self.close()
        await self.desk.written()

    def __repr__(self) -> str:
        return f"Endpoint({self.server_name!r}, parked={len(self.parked)})"


class Bridge:
    """Every endpoint of this process, on one loopback listener. Belongs to one event loop.

    :param tool_timeout_s: how long the host may take for a call, in seconds.
    """

    def __init__(self, *, tool_timeout_s: float = math.inf) -> None:
        #: May change; it holds for the endpoints that are opened afterwards.
        self.tool_timeout_s = tool_timeout_s
        self._listener: Listener | None = None
        self._guard: Guard[Endpoint] | None = None
        self._endpoints: set[Endpoint] = set()
        self._starting = asyncio.Lock()
        self._closed = False
        #: What happened so far: calls, joined_calls, cancelled_calls, withdrawn_calls, refused_calls,
        #: undelivered_results, late_results_fetched, refused_requests; tickets, waits, refused_tickets,
        #: results_by_ticket.
        self.counters: Counter[str] = Counter()

    @property
    def parked_calls(self) -> int:
        """Calls that wait for the host, in all endpoints."""
        return sum(len(endpoint.parked) for endpoint in self._endpoints)

    async def open(self, catalogue: Catalogue, *, call_limit_s: float | None = None) -> Endpoint:
        """Open an endpoint for a catalogue; the first one starts the listener.

        :param call_limit_s: seconds after which the agent gives up on an MCP call, ``None`` for never. Where the host
            may take longer, a call is answered with a ticket shortly before, and the bridge's own tool is lent too.
        :raises LlmError: ``ACP_DISPOSED`` after :meth:`aclose`.
        :raises OSError: when no port of 127.0.0.1 can be had.
        :raises ValueError: for a limit that is no time.
        """
        patience_s = patience(call_limit_s, self.tool_timeout_s)
        async with self._starting:
            if self._closed:
                raise LlmError("ACP_DISPOSED")
            if self._listener is None or self._guard is None:
                self._listener, self._guard = await self._start()
        listener, guard = self._listener, self._guard
        token = secrets.token_hex(32)
        desk = Desk(self.counters, lambda: listener.silent, patience_s=patience_s)
        endpoint = Endpoint(f"http://127.0.0.1:{listener.port}/mcp", token, catalogue, desk)
        revoke = guard.grant(token, endpoint)

        def forget() -> None:
            revoke()
            self._endpoints.discard(endpoint)

        endpoint._revoke = forget
        self._endpoints.add(endpoint)
        return endpoint

    async def aclose(self) -> None:
        """Close every endpoint, then the listener; nothing is left. Bounded, idempotent, also under cancellation."""
        self._closed = True
        for endpoint in list(self._endpoints):
            endpoint.close()
        closing = asyncio.ensure_future(self._end())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            # What was started is ended first; its steps are bounded.
            with suppress(asyncio.CancelledError):
                await closing
            raise

    async def _end(self) -> None:
        async with self._starting:
            listener, self._listener = self._listener, None
        if listener is not None:
            await listener.aclose()

    async def _start(self) -> "tuple[Listener, Guard[Endpoint]]":
        # Importing the MCP library takes most of a second, which the host's loop can use better.
        make_listener, make_app = await asyncio.to_thread(_load)
        listener = make_listener()
        try:
            guard: Guard[Endpoint] = Guard(f"127.0.0.1:{listener.port}")
            await listener.serve(make_app(guard, self.counters))
        except BaseException:
            await asyncio.shield(listener.aclose())
            raise
        return listener, guard


def _load() -> "tuple[type[Listener], Callable[[Guard[Any], Counter[str]], App]]":
    from ._app import App
    from ._core import Core
    from ._listener import Listener

    core = Core()
    return Listener, lambda guard, counters: App(guard, core, counters)
