"""`control check`, `explain`, `decide`, `floor` and `test` as programs and people use them. No target is ever run."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest
from helpers.cli import BOUND, COMMAND, call_cli, environment, events, one_line, run_cli

from antigravity_acp.cli import _control_lines, control
from antigravity_control import ACTIONS, Source

VECTORS = Path(__file__).parents[1] / "vectors"
QUESTION = {"settings": {}, "workspace": "/w", "mode": "interactive", "flags": []}


def load(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def ask(name: str, questions: list[Any]) -> subprocess.CompletedProcess[str]:
    """Every question to one process; texts are lines as they are."""
    lines = [each if isinstance(each, str) else json.dumps(each) for each in questions]
    return run_cli("control", name, stdin="".join(f"{line}\n" for line in lines))


def answers(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def rules_file(folder: Path, **data: Any) -> str:
    path = folder / "rules.json"
    path.write_text(json.dumps(data))
    return str(path)


# -- decide and floor -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("X-006")
def test_decide_takes_every_public_vector_as_it_is_and_says_what_it_expects(tmp_path: Path) -> None:
    vectors = [*load("rules"), *load("bypass"), *placed_paths(tmp_path.resolve())]
    done = ask("decide", vectors)
    assert (done.returncode, done.stderr) == (0, "")
    said = answers(done)
    assert [answer["id"] for answer in said] == [vector["id"] for vector in vectors]
    assert all(set(each) == {"id", "decision", "soft", "reason", "source", "rule"} for each in said)
    wrong = {
        vector["id"]: answer
        for vector, answer in zip(vectors, said, strict=True)
        if (
            (answer["decision"], answer["soft"]) != (vector["expect"], vector.get("soft", False))
            if "expect" in vector
            else answer["decision"] not in ("ask", "deny")
        )
    }
    assert wrong == {}


def placed_paths(root: Path) -> list[dict[str, Any]]:
    """The path vectors that this volume can hold, each on a tree of its own."""
    (root / "probe").touch()
    missing = {"case-sensitive-fs" if (root / "PROBE").exists() else "case-insensitive-fs"}
    missing |= set() if os.path.exists("/proc/self/root") else {"linux-procfs"}
    found = []
    for vector in load("paths"):
        if vector.get("requires") in missing:
            continue
        own = root / vector["id"]
        own.mkdir()
        placed = json.loads(json.dumps(vector).replace("{root}", str(own)))
        for item in placed["setup"]:
            kind = next(each for each in ("dir", "file", "symlink", "hardlink") if each in item)
            path = Path(item[kind])
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "dir":
                path.mkdir(exist_ok=True)
            elif kind == "file":
                path.write_text("content")
            elif kind == "symlink":
                path.symlink_to(item["to"])
            else:
                path.hardlink_to(item["to"])
        found.append(placed)
    assert len(found) > 30
    return found


@pytest.mark.requirement("B-020", "B-021")
def test_floor_takes_every_public_vector_as_it_is_and_says_what_it_expects() -> None:
    vectors = load("floor")
    done = ask("floor", vectors)
    assert (done.returncode, done.stderr) == (0, "")
    said = answers(done)
    wrong = {
        vector["id"]: answer
        for vector, answer in zip(vectors, said, strict=True)
        if (answer["id"], answer["decision"]) != (vector["id"], vector["expect"])
        or bool(answer["entry"]) != (answer["decision"] == "deny")
        or bool(answer["reason"]) != (answer["decision"] == "deny")
    }
    assert wrong == {}


BAD = [
    ("{", None),
    ('{"id": "cut", "call": {"action": "comm', "cut"),
    ('{"id": 7, "settings": NaN}', 7),
    ("[]", None),
    ("null", None),
    ('"text"', None),
    ("[" * 100_000, None),
    ('{"id": "deep", "settings": ' + '{"a":' * 50_000, "deep"),
    ('{"id": "no call"}', "no call"),
    ({"id": {"any": "thing"}, **QUESTION, "call": "ls"}, {"any": "thing"}),
    ({"id": 1, **QUESTION, "call": {"action": "run", "target": "ls"}}, 1),
    ({"id": 1, **QUESTION, "call": {"action": ["command"], "target": "ls"}}, 1),
    ({"id": 1, **QUESTION, "call": {"action": "command", "target": 5}}, 1),
    ({"id": 1, **QUESTION, "workspace": "relative", "call": {"action": "command", "target": "ls"}}, 1),
    ({"id": 1, **QUESTION, "workspace": None, "call": {"action": "command", "target": "ls"}}, 1),
    ({"id": 1, **QUESTION, "mode": "both", "call": {"action": "command", "target": "ls"}}, 1),
    ({"id": 1, **QUESTION, "flags": {"a": 1}, "call": {"action": "command", "target": "ls"}}, 1),
    ({"id": 1, **QUESTION, "settings": [], "call": {"action": "command", "target": "ls"}}, 1),
    ('{"id": "long", "x": "' + "a" * _control_lines.LINE_LIMIT + '"}', "long"),
]
GOOD = {"id": "good", **QUESTION, "call": {"action": "command", "target": "ls"}, "more": ["keys"]}


@pytest.mark.parametrize("name", ["decide", "floor"])
def test_a_bad_line_gets_an_error_with_its_id_and_the_next_one_is_answered(name: str) -> None:
    good = GOOD if name == "decide" else {"id": "good", "command": "ls", "more": 1}
    bad = [(line, wanted) for line, wanted in BAD if name == "decide" or isinstance(line, str)]
    done = ask(name, [each for line, _ in bad for each in (line, "", good)])
    assert (done.returncode, done.stderr) == (1, "")
    said = answers(done)
    assert [(each["id"], set(each)) for each in said[::2]] == [(wanted, {"id", "error"}) for _, wanted in bad]
    assert all(each["id"] == "good" and "error" not in each for each in said[1::2])
    assert len(said) == 2 * len(bad)
    assert ask(name, [good]).returncode == 0


@pytest.mark.parametrize("target", ["\ud800", "a\x00b", "\u202e rm", "'" * 50_000, "", " ", "(" * 20_000])
def test_no_text_of_a_target_ends_the_stream(target: str) -> None:
    lists = {"permissions": {"allow": ["command(*)"], "deny": ["command(rm)"]}}
    questions = [
        {"id": action, **QUESTION, "settings": lists, "call": {"action": action, "target": target}}
        for action in ACTIONS
    ]
    said = answers(ask("decide", questions))
    assert [each["id"] for each in said] == list(ACTIONS)
    assert all(each["decision"] in ("allow", "ask", "deny") for each in said)
    assert len(answers(ask("floor", [{"id": 1, "command": target}, {"id": 2, "command": "ls"}]))) == 2


def test_each_answer_is_there_before_the_next_question_is_asked() -> None:
    process = subprocess.Popen(
        [*COMMAND, "control", "decide"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(3):
            process.stdin.write(json.dumps({**GOOD, "id": number}).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == number
        process.stdin.close()
        assert process.wait(BOUND) == 0


def converse(process: subprocess.Popen[bytes], question: dict[str, Any]) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(question).encode() + b"\n")
    process.stdin.flush()
    return str(json.loads(process.stdout.readline())["decision"])


@pytest.mark.parametrize("rules", [{}, {"allow": ["read_file(/srv)"]}])
def test_a_link_that_is_turned_between_two_questions_counts(tmp_path: Path, rules: dict[str, Any]) -> None:
    link, one, two = (tmp_path / name for name in ("link", "one", "two"))
    one.mkdir()
    two.mkdir()
    link.symlink_to(one)
    call = {"action": "read_file", "target": str(one.resolve() / "x")}
    question = {"id": 1, **QUESTION, "settings": {"permissions": rules}, "workspace": str(link), "call": call}
    with subprocess.Popen(
        [*COMMAND, "control", "decide"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as process:
        assert converse(process, question) == "allow"
        link.unlink()
        link.symlink_to(two)
        assert converse(process, question) == "ask"
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(BOUND) == 0


def test_a_policy_is_compiled_once_and_only_a_few_are_kept() -> None:
    policies = _control_lines.Policies()

    def compiled(number: int, *, mode: Any = "interactive", flags: tuple[str, ...] = (), rule: str = "command") -> Any:
        source = Source("global", {"permissions": {"allow": [f"{rule}(tool{number})"]}})
        return policies.compile([source], workspace=["/w"], mode=mode, flags=flags, home=None)

    first = compiled(1)
    assert compiled(1) is first
    others = [compiled(1, mode="headless"), compiled(1, flags=("dangerously-skip-permissions",)), compiled(2)]
    assert len({id(each) for each in (first, *others)}) == 4
    assert compiled(1, rule="read_file") is not compiled(1, rule="read_file")
    for number in range(100):
        compiled(number + 10)
    assert compiled(109) is compiled(109)
    assert compiled(1) is not first


def write_on(stream: IO[bytes], line: bytes) -> None:
    """More than any pipe holds."""
    for _ in range(100_000):
        stream.write(line)
        stream.flush()


def test_whoever_reads_may_leave_early() -> None:
    process = subprocess.Popen(
        [*COMMAND, "control", "decide"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        line = json.dumps(GOOD).encode() + b"\n"
        process.stdin.write(line)
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        with pytest.raises(BrokenPipeError):
            write_on(process.stdin, line)
        with pytest.raises(BrokenPipeError):
            process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(BOUND) == 1


_MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdin=sys.stdin, stdout=subprocess.PIPE, check=True)
print(done.stdout.count(b"\\n"), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.mark.timeout(240)
def test_ten_thousand_lines_take_no_more_memory_than_ten(tmp_path: Path) -> None:
    used = []
    for count in (10, 10_000):
        path = tmp_path / str(count)
        with path.open("w") as file:
            for number in range(count):
                settings = {"permissions": {"allow": [f"mcp(server/tool{number})"]}}
                call = {"action": "mcp", "target": f"server/tool{number}"}
                file.write(json.dumps({"id": number, "settings": settings, "workspace": "/w", "call": call}) + "\n")
        with path.open() as file:
            done = subprocess.run(
                [sys.executable, "-c", _MEASURED, *COMMAND, "control", "decide"],
                stdin=file,
                capture_output=True,
                text=True,
                env=environment(),
                timeout=220,
                check=True,
            )
        lines, size = map(int, done.stdout.split())
        assert lines == count
        # Linux counts KiB, macOS bytes.
        used.append(size / (1024 if sys.platform != "darwin" else 1024 * 1024))
    assert used[1] < used[0] + 16


# -- check and explain ----------------------------------------------------------------------------------------------

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
