"""The supervisor by itself, spoken to by hand: what the agent gets, what the host is told, what silence leads to."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from helpers.family import lives

from antigravity_acp.acp import _supervised
from antigravity_acp.acp._supervisor.program import pack

BOUND = 20.0
FOLDER = Path(_supervised.__file__).parent
LOOK = (
    "import json, os, sys\n"
    "files = sorted(int(n) for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}'))\n"
    "print(json.dumps([dict(os.environ), files, os.getcwd(), sys.argv[1:],\n"
    "    os.getpid() == os.getsid(0) == os.getpgid(0)]))\n"
)


class Supervisor:
    """A running one with its host's end of the socket."""

    def __init__(self, scratch: Path, host: int) -> None:
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(BOUND)
        with theirs:
            told = (str(FOLDER), str(scratch), str(host), str(theirs.fileno()), "owner.json", "lock")
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _supervised._BOOT, *told],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"LC_ALL": "C"},
                pass_fds=(theirs.fileno(),),
            )

    def run(self, scratch: Path, *argv: str, **environment: str) -> None:
        parts = [os.fsencode(part) for part in argv]
        self.ours.sendall(pack(os.fsencode(scratch), parts, [os.fsencode(f"{k}={v}") for k, v in environment.items()]))

    def line(self) -> str:
        said = b""
        while not said.endswith(b"\n"):
            piece = self.ours.recv(1)
            assert piece, "the supervisor is gone"
            said += piece
        return said.decode().strip()

    def silent_for(self, seconds: float) -> bool:
        return not select.select([self.ours], [], [], seconds)[0] and self.process.poll() is None


@contextmanager
def supervisor(scratch: Path, host: int | None = None) -> Iterator[Supervisor]:
    one = Supervisor(scratch, os.getpid() if host is None else host)
    try:
        yield one
    finally:
        one.ours.close()
        one.process.send_signal(signal.SIGTERM)
        one.process.wait(BOUND)
        for pipe in (one.process.stdin, one.process.stdout, one.process.stderr):
            assert pipe is not None
            pipe.close()


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_the_agent_gets_exactly_what_it_is_given(tmp_path: Path) -> None:
    with supervisor(tmp_path) as one:
        # A C locale is changed by Python for itself; that must not reach the agent.
        argv = (sys.executable, "-I", "-S", "-c", LOOK, "", "a b", "ü\n")
        one.run(tmp_path, *argv, LC_ALL="C", WITH="a=b\nc", EMPTY="")
        assert one.process.stdout is not None
        environment, files, cwd, arguments, leads = json.loads(one.process.stdout.readline())
        environment.pop("LC_CTYPE", None)  # by the agent's own Python
        assert environment == {"LC_ALL": "C", "WITH": "a=b\nc", "EMPTY": ""}
        assert files == [0, 1, 2]
        assert (cwd, arguments, leads) == (str(tmp_path), ["", "a b", "ü\n"], True)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_the_agent_ignores_no_signal_that_python_ignores(tmp_path: Path) -> None:
    with supervisor(tmp_path) as one:
        one.run(tmp_path, "/bin/sh", "-c", "exec grep SigIgn /proc/self/status", PATH="/usr/bin:/bin")
        assert one.process.stdout is not None
        ignored = int(one.process.stdout.readline().split()[1], 16)
        # What the host itself was told to ignore (a shell does that for its background jobs) is not ours to undo.
        assert not ignored & sum(1 << number - 1 for number in (signal.SIGPIPE, signal.SIGXFSZ))


def test_pipes_are_the_hosts_own_and_not_held(tmp_path: Path) -> None:
    with supervisor(tmp_path) as one:
        one.run(tmp_path, "/bin/sh", "-c", "exec >&- 2>&- <&-; exec sleep 600")
        assert one.line().startswith("pid ")
        assert one.process.stdout is not None
        # The agent has closed them and still runs: nobody else may have them open.
        assert one.process.stdout.read() == b""
        assert one.process.poll() is None


