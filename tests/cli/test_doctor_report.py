"""What the doctor's rows may hold, what they look like, and the looks that need no agent."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.machine import Machine

from antigravity_acp.acp import hide_homes, redact
from antigravity_acp.cli import _bundle
from antigravity_acp.cli._doctor_beside import BUNDLE, dsh_row, hook_row
from antigravity_acp.cli._doctor_machine import cpu_row, disk_row, machine_rows, platform_row, proxy_row
from antigravity_acp.cli._report import Curtain, Report, Row, Table
from antigravity_acp.cli.failures import CliError
from antigravity_acp.settings import Settings
from antigravity_provisioning import machine as this_machine

SECRET = "s3cr3t-Value-42"


@pytest.mark.parametrize(
    "line",
    [
        f"http://jane:{SECRET}@proxy:1",
        f"http://jane:{SECRET}/with@signs@proxy:1",
        f"socks5h://{SECRET}@proxy:1",
        f"https://accounts.example/o/oauth2?state={SECRET}#f",
        f"wss://example/x#access={SECRET}",
        f"Authorization: Digest username=jane, response={SECRET}",
        f'{{"authorization": "Token {SECRET}"}}',
        f"Set-Cookie: SID={SECRET}; Path=/",
        f"MY_SERVICE_KEY={SECRET}",
        f"refresh_token = '{SECRET}'",
        f'"client_secret": "{SECRET} {SECRET}"',
        f"bearer {SECRET}",
        f"code: 4{SECRET}{SECRET}",
        f"AIza{SECRET}",
        f"ya29.{SECRET}",
        f"1//0g{SECRET}",
        f"GOCSPX-{SECRET}",
        f"eyJh{SECRET}.{SECRET}.{SECRET}",
        f"-----BEGIN PRIVATE KEY-----\nMII{SECRET}\n-----END PRIVATE KEY-----",
        f"-----BEGIN EC PRIVATE KEY-----\nMII{SECRET}",
        f"{SECRET}@example.com has no access",
        f"user={SECRET}%40example.com",
        f"/home/{SECRET}/x",
        f"/Users/{SECRET}: denied",
        rf"C:\Users\{SECRET}\AppData",
        rf"C:\\Users\\{SECRET}\\AppData",
    ],
)
def test_stderr_is_shown_without_what_looks_like_a_secret(line: str) -> None:
    shown = redact(f"before {line} after")
    assert SECRET not in shown
    assert shown.startswith("before ")


@pytest.mark.parametrize(
    "line",
    [
        "FATAL tcmalloc.cc:283] MmapAligned() failed",
        "cannot open /usr/lib/x86_64-linux-gnu/libc.so.6",
        "exit code = 132",
        "listening on http://127.0.0.1:8080/healthz",
        "see https://antigravity.google/docs/ide/extensions",
    ],
)
def test_what_helps_to_find_a_fault_stays(line: str) -> None:
    assert redact(line) == line


def test_a_home_is_a_tilde_and_its_neighbours_are_not(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path / "jane")}
    assert hide_homes(f"{tmp_path}/jane/x {tmp_path}/janet", home) == f"~/x {tmp_path}/janet"
    assert hide_homes("/ /usr /root", {"HOME": "/"}) == "/ /usr /root"
    assert hide_homes("/x", {}) == "/x"


def test_values_that_settings_and_variables_hold_are_hidden_wherever_they_turn_up() -> None:
    settings = Settings.from_mapping({"env": {"PLAIN": "words of env"}, "args": ["--auth-token", "words of args", "x"]})
    environment = {
        "SOME_API_KEY": "words of a variable",
        "https_proxy": "http://jane:words%20of%20proxy@proxy:1",
        "PATH": "/usr/bin",
        "MY_TOKEN": "1",
    }
    shown = Curtain(settings, environment).hide(
        "words of env, words of args, words of a variable, words of proxy, words%20of%20proxy, /usr/bin 1 x"
    )
    assert shown == "[hidden], [hidden], [hidden], [hidden], [hidden], /usr/bin 1 x"


def test_rows_are_cleaned_bounded_and_one_line_and_only_a_failure_counts() -> None:
    seen: list[Row] = []
    report = Report(Curtain(environ={"A_TOKEN": SECRET}), seen.append)
    report.add(Row("a", "warn", f"one\ntwo\x1b[31m {SECRET} \u202e", "x" * 5_000))
    [row] = seen
    assert row.text == "one two\ufffd[31m [hidden] \ufffd"
    assert len(row.advice) < 700
    assert report.status == 0
    report.add(Row("b", "skip", "s"))
    assert report.status == 0
    report.add(Row("c", "fail", "f"))
    assert report.status == 1


def test_the_table_is_wrapped_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row("models", "warn", "word " * 60, "Do this and that.")
    monkeypatch.setenv("COLUMNS", "60")
    Table()(row)
    assert capsys.readouterr().out.count("\n") == 2
    monkeypatch.setenv("FORCE_COLOR", "1")
    Table()(row)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5
    assert "models" in lines[0]
    assert all(line.lstrip("\x1b[0123456789;m").startswith(" ") for line in lines[1:])


@pytest.mark.parametrize(
    ("environment", "state", "shown"),
    [
        ({}, "ok", "none"),
        ({"HTTPS_PROXY": f"http://jane:{SECRET}@proxy.corp:3128/x?y"}, "ok", "HTTPS_PROXY http://proxy.corp:3128;"),
        ({"https_proxy": f"http://jane:{SECRET}/a@b@[::1]:3128"}, "fail", "cannot be read"),
        ({"all_proxy": f"socks5://{SECRET}@proxy:1080", "no_proxy": "*"}, "warn", "ALL_PROXY socks5://proxy:1080"),
        ({"all_proxy": "socks5://proxy:1080", "https_proxy": "proxy:3128"}, "ok", "ALL_PROXY socks5://proxy:1080"),
        ({"http_proxy": "proxy:3128"}, "ok", "HTTP_PROXY http://proxy:3128"),
        ({"https_proxy": "http://proxy:port"}, "fail", "cannot be read as a URL"),
        ({"SSL_CERT_FILE": "/nonexistent/ca.pem"}, "fail", "SSL_CERT_FILE leads nowhere"),
    ],
)
def test_a_proxy_is_shown_by_its_place_alone(environment: dict[str, str], state: str, shown: str) -> None:
    row = proxy_row(environment)
    assert (row.state, shown in row.text) == (state, True), row
    assert SECRET not in row.text
    assert "jane" not in row.text
    covered = "no_proxy" in environment or not any("proxy" in name.lower() for name in environment)
    assert ("does not name loopback" in row.text) is not covered


def test_a_processor_without_avx_and_a_full_disk_are_warnings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert disk_row(tmp_path / "a" / "b", installed=False).state == "ok"
    monkeypatch.setattr(this_machine, "space_needed", lambda _: 1 << 60)
    row = disk_row(tmp_path, installed=False)
    assert (row.state, "Free " in row.advice) == ("warn", True)
    assert disk_row(tmp_path, installed=True).state == "ok"
    monkeypatch.setattr(this_machine, "has_avx", lambda key=None: False)
    assert (cpu_row().state, "SIGILL" in cpu_row().text) == ("warn", True)
    monkeypatch.setattr(this_machine, "platform_key", lambda: "plan9-mips")
    assert (platform_row().state, "plan9-mips" in platform_row().text) == ("warn", True)


def test_a_look_that_breaks_does_not_stop_the_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken() -> dict[str, Any]:
        raise OSError(5, SECRET)

    monkeypatch.setattr(this_machine, "describe", broken)
    rows = list(machine_rows(tmp_path, installed=True))
    assert [row.name for row in rows] == ["python", "platform", "cpu", "disk", "proxy"]
    assert (rows[1].state, SECRET in rows[1].text) == ("warn", False)


def _profile(home: Path, name: str, *, present: bool, package: dict[str, Any]) -> None:
    folder = home / "profiles" / name
    module = folder / "node_modules" / BUNDLE
    (module if present else folder).mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps(package))
    if present:
        (module / "package.json").write_text("{}")


NAMED = {"dsh": {"profile": {"bundles": [BUNDLE]}}}


@pytest.mark.parametrize(
    ("program", "profiles", "state", "words"),
    [
        (False, [], "skip", "not installed"),
        (True, [], "skip", "the bundle is not installed"),
        (True, [("sdk", False, {})], "skip", "the bundle is not installed"),
        (True, [("sdk", True, NAMED)], "ok", "in profile sdk"),
        (True, [("sdk", True, {"dependencies": {BUNDLE: "1"}})], "ok", "in profile sdk"),
        (False, [("sdk", True, NAMED)], "warn", "no `dsh` on PATH"),
        (True, [("sdk", False, NAMED)], "warn", "not in its node_modules"),
        (True, [("sdk", True, {})], "warn", "without naming it"),
    ],
)
def test_the_bundle_is_found_in_a_profile_and_half_of_it_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: bool,
    profiles: list[tuple[str, bool, dict[str, Any]]],
    state: str,
    words: str,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DSH_HOME", raising=False)
    if program:
        (tmp_path / "dsh").write_text("#!/bin/sh\n")
        (tmp_path / "dsh").chmod(0o755)
    for name, present, package in profiles:
        _profile(tmp_path / ".dsh", name, present=present, package=package)
    row = dsh_row(tmp_path)
    assert (row.state, words in row.text) == (state, True), row
    monkeypatch.setenv("DSH_HOME", str(tmp_path / "elsewhere"))
    assert "profile" not in dsh_row(tmp_path).text


def _hooks(command: str, **named: Any) -> str:
    handlers = [{"matcher": "*", "hooks": [{"type": "command", "command": command}]}]
    return json.dumps({"acp": {**named, "PreToolUse": handlers, "Stop": [{"command": "other"}]}})


@pytest.mark.parametrize(
    ("content", "state", "words"),
    [
        (None, "skip", "no hooks file"),
        ("{nonsense", "warn", "cannot be read"),
        ("[]", "warn", "cannot be read"),
        ("{}", "skip", "not installed"),
        (_hooks("/opt/x/antigravity-acp hook pre_tool_use"), "ok", "name our control hook"),
        (_hooks("python -m antigravity_control pre", enabled=False), "warn", "switched off"),
        (_hooks('node "$HOME/.acp/hooks/antigravity/hook.mjs" stop'), "skip", "another project"),
        (json.dumps({"acp": [1, {"x": None}], "b": {"PreToolUse": "no", "Stop": [None, 3]}}), "skip", "no hook"),
    ],
)
def test_the_control_hook_is_found_in_antigravitys_own_file(
    tmp_path: Path, content: str | None, state: str, words: str
) -> None:
    path = tmp_path / ".gemini" / "config" / "hooks.json"
    path.parent.mkdir(parents=True)
    if content is not None:
        path.write_text(content)
    row = hook_row(tmp_path)
    assert (row.state, words in row.text) == (state, True), row


@pytest.mark.parametrize("links", [True, False])
def test_the_bundle_is_written_in_one_step_and_never_over_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def none(*_: object) -> None:
        raise OSError(95, "no links here")

    if not links:
        monkeypatch.setattr(os, "link", none)
    path = tmp_path / "report.json"
    _bundle.write(path, {"a": 1}, force=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(CliError) as refused:
        _bundle.write(path, {"a": 2}, force=False)
    assert (refused.value.code, json.loads(path.read_text())) == ("USAGE", {"a": 1})
    _bundle.write(path, {"a": 3}, force=True)
    assert json.loads(path.read_text()) == {"a": 3}
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]


def test_a_bundle_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CliError) as failed:
        _bundle.write(tmp_path / "report.json", {"a": 1}, force=False)
    assert failed.value.code == "BUNDLE_FAILED"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("/nonexistent")])
def test_a_bundle_goes_to_no_folder_and_through_no_link(tmp_path: Path, make: Callable[[Path], None]) -> None:
    target = tmp_path / "report.json"
    make(target)
    with pytest.raises(CliError) as refused:
        _bundle.check_target(str(target), force=False)
    assert refused.value.code == "USAGE"


def test_looking_at_another_agent_names_its_profile_as_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from helpers.cli import events, loopback_flags

    machine = Machine(tmp_path, monkeypatch, capsys)
    done = machine.run("doctor", "--json", *loopback_flags(name="somebody", http=False, models=None))
    rows = {row["name"]: row for row in events(done.stdout)}
    assert {name: rows[name]["state"] for name in ("server", "pair", "initialize", "models", "mcp")} == {
        "server": "ok",
        "pair": "skip",
        "initialize": "warn",
        "models": "warn",
        "mcp": "fail",
    }
    assert done.returncode == 1
