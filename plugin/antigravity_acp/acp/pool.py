"""The agent processes of one adapter.

Owns: every process from its start to its end, and the *standby* sessions of idle ones: sessions that have never seen a
prompt, opened ahead of time (or left over from discovery) and claimed at most once, by a request of exactly their key.
A process serves one borrower at a time. Given back in good health it waits idle, for a while and with few others, and
serves again; otherwise it is ended. Borrowed processes stay owned: :meth:`AgentPool.aclose` waits for them too.
Never: starts a process that nobody asked for, hands a session out twice, or lends a process that has ended.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

from ..contract import LlmError, Notify
from ..contract.notices import ignore
from ..limits import MAX_IDLE_PROCESSES
from ..settings import Settings
from .client import AgentClient
from .installer import Installer
from .session import AgentSession

EndpointT = TypeVar("EndpointT")

_log = logging.getLogger("antigravity_acp.acp")


class Standby(NamedTuple, Generic[EndpointT]):
    """A session that waits for its one request.

    :param session: opened, never prompted. :param endpoint: what it was lent.
    :param discard: ends what was lent; called when nobody claims the session.
    """

    session: AgentSession
    endpoint: EndpointT
    discard: Callable[[], None]


class Preparation(NamedTuple, Generic[EndpointT]):
    """How to open a standby session, and the key that its request must have."""

    key: Hashable
    run: Callable[[AgentClient], Awaitable[Standby[EndpointT]]]


class _Idle(Generic[EndpointT]):
    """A process that waits, with its standby session or the task that is opening one."""

    def __init__(self, client: AgentClient) -> None:
        self.client = client
        self.key: Hashable = None
        self.standby: Standby[EndpointT] | None = None
        self.opening: asyncio.Task[None] | None = None
        self.expiry: asyncio.TimerHandle | None = None

    def forget(self) -> None:
        """Stop waiting; a standby session that nobody took is discarded."""
        if self.expiry is not None:
            self.expiry.cancel()
        if self.standby is not None:
            self.standby.discard()
            self.standby = None


class AgentPool(Generic[EndpointT]):
    """Lends, keeps and ends agent processes. Belongs to one event loop."""

    def __init__(self, settings: Settings, notify: Notify = ignore) -> None:
        #: May change; what starts afterwards follows them.
        self.settings = settings
        self._notify = notify
        self._installer = Installer(notify)
        self._clients: set[AgentClient] = set()
        self._idle: list[_Idle[EndpointT]] = []
        self._ending: set[asyncio.Task[None]] = set()
        self._starting = 0
        self._settled = asyncio.Event()
        self._closed = False
        #: Processes that were started by settings which no longer hold.
        self._outdated: set[AgentClient] = set()
        self._renewals = 0
        self._survivors: list[LlmError] = []
        #: Processes started so far.
        self.starts = 0
        #: Whether the agent announced image input when it was last started; ``None`` before the first start.
        self.images: bool | None = None

    @property
    def live(self) -> int:
        """Processes that are owned now, borrowed ones included."""
        return len(self._clients)

    @property
    def idle(self) -> int:
        """Processes that wait for a borrower."""
        return len(self._idle)

    @property
    def prepared(self) -> int:
        """Standby sessions that could be claimed now."""
        return sum(one.standby is not None for one in self._idle)

    # ---- lending ------------------------------------------------------------------------------------------------

    async def checkout(self, key: Hashable = None) -> tuple[AgentClient, Standby[EndpointT] | None]:
        """A process for exclusive use, and the standby session of this key if there is one.

        :raises LlmError: any code of a start; ``ACP_DISPOSED`` after :meth:`aclose`.
        """
        while (idle := self._choose(key)) is not None:
            standby = await self._take(idle, key)
            if idle.client.alive:
                return idle.client, standby
            if standby is not None:
                standby.discard()
            await self._end(idle.client)
        return await self._start(), None

    def _choose(self, key: Hashable) -> "_Idle[EndpointT] | None":
        """The idle process that fits best; it is nobody else's from here on."""
        if self._closed:
            raise LlmError("ACP_DISPOSED")
        if not self._idle:
            return None

        def cost(one: _Idle[EndpointT]) -> int:
            has = one.standby is not None or one.opening is not None
            fits = has and one.key == key and key is not None
            return 0 if fits and one.opening is None else 1 if fits else 2 if not has else 3

        # Of equals the one that came last: its memory is warm, and the others may expire.
        best = min(reversed(self._idle), key=cost)
        self._idle.remove(best)
        return best

    async def _take(self, idle: "_Idle[EndpointT]", key: Hashable) -> Standby[EndpointT] | None:
        try:
            if idle.opening is not None:
                # Nothing is won by interrupting it: a session that opens half-way leaves the agent in an unknown state.
                await asyncio.wait({idle.opening})
            standby = None
            if idle.key == key and key is not None:
                standby, idle.standby = idle.standby, None
        except asyncio.CancelledError:
            self._retire(idle)
            raise
        idle.forget()
        return standby

    async def _start(self) -> AgentClient:
        self.starts += 1
        self._starting += 1
        renewals = self._renewals
        try:
            command = await self._installer.command(self.settings)
            client = await AgentClient.start(self.settings, command, notify=self._notify)
        finally:
            self._starting -= 1
            self._settled.set()
        self._clients.add(client)
        if renewals != self._renewals:
            self._outdated.add(client)
        client.on_closed.append(lambda: self._drop_dead(client))
        self.images = client.images
        return client

    # ---- taking back --------------------------------------------------------------------------------------------

    def give_back(
        self,
        client: AgentClient,
        *,
        healthy: bool,
        prepare: Preparation[EndpointT] | None = None,
        standby: tuple[Hashable, Standby[EndpointT]] | None = None,
    ) -> None:
        """Take a process back. It can be lent again at once, or is being ended when this returns.

        :param healthy: its last prompt ended properly, so that it can serve another.
        :param prepare: a standby session to open on it while it waits.
        :param standby: one that it has already, with its key.
        """
        spent = client in self._outdated or client.sessions >= self.settings.max_sessions_per_process
        if self._closed or not healthy or not client.alive or spent:
            if standby is not None:
                standby[1].discard()
            self._retire(_Idle(client))
            return
        idle: _Idle[EndpointT] = _Idle(client)
        idle.expiry = asyncio.get_running_loop().call_later(
            self.settings.idle_process_timeout_ms / 1000, self._expire, idle
        )
        self._idle.append(idle)
        if standby is not None:
            idle.key, idle.standby = standby
        elif prepare is not None and client.sessions + 1 < self.settings.max_sessions_per_process:
            idle.key = prepare.key
            idle.opening = asyncio.create_task(self._prepare(idle, prepare), name="antigravity-acp prepare")
        while len(self._idle) > MAX_IDLE_PROCESSES:
            self._expire(self._idle[0])

    async def _prepare(self, idle: "_Idle[EndpointT]", preparation: Preparation[EndpointT]) -> None:
        try:
            standby = await preparation.run(idle.client)
        except LlmError as error:
            # Nobody waits for it: the next request opens its own session, on another process.
            _log.debug("a session could not be opened ahead of time: %s", error.code)
            if idle in self._idle:
                self._expire(idle)
            return
        finally:
            idle.opening = None
        if idle.client.alive and not self._closed:
            idle.standby = standby
        else:
            standby.discard()

    # ---- ending -------------------------------------------------------------------------------------------------

    def _expire(self, idle: "_Idle[EndpointT]") -> None:
        if idle in self._idle:
            self._idle.remove(idle)
            self._retire(idle)

    def _drop_dead(self, client: AgentClient) -> None:
        for idle in [one for one in self._idle if one.client is client]:
            self._expire(idle)

    def _retire(self, idle: "_Idle[EndpointT]") -> None:
        task = asyncio.create_task(self._retired(idle), name="antigravity-acp retire")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _retired(self, idle: "_Idle[EndpointT]") -> None:
        # The process goes first: a session that is being opened on it then fails at once.
        await self._end(idle.client)
        if idle.opening is not None:
            await asyncio.wait({idle.opening})
        idle.forget()

    async def _end(self, client: AgentClient) -> None:
        try:
            await client.aclose()
        except LlmError as error:
            # It is nobody's request that fails by this; whoever disposes the adapter is told.
            _log.warning("%s", error)
            self._survivors.append(error)
        finally:
            self._clients.discard(client)
            self._outdated.discard(client)
            self._settled.set()

    def renew(self) -> None:
        """Start other processes from now on: what waits is ended, what is lent when it comes back."""
        self._renewals += 1
        self._outdated |= self._clients
        self.images = None
        for idle in list(self._idle):
            self._expire(idle)

    async def aclose(self) -> None:
        """End what waits, and wait until what is borrowed was given back. Idempotent.

        :raises LlmError: ``ACP_TEARDOWN_FAILED`` when a process survived its end; the others are ended all the same.
        """
        self._closed = True
        await self._installer.aclose()
        for idle in list(self._idle):
            self._expire(idle)
        while self._ending or self._clients or self._starting:
            self._settled.clear()
            if self._ending:
                await asyncio.wait(set(self._ending))
            elif self._clients or self._starting:
                await self._settled.wait()
        if self._survivors:
            raise self._survivors.pop()
