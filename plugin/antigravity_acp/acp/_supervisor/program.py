"""The program: starts one agent, tells the host how it ends, and ends all of it when told or when the host is gone.

Owns: the agent and every process that descends from it, also one that left the agent's group or lost its parent: on
Linux those become children of the supervisor, and it exits only when it has no child left. Ends with the agent.
Outlives the host by the time that ending the agent takes.
Never: holds or touches the agent's pipes (the agent inherits those that the host made); writes a byte anywhere but to
the host; decides anything while the host lives.

Between host and supervisor there is one socket. The host sends a request, see :func:`pack`, and then single bytes:
``t`` for SIGTERM to the group, ``k`` for the end of everything, ``b`` when it has heard of the exit. The supervisor
answers with lines: ``pid N``, or ``errno N`` when the program could not be started; then ``exit N``, negative for a
signal. That the host is gone shows in the end of the socket, and also in its process id, for a process that the host
forked may hold the socket open.
"""

# `signal` builds enumerations out of this module, which takes longer than everything else that is imported here.
import _signal as signal  # type: ignore[import-not-found]  # typeshed lists public modules only
import os
import select
import time

from . import tree

TYPE_CHECKING = False  # the constant itself is in `typing`, which takes longer than the rest to import
if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds for an agent whose host is gone: after the end of its input, and again after SIGTERM. Together with the time
#: for killing this stays below the five seconds after which nothing may be left.
ORPHAN_GRACE_S = 1.0
#: Seconds for killing before what still lives is given up; only the kernel can hold a process that long.
RAZE_S = 2.0
#: Seconds for the host to hear that everything has ended; its loop may be busy.
LEAVE_S = 10.0
#: Exit status when something survived.
SURVIVORS = 3
#: Milliseconds between two looks at the host where its end cannot be waited for, and between two rounds of killing.
_HOST_MS = 500
_ROUND_MS = 10
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def pack(cwd: bytes, argv: list[bytes], environment: list[bytes]) -> bytes:
    """The host's request. :raises ValueError: for a NUL inside a part; no program could be given it."""
    parts = [cwd, b"%d" % len(argv), *argv, *environment]
    if any(b"\0" in part for part in parts):
        raise ValueError("embedded null byte")
    body = b"\0".join(parts)
    return b"%08x" % len(body) + body


def main(scratch: str, host: str, control: str, *last: str) -> None:
    """Run to the end; exits the process.

    :param scratch: the agent's directory, deleted when the host cannot; :param last: files in it that go last.
    :param host: process id. :param control: number of the socket's file descriptor.
    """
    status = _Supervisor(scratch, int(host), int(control), last).run()
    # Taking the interpreter apart takes longer than the rest of an end, and the host waits for it.
    os._exit(status)


