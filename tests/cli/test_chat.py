"""`chat`: what goes where, who may run tools, and what a person reads when something is missing."""

import json
import subprocess
from pathlib import Path
from typing import Any, Protocol

import pytest
from helpers.cli import call_cli, events, loopback_flags, one_line, run_cli
from helpers.loopback import directive

from antigravity_control.ledger import read

SECRET = "sk-secret-of-the-remote-party"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    place.mkdir()
    (place / "notes.txt").write_text("seven apples\n")
    return place


class Chat(Protocol):
    def __call__(self, *arguments: str, steps: tuple[dict[str, Any], ...]) -> subprocess.CompletedProcess[str]:
        """One turn with the loopback agent, which plays the steps."""


@pytest.fixture
def chat(workspace: Path, capsys: pytest.CaptureFixture[str]) -> Chat:
    def one_turn(*arguments: str, steps: tuple[dict[str, Any], ...]) -> subprocess.CompletedProcess[str]:
        flags = [*loopback_flags(), "--workspace", str(workspace)]
        return call_cli(capsys, "chat", f"please {directive(*steps)}", *flags, *arguments)

    return one_turn


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"call": {"name": name, "arguments": arguments}}


def test_the_answer_alone_goes_to_stdout(chat: Chat) -> None:
    steps = (
        {"think": "hm"},
        {"say": ["It ", "is "]},
        call("read_file", path="notes.txt") | {"quiet": True},
        {"say": "7."},
    )
    done = chat("--yes", "read_file", steps=steps)
    assert (done.returncode, done.stdout) == (0, "It is \n7.\n")
    assert "→ read_file" in done.stderr
    assert "← seven apples" in done.stderr
    assert "hm" in done.stderr


@pytest.mark.requirement("A-003")
def test_a_fresh_chat_uses_the_server_default_and_tells_each_event_as_one_json_object(
    workspace: Path, chat: Chat
) -> None:
    done = chat("--yes", "read_file", "--json", steps=(call("read_file", path="notes.txt"),))
    assert done.returncode == 0
    assert done.stderr == ""
    seen = events(done.stdout)
    assert seen[0] == {
        "event": "start",
        "model": "antigravity-acp/server-default",
        "workspace": str(workspace),
        "headless": True,
    }
    kinds = [event["event"] for event in seen]
    assert kinds[1:] == [
        *("step-end", "tool-start", "tool-decision", "tool-result"),
        *("text", "step-end", "turn-end", "end"),
    ]
    assert seen[kinds.index("tool-result")]["text"] == "seven apples\n"
    assert "seven apples" in seen[kinds.index("text")]["text"]


@pytest.mark.requirement("A-003")
def test_a_chosen_model_wins_over_the_default_with_or_without_its_route(chat: Chat) -> None:
    for chosen in ("loop-2", "antigravity-acp/loop-2"):
        done = chat("--json", "--model", chosen, steps=({"say": "ok"},))
        assert events(done.stdout)[0]["model"] == "antigravity-acp/loop-2"


def test_what_nobody_can_approve_is_refused_and_stderr_names_the_rule_that_would_allow_it(
    workspace: Path, chat: Chat
) -> None:
    done = chat("--yes", "read_file", "--json", steps=(call("write_file", path="new.txt", content="x"),))
    assert done.returncode == 0
    assert not (workspace / "new.txt").exists()
    line = one_line(done.stderr)
    assert "`write_file`" in line
    assert "--yes 'read_file,write_file'" in line
    assert "--yes" not in chat("--yes", "?write_file", steps=(call("write_file", path="new.txt", content="x"),)).stderr
    # The rule that was named really allows it.
    again = chat("--yes", "read_file,write_file", steps=(call("write_file", path="new.txt", content="x"),))
    assert again.returncode == 0
    assert (workspace / "new.txt").read_text() == "x"


