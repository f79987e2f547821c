"""`control lint`: rules that do not do what they say are found, with file, place and reason; good ones are left be."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import call_cli, environment, events, one_line, run_cli

from antigravity_acp.cli._control_lint import Flaw, lint
from antigravity_control import Source
from antigravity_control.sources.settings import read_file


def flaws(*, workspace: str | None = "/w", home: str | None = "/home/person", **lists: list[Any]) -> list[Flaw]:
    return lint([Source("global", {"permissions": lists})], workspace=workspace, home=home)


def kinds(**lists: Any) -> list[tuple[str, str, str]]:
    return [(flaw.level, flaw.kind, flaw.place.removeprefix("permissions.")) for flaw in flaws(**lists)]


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        ("command(npm run (build|lint|test))", "old-style"),
        ("command((git|svn) status)", "old-style"),
        ("command(curl .*)", "old-style"),
        (r"command(git log -\d+)", "old-style"),
        ("command(^git$)", "old-style"),
        ("command(rm [a-z]+)", "old-style"),
        ("unsandboxed(npm run (build|test))", "old-style"),
        ("command(git *)", "glob"),
        ("command(go test -v *)", "glob"),
        ("command(git:*)", "glob"),
        ("command(*/bin/ls)", "glob"),
        ("read_file(/srv/**)", "inert"),
        ("write_file(src/*.py)", "inert"),
        ("mcp(github-*/list)", "inert"),
        ("command ls", "malformed"),
        ("Bash(git:*)", "malformed"),
        ("command()", "malformed"),
        ("read_url(https://example.com/x)", "malformed"),
        ("read_url(*.example.com)", "malformed"),
        ("command(regex:git (status)", "malformed"),
        ("mcp(github)", "malformed"),
        (7, "malformed"),
    ],
)
@pytest.mark.parametrize("kind_of_list", ["allow", "ask", "deny"])
def test_a_rule_that_cannot_do_what_it_says_is_an_error(rule: Any, kind: str, kind_of_list: str) -> None:
    assert kinds(**{kind_of_list: [rule]}) == [("error", kind, f"{kind_of_list}[0]")]


@pytest.mark.parametrize(
    "rule",
    [
        "command(git status)",
        "command(regex:npm run (build|lint|test))",
        "command(regex:git .*)",
        "command(python -c 'print((1|2))')",
        'command(grep -E "a|b.*" notes)',
        "command(echo $HOME)",
        "command(git add . && git commit)",
        "command([ -f notes ])",
        "read_file(/srv)",
        "write_file(src)",
        "read_url(api.example.com)",
        "read_url(localhost)",
        "read_url(127.0.0.1)",
        "mcp(github/*)",
        "mcp(github/list_issues)",
        "unsandboxed(docker build .)",
    ],
)
def test_a_good_rule_is_left_alone(rule: str) -> None:
    assert flaws(allow=[rule]) == []


@pytest.mark.parametrize(
    ("allowed", "stricter"),
    [
        ("command(git push)", "command(git push)"),
        ("command(git push origin)", "command(git)"),
        ("command(/usr/bin/rm -r x)", "command(rm)"),
        ("command(git push)", "command(*)"),
        ("command(*)", "command(*)"),
        ("command(git push -f)", "command(regex:git pu.*)"),
        ("command(regex:git push .*)", "command(git push)"),
        ("command(regex:git push .*)", "command(regex:git .*)"),
        ("read_file(/etc/ssl)", "read_file(/etc)"),
        ("read_file(/etc/../etc/ssl/)", "read_file(/etc//ssl)"),
        ("read_file(src)", "read_file(/w)"),
        ("read_file(~/.ssh)", "read_file(/home/person)"),
        ("write_file(/etc)", "write_file(/etc)"),
        ("read_url(api.example.com)", "read_url(example.com)"),
        ("read_url(127.0.0.1)", "read_url(127.0.0.1)"),
        ("mcp(github/list)", "mcp(github/*)"),
        ("unsandboxed(make test)", "unsandboxed(make)"),
    ],
)
@pytest.mark.parametrize("kind", ["ask", "deny"])
def test_an_allow_that_a_stricter_rule_always_beats_is_dead(allowed: str, stricter: str, kind: str) -> None:
    found = [flaw for flaw in flaws(allow=[allowed], **{kind: [stricter]}) if flaw.kind == "dead"]
    assert [(flaw.level, flaw.place, flaw.rule) for flaw in found] == [("error", "permissions.allow[0]", allowed)]
    assert f"`{stricter}`" in found[0].text
    assert f"permissions.{kind}[0]" in found[0].text


@pytest.mark.parametrize(
    ("allowed", "stricter"),
    [
        ("command(git)", "command(git push)"),
        ("command(gitk)", "command(git)"),
        ("command(*)", "command(rm)"),
        ("command(git status)", "unsandboxed(git)"),
        ("command(git status)", "command(regex:git pu.*)"),
        ("command(regex:git (push|status))", "command(git push)"),
        ("command(regex:git.* x)", "command(git)"),
        ("read_file(/etc)", "read_file(/etc/ssl)"),
        ("read_file(/etcetera)", "read_file(/etc)"),
        ("read_file(/etc)", "write_file(/etc)"),
        ("read_url(example.com)", "read_url(api.example.com)"),
        ("read_url(notexample.com)", "read_url(example.com)"),
        ("read_url(1.2.3.4)", "read_url(4)"),
        ("mcp(github/list)", "mcp(github/get)"),
        ("mcp(github/*)", "mcp(github/get)"),
    ],
)
def test_an_allow_that_still_allows_something_is_not_dead(allowed: str, stricter: str) -> None:
    assert "dead" not in {flaw.kind for flaw in flaws(allow=[allowed], deny=[stricter])}


def test_a_read_deny_kills_a_write_allow_and_an_ask_dies_by_a_deny_alone() -> None:
    assert kinds(allow=["write_file(/etc/x)"], deny=["read_file(/etc)"]) == [("error", "dead", "allow[0]")]
    assert kinds(allow=["write_file(/etc/x)"], ask=["read_file(/etc)"]) == []
    assert kinds(ask=["command(git push)"], deny=["command(git)"]) == [("error", "dead", "ask[0]")]
    assert kinds(deny=["command(git push)"], ask=["command(git)"]) == []


def test_needless_rules_are_warnings_and_the_first_of_two_stays() -> None:
    assert kinds(allow=["command(git  log)", "command(git log)"]) == [("warning", "duplicate", "allow[1]")]
    assert kinds(deny=["command(rm -r)", "command(rm)"]) == [("warning", "shadowed", "deny[0]")]
    assert kinds(allow=["read_file(/d/x)", "write_file(/d)"]) == [("warning", "shadowed", "allow[0]")]
    assert kinds(deny=["read_file(/d)", "write_file(/d)"]) == [("warning", "shadowed", "deny[1]")]
    assert kinds(allow=["command(regex:a.c)", "command(regex:a.c)"]) == [("warning", "duplicate", "allow[1]")]
    assert kinds(deny=["command(regex:git)", "command(git)"]) == [("warning", "shadowed", "deny[1]")]
    # The exact line is allowed where first words and `*` say nothing, so it is not needless.
    assert kinds(allow=["command(echo)", "command(echo $(date))"]) == []


@pytest.mark.parametrize(
    "rule",
    [
        "command(*)", "unsandboxed(*)", "mcp(*)", "write_file(*)", "read_url(*)", "write_file(/)", "read_file(~)",
        "write_file(/home/person/)", "read_url(com)", "command(python)", "command(python3.12)", "command(/bin/bash)",
        "command(bash -c)", "command(env)", "command(xargs)", "command(sudo -n)", "command(timeout)", "command(node)",
        "command(regex:.*)", "command(regex:(python|ruby) .*)", "command(regex:bash)", "unsandboxed(sh)",
    ],
)  # fmt: skip
def test_an_allow_that_is_open_to_everything_is_a_warning(rule: str) -> None:
    assert kinds(allow=[rule]) == [("warning", "wide-open", "allow[0]")]
    assert kinds(deny=[rule]) == []


def test_an_allow_of_what_the_floor_denies_is_a_warning() -> None:
    assert kinds(allow=["command(rm -rf /)"]) == [("warning", "floor", "allow[0]")]


def test_a_relative_path_is_a_warning_where_no_workspace_is_given() -> None:
    assert kinds(workspace=None, allow=["read_file(docs)", "read_file(/srv)", "read_file(~/x)"]) == [
        ("warning", "relative", "allow[0]")
    ]
    assert kinds(workspace="/w", allow=["read_file(docs)"]) == []


def test_lists_at_the_wrong_place_are_errors() -> None:
    data = {"allow": ["command(ls)"], "permissions": {"Deny": ["command(rm)"], "allowed": [], "note": "mine"}}
    found = lint([Source("global", data)])
    assert [(flaw.level, flaw.kind, flaw.place) for flaw in found] == [
        ("error", "misplaced", "allow"),
        ("error", "unknown", "permissions.Deny"),
        ("error", "unknown", "permissions.allowed"),
        ("error", "unknown", "permissions.note"),
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "rules.json",
            '{"permissions": {"allow": ["command(ls)"], "deny": ["command(rm)"]}, "permissions": {"allow": []}}',
        ),
        ("rules.yaml", "permissions: {allow: [command(ls)], deny: [command(rm)]}\npermissions:\n  allow: []\n"),
    ],
)
def test_a_key_that_stands_twice_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    done = call_cli(capsys, "control", "lint", str(path))
    assert done.returncode == 1
    found, summary = done.stdout.splitlines()
    assert found.startswith(f"error repeated: {path}, permissions: this key stands more than once")
    assert summary.startswith("1 error, 0 warnings; 1 rule in ")
    done = call_cli(capsys, "control", "check", "command", "rm x", "--settings", str(path))
    assert (done.returncode, "this key stands more than once" in one_line(done.stderr)) == (11, True)


@pytest.mark.parametrize(
    ("text", "kinds_found"),
    [
        ("a: &x {b: 1}\nc: {<<: *x, b: 2}\nd: {<<: *x}\n", []),
        ("? [a]\n: 1\n", ["unreadable"]),
        ("? {a: 1}\n: 1\n", ["unreadable"]),
        ("a: &x [*x]\n", ["unreadable"]),
        ("a: !!python/object:os.system {}\n", ["unreadable"]),
        ("&x {a: *x}\n", ["unreadable"]),
        ("a: 1\nb: 2\na: 1\n", ["repeated"]),
        ("1: 1\ntrue: 2\n", ["repeated"]),
    ],
)
def test_yaml_of_every_kind_is_read_or_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, kinds_found: list[str]
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    *found, end = events(call_cli(capsys, "control", "lint", str(path), "--json").stdout)
    assert [flaw["kind"] for flaw in found] == kinds_found
    assert end["errors"] == len(kinds_found)


def test_files_are_in_force_together(tmp_path: Path) -> None:
    mine, shared = tmp_path / "settings.json", tmp_path / "config.json"
    mine.write_text(json.dumps({"permissions": {"allow": ["command(git push)"]}}))
    grants = {"globalPermissionGrants": {"deny": ["command(git)"]}}
    shared.write_text(json.dumps({"userSettings": grants}))
    done = run_cli("control", "lint", str(mine), str(shared))
    assert done.returncode == 1
    dead, summary = done.stdout.splitlines()
    assert dead.startswith(f"error dead: {mine}, permissions.allow[0] `command(git push)`: `command(git)` denies")
    assert f"({shared}, userSettings.globalPermissionGrants.deny[0])" in dead
    assert summary.startswith("1 error, 0 warnings; 2 rules in ")


@pytest.mark.parametrize(
    ("lists", "flags", "status"),
    [
        ({"allow": ["command(ls)"]}, [], 0),
        ({"allow": ["command(ls)"]}, ["--strict"], 0),
        ({"allow": ["command(bash)"]}, [], 0),
        ({"allow": ["command(bash)"]}, ["--strict"], 1),
        ({"allow": ["command(git *)"]}, [], 1),
    ],
)
def test_exit_codes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, lists: dict[str, Any], flags: list[str], status: int
) -> None:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"permissions": lists}))
    done = call_cli(capsys, "control", "lint", str(path), "--json", *flags)
    assert (done.returncode, done.stderr) == (status, "")
    *found, end = events(done.stdout)
    assert {flaw["event"] for flaw in found} <= {"flaw"}
    assert end == {"event": "end", "ok": status == 0, "errors": end["errors"], "warnings": end["warnings"],
                   "rules": 1, "files": [str(path)]}  # fmt: skip
    assert end["errors"] + end["warnings"] == len(found)


def test_without_files_the_standard_places_are_looked_at(tmp_path: Path) -> None:
    place = tmp_path / ".gemini" / "antigravity-cli" / "settings.json"
    env = environment(HOME=str(tmp_path))
    nothing = run_cli("control", "lint", env=env)
    assert nothing.returncode == 0
    assert "no file: none is where the host looks" in nothing.stdout
    place.parent.mkdir(parents=True)
    place.write_text('{"permissions": {"deny": ["command rm"]}}')
    done = run_cli("control", "lint", env=env)
    assert done.returncode == 1
    assert f"error malformed: {place}, permissions.deny[0]: expected `action(target)`" in done.stdout


def test_a_file_that_is_not_there_and_one_that_cannot_be_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    done = call_cli(capsys, "control", "lint", str(tmp_path / "gone.json"))
    assert done.returncode == 2
    assert one_line(done.stderr).startswith("antigravity-acp: INVALID_SETTINGS: There is no file ")
    broken = tmp_path / "broken.json"
    for text in ('{"permissions": {"allow": ["command(ls)",]}}', "[]", "\x00"):
        broken.write_text(text)
        done = call_cli(capsys, "control", "lint", str(broken))
        assert done.returncode == 1
        assert done.stdout.startswith("error unreadable: ")


def test_what_a_rule_says_cannot_draw_on_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"permissions": {"allow": ["command(git\x1b[2J\u202e\nlog *)"]}}))
    done = call_cli(capsys, "control", "lint", str(path))
    assert done.stdout.count("\n") == 2
    assert not {"\x1b", "\u202e"} & set(done.stdout)


def test_ten_thousand_rules_are_looked_at_in_seconds(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    lists = {
        "deny": [f"command(tool{number} push)" for number in range(3_000)],
        "ask": [f"read_file(/srv/{number})" for number in range(2_000)],
        "allow": [
            *(f"command(tool{number} push x)" for number in range(3_000)),
            *(f"read_file(/srv/{number}/x)" for number in range(2_000)),
        ],
    }
    path.write_text(json.dumps({"permissions": lists}))
    source = read_file(path, "global")
    began = time.process_time()
    found = lint([source], workspace="/w")
    # Comparing each with each would be a hundred million steps.
    assert time.process_time() - began < 30
    assert [flaw.kind for flaw in found] == ["dead"] * 5_000
