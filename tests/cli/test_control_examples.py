"""`control test`: rules with examples beside them. Each example can fail; a file that tests nothing never passes."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import call_cli, environment, events, one_line, run_cli

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "control.md"
RULES = {"allow": ["command(git)"], "ask": ["command(make)"], "deny": ["command(git push)"]}
Done = subprocess.CompletedProcess[str]


def run_on(
    capsys: pytest.CaptureFixture[str], folder: Path, examples: Any, *flags: str, rules: Any = RULES, **more: Any
) -> Done:
    path = folder / "rules.json"
    path.write_text(json.dumps({"permissions": rules, "workspace": "/w", "examples": examples, **more}))
    return call_cli(capsys, "control", "test", str(path), *flags)


BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_what_the_page_about_rules_says_is_so(capsys: pytest.CaptureFixture[str], tmp_path: Path, number: int) -> None:
    assert len(BLOCKS) >= 4
    path = tmp_path / "rules.yaml"
    path.write_text(BLOCKS[number], encoding="utf-8")
    done = call_cli(capsys, "control", "test", str(path))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_the_example_holds_and_lint_finds_nothing_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(ROOT / "examples" / "rules.yaml")
    done = call_cli(capsys, "control", "test", path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    done = call_cli(capsys, "control", "lint", path, "--workspace", "/home/me/project", "--strict")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("expected", "item", "problem"),
    [
        ("allow", "command: git log", None),
        ("allow", "command(git log '(x)')", None),
        ("allow", {"command": "git log", "why": "anything"}, None),
        ("ask", "command: make", None),
        ("ask", "command: ls", None),
        ("ask", "read_url: https://example.com:1/x", None),
        ("deny", "command: git push", None),
        ("deny", {"command": "git push", "rule": "command(git push)"}, None),
        ("ask", {"command": "ls", "mode": "headless"}, None),
        ("allow", "command: git push", "expected allow, got deny"),
        ("ask", "command: git push", "expected ask, got deny"),
        ("ask", "command: git log", "expected ask, got allow"),
        ("deny", "command: git log", "expected deny, got allow"),
        ("deny", "command: make", "expected deny, got ask"),
        ("deny", {"command": "ls", "mode": "headless"}, "expected deny, got ask"),
        ("allow", {"write_file": "x", "mode": "headless"}, "expected allow, got ask"),
        ("deny", {"command": "git push", "rule": "command(git)"}, "expected `command(git)` to decide"),
        ("deny", {"command": "rm -rf /", "rule": "command(rm)"}, "expected `command(rm)` to decide, not floor"),
    ],
)
def test_an_example_fails_exactly_when_the_answer_is_another_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, expected: str, item: Any, problem: str | None
) -> None:
    done = run_on(capsys, tmp_path, {expected: [item]})
    assert done.returncode == (0 if problem is None else 1)
    assert done.stderr == ""
    if problem is None:
        assert one_line(done.stdout) == "ok: 1 example, 0 failed"
    else:
        place, reason, *_, summary = done.stdout.splitlines()
        assert place.startswith(f"FAIL examples.{expected}[0] ")
        assert reason.strip().startswith(problem)
        assert ": " in reason.strip().removeprefix(problem)
        assert summary == "FAILED: 1 example, 1 failed"
    *shown, end = events(run_on(capsys, tmp_path, {expected: [item]}, "--json").stdout)
    assert [(event["event"], event["ok"]) for event in shown] == [("example", problem is None)]
    assert (end["ok"], end["examples"], end["failed"]) == (problem is None, 1, int(problem is not None))


@pytest.mark.parametrize("examples", [None, {}, {"allow": []}, {"allow": [], "ask": [], "deny": []}])
def test_a_file_that_tests_nothing_does_not_pass(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, examples: Any
) -> None:
    done = run_on(capsys, tmp_path, examples, "--json")
    assert done.returncode == 1
    assert "NO_EXAMPLES: " in one_line(done.stderr)
    assert [event["event"] for event in events(done.stdout)] == ["error"]


@pytest.mark.parametrize(
    ("examples", "more", "place"),
    [
        ([], {}, "examples"),
        ({"denied": ["command: ls"]}, {}, "examples.denied"),
        ({"deny": "command: ls"}, {}, "examples.deny"),
        ({"deny": ["command: ls", 7]}, {}, "examples.deny[1]"),
        ({"deny": ["ls"]}, {}, "examples.deny[0]"),
        ({"deny": ["run: ls"]}, {}, "examples.deny[0]"),
        ({"deny": ["command:"]}, {}, "examples.deny[0]"),
        ({"deny": [{"command": True}]}, {}, "examples.deny[0]"),
        ({"deny": [{"command": "ls", "read_file": "x"}]}, {}, "examples.deny[0]"),
        ({"deny": [{"command": "ls", "rules": "x"}]}, {}, "examples.deny[0]"),
        ({"deny": [{"command": "ls", "mode": "x"}]}, {}, "examples.deny[0]"),
        ({"ask": ["command: ls"]}, {"mode": "x"}, "mode"),
        ({"ask": ["command: ls"]}, {"workspace": 1}, "workspace"),
        ({"ask": ["command: ls"]}, {"flags": {}}, "flags"),
    ],
)
def test_a_file_that_is_not_laid_out_like_this_is_refused_with_its_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, examples: Any, more: Any, place: str
) -> None:
    done = run_on(capsys, tmp_path, examples, **more)
    assert done.returncode == 2
    assert f"rules.json, {place}: " in one_line(done.stderr)
    assert done.stdout == ""


def test_a_malformed_rule_fails_although_every_example_holds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    done = run_on(capsys, tmp_path, {"ask": ["command: ls"]}, rules={"deny": ["command rm"]})
    assert done.returncode == 1
    assert "permissions.deny[0]" in done.stdout
    assert done.stdout.endswith("FAILED: 1 example, 0 failed, 1 fault\n")


def test_other_settings_files_can_be_tested_from_beside(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "live.json").write_text(json.dumps({"permissions": {"deny": ["command(git log)"]}}))
    examples = {"deny": ["command: git log"], "allow": ["command: git status"]}
    assert run_on(capsys, tmp_path, examples).returncode == 1
    assert run_on(capsys, tmp_path, examples, settings=["live.json"]).returncode == 0
    (tmp_path / "live.json").write_text("{")
    assert run_on(capsys, tmp_path, examples, settings="live.json").returncode == 2
    (tmp_path / "live.json").unlink()
    assert run_on(capsys, tmp_path, examples, settings="live.json").returncode == 2


def test_the_workspace_is_the_folder_of_the_file_when_none_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    examples = {"allow": [f"read_file: {tmp_path.resolve()}/x"], "ask": ["read_file: /etc/hosts"]}
    assert run_on(capsys, tmp_path, examples, workspace=None).returncode == 0
    assert run_on(capsys, tmp_path, examples, workspace=".").returncode == 0
    assert run_on(capsys, tmp_path, examples, workspace="deeper").returncode == 1


def test_yaml_without_its_library_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text("examples: {ask: ['command: ls']}")
    assert run_cli("control", "test", str(path)).returncode == 0
    program = "import sys; sys.modules['yaml'] = None; from antigravity_acp.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "control", "test", str(path)],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert done.returncode == 2
    assert "pip install pyyaml" in one_line(done.stderr)


@pytest.mark.parametrize("text", ["a: [", "- a", "a: &a [*a]\n? *a\n: 1", "!!python/object/apply:os.getcwd []", ""])
def test_yaml_that_is_no_settings_file_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    done = call_cli(capsys, "control", "test", str(path))
    assert done.returncode == 2
    assert "INVALID_SETTINGS: " in one_line(done.stderr)
