"""What holds the rules, or the record of what they said, is the same for every host and for the command line."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import call_cli, events, loopback_flags, one_line
from helpers.loopback import directive
from helpers.sidecar import SCRIPTED, sidecar

from antigravity_acp.governing import GovernedCall, Governor
from antigravity_acp.hooks.own import AntigravityPlugin
from antigravity_acp.host import Host
from antigravity_acp.settings import Settings

OWN = "This would change the rules themselves"
FREE = {"toolPermission": "always-proceed", "permissions": {"allow": ["write_file(*)", "command(*)", "*"]}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder that is this test's, with every place that rules and records have in it."""
    place = tmp_path.resolve() / "home"
    (place / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    return place


def places(home: Path, settings_file: Path | None = None) -> list[Path]:
    """Files that a model must not write unasked; none of them need be there."""
    theirs = home / ".gemini"
    return [
        theirs / "antigravity-cli" / "settings.json",
        theirs / "config" / "config.json",
        theirs / "config" / "hooks.json",
        theirs / "config" / "projects" / "new.json",
        home / "config" / "antigravity-acp" / "permissions.json",
        home / "state" / "antigravity-acp" / "ledger" / "ledger-000001.db",
        *([settings_file] if settings_file is not None else []),
    ]


Decide = Callable[[str, dict[str, Any]], dict[str, Any]]


def writes(place: Path) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("write_file", {"path": str(place), "content": ""}),
        ("run_command", {"command": f"rm -f {place}"}),
        ("run_command", {"command": f"echo x > {place}"}),
        ("run_command", {"command": f"cp /dev/null {place}"}),
    ]


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("attended", [False, True])
def test_no_mode_and_no_rule_lets_a_model_write_where_rules_or_records_are(
    home: Path, attended: bool, skip: bool
) -> None:
    file = home / "work" / "policy.json"
    settings = Settings.from_mapping({**FREE, "dangerouslySkipPermissions": skip})
    governor = Governor(settings, home, attended=attended, home=home, settings_files=[file], confines=True)
    for place in places(home, file):
        for name, arguments in writes(place):
            made = governor.decide(GovernedCall(id="1", name=name, arguments=arguments))
            assert (made.decision, made.soft) == (("ask", False) if attended else ("deny", True)), arguments
            assert not attended or made.reason.startswith(OWN), arguments
    for line, decision in (
        ("rm *", "ask"), ("rm polic?.json", "ask"), ("mv pol*.json x", "ask"), ("rm ~/.gemini/*/*.json", "ask"),
        ("rm *.o", "allow"), ("cat *", "allow"),
    ):  # fmt: skip
        made = governor.decide(
            GovernedCall(id="1", name="run_command", arguments={"command": line}, workspace=str(home / "work"))
        )
        assert ("ask" if made.soft else made.decision) == decision, line
    free = governor.decide(GovernedCall(id="1", name="write_file", arguments={"path": str(home / "work" / "other")}))
    assert free.allowed


async def test_a_sidecar_takes_the_places_of_its_host(home: Path) -> None:
    profiles = home / ".dsh" / "profiles"
    async with sidecar({**FREE, "control": True}, SCRIPTED, {"settingsFiles": [str(profiles)]}) as host:
        for place, decision in ((profiles / "web" / "cordis.patch.yml", "ask"), (home / "work" / "x", "allow")):
            call = {"id": "1", "name": "write", "arguments": {"path": str(place)}, "cwd": str(home / "work")}
            said = await host.request("control/decide", {"call": call})
            assert said["decision"] == decision, place
            assert (decision == "allow") or said["reason"].startswith(OWN)


async def test_a_python_host_takes_the_places_of_its_settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home / "work" / "settings.json"
    monkeypatch.chdir(home)
    values = {"antigravity-acp": {**FREE, "control": True}}
    async with Host(values, settings_files=["work/settings.json"]) as host:
        assert await host.mount("antigravity-acp", AntigravityPlugin())
        governor = host.ctx.get("governor")
        assert isinstance(governor, Governor)
        for place, decision in ((file, "ask"), (home / "work" / "other", "allow")):
            call = GovernedCall(id="1", name="write_file", arguments={"path": str(place)}, workspace=str(home))
            assert governor.decide(call, attended=True).decision == decision


def test_chat_protects_the_settings_that_it_was_given(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = home / "work"
    policy = work / "policy.json"
    policy.write_text("\ufeff" + json.dumps({**FREE, "permissions": {"deny": ["command(git push)"]}}), encoding="utf-8")
    before = policy.read_bytes()
    steps = [
        {"call": {"name": "write_file", "arguments": {"path": "policy.json", "content": "{}"}}},
        {"call": {"name": "run_command", "arguments": {"command": "echo {} > policy.json"}}},
        {"call": {"name": "write_file", "arguments": {"path": "other.txt", "content": "x"}}},
    ]
    flags = [*loopback_flags(), "--workspace", str(work), "--settings", os.path.relpath(policy), "--json"]
    done = call_cli(capsys, "chat", f"please {directive(*steps)}", *flags)
    assert done.returncode == 0
    decided = [event["decision"] for event in events(done.stdout) if event["event"] == "tool-decision"]
    assert decided == ["deny", "deny", "allow"]
    assert policy.read_bytes() == before
    # `control check` is asked about the very same rules.
    for target, status in (("policy.json", 10), ("other.txt", 0)):
        arguments = ["write_file", target, "--plugin", str(policy), "--workspace", str(work)]
        assert call_cli(capsys, "control", "check", *arguments).returncode == status
    assert call_cli(capsys, "control", "check", "command", "git push", "--plugin", str(policy)).returncode == 11


@pytest.mark.parametrize(
    ("theirs", "status"),
    [
        ({}, 11),
        ({"agentMode": "accept-edits"}, 11),
        ({"preset": "turbo", "allowNonWorkspaceAccess": True}, 11),
        ({"toolPermission": "always-proceed", "dangerouslySkipPermissions": True}, 11),
        ({"permissions": {"allow": ["write_file(x)", "read_file(/etc/hosts)"]}}, 0),
    ],
)
def test_chat_and_check_are_of_one_mind_about_the_vendors_file(
    home: Path, capsys: pytest.CaptureFixture[str], theirs: dict[str, Any], status: int
) -> None:
    file = home / ".gemini" / "antigravity-cli" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(theirs))
    governor = Governor(Settings.from_mapping(), home / "work", attended=False, confines=True)
    for name, action, target in (("write_file", "write_file", "x"), ("read_file", "read_file", "/etc/hosts")):
        made = governor.decide(GovernedCall(id="1", name=name, arguments={"path": target}))
        assert made.allowed == (status == 0)
        arguments = [action, target, "--workspace", str(home / "work"), "--headless"]
        assert call_cli(capsys, "control", "check", *arguments).returncode == status


