"""`control check` and `explain`: one line and an exit code, every rule, and which files were read. No target is run."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import call_cli, environment, events, one_line, run_cli

from antigravity_acp.cli import control
from antigravity_control import ACTIONS


def rules_file(folder: Path, **data: Any) -> str:
    path = folder / "rules.json"
    path.write_text(json.dumps(data))
    return str(path)


LISTS = {"allow": ["command(git)"], "ask": ["command(make)"], "deny": ["command(git push)"]}


@pytest.mark.parametrize(
    ("flags", "action", "target", "status", "words"),
    [
        ([], "command", "git status", 0, "allow: The rule `command(git)` allows"),
        ([], "command", "ls", 10, "ask: No rule allows this command"),
        ([], "command", "make", 10, "ask: The rule `command(make)` asks about"),
        ([], "command", "git push", 11, "deny: The rule `command(git push)` denies"),
        ([], "command", "rm -rf /", 11, "deny: hardline floor: "),
        (["--headless"], "command", "ls", 11, "deny: This command needs an approval and nobody can be asked here"),
        (["--headless"], "command", "git status", 0, "allow: "),
        ([], "read_file", "notes.txt", 0, "allow: Files of the workspace may be read."),
        ([], "read_file", "/etc/hosts", 10, "ask: "),
        (["--workspace", "/etc"], "read_file", "/etc/hosts", 0, "allow: "),
        ([], "mcp", "github/list", 10, "ask: "),
        ([], "read_url", "https://example.com", 10, "ask: "),
    ],
)
def test_check_is_one_line_and_an_exit_code(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    flags: list[str],
    action: str,
    target: str,
    status: int,
    words: str,
) -> None:
    arguments = [action, target, "--settings", rules_file(tmp_path, permissions=LISTS), *flags]
    done = call_cli(capsys, "control", "check", *arguments)
    assert (done.returncode, done.stderr) == (status, "")
    assert one_line(done.stdout).startswith(words)
    done = call_cli(capsys, "control", "check", *arguments, "--json")
    (event,) = events(done.stdout)
    assert done.returncode == status
    decision = {0: "allow", 10: "ask", 11: "deny"}[status]
    assert (event["event"], event["decision"], event["target"]) == ("decision", decision, target)
    assert event["soft"] == (status == 11 and "--headless" in flags)
    done = call_cli(capsys, "control", "explain", *arguments)
    assert done.returncode == 0
    assert event["reason"] in done.stdout
    assert all(rule in done.stdout for rules in LISTS.values() for rule in rules) == (action == "command")
    done = call_cli(capsys, "control", "explain", *arguments, "--json")
    assert {**events(done.stdout)[0], "event": "decision", "text": ""} == {**event, "text": ""}


def test_every_settings_file_is_in_force_and_the_standard_places_are_not(tmp_path: Path) -> None:
    place = tmp_path / ".gemini" / "antigravity-cli" / "settings.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({"permissions": {"allow": ["command(ls)"], "deny": ["command(git)"]}}))
    env = environment(HOME=str(tmp_path))
    mine = rules_file(tmp_path, permissions={"allow": ["command(git)"]})
    shared = tmp_path / "config.json"
    shared.write_text(json.dumps({"userSettings": {"globalPermissionGrants": {"deny": ["command(git push)"]}}}))
    both = ("--settings", mine, "--settings", str(shared))
    assert run_cli("control", "check", "command", "ls", env=env).returncode == 0
    assert run_cli("control", "check", "command", "git log", env=env).returncode == 11
    assert run_cli("control", "check", "command", "git log", *both, env=env).returncode == 0
    denied = run_cli("control", "check", "command", "git push", *both, env=env)
    assert (denied.returncode, denied.stdout.strip().endswith("[shared]")) == (11, True)
    assert run_cli("control", "check", "command", "ls", *both, env=env).returncode == 10


def write(path: Path, data: dict[str, Any]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))
    return str(path)


def test_without_settings_the_rules_are_those_of_the_host_and_their_files_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    arguments = ["control", "check", "command", "ls", "--workspace", str(work)]
    done = call_cli(capsys, *arguments)
    assert (done.returncode, one_line(done.stderr)) == (
        10, "antigravity-acp: no file holds rules; the defaults are in force",
    )  # fmt: skip
    grants = {"permissionGrants": {"permissionGrants": {"allow": ["command(ls)"]}}}
    files = {
        "plugin": write(
            tmp_path / "config/antigravity-acp/permissions.json", {"permissions": {"allow": ["command(make)"]}}
        ),
        "global": write(
            home / ".gemini/antigravity-cli/settings.json",
            {"permissions": {"deny": ["command(rm)"]}, "toolPermission": "always-proceed"},
        ),
        "project": write(home / ".gemini/config/projects/1.json", {"name": str(work), **grants}),
    }
    write(home / ".gemini/config/projects/2.json", {"name": "/elsewhere", **grants})
    for target, scope, status in (
        ("make", "plugin", 0),
        ("rm x", "global", 11),
        ("ls", "project", 0),
        ("cat", None, 10),
    ):
        done = call_cli(capsys, "control", "check", "command", target, "--workspace", str(work), "--json")
        (event,) = events(done.stdout)
        assert (done.returncode, event["scope"], event["files"]) == (status, scope, list(files.values())), target
        done = call_cli(capsys, "control", "explain", "command", target, "--workspace", str(work))
        assert done.stdout.splitlines()[-1] == f"rules from {', '.join(files.values())}"
    # Another folder has no part in the project's grants, and files that are named are the only ones.
    done = call_cli(capsys, "control", "check", "command", "ls", "--workspace", str(home))
    assert (done.returncode, files["project"] in done.stderr, files["plugin"] in done.stderr) == (10, False, True)
    done = call_cli(capsys, *arguments, "--settings", files["global"], "--json")
    assert (done.returncode, events(done.stdout)[0]["files"]) == (0, [files["global"]])
    done = call_cli(capsys, "control", "lint", "--workspace", str(work), "--json")
    assert events(done.stdout)[-1]["files"] == list(files.values())


@pytest.mark.parametrize("command", ["check", "explain"])
@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_nothing_is_decided_while_rules_are_missing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, text: str | None
) -> None:
    path = tmp_path / "rules.json"
    if text is not None:
        path.write_text(text)
    done = call_cli(capsys, "control", command, "read_file", "x", "--settings", str(path), "--json")
    assert done.returncode == 2
    assert one_line(done.stderr).startswith("antigravity-acp: INVALID_SETTINGS: ")
    assert events(done.stdout)[0]["event"] == "error"


def test_a_malformed_rule_is_named_and_the_others_hold(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = rules_file(tmp_path, permissions={"allow": ["command ls"], "deny": ["command(rm)"]})
    done = call_cli(capsys, "control", "check", "command", "ls; rm x", "--settings", path)
    assert done.returncode == 11
    assert f"{path}, permissions.allow[0]: expected `action(target)`" in one_line(done.stderr)


def test_a_target_cannot_draw_on_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = rules_file(tmp_path, permissions={"deny": ["command(git\x1b[2J\nx)"]})
    for command in ("check", "explain"):
        done = call_cli(capsys, "control", command, "command", "git\x1b[2J x; \udcff", "--settings", path)
        assert "\x1b" not in done.stdout


def test_no_target_is_run_or_opened(tmp_path: Path) -> None:
    marker, pipe = tmp_path / "marker", tmp_path / "pipe"
    os.mkfifo(pipe)
    for action, target in (("command", f"touch {marker}"), ("command", f"$(touch {marker})"), ("read_file", str(pipe))):
        for command in ("check", "explain"):
            run_cli("control", command, action, target, cwd=tmp_path)
    assert not marker.exists()


@pytest.mark.parametrize("arguments", [["run", "ls"], ["command"], ["command", "git", "status"], []])
def test_wrong_usage_is_exit_code_2(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    done = call_cli(capsys, "control", "check", *arguments)
    assert done.returncode == 2
    assert "Usage: " in done.stderr


def test_the_group_has_the_actions_of_the_engine_and_the_commands_of_the_ledger() -> None:
    assert control.ACTIONS == ACTIONS
    assert set(control.command.commands) == {
        "check", "explain", "decide", "floor", "lint", "test", "log", "verify", "stats", "export",
    }  # fmt: skip
