"""The demo on Google's real harness, and its proof: it may not say `ok` when something did not happen."""

import re
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers.cli import environment, events, one_line, run_cli

from antigravity_acp.cli._proof import Counts, Evidence, prove
from antigravity_acp.cli.failures import CliError
from antigravity_acp.host.events import ToolDecided, ToolEnded

ROOT = Path(__file__).parents[2]
LAST_LINE = re.compile(
    r"ok: first text after \d+\.\d s, \d+\.\d s in all; (\d+) processes started, 0 left; 2 tool calls run, 1 refused"
)


def masked(transcript: str) -> str:
    """A transcript without what differs from run to run."""
    for pattern in (r"Codename: [0-9a-f]{8}", r"\d+\.\d+ s", r"in /\S+/workspace"):
        transcript = re.sub(pattern, "…", transcript)
    return transcript


def test_the_demo_shows_the_turn_as_it_happens_and_ends_with_one_line_of_counts() -> None:
    done = run_cli("demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    found = LAST_LINE.fullmatch(lines[-1])
    assert found
    assert int(found[1]) >= 2
    order = [
        "→ read_file",
        "← Release notes",
        "→ list_dir",
        "→ run_command",
        "  refused: ",
        "Codename: ",
        "I could not",
        "The ledger",
        "  not_run",
    ]
    places = [next(number for number, line in enumerate(lines) if line.startswith(head)) for head in order]
    assert places == sorted(places)
    in_readme = (ROOT / "README.md").read_text(encoding="utf-8").partition("```text\n")[2].partition("```")[0]
    assert masked(in_readme) == masked(done.stdout), "README.md shows another transcript; paste this one"


@pytest.mark.requirement("X-001", "A-012", "A-013")
def test_the_demo_as_json_runs_two_calls_of_one_message_and_tells_the_model_of_the_refusal() -> None:
    done = run_cli("demo", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    seen = events(done.stdout)
    decisions = [(event["name"], event["decision"]) for event in seen if event["event"] == "tool-decision"]
    assert decisions == [("read_file", "allow"), ("list_dir", "allow"), ("run_command", "deny")]
    assert seen[0]["model"] == "antigravity-acp/server-default"
    rows = [event["row"] for event in seen if "row" in event]
    assert [row.get("decision") or row["outcome"] for row in rows] == ["allow", "ok", "allow", "ok", "deny", "not_run"]
    assert (rows[4]["rule"], rows[4]["engine"], rows[4]["host"]) == ("command(rm)", "embedded", "demo")
    end = seen[-1]
    assert (end["event"], end["ok"], end["processesLeft"]) == ("end", True, 0)
    assert (end["toolCallsRun"], end["toolCallsRefused"]) == (2, 1)
    assert 0 < end["firstTextSeconds"] < end["totalSeconds"]
    assert not Path(seen[0]["workspace"]).exists()


def test_what_whoever_runs_the_demo_has_allowed_and_recorded_has_no_part_in_it(tmp_path: Path) -> None:
    rules = tmp_path / "config" / "antigravity-acp" / "permissions.json"
    rules.parent.mkdir(parents=True)
    rules.write_text('{"permissions": {"deny": ["read_file(*)"]}}')
    state = tmp_path / "state"
    done = run_cli("demo", env=environment(XDG_CONFIG_HOME=str(tmp_path / "config"), XDG_STATE_HOME=str(state)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not state.exists()


def test_without_the_engine_the_demo_is_one_line_that_says_how_to_get_it(tmp_path: Path) -> None:
    # Python reads this at its start: the SDK is then not installed, as far as anybody can tell.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.startswith('google.antigravity'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
    )
    done = run_cli("demo", env=environment(PYTHONPATH=str(tmp_path)))
    assert done.returncode == 2
    assert "pip install 'dsh-antigravity-acp[engine]'" in one_line(done.stderr)
    assert done.stdout == ""


def test_the_script_of_the_demo_is_part_of_the_package() -> None:
    from antigravity_acp import cli

    assert (Path(cli.__file__).parent / "demo.yaml").is_file()
    assert Path(sysconfig.get_path("scripts"), "antigravity-acp").exists()


# ---- the proof ------------------------------------------------------------------------------------------------------

NOTES = "Codename: 1234abcd\n"
REFUSAL = "The host denied this call. The rule `command(rm)` denies this command."
STAMPS = "Created At: 2026-11-30T00:00:00Z\nCompleted At: 2026-11-30T00:00:00Z\n"


def call(name: str) -> dict[str, Any]:
    return {"functionCall": {"name": f"mcp_dsh00000000_{name}_0011aabb", "args": {}}}


def response(name: str, text: str) -> dict[str, Any]:
    return {"functionResponse": {"name": f"mcp_dsh00000000_{name}_0011aabb", "response": {"output": STAMPS + text}}}


def conversation(*messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"contents": [{"role": "model", "parts": parts} for parts in messages]}]


TOGETHER = [call("read_file"), call("list_dir")]
BOTH_RESULTS = [response("read_file", NOTES), response("list_dir", "figures/\nnotes.txt  19")]
REFUSED = [response("run_command", REFUSAL)]
ROWS = [
    row
    for call, said, how in (("1", "allow", "ok"), ("2", "allow", "ok"), ("3", "deny", "not_run"))
    for row in (
        {"call": call, "kind": "decision", "decision": said},
        {"call": call, "kind": "outcome", "outcome": how},
    )
]


def evidence(tmp_path: Path) -> Evidence:
    notes = tmp_path / "notes.txt"
    notes.write_text(NOTES)
    return Evidence(
        answer=f"{NOTES} figures notes.txt {REFUSAL}",
        events=[
            ToolDecided("1", "read_file", "allow", "", "default"),
            ToolEnded("1", "read_file", NOTES, False, 0.1),
            ToolDecided("2", "list_dir", "allow", "", "default"),
            ToolEnded("2", "list_dir", "", False, 0.1),
            ToolDecided("3", "run_command", "deny", "", "rule"),
            ToolEnded("3", "run_command", REFUSAL, True, 0.1),
        ],
        requests=conversation(TOGETHER, BOTH_RESULTS, [call("run_command")], REFUSED),
        notes=NOTES,
        names=["figures", "notes.txt"],
        notes_path=notes,
        rows=ROWS,
        unchanged=True,
        processes_left=0,
    )


def test_evidence_of_a_real_run_is_accepted(tmp_path: Path) -> None:
    assert prove(evidence(tmp_path)) == Counts(2, 1)


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        (
            "one model message",
            {
                "requests": conversation(
                    [call("read_file")],
                    [BOTH_RESULTS[0]],
                    [call("list_dir")],
                    [BOTH_RESULTS[1]],
                    [call("run_command")],
                    REFUSED,
                )
            },
        ),
        ("one model message", {"requests": []}),
        (
            "content of the file",
            {
                "requests": conversation(
                    TOGETHER, [response("read_file", "made up"), BOTH_RESULTS[1]], [call("run_command")], REFUSED
                )
            },
        ),
        (
            "list of the directory",
            {
                "requests": conversation(
                    TOGETHER, [BOTH_RESULTS[0], response("list_dir", "figures/")], [call("run_command")], REFUSED
                )
            },
        ),
        (
            "received the refusal",
            {
                "requests": conversation(
                    TOGETHER, BOTH_RESULTS, [call("run_command")], [response("run_command", "[exit code 0]")]
                )
            },
        ),
        ("quotes the file", {"answer": f"Codename: 00000000 figures notes.txt {REFUSAL}"}),
        ("quotes the directory", {"answer": f"{NOTES} notes.txt {REFUSAL}"}),
        ("quotes the refusal", {"answer": f"{NOTES} figures notes.txt deleted"}),
        ("did nothing", {"notes_path": Path("/nonexistent/notes.txt")}),
        ("each decision and how its call ended", {"rows": []}),
        ("each decision and how its call ended", {"rows": ROWS[:-1]}),
        ("each decision and how its call ended", {"rows": [*ROWS, ROWS[0]]}),
        ("each decision and how its call ended", {"rows": [*ROWS[:-1], {**ROWS[-1], "outcome": "ok"}]}),
        ("the ledger verifies", {"unchanged": False}),
        ("no process is left", {"processes_left": 1}),
        ("one was refused", {"events": []}),
    ],
)
def test_a_demo_that_did_not_happen_is_not_ok(claim: str, changes: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(CliError, match=claim) as caught:
        prove(msgspec.structs.replace(evidence(tmp_path), **changes))
    assert caught.value.code == "DEMO_FAILED"
    assert caught.value.status == 1


def test_a_process_whose_parent_is_gone_is_still_counted(request: pytest.FixtureRequest) -> None:
    import subprocess
    import sys

    import psutil

    from antigravity_acp.cli._processes import Census

    census = Census()
    # The child starts a session of its own with a grandchild, tells its id and waits to be ended.
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        assert parent.stdin
        orphan = psutil.Process(int(parent.stdout.readline()))
        kill: Callable[[], None] = orphan.kill
        request.addfinalizer(lambda: kill() if orphan.is_running() else None)
        census.look()
        parent.stdin.close()
        parent.wait(10)
    assert census.started == 2
    assert census.left() == 1
    orphan.kill()
    assert census.left() == 0
