"""One agent process: started in a group and a scratch directory of its own, ended with both.

Owns: the agent with everything that descends from it, its pipes, its scratch directory, the tail of its stderr. Ends
with :meth:`AgentProcess.aclose`, bounded and not to be interrupted: stdin is closed, then grace, SIGTERM to the group,
grace, SIGKILL to the group and to what left it, then the directory. An agent that exits by itself takes the rest along
at once. If the host dies, its agents die within five seconds; what is left even so is swept at the next start.
Never: waits for ``Process.wait()`` of asyncio, which does not return while a grandchild holds a pipe (CPython
gh-119710); logs what the agent prints.
"""

import asyncio
import errno
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from ..contract import LlmError
from ..limits import KILL_STEP_S
from . import _scratch
from ._environment import agent_environment
from ._finish import finish, wait_for
from ._group import FORCE_S, Tree, UnusableTreeError
from ._kinds import kinds
from ._pipes import Pipes
from ._scratch import SCRATCH_PREFIX, Scratch
from .launch import AgentCommand

__all__ = ["SCRATCH_PREFIX", "AgentProcess"]

_log = logging.getLogger("antigravity_acp.acp")

#: Seconds for the loop to close its ends of the pipes.
_CLOSE_S: Final = 1.0
#: Seconds for deleting the scratch directory.
_REMOVE_S: Final = 30.0
#: Seconds that a start waits for the sweep; gigabytes may have to be deleted, which then goes on beside it.
_SWEEP_WAIT_S: Final = 2.0
#: Seconds between two sweeps of one temporary directory by one host.
_SWEEP_EVERY_S: Final = 300.0

_swept: dict[str, float] = {}