@pytest.mark.requirement("B-008")
@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("touch ran", "command(touch)"),
        ("git status --short", "command(git status)"),
        ("python3 -c 'print(1)'", "command(python3 -c 'print(1)')"),
    ],
)
def test_a_softly_denied_command_is_named_on_one_line_of_stderr_with_the_rule_that_allows_it(
    workspace: Path, chat: Chat, tmp_path: Path, command: str, rule: str
) -> None:
    steps = (call("run_command", command=command), {"say": "so be it"})
    done = chat("--json", steps=steps)
    assert done.returncode == 0
    line = one_line(done.stderr)
    assert "`run_command` needs an approval" in line
    # It names the file to write it into, and no key that would open every command.
    assert line.endswith("/antigravity-acp/permissions.json.")
    assert f" Rule: {rule}. In: /" in line
    assert "--yes" not in line
    assert any(event["event"] == "end" and event["ok"] for event in events(done.stdout))
    assert not (workspace / "ran").exists()
    # The rule that was named really allows it.
    path = settings_file(tmp_path, {"permissions": {"allow": [rule]}})
    again = chat("--settings", path, "--json", steps=steps)
    decided = next(event for event in events(again.stdout) if event["event"] == "tool-decision")
    assert (decided["decision"], decided["rule"]) == ("allow", rule)


def test_what_a_softly_denied_command_says_cannot_draw_on_the_terminal(chat: Chat) -> None:
    done = chat("--json", steps=(call("run_command", command="python3 -c '\x1b[2J\n\x9b1A\u202e'"),))
    assert done.returncode == 0
    assert not set("\x1b\x9b\u202e") & set(done.stderr)
    one_line(done.stderr)


def test_a_script_that_calls_a_tool_that_is_not_there_is_said_to_with_the_way_to_see_why(
    workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps({"models": ["m"], "rules": [{"calls": [{"name": "no_such_tool", "arguments": {}}]}]}))
    done = call_cli(capsys, "chat", "go", "--json", "--script", str(script), "--workspace", str(workspace))
    assert done.returncode == 1
    line = one_line(done.stderr)
    assert "ACP_RPC_ERROR: " in line
    assert "calls a tool that is not there; --arg=--script-log --arg=FILE" in line


def test_several_rules_are_named_as_what_is_needed_together_with_the_settings_file_that_was_given(
    workspace: Path, chat: Chat, tmp_path: Path
) -> None:
    path = settings_file(tmp_path, {})
    steps = (call("run_command", command="touch one && mkdir two"),)
    done = chat("--settings", path, "--json", steps=steps)
    assert f" Rules, all of them: command(touch); command(mkdir). In: {path}." in one_line(done.stderr)
    Path(path).write_text(json.dumps({"permissions": {"allow": ["command(touch)", "command(mkdir)"]}}))
    assert chat("--settings", path, "--json", steps=steps).returncode == 0
    assert (workspace / "two").exists()


def test_a_refusal_is_told_once_and_a_call_as_a_person_reads_it(chat: Chat) -> None:
    command = 'printf "a > b" && date'
    done = chat(steps=(call("run_command", command=command, timeout_s=5),))
    lines = done.stderr.splitlines()
    start = lines.index(f"→ run_command command: {command}; timeout_s: 5")
    refused = "  refused: `run_command` needs an approval and nobody can be asked here; "
    assert lines[start + 1].startswith(refused)
    assert "command(printf); command(date)" in lines[start + 1]
    assert done.stderr.count("needs an approval") == 1
    denied = chat("--yes", "!run_command", steps=(call("run_command", command="date"),)).stderr
    assert denied.count("The rule `!run_command` denies this tool.") == 1


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "../outside.txt"}),
        ("read_file", {"path": "~/outside.txt"}),
        ("list_dir", {"path": ".."}),
        ("search", {"pattern": "x", "path": "/"}),
        ("write_file", {"path": "/outside.txt", "content": "x"}),
    ],
)
def test_what_a_file_tool_cannot_reach_is_refused_with_no_rule_that_would_not_help(
    workspace: Path, chat: Chat, name: str, arguments: dict[str, Any]
) -> None:
    done = chat("--json", steps=(call(name, **arguments),))
    assert (done.returncode, done.stderr) == (0, "")
    decided = next(event for event in events(done.stdout) if event["event"] == "tool-decision")
    assert (decided["decision"], decided.get("soft", False), decided.get("remedies")) == ("deny", False, None)
    assert decided["reason"].startswith("The path leads outside the workspace.")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("run_comand", "--yes: there is no tool `run_comand`; did you mean `run_command`? The tools are read_file, "),
        ("read_file,!write_fil", "there is no tool `write_fil`; did you mean `write_file`?"),
        ("bash", "there is no tool `bash`. The tools are"),
        ("command(echo)", "stand under `permissions` of a settings file"),
    ],
)
def test_a_rule_of_yes_that_names_no_tool_is_refused(chat: Chat, written: str, expected: str) -> None:
    done = chat("--yes", written, steps=({"say": "never"},))
    assert (done.returncode, done.stdout) == (2, "")
    assert expected in one_line(done.stderr)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"dangerouslySkipPermissions": True}, "The escape hatch is open"),
        ({"toolPermission": "proceed-in-sandbox"}, "`enableTerminalSandbox` is off: commands are asked about"),
        ({"permissions": {"allow": ["echo"]}}, "`permissions.allow[0]` names no tool of this host"),
        ({"permissions": {"deny": ["read_file", "run"]}}, "`permissions.deny[1]` names no tool of this host"),
        ({"toolPermission": "proceed-in-sandbox", "enableTerminalSandbox": True}, ""),
        ({"permissions": {"allow": ["read_file", "*", "command(echo)"]}}, ""),
    ],
)
def test_settings_that_do_more_or_less_than_they_seem_to_are_told_before_the_turn(
    chat: Chat, tmp_path: Path, values: dict[str, Any], expected: str
) -> None:
    done = chat("--settings", settings_file(tmp_path, values), "--json", steps=({"say": "ok"},))
    seen = events(done.stdout)
    told = [event["message"] for event in seen[: [each["event"] for each in seen].index("start")]]
    assert len(told) == bool(expected)
    assert expected in "".join(told)


