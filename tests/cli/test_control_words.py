"""`control`: what a person is told who asks about nothing, names no folder, or allows more than they think."""

from pathlib import Path

import pytest
from helpers.cli import call_cli, one_line

from antigravity_acp.cli._control_lint import lint
from antigravity_control import Source

NOWHERE = "/nowhere/at/all"


def flaws(workspace: str | None = "/w", **lists: list[str]) -> list[tuple[str, str, str]]:
    found = lint([Source("global", {"permissions": lists})], workspace=workspace, home="/home/person")
    return [(flaw.kind, flaw.place.removeprefix("permissions."), flaw.text) for flaw in found]


@pytest.mark.parametrize("command", ["check", "explain"])
@pytest.mark.parametrize("target", ["", "  "])
def test_a_question_about_nothing_is_wrong_usage(command: str, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = call_cli(capsys, "control", command, "command", target)
    assert (done.returncode, done.stdout) == (2, "")
    assert "TARGET is empty: nothing is asked about." in done.stderr


@pytest.mark.parametrize("arguments", [("check", "command", "ls"), ("lint",)])
def test_a_workspace_that_is_not_there_is_said_to_be_none(
    arguments: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.json").write_text("{}")
    file = ["--settings", str(tmp_path / "s.json")] if "check" in arguments else [str(tmp_path / "s.json")]
    done = call_cli(capsys, "control", *arguments, *file, "--workspace", NOWHERE)
    assert f"antigravity-acp: there is no folder {NOWHERE}, so no link in it can be followed\n" in done.stderr
    assert done.returncode in (0, 10)
    assert "there is no folder" not in call_cli(
        capsys, "control", *arguments, *file, "--workspace", str(tmp_path)
    ).stderr  # fmt: skip


@pytest.mark.parametrize("name", ["cat", "less", "head", "tail", "grep", "rg", "cp -r", "mv", "rm", "tee", "dd"])
def test_an_allow_of_a_program_that_takes_any_file_is_wide_open(name: str) -> None:
    ((kind, place, text),) = flaws(allow=[f"command({name})"])
    assert (kind, place) == ("wide-open", "allow[0]")
    assert text.startswith(f"`{name.split()[0]}` ")
    assert text.endswith("any file it is given, outside the workspace too; only deny and ask look at its operands")


@pytest.mark.parametrize("rule", ["command(cat notes.txt)", "command(rm build.log)", "command(git rm)", "command(ls)"])
def test_an_allow_of_such_a_program_with_its_file_is_not(rule: str) -> None:
    assert flaws(allow=[rule]) == []
    assert flaws(deny=["command(rm)"], ask=["command(cat)"]) == []


def test_a_rule_that_is_said_twice_is_a_duplicate_also_where_a_wider_one_covers_it() -> None:
    found = flaws(allow=["command(git log)", "command(*)", "command(git  log)", "command(git status)"])
    assert [(kind, place) for kind, place, _ in found if kind != "wide-open"] == [
        ("shadowed", "allow[0]"), ("duplicate", "allow[2]"), ("shadowed", "allow[3]"),
    ]  # fmt: skip


def test_a_relative_deny_is_said_to_be_about_one_place_only() -> None:
    ((kind, _, text),) = flaws(workspace=None, deny=["read_file(.env)"])
    assert kind == "relative"
    assert text.endswith("it is about `.env` at its top, neither one in a folder below nor longer names")
    ((_, _, text),) = flaws(workspace=None, allow=["read_file(src)"])
    assert text == "the path is relative, so it is another one in each workspace"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("s.json", b'{"permissions": {},}', "the file is not JSON: line 1, column 20: expecting property name"),
        ("s.json", b"permissions:\n  allow: []\n", "the file is not JSON: it looks like YAML"),
        ("s.json", '{"a": 1}'.encode("utf-16"), "the file is not JSON: its text is UTF-16; save it as UTF-8"),
        ("s.json", b'{"a": "\xe4"}', "the file is not JSON: its byte 8 is no UTF-8"),
        ("s.json", b"[" * 100_000, "the file is not JSON: it is nested too deep"),
        ("s.yaml", b"permissions:\n  allow: [a\n", "the file is not YAML: line 3, column 1"),
    ],
)
@pytest.mark.parametrize("command", [("check", "command", "ls", "--settings"), ("lint",), ("test",)])
def test_a_file_that_cannot_be_read_is_named_with_the_place_to_mend(
    command: tuple[str, ...], name: str, content: bytes, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name.endswith(".yaml"):
        pytest.importorskip("yaml")
    (tmp_path / name).write_bytes(content)
    done = call_cli(capsys, "control", *command, str(tmp_path / name))
    shown = done.stdout + done.stderr
    assert done.returncode != 0
    assert reason in shown
    assert str(tmp_path / name) in shown


def test_one_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "s.json"
    file.write_text('{"permissions": {"allow": ["command(cat)"]}}')
    shown = call_cli(capsys, "control", "lint", str(file)).stdout.splitlines()[-1]
    assert shown.startswith("0 errors, 1 warning; 1 rule in ")
    file.write_text('{"permissions": {}, "examples": {"ask": ["command: cat x"]}}')
    assert one_line(call_cli(capsys, "control", "test", str(file)).stdout).endswith("ok: 1 example, 0 failed")