@pytest.mark.parametrize(
    ("program", "said"),
    [("exit 0", "exit 0"), ("exit 7", "exit 7"), ("kill -9 $$", "exit -9"), ("kill -11 $$", "exit -11")],
)
def test_the_exit_status_is_told_as_it_is(program: str, said: str, tmp_path: Path) -> None:
    with supervisor(tmp_path) as one:
        one.run(tmp_path, "/bin/sh", "-c", program)
        assert one.line().startswith("pid ")
        assert one.line() == said
        one.ours.sendall(b"b")
        assert one.process.wait(BOUND) == 0
    assert tmp_path.exists(), "the directory is the living host's"


@pytest.mark.parametrize(("program", "number"), [("/nonexistent/agent", 2), ("/", 13), ("nonexistent", 2)])
def test_a_program_that_cannot_be_executed_is_told_by_number(program: str, number: int, tmp_path: Path) -> None:
    with supervisor(tmp_path) as one:
        one.run(tmp_path, program, PATH="/usr/bin:/bin")
        assert one.line() == f"errno {number}"
        assert one.process.wait(BOUND) == 0


def test_a_host_that_dies_just_after_its_agent_leaves_no_directory(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    (scratch / "work").mkdir(parents=True)
    with supervisor(scratch) as one:
        one.run(scratch / "work", "/bin/sh", "-c", "exit 0")
        assert one.line().startswith("pid ")
        assert one.line() == "exit 0"
        # The dying host closed its end of the agent's input first and that of the socket last.
        assert one.silent_for(0.2)
        one.ours.close()
        assert one.process.wait(BOUND) == 0
        assert not scratch.exists()


@pytest.mark.parametrize("sent", [b"", b"0000", b"000000ff/tmp\x001"])
def test_a_host_that_dies_before_its_request_is_complete_starts_nothing(sent: bytes, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with supervisor(scratch) as one:
        one.ours.sendall(sent)
        one.ours.close()
        assert one.process.wait(BOUND) == 0
        assert not scratch.exists()


def test_a_host_that_was_gone_before_the_first_look_is_noticed(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with supervisor(scratch, host=os.getppid()) as one:
        assert one.process.wait(BOUND) == 0
        assert not scratch.exists()


def test_a_part_with_a_nul_is_refused_by_the_host() -> None:
    with pytest.raises(ValueError, match="null byte"):
        pack(b"/", [b"a\0b"], [])


@pytest.mark.requirement("A-036")
@pytest.mark.parametrize("watch", ["pidfd", "looking"])
def test_a_dead_host_is_noticed_although_its_forked_child_holds_the_socket(watch: str, tmp_path: Path) -> None:
    """As a host does that uses ``multiprocessing`` with forks."""
    boot = _supervised._BOOT if watch == "pidfd" else "import os; vars(os).pop('pidfd_open', 0); " + _supervised._BOOT
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    host = (
        "import os, signal, socket, subprocess, sys, time\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from _supervisor.program import pack\n"
        "ours, theirs = socket.socketpair()\n"
        "one = subprocess.Popen([sys.executable, '-I', '-S', '-c', sys.argv[2], sys.argv[1], sys.argv[3],\n"
        "    str(os.getpid()), str(theirs.fileno())], pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL,\n"
        "    stdout=subprocess.DEVNULL)\n"
        "theirs.close()\n"
        "ours.sendall(pack(b'/', [b'/bin/sleep', b'600'], []))\n"
        "said = ours.recv(100)\n"
        "holder = os.fork()\n"
        "if holder == 0:\n    os.close(1)\n    time.sleep(600)\n"
        "print(one.pid, int(said.split()[1]), holder, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", host, str(FOLDER), boot, str(scratch)],
        stdout=subprocess.PIPE,
        timeout=BOUND,
        check=False,
    )
    pids = [int(pid) for pid in done.stdout.split()]
    try:
        began = time.monotonic()
        while any(lives(pid) for pid in pids[:2]):
            assert time.monotonic() - began < 5, "the agent outlived its host"
            time.sleep(0.02)
        assert not scratch.exists()
        assert lives(pids[2]), "or nothing held the socket"
    finally:
        psutil.Process(pids[2]).kill()
