"""The loopback listener: uvicorn's HTTP/1.1 on a socket of ours.

Owns: one listening socket on 127.0.0.1 and every connection accepted on it; :meth:`Listener.aclose` ends them all.
Connections that have not shown a bearer are bounded in number, since anybody on the machine can open them.
Of uvicorn only the HTTP part is used: no signal handlers, no lifespan, no access log, and none of its process-wide
logging set-up, since the host may run a uvicorn of its own.
Never: listens on another address.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from antigravity_acp.limits import BRIDGE_CLOSE_S, IDLE_CONNECTION_S, MAX_STRANGERS

log = logging.getLogger("antigravity_acp.bridge")

#: Key in the ``state`` of a request's scope: the function that says the request was let in.
ADMITTED: Final = "antigravity-acp.admitted"
#: Connections that wait to be accepted: 16 turns with 64 calls each.
_BACKLOG: Final = 1024
#: Connections that are accepted before any of them is looked at. asyncio takes the length of the queue for it, which
#: would hand a thousand descriptors to strangers in one go.
_ACCEPTED_AT_ONCE: Final = 32
#: Seconds that the listener may take to end once every connection is cut.
_END_S: Final = 2.0
_PASSES: Final = 10
#: Seconds within which a client that opened a connection sends its request.
_YOUNG_S: Final = 0.005


class Listener:
    """One listening socket on a free port of 127.0.0.1; accepts connections from :meth:`serve` on.

    :raises OSError: when there is no port to be had.
    """

    def __init__(self) -> None:
        # The protocol is named, since asyncio sets TCP_NODELAY only on sockets that say they are TCP; without it every
        # answer is 40 ms late.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            self._socket.bind(("127.0.0.1", 0))
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None
        self._silent: dict[object, float] = {}
        self._strangers: dict[_Protocol, None] = {}

    @property
    def silent(self) -> int:
        """Connections just accepted whose first request has not been read yet; older ones may stay silent for ever."""
        if not self._silent:
            return 0
        oldest = asyncio.get_running_loop().time() - _YOUNG_S
        return sum(accepted > oldest for accepted in self._silent.values())

    async def serve(self, app: Any) -> None:
        """Start to accept connections."""
        silent, unknown = self._silent, self._strangers

        class Protocol(_Protocol):
            waiting = silent
            strangers = unknown

        config = uvicorn.Config(
            app,
            interface="asgi3",
            http=Protocol,
            ws="none",
            loop="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            backlog=_ACCEPTED_AT_ONCE,
            timeout_keep_alive=IDLE_CONNECTION_S,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]), name="antigravity-acp bridge")
        started = asyncio.create_task(self._server.up.wait())
        try:
            await asyncio.wait((started, self._task), return_when=asyncio.FIRST_COMPLETED)
        finally:
            started.cancel()
        if self._task.done():
            self._task.result()
        self._socket.listen(_BACKLOG)

    async def aclose(self) -> None:
        """End every connection: answers under way get :data:`~antigravity_acp.limits.BRIDGE_CLOSE_S`. Idempotent."""
        server, task = self._server, self._task
        self._server = self._task = None
        if server is not None and task is not None:
            server.down.set()
            await asyncio.wait((task,), timeout=_END_S)
            task.cancel()
            await asyncio.wait((task,), timeout=_END_S)
        self._socket.close()


class _Server(uvicorn.Server):
    """A server that starts and ends by events instead of ticks."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self.down = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the host's."""
        yield

    async def main_loop(self) -> None:
        self.up.set()
        await self.down.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, let answers under way finish, cut the rest; the base class waits in steps, and for ever."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        if tasks := set(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=BRIDGE_CLOSE_S)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        # A cut connection reads as a disconnect, by which every request ends on its own.
        if tasks := set(self.server_state.tasks):
            await asyncio.wait(tasks, timeout=_END_S)
        # What was aborted is told so, and closes its socket, in the next passes of the loop.
        for _ in range(_PASSES):
            if self.server_state.connections:
                await asyncio.sleep(0)


class _Protocol(H11Protocol):
    """One connection.

    Counted in ``waiting`` from its acceptance until its first request is read, and in ``strangers`` until the
    application admits a request of it, which it says by calling ``scope["state"][ADMITTED]()``.
    """

    waiting: dict[object, float]
    strangers: "dict[_Protocol, None]"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = log
        self.access_log = False
        self.app_state = {ADMITTED: lambda: self.strangers.pop(self, None)}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base has it
        self.waiting[self] = self.loop.time()
        super().connection_made(transport)
        self.strangers[self] = None
        if len(self.strangers) > MAX_STRANGERS:
            oldest = next(iter(self.strangers))
            del self.strangers[oldest]
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None:
            self.waiting.pop(self, None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.waiting.pop(self, None)
        self.strangers.pop(self, None)
        super().connection_lost(exc)
