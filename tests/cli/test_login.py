"""`login`, `logout` and `status`: what a person sees, and that nothing is started, kept or left that should not be."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers.cli import BOUND, COMMAND, call_cli, environment, events, one_line
from helpers.signing_in import Scene, address_of, visit

from antigravity_acp.cli._paste import PastedLines


class Login:
    """`login` in a process of its own, in its own process group."""

    def __init__(self, scene: Scene, *arguments: str, **options: Any) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "login", "--json", *arguments, *scene.flags(disposeGraceMs=200)],
            **{"stdin": subprocess.PIPE, **options},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            start_new_session=True,
        )
        self.seen: list[dict[str, Any]] = []
        self.agents: list[psutil.Process] = []

    def until(self, kind: str) -> dict[str, Any]:
        assert self.process.stdout
        for line in self.process.stdout:
            self.seen.append(json.loads(line))
            if self.seen[-1]["event"] == kind:
                self.agents = psutil.Process(self.process.pid).children(recursive=True)
                return self.seen[-1]
        pytest.fail(f"no event `{kind}`: {self.seen} {self.process.communicate()[1]}")

    def paste(self, text: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def end(self) -> tuple[int, str]:
        out, err = self.process.communicate(timeout=BOUND)
        self.seen += events(out)
        alive = [each for each in self.agents if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
        assert not alive
        return self.process.returncode, err

    def kinds(self) -> list[str]:
        return [event["event"] for event in self.seen]

    def close(self) -> None:
        for each in (*self.agents, self.process):
            if each.is_running() if isinstance(each, psutil.Process) else each.poll() is None:
                each.kill()
        self.process.communicate()


@pytest.fixture
def started() -> Iterator[Any]:
    found: list[Login] = []

    def start(*arguments: Any, **options: Any) -> Login:
        found.append(Login(*arguments, **options))
        return found[-1]

    yield start
    for each in found:
        if each.process.poll() is None:
            each.close()


# ---- login ----------------------------------------------------------------------------------------------------------


def test_the_browser_finishes_while_the_terminal_still_waits_for_a_paste(started: Any, tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"wording": "ansi"})
    command = started(scene)
    link = command.until("link")["url"]
    asyncio.run(visit(address_of(link)))
    command.until("end")
    # Its stdin is open and silent: neither a thread nor a read keeps it.
    assert command.process.wait(BOUND) == 0
    assert command.end() == (0, "")
    assert command.kinds() == ["agent", "sign-in", "link", "end"]
    end = command.seen[-1]
    assert (end["text"], end["ok"], end["anew"]) == ("Signed in.", True, True)
    assert (end["currentModel"], end["models"]) == ("fast", 2)
    assert scene.methods() == ["initialize", "session/new", "authenticate", "session/new"]


def test_a_pasted_address_signs_in_after_wrong_ones_that_reached_nobody(started: Any, tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    command = started(scene)
    link = command.until("link")["url"]
    secret = "s3cr3t-c0de"
    command.paste(address_of(link, query=f"state=wrong&code={secret}") + "\n")
    assert "`state`" in command.until("refused")["reason"]
    command.paste("http://127.0.0.1:1/" + secret * 200_000 + "\n")
    assert "too long" in command.until("refused")["reason"]
    command.paste(address_of(link) + "\r\n")
    code, err = command.end()
    assert (code, err) == (0, "")
    assert command.kinds()[-2:] == ["forwarded", "end"]
    assert len(scene.visits()) == 1
    assert secret not in json.dumps(command.seen)


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals are POSIX")
def test_at_a_terminal_a_line_is_taken_and_ctrl_c_ends_the_agent_with_all_it_started(
    started: Any, tmp_path: Path
) -> None:
    ours, theirs = os.openpty()
    try:
        command = started(Scene(tmp_path, {"on_auth": "child"}), stdin=theirs, preexec_fn=_take_terminal)
        link = command.until("link")["url"]
        assert len(command.agents) >= 2
        os.write(ours, address_of(link, query="state=wrong&code=1").encode() + b"\r")
        assert "`state`" in command.until("refused")["reason"]
        os.write(ours, b"\x03")
        assert command.end() == (130, "")
    finally:
        os.close(ours)
        os.close(theirs)


def _take_terminal() -> None:
    """Make standard input the controlling terminal, so that ^C reaches the command as from a keyboard."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_with_stdin_closed_or_at_its_end_the_sign_in_waits_to_its_limit(started: Any, tmp_path: Path) -> None:
    closed = {"preexec_fn": lambda: os.close(0), "stdin": None}
    first = started(Scene(tmp_path), "--timeout", "0.6", **closed)
    ended = started(Scene(tmp_path), "--timeout", "0.6", stdin=subprocess.DEVNULL)
    for command in (first, ended):
        code, err = command.end()
        assert code == 1
        assert one_line(err).startswith(
            "antigravity-acp: ACP_TIMEOUT: Stage authenticate: The sign-in was not finished"
        )
        assert "0.6 s" in err
        assert "http" not in err
        assert command.kinds() == ["agent", "sign-in", "link", "error"]


