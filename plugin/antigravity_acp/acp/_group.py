"""One agent with everything that descends from it, as something that is started, signalled and ended.

Owns: the contract (:class:`Tree`), which is also the plain kind: a process group with nobody between it and the host.
The other kinds are ``_supervised`` (POSIX, the usual one) and ``_job`` (Windows); ``_kinds`` chooses.
The plain kind is what is left where the supervisor cannot run. It ends what it finds by descent, group, session and
mark; an agent that ignores the end of its input outlives a host that is killed, until the next start sweeps it.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ._scratch import Scratch
from ._supervisor import tree

#: Seconds of the last resort: finding and killing what belongs to an agent.
FORCE_S: Final = 2.0


class UnusableTreeError(Exception):
    """This kind cannot be used here after all; nothing was started."""


class Tree:
    """Made for one agent in one scratch directory; started once by :meth:`spawn`."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._transport: asyncio.SubprocessTransport | None = None
        #: The agent itself, leader of its group; 0 before it was started.
        self.pid = 0
        #: Its exit status, negative for a signal; ``None`` while it runs.
        self.returncode: int | None = None
        #: The agent itself has exited.
        self.exited = asyncio.Event()
        #: Nothing of it is left.
        self.ended = asyncio.Event()
        #: Called once when the agent itself has exited.
        self.on_exit: Callable[[], None] = lambda: None

    @property
    def settle_s(self) -> float:
        """Seconds that ``ended`` is to be waited for after the agent itself has exited, before force is used."""
        return 0.0

    async def spawn(
        self, protocol: asyncio.SubprocessProtocol, argv: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        """Start the agent in the scratch directory, with pipes that the protocol serves.

        :raises OSError: when the program cannot be started. :raises ValueError: for an argument no program can take.
        :raises NotImplementedError: when this event loop cannot start processes. :raises UnusableTreeError:
        """
        await self._start(protocol, argv, environment, cwd=self._scratch.cwd, start_new_session=True)
        assert self._transport is not None  # noqa: S101 - set by the line above
        self.pid = self._transport.get_pid()
        await self._record()

    def terminate(self) -> None:
        """Ask the group to end (SIGTERM)."""
        tree.kill_group(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End the group."""
        tree.kill_group(self.pid)

    def force(self) -> bool:
        """End whatever is still there, without anybody's help. Blocks, bounded by :data:`FORCE_S`.

        :returns: whether nothing is left.
        """
        return tree.kill_tree(self.pid, self._scratch.began, os.fsencode(self._scratch.tmp), FORCE_S)

    def dismiss(self) -> None:
        """There is nobody to be told any more; :meth:`force` comes next."""

    def process_exited(self) -> None:
        """The loop has collected the process that it started."""
        # Its members cannot outlive the leader usefully, and later the number may belong to somebody else.
        tree.kill_group(self.pid)
        assert self._transport is not None  # noqa: S101 - nothing else could have exited
        self._exit(self._transport.get_returncode() or 0)

    # ---- for the kinds ----------------------------------------------------------------------------------------------
    async def _start(
        self, protocol: asyncio.SubprocessProtocol, argv: Sequence[str], environment: Mapping[str, str], **options: Any
    ) -> None:
        self._transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: protocol,
            *argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            **options,
        )

    def _exit(self, status: int) -> None:
        if not self.exited.is_set():
            self.returncode = status
            self.exited.set()
            self.on_exit()

    async def _record(self) -> None:
        if tree.PROC:
            self._scratch.record(self.pid)
        else:
            # Asking `ps` takes a while.
            await asyncio.get_running_loop().run_in_executor(None, self._scratch.record, self.pid)
