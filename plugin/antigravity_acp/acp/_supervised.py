"""An agent under a supervisor, so that it ends with the host and takes everything along. POSIX.

Owns: the supervisor process, its socket and what is said on it; see ``_supervisor.program`` for the other side. The
agent's pipes are the host's own: the supervisor hands them through and keeps nothing of them. Ends when the supervisor
has exited, which it does when nothing of the agent is left.
The supervisor costs about 10 ms and 9 MB for each agent; docs/decisions/0006-supervisor.md has the reasons.
"""

import asyncio
import errno
import logging
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ..contract import LlmError
from . import _supervisor
from ._group import Tree, UnusableTreeError
from ._interpreter import interpreter
from ._scratch import LAST, Scratch
from ._supervisor import tree
from ._supervisor.program import RAZE_S, pack

_log = logging.getLogger("antigravity_acp.acp")

#: Seconds for the supervisor to come up and execute the agent. It takes some milliseconds; a loaded machine takes more.
_START_S: Final = 20.0
#: Seconds for the supervisor to end what is left and to exit.
_SETTLE_S: Final = RAZE_S + 1.0
#: Seconds for the socket's last words after the supervisor has exited; only a process that the host forked at the wrong
#: moment can hold it open longer.
_LAST_WORDS_S: Final = 0.5
_BOOT: Final = "import sys; sys.path.append(sys.argv[1]); from _supervisor.program import main; main(*sys.argv[2:])"
_NOT_A_PROGRAM: Final = (errno.ENOENT, errno.EACCES, errno.ENOEXEC)
#: What an interpreter may need to find its own libraries. Everything else is the agent's and goes over the socket.
_OWN_VARIABLES: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")


class SupervisedTree(Tree):
    """See the module."""

    _unusable = False

    def __init__(self, scratch: Scratch) -> None:
        super().__init__(scratch)
        self._channel: _Channel | None = None
        self._collected = False

    @property
    def settle_s(self) -> float:
        return 0.0 if self._collected else _SETTLE_S

    @classmethod
    def usable(cls) -> bool:
        """Whether this host is run by an interpreter that has not failed to run the supervisor."""
        return not cls._unusable and interpreter() is not None

    async def spawn(
        self, protocol: asyncio.SubprocessProtocol, argv: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        """As :meth:`Tree.spawn`.

        :raises UnusableTreeError: :raises LlmError: ``ACP_STARTUP_TIMEOUT``.
        """
        request = pack(
            os.fsencode(self._scratch.cwd),
            [os.fsencode(part) for part in argv],
            [os.fsencode(f"{name}={value}") for name, value in environment.items()],
        )
        program = interpreter()
        assert program is not None  # noqa: S101 - `usable` was asked
        loop = asyncio.get_running_loop()
        started: asyncio.Future[int] = loop.create_future()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                command = (program, "-I", "-S", "-c", _BOOT, str(Path(_supervisor.__file__).parents[1]))
                told = (str(self._scratch.path), str(os.getpid()), str(theirs.fileno()), *LAST)
                own = {name: os.environ[name] for name in _OWN_VARIABLES if name in os.environ}
                descriptors = (theirs.fileno(),)
                try:
                    await self._start(
                        protocol, (*command, *told), own, cwd="/", start_new_session=True, pass_fds=descriptors
                    )
                except OSError as error:
                    if error.errno not in _NOT_A_PROGRAM:
                        raise
                    raise self._cannot_run(for_good=True) from None
            channel = self._channel = _Channel(self, started)
            await loop.create_unix_connection(lambda: channel, sock=ours)
        except BaseException:
            ours.close()
            raise
        channel.send(request)
        try:
            async with asyncio.timeout(_START_S):
                self.pid = await started
        except TimeoutError:
            raise LlmError(
                "ACP_STARTUP_TIMEOUT",
                f"The agent program was not executed within {_START_S:.0f} s. Is the machine or the disk overloaded?",
            ) from None
        except UnusableTreeError:
            status = self._transport.get_returncode() if self._transport is not None else None
            # Killed by a signal, it would run the next time.
            raise self._cannot_run(for_good=status is not None and status > 0) from None
        await self._record()

    def terminate(self) -> None:
        self._command(b"t")

    def kill(self) -> None:
        self._command(b"k")

    def dismiss(self) -> None:
        if self._transport is not None and self._transport.get_returncode() is None:
            # It did not do what it was told to; the agent itself dies with it on Linux.
            self._transport.kill()
        self._close()

    def process_exited(self) -> None:
        self._collected = True
        if self._channel is None or self._channel.lost:
            self._over()
        else:
            asyncio.get_running_loop().call_later(_LAST_WORDS_S, self._over)

    # ---- what the supervisor says -----------------------------------------------------------------------------------
    def agent_exited(self, status: int) -> None:
        """The agent itself has exited; what it left is being killed."""
        if self._channel is not None:
            self._channel.send(b"b")
        self._exit(status)

    def channel_lost(self) -> None:
        """There will be no more news."""
        if self._collected:
            self._over()

    # ---- inside -----------------------------------------------------------------------------------------------------
    def _cannot_run(self, *, for_good: bool) -> UnusableTreeError:
        SupervisedTree._unusable = for_good
        _log.warning(
            "an agent runs without a supervisor, because this Python could not run it; if the agent ignores the end of "
            "its input and this host is killed, the agent lives on until the next start"
        )
        return UnusableTreeError()

    def _command(self, command: bytes) -> None:
        if self.pid and self._channel is not None and not self._channel.lost:
            self._channel.send(command)
        elif self._transport is not None and not self.pid:
            self._transport.kill()

    def _over(self) -> None:
        """The supervisor is gone and has said all."""
        if self.ended.is_set() or self._transport is None:
            return
        if self._channel is not None and not self._channel.started.done():
            self._channel.started.set_exception(UnusableTreeError())
        if self.pid and self.returncode is None:
            # Somebody killed it. Nobody collects the agent's status any more; on Linux the kernel ends the agent.
            if self._scratch.began and tree.stamp(self.pid) == self._scratch.began:
                tree.kill_group(self.pid)
            self._exit(-signal.SIGKILL)
        self._exit(self.returncode or 0)
        if self._transport.get_returncode() == 0:
            self.ended.set()
        self._close()

    def _close(self) -> None:
        if self._channel is not None:
            self._channel.close()


class _Channel(asyncio.Protocol):
    """The host's end of the socket."""

    def __init__(self, owner: SupervisedTree, started: "asyncio.Future[int]") -> None:
        self._owner = owner
        self.started = started
        self.lost = False
        self._line = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - narrows the loop's own type
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            word, _, number = line.partition(b" ")
            if word == b"exit":
                self._owner.agent_exited(int(number))
            elif not self.started.done():
                if word == b"pid":
                    self.started.set_result(int(number))
                else:
                    self.started.set_exception(OSError(int(number), os.strerror(int(number))))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._owner.channel_lost()

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self.lost:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
