"""The two pipes of the sidecar: lines that come in, frames that go out, each with its back-pressure.

Owns: the transports of stdin and stdout and their flow control. Ends with :meth:`Outlet.aclose`.
Never: holds more than one frame of input, or waits for a host without a bound when it ends.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from antigravity_acp.limits import MAX_FRAME_BYTES, SIDECAR_FLUSH_S, SIDECAR_UNREAD_BYTES, SIDECAR_UNREAD_NOTICES

#: Bytes of output beyond which streams wait until the host has read.
_HIGH_WATER: Final = 256 * 1024


class Inlet(asyncio.Protocol):
    """stdin as lines, handed over as they come.

    :param on_line: called with each line, without its line break.
    :param on_end: called once when nothing more comes; with true when a line was longer than a frame may be.
    """

    def __init__(self, on_line: Callable[[bytes], None], on_end: Callable[[bool], None]) -> None:
        self._on_line = on_line
        self._on_end = on_end
        self._transport: asyncio.ReadTransport | None = None
        self._tail: list[bytes] = []
        self._tail_bytes = 0
        self._paused = False
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.ReadTransport)  # noqa: S101 - narrows the loop's own type
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        head, newline, rest = data.rpartition(b"\n")
        if newline:
            self._tail.append(head)
            lines = b"".join(self._tail).split(b"\n")
            self._tail, self._tail_bytes = [], 0
            for line in lines:
                if self._ended:
                    return
                if len(line) > MAX_FRAME_BYTES:
                    self._end(oversize=True)
                else:
                    self._on_line(line)
        self._tail.append(rest)
        self._tail_bytes += len(rest)
        if self._tail_bytes > MAX_FRAME_BYTES:
            self._end(oversize=True)

    def eof_received(self) -> None:
        # A line without its end was cut off with its host.
        self._end(oversize=False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(oversize=False)

    def hold(self, held: bool) -> None:
        """Stop reading, or go on."""
        if self._transport is None or self._ended or held == self._paused:
            return
        self._paused = held
        if held:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def close(self) -> None:
        """Read no more."""
        self._ended = True
        self._tail = []
        if self._transport is not None:
            self._transport.close()

    def _end(self, *, oversize: bool) -> None:
        if self._ended:
            return
        self._ended = True
        self._tail = []
        self._on_end(oversize)


class Outlet(asyncio.BaseProtocol):
    """stdout as frames.

    :param on_lost: called once when the host has closed its end.
    :param on_unread: called with true when too many answers wait for a host that goes on asking, with false when it
        has read them.
    """

    def __init__(self, on_lost: Callable[[], None], on_unread: Callable[[bool], None]) -> None:
        self._on_lost = on_lost
        self._on_unread = on_unread
        self._transport: asyncio.WriteTransport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = False
        self._hurried = False
        self._unread = 0
        self._notices = 0
        #: Notices and log lines that a host did not read in time.
        self.dropped_notices = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101 - narrows the loop's own type
        transport.set_write_buffer_limits(high=_HIGH_WATER)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._writable.set()
        self._on_lost()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()
        self._unread = self._notices = 0
        self._on_unread(False)

    @property
    def paused(self) -> bool:
        """Whether the host has to read before more is written."""
        return not self._writable.is_set()

    def write(self, frame: bytes) -> None:
        """Write a frame; one for a host that is gone goes nowhere."""
        if self._transport is not None and not self._lost:
            self._transport.write(frame)

    def write_answer(self, frame: bytes) -> None:
        """Write the answer of a request, whose number is the host's doing."""
        self.write(frame)
        if self.paused:
            self._unread += len(frame)
            if self._unread > SIDECAR_UNREAD_BYTES:
                self._on_unread(True)

    def write_notice(self, frame: bytes) -> None:
        """Write what may be dropped."""
        if self.paused:
            if self._notices >= SIDECAR_UNREAD_NOTICES:
                self.dropped_notices += 1
                return
            self._notices += 1
        self.write(frame)

    async def drain(self) -> None:
        """Wait until the host has read.

        :raises ConnectionResetError: when it is gone.
        """
        await self._writable.wait()
        if self._lost or self._hurried:
            raise ConnectionResetError("the host is gone")

    def hurry(self) -> None:
        """Let nobody wait for the host any longer; what is written may still be read."""
        self._hurried = True
        self._writable.set()

    async def aclose(self) -> None:
        """Close when the host has read everything, or after a moment."""
        transport = self._transport
        if transport is None or self._lost:
            # A transport that has ended has no loop any more, and aborting it would raise.
            return
        if transport.get_write_buffer_size():
            transport.set_write_buffer_limits(high=0)
            empty = self._writable = asyncio.Event()
            try:
                async with asyncio.timeout(SIDECAR_FLUSH_S):
                    await empty.wait()
            except TimeoutError:
                pass
        if not self._lost:
            transport.abort()