class _Supervisor:
    def __init__(self, scratch: str, host: int, control: int, last: tuple[str, ...]) -> None:
        self.scratch = scratch
        self.last = last
        self.host = host
        self.control = control
        self.leader = 0
        self.status: int | None = None
        self.host_gone = False
        self.ending = False
        self.dismissed = False
        self.received = b""
        #: Whether orphans of the agent become our children, so that having no child proves that nothing is left.
        self.adopts = False
        self.prctl = _prctl()
        os.set_inheritable(control, False)
        os.set_blocking(control, True)
        self.wake, wake_writer = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_writer, False)
        self.wake_writer = wake_writer
        self.poll = select.poll()
        self.poll.register(control, select.POLLIN)
        self.poll.register(self.wake, select.POLLIN)
        self.host_watch = self._watch_host()

    # ---- course -----------------------------------------------------------------------------------------------------
    def run(self) -> int:
        # Before the agent is there: what it orphans in its first moment must come to us already.
        self.adopts = self.prctl(_PR_SET_CHILD_SUBREAPER, 1) == 0
        request = self._request()
        clean = True
        if request is not None:
            error = self._start(request)
            if error:
                self._tell(b"errno %d\n" % error)
            else:
                self._tell(b"pid %d\n" % self.leader)
                self._watch()
                clean = self._raze()
                self._take_leave()
        if self.host_gone:
            from .folder import remove

            remove(self.scratch, self.last)
        return 0 if clean else SURVIVORS

    def _request(self) -> list[bytes] | None:
        """What the host wants; ``None`` when it is gone."""
        while not self.host_gone:
            size = int(self.received[:8], 16) if len(self.received) >= 8 else None
            if size is not None and len(self.received) >= 8 + size:
                body, self.received = self.received[8 : 8 + size], self.received[8 + size :]
                return body.split(b"\0")
            self._wait(None)
        return None

    def _watch(self) -> None:
        """Return when the agent is to be killed, or has exited."""
        steps = [(ORPHAN_GRACE_S, "t"), (ORPHAN_GRACE_S, "k")]
        deadline: float | None = None
        while not self.ending and not self._leader_exited():
            self._reap_orphans()
            if self.host_gone and deadline is None:
                deadline = time.monotonic() + steps[0][0]
            self._wait(deadline)
            self._obey_all()
            if deadline is not None and time.monotonic() >= deadline:
                self._obey(steps.pop(0)[1])
                deadline = time.monotonic() + steps[0][0] if steps else None

    def _take_leave(self) -> None:
        """Wait until the host knows, or is gone: a host that just dies ends the agent before its socket closes."""
        deadline = time.monotonic() + LEAVE_S
        while not self.dismissed and not self.host_gone and time.monotonic() < deadline:
            self._wait(deadline)
            self._obey_all()

    def _obey_all(self) -> None:
        for command in self.received.decode("latin-1"):
            self._obey(command)
        self.received = b""

    def _obey(self, command: str) -> None:
        if command == "t":
            tree.kill_group(self.leader, signal.SIGTERM)
        elif command == "k":
            self.ending = True
        elif command == "b":
            self.dismissed = True

    # ---- start ------------------------------------------------------------------------------------------------------
    def _start(self, request: list[bytes]) -> int:
        """Fork and execute. :returns: 0, or the number of the error."""
        cwd, count = request[0], int(request[1])
        argv, environment = request[2 : 2 + count], request[2 + count :]
        variables = dict(item.split(b"=", 1) for item in environment)
        failure, failure_writer = os.pipe()
        supervisor = os.getpid()
        self.leader = os.fork()
        if self.leader == 0:
            number = 127
            try:
                os.setsid()
                # Python ignores these for itself; an agent expects them as they are by default.
                for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
                    signal.signal(ignored, signal.SIG_DFL)
                # Only against the end of the supervisor itself; it has one thread, so this is that of the process.
                self.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() == supervisor:
                    os.chdir(cwd)
                    os.execvpe(argv[0], argv, variables)  # noqa: S606 - there is to be no shell
            except OSError as error:
                number = error.errno or number
            finally:
                os.write(failure_writer, b"%d" % number)
                os._exit(127)
        os.close(failure_writer)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        # Handlers, where there is one, go back to the default in what is executed; ignoring would be inherited.
        signal.set_wakeup_fd(self.wake_writer)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._terminated)
        for harmless in (signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(harmless) != signal.SIG_IGN:
                signal.signal(harmless, lambda *_: None)
        # Ends with the execution, or with the number of the error.
        told = os.read(failure, 16)
        os.close(failure)
        if told:
            os.waitpid(self.leader, 0)
        return int(told) if told else 0

    def _terminated(self, *_: object) -> None:
        self.ending = True

    # ---- waiting ----------------------------------------------------------------------------------------------------
    def _watch_host(self) -> int | None:
        watch: int | None = None
        try:
            watch = os.pidfd_open(self.host)
            self.poll.register(watch, select.POLLIN)
        except (AttributeError, OSError):
            pass
        # Gone before the look: then that id may be somebody else's by now.
        if os.getppid() != self.host:
            self.host_gone = True
        return watch

    def _wait(self, deadline: float | None) -> None:
        """Wait for a byte of the host, its end, a signal or the deadline."""
        timeout = None if deadline is None else max(0, int((deadline - time.monotonic()) * 1000) + 1)
        if self.host_watch is None and not self.host_gone:
            timeout = _HOST_MS if timeout is None else min(timeout, _HOST_MS)
        for descriptor, _ in self.poll.poll(timeout):
            if descriptor == self.control:
                try:
                    data = os.read(self.control, 65536)
                except OSError:
                    data = b""
                self.received += data
                if not data:
                    self._lost()
            elif descriptor == self.wake:
                self._drain()
            else:
                self._lost()
        if os.getppid() != self.host:
            self._lost()

    def _lost(self) -> None:
        self.host_gone = True
        for descriptor in (self.control, self.host_watch):
            if descriptor is not None:
                try:  # noqa: SIM105 - contextlib takes longer to import than the whole of this
                    self.poll.unregister(descriptor)
                except KeyError:
                    pass

    def _drain(self) -> None:
        try:
            while os.read(self.wake, 512):
                pass
        except BlockingIOError:
            pass

    def _tell(self, line: bytes) -> None:
        try:
            os.write(self.control, line)
        except OSError:
            self.host_gone = True

    # ---- ends -------------------------------------------------------------------------------------------------------
    def _leader_exited(self) -> bool:
        if self.status is not None:
            return True
        if not hasattr(os, "waitid"):
            pid, status = os.waitpid(self.leader, os.WNOHANG)
            if pid:
                self._report(os.waitstatus_to_exitcode(status))
            return pid != 0
        # Left a zombie until its group has been killed, so that the number cannot be another's.
        result = os.waitid(os.P_PID, self.leader, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if result is None:
            return False
        self._report(result.si_status if result.si_code == os.CLD_EXITED else -result.si_status)
        return True

    def _report(self, status: int) -> None:
        if self.status is None:
            self.status = status
            self._tell(b"exit %d\n" % status)

    def _reap_orphans(self) -> None:
        if not hasattr(os, "waitid"):
            return
        while True:
            result = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if result is None or result.si_pid == self.leader:
                return
            os.waitpid(result.si_pid, 0)

    def _raze(self) -> bool:
        """Kill all that is left. :returns: whether nothing is."""
        deadline = time.monotonic() + RAZE_S
        tmp = os.fsencode(self.scratch) + b"/tmp"
        # Without that, look while the parent links are still there.
        lost = set() if self.adopts else tree.related(self.leader, tree.living())
        tree.kill_group(self.leader)
        while True:
            childless = self._reap()
            if self.adopts:
                # Whoever descended from the agent is a child of ours by now, or has one for an ancestor.
                found = set() if childless else tree.below(os.getpid(), tree.living())
            else:
                rows = tree.living()
                found = (tree.related(self.leader, rows) | lost | tree.marked(tmp)) & {row[0] for row in rows}
            found -= {os.getpid()}
            if childless and not found:
                return True
            if time.monotonic() >= deadline:
                return False
            tree.kill(found)
            lost = set()
            # A child that has died wakes us before that.
            self._pause(_ROUND_MS)

    def _reap(self) -> bool:
        """Collect what has died. :returns: whether no child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.leader:
                self._report(os.waitstatus_to_exitcode(status))

    def _pause(self, milliseconds: int) -> None:
        waker = select.poll()
        waker.register(self.wake, select.POLLIN)
        if waker.poll(milliseconds):
            self._drain()


def _prctl() -> "Callable[[int, int], int]":
    """The system call, or a stand-in where there is none."""
    if tree.PROC:
        try:
            import ctypes

            function: Callable[[int, int], int] = ctypes.CDLL(None).prctl
            return function
        except (ImportError, OSError, AttributeError):
            pass
    return lambda *_: -1