def test_without_a_standard_input_its_number_is_not_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(PastedLines, "read", asked.append)
    done = call_cli(capsys, "login", "--timeout", "0.3", *Scene(tmp_path).flags())
    assert "ACP_TIMEOUT" in one_line(done.stderr)
    assert asked == []


def test_people_see_the_link_alone_on_its_line_and_what_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    scene = Scene(tmp_path, {"browser": True, "name": "antigravity-acp"})
    done = call_cli(capsys, "login", *scene.flags())
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "If no browser opens, open this link:" in lines
    [link] = [line for line in lines if "https://" in line]
    assert address_of(link).startswith("http://127.0.0.1:")
    assert any("Paste that address here" in line for line in lines)
    assert lines[-1] == "Signed in."
    assert done.stderr == ""


@pytest.mark.requirement("A-007")
def test_a_signed_in_agent_is_left_as_it_is_unless_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"browser": True})
    scene.flag.write_text("by another method")
    done = call_cli(capsys, "login", "--json", *scene.flags())
    assert done.returncode == 0
    assert events(done.stdout)[-1]["anew"] is False
    assert "authenticate" not in scene.methods()
    assert scene.flag.read_text() == "by another method"
    again = call_cli(capsys, "login", "--json", "--again", "--method", "oauth-business", *scene.flags())
    assert again.returncode == 0
    assert [entry["params"] for entry in scene.record() if entry.get("method") == "authenticate"] == [
        {"methodId": "oauth-business"}
    ]
    assert scene.flag.read_text() == "signed in"


BROKEN = {"code": -32603, "message": "cascadeid of somebody@example.com; sign out and in again"}


@pytest.mark.parametrize(
    ("options", "arguments", "code", "stage"),
    [
        ({"session_error": BROKEN}, (), "ACP_RPC_ERROR", "session/new, before the sign-in"),
        ({"browser": True, "broken_after": BROKEN}, (), "ACP_RPC_ERROR", "session/new, after the sign-in"),
        (
            {"browser": True, "broken_after": {"code": -32000, "message": "Authentication required"}},
            (),
            "ACP_AUTH_REQUIRED",
            "session/new, after the sign-in",
        ),
        ({"on_auth": "die"}, (), "ACP_DISCONNECTED", "authenticate"),
        ({}, ("--method", "unheard-of"), "ACP_AUTH_UNSUPPORTED", "authenticate"),
        ({"name": "unheard-of"}, (), "ACP_AUTH_UNSUPPORTED", "authenticate"),
    ],
)
def test_a_failure_names_its_stage_and_never_talks_of_signing_out(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: dict[str, Any],
    arguments: tuple[str, ...],
    code: str,
    stage: str,
) -> None:
    done = call_cli(capsys, "login", "--json", *arguments, *Scene(tmp_path, options).flags())
    line = one_line(done.stderr)
    assert line.startswith(f"antigravity-acp: {code}: Stage {stage}: ")
    assert done.returncode == (2 if code.startswith("ACP_AUTH") else 1)
    assert events(done.stdout)[-1]["event"] == "error"
    assert not [word for word in ("somebody", "http", "logout", "sign out", "delete") if word in line]
    if stage.startswith("session/new"):
        assert "login" not in line


@pytest.mark.parametrize("command", ["login", "logout", "status"])
@pytest.mark.parametrize(
    ("flags", "stage"),
    [
        (["--command", "/nonexistent/agent"], "start"),
        (["--command", sys.executable, "--arg=-c", "--arg=raise SystemExit(3)"], "initialize"),
    ],
)
def test_an_agent_that_does_not_start_is_told_apart_from_one_that_does_not_answer(
    capsys: pytest.CaptureFixture[str], command: str, flags: list[str], stage: str
) -> None:
    done = call_cli(capsys, command, *flags)
    assert f": Stage {stage}: " in one_line(done.stderr)


