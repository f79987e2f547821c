"""The pipes of one agent process, as the loop's callbacks serve them.

Owns: the read-ahead of stdout and its flow control, the flow control of stdin, the drained tail of stderr. Ends with
:meth:`Pipes.close`.
Never: reads stdout further ahead than its bound; logs what the agent prints.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from ..limits import STDERR_TAIL_BYTES
from ._redact import Tail

#: stdout that is read ahead of the consumer, in bytes; beyond it the agent has to wait.
_READ_AHEAD: Final = 512 * 1024
#: Seconds that the rest of stdout is waited for after the process has exited; only a grandchild that left the group
#: can hold it open longer.
_EXIT_DRAIN_S: Final = 1.0


class Pipes(asyncio.SubprocessProtocol):
    """The loop's callbacks for one process. Owns the read-ahead and the flow control."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self.gone = asyncio.Event()
        self.tail = Tail(STDERR_TAIL_BYTES)
        self.transport: asyncio.SubprocessTransport | None = None
        #: Called a moment after the agent has exited or closed its stdout.
        self.on_gone: Callable[[], None] = lambda: None
        #: Called when the loop has collected the process that it started.
        self.on_collected: Callable[[], None] = lambda: None
        #: Who hears stderr as it comes, only while a sign-in runs; keeps its own bounds and never raises.
        self.on_stderr: Callable[[bytes], None] | None = None
        self._chunks: deque[bytes] = deque()
        self._ahead = 0
        self._paused = False
        self._discard = False
        self._eof = False
        self._stdin_lost = False
        self._readable: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._timer: asyncio.TimerHandle | None = None

    # ---- callbacks --------------------------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)  # noqa: S101 - narrows the loop's own type
        self.transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.tail.add(data)
            if self.on_stderr is not None:
                self.on_stderr(data)
        elif not self._discard:
            self._chunks.append(data)
            self._ahead += len(data)
            if self._ahead > _READ_AHEAD and not self._paused:
                self._paused = True
                self._stdout().pause_reading()
            self._wake()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 0:
            self._stdin_lost = True
            self._writable.set()
        elif fd == 1:
            self._end_of_output()

    def process_exited(self) -> None:
        self.on_collected()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def agent_exited(self) -> None:
        """The agent itself has exited; what it wrote before may still be on its way."""
        self._start_timer()

    # ---- for the process --------------------------------------------------------------------------------------------
    async def read(self) -> bytes:
        while not self._chunks:
            if self._eof:
                return b""
            self._readable = asyncio.get_running_loop().create_future()
            try:
                await self._readable
            finally:
                self._readable = None
        chunk = self._chunks.popleft()
        self._ahead -= len(chunk)
        if self._paused and self._ahead <= _READ_AHEAD // 2:
            self._paused = False
            self._stdout().resume_reading()
        return chunk

    def write(self, data: bytes) -> None:
        stdin = self._stdin()
        if self._stdin_lost or stdin is None or stdin.is_closing():
            raise ConnectionResetError("the agent's stdin is closed")
        stdin.write(data)

    async def drain(self) -> None:
        await self._writable.wait()
        if self._stdin_lost:
            raise ConnectionResetError("the agent's stdin is closed")

    def discard_output(self) -> None:
        """Read stdout on and drop it, so that an ending agent does not hang on a full pipe."""
        self._discard = True
        self._chunks.clear()
        self._ahead = 0
        if self._paused:
            self._paused = False
            self._stdout().resume_reading()
        self._end_of_output()

    def close_stdin(self) -> None:
        stdin = self._stdin()
        if stdin is None or self._stdin_lost:
            return
        # A half-sent frame is of no use to an agent that is being ended, and flushing it could take for ever.
        if stdin.get_write_buffer_size():
            stdin.abort()
        else:
            stdin.close()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        stdin = self._stdin()
        # After its end the transport has no loop any more, and aborting it would raise; one that is about to end must
        # not be ended twice either. Only what it has yet to write keeps a closing one open.
        if stdin is not None and not self._stdin_lost and (not stdin.is_closing() or stdin.get_write_buffer_size()):
            stdin.abort()
        if self.transport is not None:
            self.transport.close()

    # ---- inside -----------------------------------------------------------------------------------------------------
    def _stdin(self) -> asyncio.WriteTransport | None:
        pipe = self.transport.get_pipe_transport(0) if self.transport else None
        return pipe if isinstance(pipe, asyncio.WriteTransport) else None

    def _stdout(self) -> asyncio.ReadTransport:
        pipe = self.transport.get_pipe_transport(1) if self.transport else None
        assert isinstance(pipe, asyncio.ReadTransport)  # noqa: S101 - stdout is always a pipe here
        return pipe

    def _wake(self) -> None:
        if self._readable is not None and not self._readable.done():
            self._readable.set_result(None)

    def _end_of_output(self) -> None:
        if not self._eof:
            self._eof = True
            self._wake()
            self._start_timer()

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_EXIT_DRAIN_S, self._give_up)

    def _give_up(self) -> None:
        self._end_of_output()
        if not self.gone.is_set():
            self.gone.set()
            self.on_gone()