def test_home_as_the_workspace_leaves_the_rules_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in places(home):
        done = call_cli(capsys, "control", "check", "write_file", str(place), "--workspace", str(home))
        assert (done.returncode, OWN in done.stdout) == (10, True), place


def test_tool_names_are_judged_by_the_command_line_as_by_the_host(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / "settings.json"
    lists = {"allow": ["read_file", "run_command", "echo"], "ask": ["edit_file"], "deny": ["write_file", "deploy"]}
    file.write_text(json.dumps({"permissions": lists}))
    governor = Governor(Settings.from_mapping({"permissions": lists}), home / "work", confines=True)
    words = {0: "allow", 10: "ask", 11: "deny"}
    for how in ("--settings", "--plugin"):
        for name, action, key, target, more in (
            ("run_command", "command", "command", "make", []),
            ("write_file", "write_file", "path", "x", []),
            ("edit_file", "write_file", "path", "x", ["--tool", "edit_file"]),
            ("read_file", "read_file", "path", "/etc/hosts", []),
            ("deploy", "mcp", "to", "host/deploy", []),
        ):
            arguments = [action, target, how, str(file), "--workspace", str(home / "work"), *more]
            done = call_cli(capsys, "control", "check", *arguments)
            made = governor.decide(GovernedCall(id="1", name=name, arguments={key: target}))
            assert words[done.returncode] == made.decision, name
    done = call_cli(capsys, "control", "explain", "command", "make", "--settings", str(file))
    assert "rule by the name of the tool `run_command`: run_command" in done.stdout
    done = call_cli(capsys, "control", "lint", str(file), "--json")
    *found, end = events(done.stdout)
    assert [(each["level"], each["kind"], each["place"]) for each in found] == [
        ("warning", "unknown-tool", "permissions.deny[1]"),
        ("warning", "unknown-tool", "permissions.allow[2]"),
    ]
    assert (done.returncode, end["rules"]) == (0, 6)
    # The vendor's program knows no tool names, so in its own file they are no rules.
    theirs = home / ".gemini" / "antigravity-cli" / "settings.json"
    theirs.parent.mkdir(parents=True)
    theirs.write_text(file.read_text())
    for arguments in (["control", "lint"], ["control", "lint", str(theirs)]):
        found = events(call_cli(capsys, *arguments, "--json").stdout)[:-1]
        assert {each["kind"] for each in found} == {"malformed"}
        assert len(found) == 6


def test_a_file_with_examples_may_have_tool_names_and_a_misspelt_key_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rules.json"
    data: dict[str, Any] = {
        "permissions": {"deny": ["write_file"]},
        "examples": {"deny": [{"write_file": "x", "rule": "!write_file"}], "ask": ["command: make"]},
    }
    path.write_text(json.dumps(data))
    done = call_cli(capsys, "control", "test", str(path))
    assert (done.returncode, one_line(done.stdout)) == (0, "ok: 2 examples, 0 failed")
    path.write_text(json.dumps({**data, "exmples": {"deny": ["command: make"]}}))
    done = call_cli(capsys, "control", "test", str(path))
    assert (done.returncode, "exmples: nobody reads this key; `examples` may be meant" in done.stdout) == (1, True)


def test_a_broken_file_is_named_before_any_rule_that_would_not_help(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / ".gemini" / "antigravity-cli" / "settings.json"
    file.parent.mkdir(parents=True)
    steps = [{"call": {"name": "run_command", "arguments": {"command": "echo hi"}}}]
    flags = [*loopback_flags(), "--workspace", str(home / "work")]
    for text in ('{"permissions": {"allow": ["command(echo)"],}}', '{"permissions": {"deny": ["comand(echo)"]}}'):
        file.write_text(text)
        for more in ([], ["--yes", "run_command"]):
            said = call_cli(capsys, "chat", f"please {directive(*steps)}", *flags, *more).stderr
            assert f"rules may be missing, mend them first ({file}, " in said
            assert "`control lint` shows every fault" in said
            assert "Rule: " not in said
        assert "until it is mended every call is asked about" in said


def test_what_the_plugin_says_is_named_by_the_file_it_stands_in(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = home / "work" / "policy.json"
    file.write_text(json.dumps({"permissions": {"allow": ["command(git *)", "read_file(*.py)"]}}))
    flags = [*loopback_flags(), "--workspace", str(home / "work"), "--settings", str(file)]
    said = call_cli(capsys, "chat", f"please {directive({'say': 'hi'})}", *flags).stderr
    for number in (0, 1):
        assert f"{file}, permissions.allow[{number}]: " in said