# ---- status ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signed_in", "options", "said", "exit_code"),
    [
        (True, {}, "yes", 0),
        (False, {}, "no", 0),
        (True, {"session_error": BROKEN}, "unknown", 1),
        (True, {"session_hangs": True}, "unknown", 1),
    ],
)
def test_status_tells_yes_no_and_unknown_apart_and_starts_no_sign_in(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    signed_in: bool,
    options: dict[str, Any],
    said: str,
    exit_code: int,
) -> None:
    scene = Scene(tmp_path, options)
    if signed_in:
        scene.flag.touch()
    flags = scene.flags(requestTimeoutMs=300)
    done = call_cli(capsys, "status", "--json", *flags)
    assert (done.returncode, done.stderr) == (exit_code, "")
    found, agent, status = events(done.stdout)
    assert (found["event"], found["source"], found["program"]) == ("found", "explicit", sys.executable)
    assert (agent["name"], agent["version"]) == ("antigravity-acp", "1.3.0")
    assert agent["authMethods"] == ["oauth-personal", "oauth-business"]
    assert status["signedIn"] == said
    assert (status["currentModel"], status["models"]) == (("fast", 2) if said == "yes" else (None, 0))
    assert "somebody" not in done.stdout
    if said == "unknown":
        assert "sign" not in status["reason"]
    assert scene.methods() == ["initialize", "session/new"]
    for_people = call_cli(capsys, "status", *flags).stdout
    assert f"signed in       {said}" in for_people
    assert "authenticate" not in scene.methods()


# ---- logout ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("A-004")
@pytest.mark.parametrize("how", ["method", "prompt", "memory"])
def test_logout_is_done_by_the_agent_and_proven_by_a_refused_session(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, how: str
) -> None:
    scene = Scene(tmp_path, {"logout": how})
    scene.flag.touch()
    done = call_cli(capsys, "logout", *scene.flags())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "Signed out."
    assert "authenticate" not in scene.methods()
    again = call_cli(capsys, "logout", *scene.flags())
    assert again.returncode == 0
    assert again.stdout.splitlines()[-1] == "Not signed in; nothing to do."


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"logout": "deaf"}, "LOGOUT_FAILED"),
        ({"logout": "error"}, "ACP_RPC_ERROR"),
        ({"name": "unheard-of"}, "ACP_AUTH_UNSUPPORTED"),
    ],
)
def test_a_sign_out_that_did_not_happen_is_not_called_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: dict[str, Any], code: str
) -> None:
    scene = Scene(tmp_path, options)
    scene.flag.touch()
    done = call_cli(capsys, "logout", *scene.flags())
    assert done.returncode != 0
    assert one_line(done.stderr).startswith(f"antigravity-acp: {code}: ")
    assert "Signed out" not in done.stdout
    assert "somebody" not in done.stderr
    assert scene.flag.exists()


def test_the_embedded_engine_has_nothing_to_sign_out_of(capsys: pytest.CaptureFixture[str]) -> None:
    done = call_cli(capsys, "logout", "--engine", "embedded")
    assert done.returncode == 2
    assert "key" in one_line(done.stderr)


# ---- what is pasted -------------------------------------------------------------------------------------------------


async def test_lines_come_whole_from_any_pieces_and_too_long_ones_are_cut_once() -> None:
    reading, writing = os.pipe()
    lines = PastedLines(10, fd=reading)
    try:
        first = asyncio.ensure_future(lines.read())
        for piece in (b"ab", b"c", b"\r\nsecond\nthi"):
            os.write(writing, piece)
            await asyncio.sleep(0)
        assert await first == "abc\r"
        assert await lines.read() == "second"
        os.write(writing, b"rd" + b"x" * 50_000 + b"\nlast")
        os.close(writing)
        assert await lines.read() == "thirdxxxxxx"
        assert await lines.read() == "last"
        assert await lines.read() is None
        assert await lines.read() is None
    finally:
        os.close(reading)


async def test_a_cancelled_read_leaves_nothing_and_loses_nothing() -> None:
    reading, writing = os.pipe()
    lines = PastedLines(100, fd=reading)
    try:
        waiting = asyncio.ensure_future(lines.read())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        assert not asyncio.get_running_loop().remove_reader(reading)
        os.write(writing, b"kept\n")
        assert await lines.read() == "kept"
    finally:
        os.close(reading)
        os.close(writing)


async def test_a_file_as_input_is_read_without_being_watched(tmp_path: Path) -> None:
    file = tmp_path / "pasted"
    file.write_bytes(b"one\ntwo")
    with file.open("rb") as opened:
        lines = PastedLines(100, fd=opened.fileno())
        assert [await lines.read() for _ in range(3)] == ["one", "two", None]


async def test_where_the_loop_cannot_watch_a_daemon_thread_reads_and_ends_with_the_next_line() -> None:
    reading, writing = os.pipe()
    lines = PastedLines(100, fd=reading, watched=False)
    try:
        os.write(writing, b"line\n")
        assert await lines.read() == "line"
        waiting = asyncio.ensure_future(lines.read())
        await asyncio.sleep(0)
        [thread] = [each for each in threading.enumerate() if each.name == "antigravity-acp.pasted"]
        assert thread.daemon
        waiting.cancel()
        await asyncio.wait({waiting})
        os.write(writing, b"nobody reads this\n")
        await asyncio.to_thread(thread.join, BOUND)
        assert not thread.is_alive()
    finally:
        os.close(reading)
        os.close(writing)
