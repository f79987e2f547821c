"""`control decide` and `floor` as programs use them: one answer for each line. No target is ever run."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest
from helpers.cli import BOUND, COMMAND, environment, run_cli

from antigravity_acp.cli import _control_lines
from antigravity_control import ACTIONS, Policy, Source
from antigravity_control.jsonl import decide_vector

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


@pytest.mark.requirement("X-006")
def test_decide_takes_every_public_vector_as_it_is_and_says_what_it_expects(tmp_path: Path) -> None:
    vectors = [*load("rules"), *load("bypass"), *placed_paths(tmp_path.resolve())]
    done = ask("decide", vectors)
    assert (done.returncode, done.stderr) == (0, "")
    said = answers(done)
    assert [answer["id"] for answer in said] == [vector["id"] for vector in vectors]
    assert all(set(each) - {"faults"} == {"id", "decision", "soft", "reason", "source", "rule"} for each in said)
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
    assert compiled(1, rule="read_file") is compiled(1, rule="read_file")
    for number in range(100):
        compiled(number + 10)
    assert compiled(109) is compiled(109)
    assert compiled(1) is not first


def test_large_sets_of_file_rules_are_compiled_once_and_anew_when_a_link_is_turned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Policy] = []
    compile_policy = Policy.compile

    def counted(*arguments: Any, **options: Any) -> Policy:
        made.append(compile_policy(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(Policy, "compile", counted)
    policies, link = _control_lines.Policies(), tmp_path / "link"
    link.symlink_to("one")
    rules = [f"read_file({tmp_path}/{'link' if number % 100 == 0 else number}/{number})" for number in range(3_000)]
    long = {"permissions": {"deny": rules}, "note": "x" * _control_lines._KEPT_TEXT}
    for settings in ({"permissions": {"deny": rules}}, long):
        made.clear()
        question = {"id": 1, **QUESTION, "settings": settings, "call": {"action": "read_file", "target": "a"}}
        target = {"action": "read_file", "target": str(tmp_path / "two" / "0")}
        for _ in range(20):
            assert decide_vector(question, compiled=policies.compile)["decision"] == "allow"
        assert len(made) == 1
        assert decide_vector({**question, "call": target}, compiled=policies.compile)["decision"] == "ask"
        link.unlink()
        link.symlink_to("two")
        for _ in range(20):
            assert decide_vector({**question, "call": target}, compiled=policies.compile)["decision"] == "deny"
        assert len(made) == 2
        link.unlink()
        link.symlink_to("one")


def test_a_list_that_stands_twice_in_a_line_loses_no_deny() -> None:
    line = json.dumps({**GOOD, "call": {"action": "command", "target": "rm x"}}).replace(
        '"settings": {}', '"settings": {"permissions": {"deny": ["command(rm)"], "deny": []}}'
    )
    assert [each["decision"] for each in answers(ask("decide", [line]))] == ["deny"]


def test_lines_as_other_programs_write_them() -> None:
    good = json.dumps(GOOD).encode()
    lines = b"\xef\xbb\xbf" + good + b"\r\n\r\n \t\n" + good + b"\n" + b'{"id": "raw", "x": "\xff"}\n' + good
    done = subprocess.run(
        [*COMMAND, "control", "decide"], input=lines, capture_output=True, timeout=BOUND, env=environment(), check=False
    )
    assert [json.loads(each)["id"] for each in done.stdout.splitlines()] == ["good", "good", "raw", "good"]
    assert (done.returncode, done.stderr) == (1, b"")


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
