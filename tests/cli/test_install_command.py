"""Install, where and uninstall as commands: from a local HTTPS server to a program that answered, and away again."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.archives import HARNESS
from helpers.cli import BOUND, COMMAND, events, one_line
from helpers.https_server import Exchange, Server, serve, status
from helpers.installs import asset_of
from helpers.machine import Machine
from helpers.official import official_archive, official_folder, server_program

from antigravity_acp.cli._progress import Events, Lines
from antigravity_provisioning import Asset, releases
from antigravity_provisioning.errors import ProvisioningError
from antigravity_provisioning.progress import Progress

#: The command line with another pinned archive; the only way to have one is to change the program.
LAUNCHER = """
import json, sys
from antigravity_provisioning import releases
given = json.loads(sys.argv.pop(1))
asset = releases.Asset(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})
releases.pinned = lambda platform=None: asset
from antigravity_acp.cli import main
main()
"""


class Shop:
    """A machine, a server, and the archive that it is pinned to."""

    def __init__(self, machine: Machine, server: Server, asset: Asset, archive: Path) -> None:
        self.machine, self.server, self.asset, self.archive = machine, server, asset, archive
        self.root = machine.cache / "antigravity-acp"
        self.folder = self.root / "servers" / f"{asset.version}-{asset.platform}"
        self.program = self.folder / asset.command

    def launch(self, *arguments: str, **options: object) -> "subprocess.Popen[str]":
        """The command as a process of its own."""
        argv = [sys.executable, "-c", LAUNCHER, json.dumps(self.asset._asdict()), *arguments]
        return subprocess.Popen(argv, text=True, stdin=subprocess.DEVNULL, env=dict(os.environ), **options)  # type: ignore[call-overload, no-any-return]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Machine:
    return Machine(tmp_path, monkeypatch, capsys)


@pytest.fixture
def program() -> bytes:
    return server_program()


@pytest.fixture
def padding() -> int:
    return 100_000


@pytest.fixture
def shop(
    machine: Machine, program: bytes, padding: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    archive = official_archive(tmp_path / "archive.zip", program, padding=padding)
    data = archive.read_bytes()
    with serve(data) as server:
        asset = asset_of(data, url=server.url)
        monkeypatch.setattr(releases, "pinned", lambda platform=None: asset)
        machine.set(SSL_CERT_FILE=server.ca_file)
        yield Shop(machine, server, asset, archive)


@pytest.mark.requirement("A-050", "X-005")
def test_installed_found_looked_at_used_again_and_taken_away(shop: Shop) -> None:
    sign_in = shop.machine.home / ".gemini" / "antigravity-acp" / "acp_token.json"
    sign_in.parent.mkdir(parents=True)
    sign_in.write_text("{}")
    done = shop.machine.run("install")
    assert (done.returncode, done.stdout) == (0, f"Antigravity server 1.3.0 installed: {shop.program}\n"), done.stderr
    assert "downloading: 100 % of 10" in done.stderr
    assert "starting it once" in done.stderr
    where = shop.machine.run("where")
    assert (where.returncode, where.stdout) == (0, f"{shop.program}\n")
    assert where.stderr == "installed by `antigravity-acp install`\n"
    rows = {row["name"]: row for row in events(shop.machine.run("doctor", "--json").stdout)}
    names = ("server", "pair", "receipt", "initialize", "version", "signed-in", "models", "mcp")
    assert {rows[name]["state"] for name in names} == {"ok"}
    again = shop.machine.run("install", "--json")
    [event] = [event for event in events(again.stdout) if event["event"] == "installed"]
    assert (event["outcome"], event["path"]) == ("present", str(shop.program))
    assert len(shop.server.requests) == 1
    gone = shop.machine.run("uninstall")
    assert gone.returncode == 0
    assert "1.3.0" in gone.stdout
    assert "kB are free again" in gone.stdout
    assert "sign-in was not touched" in gone.stdout
    assert sign_in.exists()
    assert not shop.folder.exists()
    assert "Nothing was installed" in shop.machine.run("uninstall").stdout
    assert [event["bytes"] for event in events(shop.machine.run("uninstall", "--json").stdout)] == [0]


@pytest.mark.parametrize("padding", [4_000_000], ids="{} bytes".format)
def test_ctrl_c_keeps_what_came_and_the_next_run_goes_on_there(shop: Shop) -> None:
    half, sent = len(shop.server.data) // 2, threading.Event()

    async def half_and_hang(exchange: Exchange) -> None:
        await exchange.head(200, content_length=len(exchange.data), etag='"one"', content_type="application/zip")
        await exchange.send(exchange.data[:half])
        sent.set()
        await asyncio.sleep(BOUND)

    async def rest(exchange: Exchange) -> None:
        await exchange.good(etag='"one"')

    shop.server.script(half_and_hang, rest)
    with shop.launch("install", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert sent.wait(BOUND)
        _until_kept(shop, running)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=BOUND)
    assert (running.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert "the next run goes on there" in err.splitlines()[-1]
    assert not shop.folder.exists()
    with shop.launch("install", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        out, err = running.communicate(timeout=BOUND)
    assert running.returncode == 0, err
    assert 0 < shop.server.requests[1].range_start <= half
    assert events(out)[-1]["outcome"] == "installed"
    steps = [event["step"] for event in events(out) if event["event"] == "progress"]
    assert list(dict.fromkeys(steps))[-4:] == ["unpack", "publish", "initialize", "done"]


def _until_kept(shop: Shop, running: "subprocess.Popen[str]") -> None:
    """Wait until the client has written something, which is the only thing that can be seen from outside."""
    deadline = time.monotonic() + BOUND
    part = shop.root / "downloads" / f"{shop.asset.sha256}.part"
    while not (part.exists() and part.stat().st_size):
        assert time.monotonic() < deadline
        assert running.poll() is None
        time.sleep(0.02)


def test_a_copy_of_the_archive_needs_no_network_and_another_file_is_refused(shop: Shop, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.zip"
    wrong.write_bytes(shop.archive.read_bytes()[:-1] + b"x")
    refused = shop.machine.run("install", "--from", str(wrong))
    assert refused.returncode == 2
    assert "ACP_INSTALL_FAILED: " in refused.stderr
    assert "`download`" in refused.stderr
    assert not shop.folder.exists()
    missing = shop.machine.run("install", "--from", str(tmp_path / "none.zip"))
    assert missing.returncode == 2
    assert "USAGE: --from" in one_line(missing.stderr)
    assert shop.machine.run("install", "--from", str(shop.archive)).returncode == 0
    assert shop.program.is_file()
    assert shop.archive.is_file()
    assert not shop.server.requests


def test_verify_finds_what_sizes_do_not_show_and_repairs_it(shop: Shop) -> None:
    assert shop.machine.run("install").returncode == 0
    harness = shop.folder / HARNESS
    harness.write_bytes(harness.read_bytes()[:-1] + b"?")
    assert "is installed already" in shop.machine.run("install").stdout
    repaired = shop.machine.run("install", "--verify")
    assert repaired.returncode == 0
    assert "was damaged and has been installed again" in repaired.stdout
    whole = shop.machine.run("install", "--verify")
    assert "is installed already" in whole.stdout
    assert "every file is as it was unpacked" in whole.stdout
    assert len(shop.server.requests) == 2


@pytest.mark.parametrize(
    ("program", "words"),
    [
        pytest.param(server_program(shell="exit 3"), "exit status 3", id="dead"),
        pytest.param(server_program(name="other-agent"), "", id="another agent"),
    ],
)
def test_a_server_that_does_not_prove_itself_is_the_stage_initialize(shop: Shop, words: str) -> None:
    done = shop.machine.run("install", "--json")
    assert done.returncode == 2
    [failed] = [event for event in events(done.stdout) if event["event"] == "error"]
    assert failed["code"] == "ACP_INSTALL_FAILED"
    assert "`initialize`" in failed["message"]
    assert words in failed["message"]
    assert "sign out" not in failed["message"].lower()
    rows = {row["name"]: row["state"] for row in events(shop.machine.run("doctor", "--json").stdout)}
    assert (rows["receipt"], rows["initialize"]) == ("warn", "fail")


def test_a_refusal_of_the_server_is_told_with_its_number_and_without_its_words(shop: Shop) -> None:
    shop.server.always(status(403))
    done = shop.machine.run("install")
    assert done.returncode == 2
    assert "403" in done.stderr
    assert "words of the server" not in done.stderr
    assert "--from" in done.stderr


def test_a_platform_without_a_release_is_said_before_anything_is_asked(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(platform: str | None = None) -> Asset:
        raise ProvisioningError("platform", "platform", "There is none for plan9-mips.")

    monkeypatch.setattr(releases, "pinned", none)
    done = machine.run("install")
    assert done.returncode == 2
    assert "ACP_PLATFORM_UNSUPPORTED: " in one_line(done.stderr)
    assert "`platform`" in done.stderr
    assert not machine.cache.exists()


def test_where_is_silent_on_stdout_without_a_server_and_touches_nothing(machine: Machine) -> None:
    done = machine.run("where", alone=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "ACP_BINARY_MISSING" in one_line(done.stderr)
    told = machine.run("where", "--json")
    assert (told.returncode, [event["code"] for event in events(told.stdout)]) == (2, ["ACP_BINARY_MISSING"])
    assert machine.run("where", "--engine", "embedded").returncode == 2
    assert not machine.cache.exists()


def test_where_fails_as_an_event_also_for_settings_that_cannot_be_read(machine: Machine, tmp_path: Path) -> None:
    told = machine.run("where", "--json", "--settings", str(tmp_path / "none"))
    assert (told.returncode, [event["code"] for event in events(told.stdout)]) == (2, ["INVALID_SETTINGS"])


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes there")
def test_where_prints_the_path_as_the_system_has_it_whatever_the_terminal_can_show(machine: Machine) -> None:
    program = os.fsencode(machine.bin) + "/agent-é-".encode() + b"\xff"
    with open(program, "wb") as file:
        file.write(b"#!/bin/sh\nexit 3\n")
    os.chmod(program, 0o755)
    machine.set(PYTHONIOENCODING="ascii")
    run = [*COMMAND, "where", "--command", os.fsdecode(program)]
    assert subprocess.run(run, capture_output=True, timeout=BOUND, check=True).stdout == program + b"\n"
    # Elsewhere it is for a person, and no reason to fail.
    told = subprocess.run([*COMMAND, "status", *run[-2:]], capture_output=True, timeout=BOUND, check=False)
    assert b"agent-?-?" in told.stdout
    assert b"ACP_DISCONNECTED" in told.stderr


@pytest.mark.skipif(os.name == "nt", reason="paths of POSIX")
@pytest.mark.parametrize("flags", [("install", "--from"), ("doctor", "--bundle")], ids=" ".join)
def test_a_file_that_cannot_be_reached_is_wrong_usage(machine: Machine, tmp_path: Path, flags: tuple[str, str]) -> None:
    # A permission would not stop the superuser; a name that no file system can have stops everybody.
    done = machine.run(*flags, str(tmp_path / ("x" * 5000) / "file"))
    assert done.returncode == 2
    assert "USAGE" in one_line(done.stderr)


def test_where_tells_how_and_a_named_server_wins(machine: Machine, tmp_path: Path) -> None:
    on_path, named = official_folder(machine.bin), official_folder(tmp_path / "named")
    found = machine.run("where")
    assert (found.stdout, found.stderr) == (f"{on_path}\n", "found on PATH\n")
    machine.set(AGY_ACP_BIN=str(named))
    found = machine.run("where", "--json")
    assert events(found.stdout) == [{"event": "server", "path": str(named), "source": "environment"}]
    assert machine.run("where", "--command", str(on_path)).stdout == f"{on_path}\n"
    machine.set(AGY_ACP_BIN=str(tmp_path / "none"))
    assert (machine.run("where").returncode, machine.run("where").stdout) == (2, "")


def test_an_install_that_is_not_what_will_be_used_says_so(shop: Shop) -> None:
    other = official_folder(shop.machine.bin)
    done = shop.machine.run("install")
    assert done.returncode == 0
    assert str(other) in done.stderr.splitlines()[-1]


def test_a_terminal_gets_a_bar_that_is_gone_at_the_end(shop: Shop) -> None:
    shop.machine.set(TERM="xterm")
    ours, theirs = os.openpty()
    try:
        with shop.launch("install", stdout=subprocess.PIPE, stderr=theirs) as running:
            os.close(theirs)
            shown = b""
            try:
                while piece := os.read(ours, 65_536):
                    shown += piece
            except OSError:
                pass  # Linux says that the other end is gone by EIO
            out, _ = running.communicate(timeout=BOUND)
    finally:
        os.close(ours)
    assert running.returncode == 0
    assert out.endswith(f"{shop.program}\n")
    text = shown.decode("utf-8", "replace")
    assert "downloading" in text
    assert re.search(r"[\d.]+/[\d.]+ (?:kB|MB)", text)
    # The cursor is back.
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_plain_lines_are_one_for_a_tenth_or_five_seconds() -> None:
    now, lines = [0.0], list[str]()
    show = Lines(clock=lambda: now[0], write=lines.append)
    for done in range(0, 100_001, 10):
        now[0] += 0.0001
        show(Progress("download", done, 100_000, 2_000.0))
    assert 10 <= len(lines) <= 12
    assert lines[-1].startswith("downloading: 100 % of 100.0 kB, 2.0 kB/s")
    assert "0:25 left" in next(line for line in lines if ": 50 %" in line)
    slow = len(lines)
    for _ in range(50):
        now[0] += 1
        show(Progress("wait"))
    assert len(lines) - slow == 10
    show(Progress("done"))
    assert len(lines) - slow == 10


def test_events_are_bounded_and_keep_the_first_and_the_last(capsys: pytest.CaptureFixture[str]) -> None:
    show = Events()
    for done in range(10_001):
        show(Progress("download", done, 10_000, 1.0))
    found = events(capsys.readouterr().out)
    assert (found[0]["done"], found[-1]["done"]) == (0, 10_000)
    assert len(found) < 20
