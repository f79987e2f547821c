"""One bounded child process: started, fed, drained, ended with all its descendants.

Owns: the child's group, its pipe and the bounds on time and output. When :func:`run_process` returns or raises, nothing
of the child is left, however it ended: exit, time-out, cancellation, or a grandchild that holds the pipe.
"""

import asyncio
import os
import re
import secrets
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from antigravity_acp.host._ending import to_the_end, wait_through
from antigravity_acp.limits import COMMAND_GRACE_S

from ._threads import in_thread
from ._tree import MARK, kill_tree

#: Variables that a child does not get: they hold what the model must not read.
_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)


class Ended(msgspec.Struct, frozen=True):
    """How a process ended.

    :param output: stdout and stderr together, in the order written; the middle is cut when it was too long.
    :param cut: bytes that were left out.
    :param code: exit code, negative for a signal; ``None`` when it was ended for its time.
    """

    output: bytes
    cut: int
    code: int | None


def scrubbed_environment() -> dict[str, str]:
    """This process's environment without what looks like a credential."""
    return {name: value for name, value in os.environ.items() if not _SECRET.search(name)}


async def run_process(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    max_output: int,
    stdin: bytes | None = None,
) -> Ended:
    """Run a program to its end.

    :param argv: program and arguments.
    :param env: the child's whole environment.
    :param timeout_s: seconds; then SIGTERM to the group, a grace, SIGKILL to the whole tree.
    :param max_output: bytes that are kept, half from the beginning and half from the end.
    :param stdin: what the child reads; nothing by default.
    :raises OSError: when it cannot be started.
    """
    loop = asyncio.get_running_loop()
    mark = secrets.token_hex(16)
    child = _Child(max_output)
    # A protocol instead of asyncio's Process: that one's wait() does not return while a grandchild holds a pipe.
    starting = loop.create_task(
        loop.subprocess_exec(
            lambda: child,
            *argv,
            cwd=cwd,
            env={**env, MARK: mark},
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        ),
        name="start command",
    )
    try:
        transport, _ = await wait_through(starting)
    except asyncio.CancelledError:
        # Cancelled between the start and its report: the process is there and has to be ended like any other.
        if starting.done() and not starting.cancelled() and starting.exception() is None:
            await to_the_end(_end(starting.result()[0], child, mark), "end command")
        raise
    try:
        if stdin is not None:
            child.feed(transport, stdin)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await child.exited.wait()
        timed_out = transport.get_returncode() is None
        if not timed_out:
            # What was written before the exit may still be on its way; a grandchild may keep the pipe open for ever.
            with suppress(TimeoutError):
                async with asyncio.timeout(COMMAND_GRACE_S):
                    await child.drained.wait()
    finally:
        await to_the_end(_end(transport, child, mark), "end command")
    return Ended(child.output(), child.cut, None if timed_out else transport.get_returncode())


async def _end(transport: asyncio.SubprocessTransport, child: "_Child", mark: str) -> None:
    leader = transport.get_pid()
    if transport.get_returncode() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(COMMAND_GRACE_S):
                await child.exited.wait()
    await in_thread(lambda: kill_tree(leader, mark))
    with suppress(TimeoutError):
        async with asyncio.timeout(COMMAND_GRACE_S):
            await child.exited.wait()
            await child.drained.wait()
    transport.close()


class _Child(asyncio.SubprocessProtocol):
    def __init__(self, max_output: int) -> None:
        self.exited = asyncio.Event()
        self.drained = asyncio.Event()
        self.cut = 0
        self._half = max_output // 2
        self._head = bytearray()
        self._tail = bytearray()

    def feed(self, transport: asyncio.SubprocessTransport, data: bytes) -> None:
        pipe = transport.get_pipe_transport(0)
        if isinstance(pipe, asyncio.WriteTransport):
            pipe.write(data)
            pipe.close()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        room = self._half - len(self._head)
        self._head += data[:room] if room > 0 else b""
        self._tail += data[max(room, 0) :]
        surplus = len(self._tail) - self._half
        # Cut in large steps: cutting for every read would copy the tail each time.
        if surplus > self._half:
            del self._tail[:surplus]
            self.cut += surplus

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self.drained.set()

    def process_exited(self) -> None:
        self.exited.set()

    def output(self) -> bytes:
        surplus = max(len(self._tail) - self._half, 0)
        if surplus:
            del self._tail[:surplus]
            self.cut += surplus
        if not self.cut:
            return bytes(self._head + self._tail)
        return bytes(self._head) + f"\n[{self.cut} bytes cut here]\n".encode() + bytes(self._tail)
