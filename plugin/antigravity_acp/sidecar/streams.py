"""The streams of one host: windows, acknowledgements and signals.

Owns: what runs between ``stream/start`` and its answer, and the signals of tool turns that outlive a stream call. A
stream whose host does not acknowledge, or does not read, is not pulled; the others go on. Chunks that are there
together leave together, and none waits for more.
Ends: each stream with its adapter's, which its signal reaches at once; a kept signal with the next stream of its
session.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, Protocol, cast

from antigravity_acp.contract import AbortController, Finish, GenerateOptions, LlmError, StreamChunk
from antigravity_acp.limits import (
    MAX_FRAME_BYTES,
    SIDECAR_BATCH,
    SIDECAR_BATCH_BYTES,
    SIDECAR_KEPT_SIGNALS,
    SIDECAR_WINDOW,
)

from .frames import INVALID_PARAMS, Json, RpcError, chunks_frame, encode_chunk
from .pipes import Outlet

#: Bytes that the frame around one chunk takes at most.
_ENVELOPE: Final = 1024


class Generates(Protocol):
    """What a stream needs of an adapter."""

    def stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]: ...


class _Stream:
    """One running stream."""

    def __init__(self, name: str, outlet: Outlet) -> None:
        self.name = name
        self.controller = AbortController()
        self.unacknowledged = 0
        self.finish: str | None = None
        self._outlet = outlet
        self._room = asyncio.Event()
        self._ready: list[bytes] = []
        self._ready_bytes = 0
        # A cancelled stream has only its open blocks to close; it does not wait for acknowledgements.
        self._forget = self.controller.signal.add_listener(self._room.set)

    def acknowledge(self, chunks: int) -> None:
        self.unacknowledged = max(0, self.unacknowledged - chunks)
        if self.unacknowledged < SIDECAR_WINDOW:
            self._room.set()

    async def pump(self, chunks: AsyncIterator[StreamChunk]) -> None:
        """Send every chunk.

        :raises ConnectionResetError: when the host is gone. :raises RpcError: when a chunk fits no frame.
        """
        loop = asyncio.get_running_loop()
        async for chunk in chunks:
            if isinstance(chunk, Finish):
                self.finish = chunk.reason.kind
            encoded = encode_chunk(chunk)
            if len(encoded) > MAX_FRAME_BYTES - _ENVELOPE:
                raise RpcError(-32000, "A part of the answer is larger than a frame may be.", "SIDECAR_FRAME_TOO_LARGE")
            if self._ready_bytes + len(encoded) > MAX_FRAME_BYTES - _ENVELOPE:
                self.flush()
            if not self._ready:
                # Runs as soon as the adapter waits for more: what is there by then leaves in one frame.
                loop.call_soon(self.flush)
            self._ready.append(encoded)
            self._ready_bytes += len(encoded)
            self.unacknowledged += 1
            full = self.unacknowledged >= SIDECAR_WINDOW
            if full or len(self._ready) >= SIDECAR_BATCH or self._ready_bytes >= SIDECAR_BATCH_BYTES:
                self.flush()
                # An adapter with much at hand never waits, and the other streams have their turn, too.
                await asyncio.sleep(0)
            if full or self._outlet.paused:
                self.flush()
                await self._wait()

    def flush(self) -> None:
        """Send what is there."""
        if self._ready:
            ready, self._ready, self._ready_bytes = self._ready, [], 0
            self._outlet.write(chunks_frame(self.name, ready))

    def close(self) -> None:
        self.flush()
        self._forget()

    async def _wait(self) -> None:
        await self._outlet.drain()
        while self.unacknowledged >= SIDECAR_WINDOW and not self.controller.signal.aborted:
            self._room.clear()
            await self._room.wait()


class Streams:
    """All streams of one host.

    :param ready: the adapter if it is there already. :param adapter: awaited for it when a stream begins before that.
    """

    def __init__(
        self,
        outlet: Outlet,
        ready: Callable[[], Generates | None],
        adapter: Callable[[], Awaitable[Generates]],
    ) -> None:
        self.counters: Counter[str] = Counter()
        self._outlet = outlet
        self._ready = ready
        self._adapter = adapter
        self._running: dict[str, _Stream] = {}
        self._kept: dict[str, tuple[str | None, AbortController]] = {}

    @property
    def numbers(self) -> dict[str, int]:
        """How much there is of everything."""
        return {
            "sidecar_streams": len(self._running),
            "sidecar_kept_signals": len(self._kept),
            "sidecar_unacknowledged": sum(one.unacknowledged for one in self._running.values()),
            **{name: self.counters[name] for name in ("sidecar_unknown_acks", "sidecar_unknown_cancels")},
        }

    def start(self, params: Json) -> Awaitable[Json]:
        """Begin ``stream/start``; from now on the stream can be cancelled.

        :returns: what is to be awaited for the result.
        :raises RpcError: when a stream of that name runs. :raises LlmError: ``INVALID_REQUEST``.
        """
        name: str = params["stream"]
        if name in self._running:
            raise RpcError(INVALID_PARAMS, "params.stream is the name of a stream that runs.", "INVALID_REQUEST")
        stream = _Stream(name, self._outlet)
        options = GenerateOptions.from_wire(params["options"], signal=stream.controller.signal)
        if options.purpose is None:
            # The turn goes on under this stream's name, or a new one begins; titles and the like touch neither.
            self._forget(name, options.session_id)
        self._running[name] = stream
        return self._run(stream, options)

    def acknowledge(self, name: str, chunks: int) -> None:
        """``stream/ack``. Late ones, for a stream that has ended, are usual."""
        stream = self._running.get(name)
        if stream is None:
            self.counters["sidecar_unknown_acks"] += 1
        else:
            stream.acknowledge(chunks)

    def cancel(self, name: str) -> None:
        """``stream/cancel``: the signal fires, also while the host runs the tools of a turn."""
        if stream := self._running.get(name):
            stream.controller.abort("cancelled by the host")
        elif kept := self._kept.pop(name, None):
            kept[1].abort("cancelled by the host")
        else:
            self.counters["sidecar_unknown_cancels"] += 1

    def cancel_all(self) -> None:
        """The host is gone, or says that it is done."""
        for name in [*self._running, *self._kept]:
            self.cancel(name)

    async def _run(self, stream: _Stream, options: GenerateOptions) -> Json:
        try:
            adapter = self._ready() or await _unless_aborted(self._adapter(), stream.controller)
            async with aclosing(cast("Any", adapter.stream(options))) as chunks:
                await stream.pump(chunks)
        finally:
            stream.close()
            del self._running[stream.name]
        if stream.finish == "tool-calls" and not stream.controller.signal.aborted:
            self._keep(stream, options)
        return {}

    def _keep(self, stream: _Stream, options: GenerateOptions) -> None:
        session = options.session_id if options.purpose is None else None
        self._kept[stream.name] = (session, stream.controller)
        while len(self._kept) > SIDECAR_KEPT_SIGNALS:
            del self._kept[next(iter(self._kept))]

    def _forget(self, name: str, session: str | None) -> None:
        self._kept.pop(name, None)
        if session is not None:
            for kept in [kept for kept, (other, _) in self._kept.items() if other == session]:
                del self._kept[kept]


async def _unless_aborted(adapter: Awaitable[Generates], controller: AbortController) -> Generates:
    # The adapter's libraries may still be loading, and an abort does not wait for them.
    loading = asyncio.ensure_future(adapter)
    aborted = asyncio.ensure_future(controller.signal.wait())
    try:
        await asyncio.wait({loading, aborted}, return_when=asyncio.FIRST_COMPLETED)
        if controller.signal.aborted:
            raise LlmError("ABORTED")
        return await loading
    finally:
        for task in (loading, aborted):
            task.cancel()