@pytest.mark.requirement("B-022", "B-037")
def test_the_floor_holds_with_the_escape_hatch_open(workspace: Path, chat: Chat, tmp_path: Path) -> None:
    path = settings_file(tmp_path, {"dangerouslySkipPermissions": True})
    steps = (call("run_command", command="touch ran"), call("run_command", command="rm -rf /"))
    done = chat("--settings", path, "--json", "--yes", "*", steps=steps)
    assert done.returncode == 0
    seen = [event for event in events(done.stdout) if event["event"] == "tool-decision"]
    assert [(event["decision"], event["source"]) for event in seen] == [("allow", "rule"), ("deny", "floor")]
    assert (workspace / "ran").exists()


def test_a_chat_has_its_decisions_on_record_although_control_is_off(
    chat: Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert chat("--yes", "read_file", steps=(call("read_file", path="notes.txt"),)).returncode == 0
    rows = [entry.body for entry in read(tmp_path / "state" / "antigravity-acp" / "ledger")]
    assert [row.get("decision", row.get("outcome")) for row in rows] == ["allow", "ok"]
    assert (rows[0]["host"], rows[0]["tier"]) == ("chat", "background")


@pytest.mark.requirement("B-008", "B-037", "X-007", "X-008")
def test_on_the_embedded_engine_one_turn_has_every_kind_of_answer_and_its_row(
    workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    token = "ghp_" + "Zq7" * 12
    (workspace / "notes.txt").write_text(f"token {token}\n")
    calls = [
        {"name": "read_file", "arguments": {"path": "notes.txt"}},
        *({"name": "run_command", "arguments": {"command": line}} for line in ("echo x", "touch ran", "rm -rf /")),
    ]
    script = tmp_path / "script.yaml"
    script.write_text(json.dumps({"models": ["m"], "rules": [{"when": {"round": 0}, "calls": calls}, {"text": "end"}]}))
    values = {"permissions": {"allow": ["command(echo)"]}, "outputPolicy": "redact"}
    flags = ["--script", str(script), "--settings", settings_file(tmp_path, values), "--workspace", str(workspace)]
    done = call_cli(capsys, "chat", "go", "--json", *flags)
    assert done.returncode == 0
    assert "Rule: command(touch)." in one_line(done.stderr)
    assert token not in done.stdout
    rows = [entry.body for entry in read(tmp_path / "state" / "antigravity-acp" / "ledger")]
    found = {(row["decision"], row["source"], row.get("rule")) for row in rows if "decision" in row}
    assert found == {
        ("allow", "default", None), ("allow", "rule", "command(echo)"), ("deny", "headless", None),
        ("deny", "floor", None),
    }  # fmt: skip
    ends = sorted((row["outcome"], row.get("output")) for row in rows if "outcome" in row)
    # What never ran has no output to say anything of.
    assert ends == [("not_run", None), ("not_run", None), ("ok", "passed"), ("ok", "redacted")]
    assert {row["engine"] for row in rows} == {"embedded"}


@pytest.mark.requirement("B-020")
def test_a_command_runs_in_the_sandbox_or_not_at_all(workspace: Path, chat: Chat, tmp_path: Path) -> None:
    path = settings_file(tmp_path, {"enableTerminalSandbox": True})
    (tmp_path / "outside").mkdir()
    command = f"touch inside; touch {tmp_path}/outside/escaped"
    done = chat("--settings", path, "--yes", "run_command", "--json", steps=(call("run_command", command=command),))
    assert done.returncode == 0
    assert not (tmp_path / "outside" / "escaped").exists()
    (result,) = [event["text"] for event in events(done.stdout) if event["event"] == "tool-result"]
    assert (workspace / "inside").exists() or "its sandbox cannot be had" in result


def test_a_rule_that_denies_tells_the_model_why(workspace: Path, chat: Chat) -> None:
    done = chat("--yes", "*,!run_command", steps=(call("run_command", command="touch ran"),))
    assert done.returncode == 0
    assert "The rule `!run_command` denies this tool" in done.stdout
    assert not (workspace / "ran").exists()


def converse(workspace: Path, lines: str) -> subprocess.CompletedProcess[str]:
    return run_cli("chat", *loopback_flags(), "--workspace", str(workspace), stdin=lines)


def test_lines_of_a_pipe_are_turns_of_one_conversation_until_exit(workspace: Path) -> None:
    lines = [directive({"say": "first"}), "", directive({"tell": "prompt"}), "/exit", directive({"say": "never"})]
    done = converse(workspace, "\n".join(lines) + "\n")
    assert done.returncode == 0
    assert done.stdout.startswith("first\n")
    assert "assistant\\nfirst" in done.stdout  # the second prompt holds the first answer
    assert "never\n" not in done.stdout


def test_a_conversation_goes_on_after_a_turn_that_failed_and_ends_with_the_last_ones_code(workspace: Path) -> None:
    broken = directive({"error": {"code": -32603, "message": SECRET, "data": {"details": SECRET}}})
    good = directive({"say": "still here"})
    done = converse(workspace, f"{broken}\n{good}\n{broken}\n")
    assert (done.returncode, done.stdout) == (1, "still here\n")
    assert done.stderr.count("ACP_RPC_ERROR: ") == 2


@pytest.mark.requirement("A-063")
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_failed_turn_is_code_and_message_without_a_word_of_the_remote_party(as_json: list[str], chat: Chat) -> None:
    steps = ({"stderr": 1, "text": SECRET}, {"error": {"code": -32603, "message": SECRET, "data": SECRET}})
    done = chat(*as_json, steps=steps)
    assert done.returncode == 1
    assert "antigravity-acp: ACP_RPC_ERROR: " in done.stderr
    assert "Traceback" not in done.stderr
    # The prompt holds the directive, and nothing shows the prompt either.
    assert SECRET not in done.stdout + done.stderr
    if as_json:
        assert events(done.stdout)[-1]["code"] == "ACP_RPC_ERROR"


def test_a_model_cannot_draw_on_the_terminal(workspace: Path, chat: Chat) -> None:
    (workspace / "evil.txt").write_text("\x1b]0;title\x07\x1b[2Jfile\u202e")
    steps = (call("read_file", path="evil.txt"), {"say": "\x1b[31mred\x9b2J \u202egnirts\ttab\r\n"})
    done = chat("--yes", "read_file", steps=steps)
    assert done.returncode == 0
    assert not set("\x1b\x07\x9b\u202e") & set(done.stdout + done.stderr)
    assert done.stdout.endswith("\ttab\n")


def test_the_step_bound_ends_the_turn_with_its_own_code(chat: Chat) -> None:
    steps = tuple(call("read_file", path="notes.txt") for _ in range(4))
    done = chat("--yes", "read_file", "--max-steps", "2", steps=steps)
    assert done.returncode == 1
    assert "ACP_TURN_LIMIT: " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["x", "--yes", "two words"], "USAGE: --yes: rule 1 is not valid"),
        (["x", "--workspace", "/nonexistent/place"], "USAGE: --workspace: "),
        (["   "], "USAGE: The prompt is empty."),
        (["x", "--script", "/nonexistent/script.yaml"], "USAGE: --script: there is no file"),
        (["x", "--script", __file__, "--engine", "official"], "USAGE: --script runs on the embedded engine"),
        (["x", "--settings", "/nonexistent/settings.json"], "cannot be read: no such file or directory"),
        (["x", "--command", "/nonexistent/agent"], "ACP_BINARY_MISSING: "),
        (
            ["x", "--engine", "official"],
            "ACP_INSTALL_FAILED: Installing the official server failed at the stage `download`",
        ),
    ],
)
def test_what_is_missing_is_one_line_and_exit_code_2(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = call_cli(capsys, "chat", *arguments, "--json")
    assert done.returncode == 2
    line = one_line(done.stderr)
    assert line.startswith("antigravity-acp: ")
    assert expected in line
    last = events(done.stdout)[-1]
    assert last["event"] in ("error", "turn-end")


def test_a_model_that_the_agent_does_not_offer_is_exit_code_2(chat: Chat) -> None:
    done = chat("--model", "nonsense", steps=({"say": "never"},))
    assert done.returncode == 2
    assert "ACP_INVALID_MODEL: " in done.stderr
    assert done.stdout == ""


def test_without_a_model_the_embedded_engine_says_which_key_or_flag_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    done = call_cli(capsys, "chat", "hello", "--engine", "embedded")
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert all(way in last for way in ("ACP_AUTH_REQUIRED: ", "GEMINI_API_KEY", "--openai-base-url", "--script FILE"))


# ---- settings -------------------------------------------------------------------------------------------------------


def settings_file(tmp_path: Path, values: Any) -> str:
    path = tmp_path / "settings.json"
    path.write_text(values if isinstance(values, str) else json.dumps(values))
    return str(path)


def loopback_values(**more: Any) -> dict[str, Any]:
    flags = loopback_flags()
    return {"command": flags[1], "args": flags[3::2], **more}


def test_a_settings_file_names_the_agent_and_its_environment(
    tmp_path: Path, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = settings_file(tmp_path, loopback_values(env={"MARK_OF_THE_TEST": "there"}))
    prompt = directive({"tell": "env", "names": ["MARK_OF_THE_TEST"]})
    done = call_cli(capsys, "chat", prompt, "--settings", path, "--workspace", str(workspace))
    assert done.returncode == 0
    assert "there" in done.stdout


def test_a_flag_wins_over_the_file(tmp_path: Path, chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    path = settings_file(tmp_path, {"command": "/nonexistent/agent", "args": ["--nonsense"]})
    done = chat("--settings", path, steps=({"say": "the flag's agent"},))
    assert (done.returncode, done.stdout) == (0, "the flag's agent\n")
    # An engine on the command line is meant, although a `command` in the file would win over one in the file.
    official = call_cli(capsys, "chat", "x", "--settings", path, "--engine", "official")
    assert "the official server" in official.stderr


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"timeoutMs": "soon"}, "Setting `timeoutMs` is not valid: expected a whole number (integer)"),
        ({"env": {"KEY": 7}}, "Setting `env.KEY` is not valid"),
        ({"nonsense": SECRET}, "Unknown setting: `nonsense`. Known settings: engine,"),
        ({"permission": {}}, "Unknown setting: `permission` (did you mean `permissions`?)"),
        ({"permissions": {"denny": [SECRET]}}, "`permissions.denny` (did you mean `permissions.deny`?)"),
        ({"permissions": {"allow": [SECRET, 7]}}, "Setting `permissions.allow[1]` is not valid: expected a rule, as"),
        ({"permissions": {"allow": SECRET}}, "Setting `permissions.allow` is not valid: expected a list of rules"),
        ({"permissions": {"allow": ["read_file()"]}}, "Setting `permissions.allow[0]` is not valid: "),
        ({"permissions": [SECRET]}, "Setting `permissions` is not valid: expected an object"),
        ({"toolPermission": SECRET}, "expected one of `request-review`, `proceed-in-sandbox`"),
        ({SECRET * 9: 1}, "Unknown setting: a key that is no name"),
        ([1], "must hold one JSON object"),
        ("{", "is not JSON: line 1, column 2: expecting property name"),
        ('{"control": true,}', "is not JSON: line 1, column 18"),
        ("permissions:\n  allow: [a]\n", "is not JSON: it looks like YAML"),
        ("\ufeff{", "is not JSON: line 1, column 2"),
    ],
)
def test_a_setting_that_is_not_valid_is_named_and_its_value_is_not_shown(
    tmp_path: Path, values: Any, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = settings_file(tmp_path, values)
    done = call_cli(capsys, "chat", "x", "--settings", path)
    assert done.returncode == 2
    line = one_line(done.stderr)
    assert "INVALID_SETTINGS: " in line
    assert path in line
    assert expected in line
    assert SECRET not in line
    assert "soon" not in line
