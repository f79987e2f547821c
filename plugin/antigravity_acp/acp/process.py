"""One agent process: started in a group and a scratch directory of its own, ended with both.

Owns: the process group, its pipes, its working and temporary directory, the tail of its stderr. Ends with
:meth:`AgentProcess.aclose`, bounded and not to be interrupted: stdin is closed, then grace, SIGTERM to the group,
    grace,
SIGKILL to the group, then the directory. A leader that exits by itself takes its group along at once, while the
group's number is surely its own.
Never: waits for ``Process.wait()`` of asyncio, which does not return while a grandchild holds a pipe (CPython
gh-119710); logs what the agent prints.
"""

import asyncio
import logging
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..contract import LlmError
from ..limits import KILL_STEP_S, STDERR_TAIL_BYTES
from . import _group
from ._environment import agent_environment
from ._finish import finish, wait_for
from ._redact import Tail
from .launch import AgentCommand

_log = logging.getLogger("antigravity_acp.acp")

SCRATCH_PREFIX: Final = "antigravity-acp-"
#: stdout that is read ahead of the consumer, in bytes; beyond it the agent has to wait.
_READ_AHEAD: Final = 512 * 1024
#: Seconds that the rest of stdout is waited for after the process has exited; only a grandchild that left the group
#: can hold it open longer.
_EXIT_DRAIN_S: Final = 1.0
#: Seconds for the loop to close its ends of the pipes.
_CLOSE_S: Final = 1.0
#: Seconds for deleting the scratch directory.
_REMOVE_S: Final = 30.0


class _Pipes(asyncio.SubprocessProtocol):
    """The loop's callbacks for one process. Owns the read-ahead and the flow control."""

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()
        self.gone = asyncio.Event()
        self.tail = Tail(STDERR_TAIL_BYTES)
        self.transport: asyncio.SubprocessTransport | None = None
        self.on_gone: Callable[[], None] = lambda: None
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
        # Its members cannot outlive the leader usefully, and later the number may belong to somebody else.
        if self.transport is not None:
            _group.kill(self.transport)
        self.exited.set()
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

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
        # After its end the transport has no loop any more, and aborting it would raise.
        if stdin is not None and not self._stdin_lost:
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


class AgentProcess:
    """A running agent. Made by :meth:`start`, ended by :meth:`aclose`."""

    def __init__(self, scratch: Path, grace_s: float) -> None:
        #: The private directory; ``cwd`` and the agent's temporary directory lie in it.
        self.scratch = scratch
        self.cwd = scratch / "work"
        self._tmp = scratch / "tmp"
        self._grace_s = grace_s
        self._pipes = _Pipes()
        self._ending: asyncio.Task[None] | None = None
        self.pid = 0

    @classmethod
    async def start(cls, command: AgentCommand, *, dispose_grace_ms: int) -> "AgentProcess":
        """Start the command.

        :param dispose_grace_ms: milliseconds that it has to exit after its stdin is closed, and again after SIGTERM.
        :raises LlmError: ``ACP_BINARY_MISSING`` when the program cannot be started, ``ACP_PLATFORM_UNSUPPORTED`` when
            this event loop cannot start processes.
        """
        process = cls(_make_scratch(), dispose_grace_ms / 1000)
        try:
            # To its end: a spawn that is cancelled half-way would leave a process that nobody knows.
            await finish(process._spawn(command))
        except BaseException as error:
            await process.aclose()
            if isinstance(error, NotImplementedError):
                raise LlmError(
                    "ACP_PLATFORM_UNSUPPORTED",
                    "This event loop cannot start processes. On Windows use the default ProactorEventLoop.",
                ) from None
            if isinstance(error, (OSError, ValueError)):
                raise LlmError(
                    "ACP_BINARY_MISSING",
                    f"The agent program could not be started ({_reason(error)}). Check `command` and `args`.",
                ) from None
            raise
        return process

    async def _spawn(self, command: AgentCommand) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.subprocess_exec(
            lambda: self._pipes,
            *command.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.cwd,
            env=agent_environment(command.env, self._tmp),
            **_group.spawn_options(),
        )
        self.pid = transport.get_pid()

    # ---- pipes ------------------------------------------------------------------------------------------------------
    async def read(self) -> bytes:
        """Some bytes of stdout, at most 256 KiB; ``b""`` at its end, for ever after."""
        return await self._pipes.read()

    def write(self, data: bytes) -> None:
        """Queue bytes for stdin. :raises ConnectionError: when stdin is closed."""
        self._pipes.write(data)

    async def drain(self) -> None:
        """Wait until stdin takes more. :raises ConnectionError: when stdin is closed."""
        await self._pipes.drain()

    def stderr_tail(self) -> str:
        """The last of stderr, redacted; for a person, never for an error or a log."""
        return self._pipes.tail.text()

    # ---- life -------------------------------------------------------------------------------------------------------
    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; ``None`` while it runs."""
        transport = self._pipes.transport
        return transport.get_returncode() if transport is not None else None

    async def wait(self) -> int:
        """Wait until the process itself has exited, whatever holds its pipes. Not bounded; use a timeout."""
        await self._pipes.exited.wait()
        return self.returncode or 0

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Call back a moment after the process has exited or closed its stdout, even if nobody reads it."""
        self._pipes.on_gone = callback
        if self._pipes.gone.is_set():
            callback()

    async def aclose(self) -> None:
        """End the whole group and remove the directory. Bounded, idempotent, finished even under cancellation.

        :raises LlmError: ``ACP_TEARDOWN_FAILED`` when the process survived SIGKILL.
        """
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end(), name="antigravity-acp.end-process")
        await finish(self._ending)

    async def _end(self) -> None:
        pipes = self._pipes
        try:
            if pipes.transport is not None:
                pipes.discard_output()
                pipes.close_stdin()
                for signal_group, seconds in (
                    (None, self._grace_s),
                    (_group.terminate, self._grace_s),
                    (_group.kill, KILL_STEP_S),
                ):
                    if signal_group is not None and not pipes.exited.is_set():
                        signal_group(pipes.transport)
                    if await wait_for(pipes.exited, seconds):
                        break
                pipes.close()
                await wait_for(pipes.closed, _CLOSE_S)
                if not pipes.exited.is_set():
                    raise LlmError(
                        "ACP_TEARDOWN_FAILED",
                        f"The agent process {self.pid} did not end after SIGKILL. End it by hand.",
                    )
        finally:
            await _remove(self.scratch)


def _make_scratch() -> Path:
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX)).resolve()
    (scratch / "work").mkdir()
    (scratch / "tmp").mkdir()
    return scratch


def _delete(directory: Path) -> bool:
    shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()


async def _remove(directory: Path) -> None:
    """Delete the directory in a thread: an agent may have unpacked a gigabyte into it."""
    removal = asyncio.get_running_loop().run_in_executor(None, _delete, directory)
    done = asyncio.Event()
    removal.add_done_callback(lambda _: done.set())
    if not await wait_for(done, _REMOVE_S) or not removal.result():
        _log.warning("the scratch directory of an agent could not be removed; it is swept at the next start")


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return "not executable"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "invalid command line"
