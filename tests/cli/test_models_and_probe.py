"""Looking at an agent: what it is, what it offers, and that looking starts no sign-in and no work."""

from pathlib import Path

import pytest
from helpers.cli import call_cli, events, loopback_flags, one_line
from helpers.journals import json_lines


def test_models_lists_the_live_catalogue_with_the_default_first(capsys: pytest.CaptureFixture[str]) -> None:
    done = call_cli(capsys, "models", "--json", *loopback_flags(model_ids=["fast", "slow"]))
    assert done.returncode == 0
    listed = events(done.stdout)
    assert [(model["id"], model["default"]) for model in listed] == [
        ("server-default", True),
        ("fast", False),
        ("slow", False),
    ]
    assert all(model["event"] == "model" and model["name"] for model in listed)
    table = call_cli(capsys, "models", *loopback_flags(model_ids=["fast", "slow"]))
    assert [line.split()[0] for line in table.stdout.splitlines()] == ["model", "server-default", "fast", "slow"]


def test_probe_tells_what_the_agent_is_and_can_do_and_how_long_each_stage_took(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = loopback_flags(name="gemini-cli", version="9.9", images=True, auth=["one", "two"], models="set_model")
    done = call_cli(capsys, "probe", "--json", *flags)
    assert done.returncode == 0
    seen = events(done.stdout)
    assert [event.get("name", event["event"]) for event in seen if event["event"] != "agent"] == [
        *("initialize", "session/new", "session", "exit"),
    ]
    assert all(event["seconds"] >= 0 for event in seen if event["event"] == "stage")
    assert next(event for event in seen if event["event"] == "agent") == {
        "event": "agent",
        "name": "gemini-cli",
        "version": "9.9",
        "protocol": 1,
        "profile": "gemini-cli",
        "mcpHttp": True,
        "images": True,
        "authMethods": ["one", "two"],
    }
    session = next(event for event in seen if event["event"] == "session")
    assert (session["models"], session["currentModel"]) == (["loop-1", "loop-2"], "loop-1")


def test_probe_for_people_says_the_same_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    done = call_cli(capsys, "probe", *loopback_flags(name="\x1b[31mevil", http=False))
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "MCP over HTTP   no: it cannot be lent the host's tools" in done.stdout
    assert "profile         unknown (strict default)" in done.stdout
    assert "models          loop-1, loop-2" in done.stdout


def test_probe_never_signs_in_and_never_prompts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    record = tmp_path / "requests.jsonl"
    # An agent whose profile has a sign-in of its own, which announces it and wants it.
    flags = loopback_flags(name="antigravity-acp", auth=["oauth-personal"], auth_needed=True, record=str(record))
    done = call_cli(capsys, "probe", "--json", *flags)
    assert done.returncode == 0
    assert next(event for event in events(done.stdout) if event["event"] == "session")["signInNeeded"] is True
    methods = [message.get("method") for message in json_lines(record)]
    assert "session/new" in methods
    assert not {"authenticate", "session/prompt"} & set(methods)


@pytest.mark.parametrize("command", ["models", "probe"])
@pytest.mark.parametrize(
    ("agent", "code"),
    [({"protocol": 2}, "ACP_VERSION_MISMATCH"), ({"init_exit": 3}, "ACP_DISCONNECTED")],
)
def test_an_agent_that_cannot_be_used_is_one_line_with_its_code(
    capsys: pytest.CaptureFixture[str], command: str, agent: dict[str, int], code: str
) -> None:
    done = call_cli(capsys, command, *loopback_flags(**agent))
    assert done.returncode == (2 if code == "ACP_VERSION_MISMATCH" else 1)
    assert f"antigravity-acp: {code}: " in one_line(done.stderr)
    assert done.stdout == ""


@pytest.mark.parametrize("command", ["models", "probe"])
def test_a_missing_agent_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str], command: str) -> None:
    done = call_cli(capsys, command, "--command", "/nonexistent/agent", "--json")
    assert done.returncode == 2
    assert "ACP_BINARY_MISSING: " in one_line(done.stderr)
    assert events(done.stdout)[-1]["code"] == "ACP_BINARY_MISSING"


def test_models_of_the_embedded_engine_without_a_key_says_what_to_set(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    done = call_cli(capsys, "models", "--engine", "embedded")
    assert done.returncode == 2
    assert "GEMINI_API_KEY" in one_line(done.stderr)


def test_the_embedded_engine_lists_the_models_of_its_script(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("models: [small, large]\nrules: [{text: hello}]\n")
    done = call_cli(capsys, "models", "--script", str(script), "--json")
    assert [model["id"] for model in events(done.stdout)] == ["server-default", "small", "large"]