class AgentProcess:
    """A running agent. Made by :meth:`start`, ended by :meth:`aclose`."""

    def __init__(self, scratch: Scratch, grace_s: float) -> None:
        self._scratch = scratch
        #: The private directory; ``cwd`` and the agent's temporary directory lie in it.
        self.scratch = scratch.path
        self.cwd = scratch.cwd
        self._grace_s = grace_s
        self._on_gone: Callable[[], None] = lambda: None
        self._ending: asyncio.Task[None] | None = None
        self._tree = Tree(scratch)
        self._pipes = Pipes()

    @classmethod
    async def start(cls, command: AgentCommand, *, dispose_grace_ms: int) -> "AgentProcess":
        """Start the command; the first start also sweeps what dead hosts have left.

        :param dispose_grace_ms: milliseconds that it has to exit after its stdin is closed, and again after SIGTERM.
        :raises LlmError: ``ACP_BINARY_MISSING`` when the program cannot be started, ``ACP_PLATFORM_UNSUPPORTED`` when
            this event loop cannot start processes or there is no place for temporary files, ``ACP_STARTUP_TIMEOUT``.
        """
        await _sweep_if_due()
        try:
            scratch = Scratch.make()
        except OSError as error:
            raise LlmError(
                "ACP_PLATFORM_UNSUPPORTED",
                f"No directory for temporary files could be made ({error.strerror or 'no place'}). Check `TMPDIR`.",
            ) from None
        process = cls(scratch, dispose_grace_ms / 1000)
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
                    f"The agent program could not be started: {_reason(error, command.argv[0])}.",
                ) from None
            raise
        return process

    async def _spawn(self, command: AgentCommand) -> None:
        environment = agent_environment(command.env, self._scratch.tmp)
        for kind in kinds():
            self._pipes = pipes = Pipes()
            self._tree = tree = kind(self._scratch)
            pipes.on_gone = self._gone
            pipes.on_collected = tree.process_exited
            tree.on_exit = pipes.agent_exited
            try:
                return await tree.spawn(pipes, command.argv, environment)
            except UnusableTreeError:
                pipes.close()
        raise AssertionError("the last kind is always usable")

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

    @contextmanager
    def hearing_stderr(self, listener: Callable[[bytes], None]) -> Iterator[None]:
        """Within the block ``listener`` gets stderr as it comes, in pieces of any size, beside the tail. Not nested."""
        self._pipes.on_stderr = listener
        try:
            yield
        finally:
            self._pipes.on_stderr = None

    # ---- life -------------------------------------------------------------------------------------------------------
    @property
    def pid(self) -> int:
        """Process id of the agent itself, which is its group's and its session's id too."""
        return self._tree.pid

    @property
    def returncode(self) -> int | None:
        """Exit status of the agent itself, negative for a signal; ``None`` while it runs."""
        return self._tree.returncode

    async def wait(self) -> int:
        """Wait until the agent itself has exited, whatever holds its pipes. Not bounded; use a timeout."""
        await self._tree.exited.wait()
        return self.returncode or 0

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Call back a moment after the process has exited or closed its stdout, even if nobody reads it."""
        self._on_gone = callback
        if self._pipes.gone.is_set():
            callback()

    def _gone(self) -> None:
        self._on_gone()

    async def aclose(self) -> None:
        """End all of it and remove the directory. Bounded, idempotent, finished even under cancellation.

        :raises LlmError: ``ACP_TEARDOWN_FAILED`` when something survived SIGKILL.
        """
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end(), name="antigravity-acp.end-process")
        await finish(self._ending)

    async def _end(self) -> None:
        pipes, tree = self._pipes, self._tree
        try:
            if pipes.transport is not None:
                pipes.discard_output()
                pipes.close_stdin()
                for signal_group, seconds in (
                    (None, self._grace_s),
                    (tree.terminate, self._grace_s),
                    (tree.kill, KILL_STEP_S),
                ):
                    if signal_group is not None and not tree.exited.is_set():
                        signal_group()
                    if await wait_for(tree.exited, seconds):
                        break
                if not await wait_for(tree.ended, tree.settle_s):
                    tree.dismiss()
                    if await _in_thread(tree.force, 2 * FORCE_S) and await wait_for(tree.exited, _CLOSE_S):
                        tree.ended.set()
                pipes.close()
                await wait_for(pipes.closed, _CLOSE_S)
                if not tree.ended.is_set():
                    raise LlmError(
                        "ACP_TEARDOWN_FAILED",
                        f"The agent process {self.pid}, or one that it started, did not end after SIGKILL. "
                        "End it by hand.",
                    )
        finally:
            if not await _in_thread(self._scratch.remove, _REMOVE_S):
                _log.warning("the scratch directory of an agent could not be removed; it is swept at the next start")


async def _in_thread(work: Callable[[], bool], seconds: float) -> bool:
    """Something that blocks, off the loop; an agent may have unpacked a gigabyte. :returns: whether it succeeded."""
    running = asyncio.get_running_loop().run_in_executor(None, work)
    done = asyncio.Event()
    running.add_done_callback(lambda _: done.set())
    return await wait_for(done, seconds) and not running.cancelled() and running.result()


async def _sweep_if_due() -> None:
    """Sweep off the loop, and wait a while for it: after a start nothing of a dead host should be left."""
    root, now = tempfile.gettempdir(), time.monotonic()
    if now < _swept.get(root, float("-inf")) + _SWEEP_EVERY_S:
        return
    _swept[root] = now
    await asyncio.wait({asyncio.get_running_loop().run_in_executor(None, _scratch.sweep)}, timeout=_SWEEP_WAIT_S)


def _reason(error: Exception, program: str) -> str:
    """What the system says of a program, and what that means where the words alone mislead."""
    if isinstance(error, FileNotFoundError):
        if os.path.isfile(program):
            return "the file is there but not the loader that it names: it is made for another processor or C library"
        return "there is no such file. Check `command`"
    if isinstance(error, PermissionError):
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return "the system forbids it. Look whether its disk is mounted with `noexec`"
        return "it is not an executable file. Correct `command`, or run `chmod +x` on it"
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        return "it is not a program of this system, or it is damaged. Install it again"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}. Check `command` and `args`"
    return "the command line is not valid. Check `command` and `args`"
