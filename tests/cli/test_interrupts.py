"""Ctrl-C and SIGTERM: the turn ends, the exit code says so, and nothing is left behind."""

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers.cli import BOUND, COMMAND, environment, loopback_flags
from helpers.loopback import directive

#: Streams a piece of text, then waits far longer than any test.
SCRIPT = """
rules:
  - text: [working, never]
    pause_ms: 120000
"""


class Running:
    """A command in a process group of its own, as a shell starts it."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            start_new_session=True,
        )
        self.descendants: list[psutil.Process] = []

    def until(self, kind: str) -> None:
        """Read JSON events until one of this kind; then see what was started."""
        assert self.process.stdout
        for line in self.process.stdout:
            if json.loads(line)["event"] == kind:
                self.descendants = psutil.Process(self.process.pid).children(recursive=True)
                return
        pytest.fail(f"no event `{kind}`: {self.process.communicate()[1]}")

    def signal(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=BOUND)
        return self.process.returncode, out, err

    def kill(self) -> None:
        for each in (*self.descendants, self.process):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        self.process.communicate()


@pytest.fixture
def started() -> Iterator[list[Running]]:
    commands: list[Running] = []
    yield commands
    for command in commands:
        if command.process.poll() is None:
            command.kill()


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [each for each in processes if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


def test_ctrl_c_while_the_real_harness_waits_for_its_model_leaves_nothing(
    started: list[Running], tmp_path: Path
) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(SCRIPT)
    command = Running("chat", "go", "--script", str(script), "--workspace", str(tmp_path), "--json")
    started.append(command)
    command.until("text")
    assert len(command.descendants) >= 2  # the engine and Google's harness
    command.signal(signal.SIGINT)
    code, out, err = command.end()
    assert code == 130
    assert err.startswith("antigravity-acp: ABORTED: ")
    assert "Traceback" not in err
    ended = [json.loads(line) for line in out.splitlines()]
    assert ("turn-end", "aborted") in [(event["event"], event.get("kind")) for event in ended]
    assert not alive(command.descendants)


def test_a_terminated_command_ends_its_agent_first(started: list[Running]) -> None:
    prompt = directive({"say": "working"}, {"grandchild": "plain"}, {"say": "again"}, {"sleep": 120})
    command = Running("chat", prompt, *loopback_flags(), "--json")
    started.append(command)
    command.until("text")
    command.until("text")
    assert command.descendants
    command.signal(signal.SIGTERM)
    code, _, err = command.end()
    assert (code, err) == (143, "")
    assert not alive(command.descendants)


def test_a_second_ctrl_c_does_not_break_the_clean_up(started: list[Running], tmp_path: Path) -> None:
    # This agent hears neither the cancellation nor the end of its input, and not SIGTERM.
    flags = loopback_flags(cancel="ignore", ignore_eof=True, ignore_term=True)
    (tmp_path / "settings.json").write_text('{"cancelGraceMs": 300, "disposeGraceMs": 300}')
    flags += ["--settings", str(tmp_path / "settings.json")]
    command = Running("chat", directive({"say": "working"}, {"sleep": 120}), *flags, "--json")
    started.append(command)
    command.until("text")
    command.signal(signal.SIGINT)
    command.signal(signal.SIGINT)
    command.signal(signal.SIGINT)
    code, _, err = command.end()
    assert code == 130
    assert "Traceback" not in err
    assert not alive(command.descendants)


def test_a_reader_that_goes_away_ends_the_turn(started: list[Running]) -> None:
    # It has more to say every now and then: a pipe tells its writer of a lost reader at the next write only.
    prompt = directive(*({"say": "more"}, {"sleep": 0.05}) * 400, {"sleep": 120})
    command = Running("chat", prompt, *loopback_flags(), "--json")
    started.append(command)
    command.until("text")
    assert command.process.stdout
    command.process.stdout.close()
    code, err = command.process.wait(BOUND), command.process.stderr
    assert code == 1
    assert err
    assert "Traceback" not in err.read()
    err.close()
    assert not alive(command.descendants)


# ---- on a terminal --------------------------------------------------------------------------------------------------


class Terminal:
    """A command on a pseudo-terminal."""

    def __init__(self, *arguments: str) -> None:
        pid, self._fd = pty.fork()
        if pid == 0:
            # The terminal is its stdin, stdout and stderr and controls it: ^C reaches it as from a keyboard.
            os.execve(COMMAND[0], [*COMMAND, *arguments], environment(TERM="dumb", NO_COLOR="1"))
        self.pid = pid
        self.shown = ""

    def until(self, text: str) -> None:
        """Wait until the terminal shows this, after what was waited for before."""
        deadline = time.monotonic() + BOUND
        while text not in self.shown:
            ready, _, _ = select.select([self._fd], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"the terminal does not show {text!r} but {self.shown!r}"
            try:
                data = os.read(self._fd, 4096)
            except OSError:
                data = b""
            assert data, f"it ended before it showed {text!r}: {self.shown!r}"
            self.shown += data.decode()
        self.shown = self.shown.partition(text)[2]

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def end(self) -> int:
        deadline = time.monotonic() + BOUND
        while time.monotonic() < deadline:
            ready, _, _ = select.select([self._fd], [], [], 0.05)
            try:
                if ready:
                    os.read(self._fd, 4096)
            except OSError:
                pass
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
        pytest.fail("the command does not end")

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Any]:
    opened: list[Terminal] = []

    def open_terminal(*arguments: str) -> Terminal:
        found = Terminal("chat", *arguments, *loopback_flags(), "--workspace", str(tmp_path))
        opened.append(found)
        return found

    yield open_terminal
    for each in opened:
        each.close()


def test_a_person_is_asked_and_the_answer_counts(terminal: Any, tmp_path: Path) -> None:
    # A command: a file of the workspace may be written without a question where a person could be asked.
    call = {"call": {"name": "run_command", "arguments": {"command": "touch new.txt"}}}
    screen = terminal(directive(call, call))
    screen.until("run_command wants to run.")
    screen.until("command: touch new.txt")
    screen.until("always: command(touch)")
    screen.until("Allow run_command? [o]nce, once in the [s]andbox, this [t]urn, [a]lways or [n]o: ")
    screen.type("o\r")
    screen.until("allowed: The person allowed this call.")
    screen.until("Allow run_command? ")
    (tmp_path / "new.txt").unlink()
    screen.type("n\r")
    screen.until("refused: The person did not allow this call.")
    assert screen.end() == 0
    assert not (tmp_path / "new.txt").exists()


def test_ctrl_c_aborts_the_turn_and_the_conversation_goes_on_until_it_is_pressed_twice(terminal: Any) -> None:
    screen = terminal()
    screen.until("> ")
    screen.type(directive({"say": "working"}, {"wait_cancel": 120}) + "\r")
    screen.until("\nworking")
    screen.type("\x03")
    screen.until("ABORTED: ")
    screen.until("> ")
    screen.type(directive({"say": "still here"}) + "\r")
    screen.until("\nstill here")
    screen.until("> ")
    screen.type("\x03")
    screen.until("Ctrl-C again leaves; /exit does, too.")
    screen.until("> ")
    screen.type("\x03")
    assert screen.end() == 130


@pytest.mark.parametrize("keys", ["\x04", "/exit\r"])
def test_the_end_of_the_input_or_exit_leaves(terminal: Any, keys: str) -> None:
    screen = terminal()
    screen.until("> ")
    screen.type(keys)
    assert screen.end() == 0
