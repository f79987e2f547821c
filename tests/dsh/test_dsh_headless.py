"""`dsh headless`: the plugin's model is the default, works with the host's own tools, and yields to a saved choice."""

import os

import pytest
from helpers.dsh import HOST, Dsh

pytestmark = pytest.mark.dsh

ROUNDS = [
    {
        "when": {"user": "two rounds", "round": 0},
        "text": "One moment.",
        "calls": [{"name": "bash", "arguments": {"command": "echo sum-$((40+2))", "description": "add"}}],
    },
    {
        "when": {"user": "two rounds", "round": 1},
        "calls": [{"name": "read", "arguments": {"file_path": "{{workspace}}/notes.txt"}}],
    },
    {"when": {"user": "two rounds"}, "text": "bash: {{result.1}} read: {{result.2}}"},
    {"text": "heard: {{user}}"},
]


def rounds(dsh: Dsh) -> list[dict[str, object]]:
    """The rules, with this workspace's path."""
    (dsh.workspace / "notes.txt").write_text("codename 31667014\n", encoding="utf-8")
    second = {
        "when": ROUNDS[1]["when"],
        "calls": [{"name": "read", "arguments": {"file_path": str(dsh.workspace / "notes.txt")}}],
    }
    # The host may ask for a title beside the turn: a call without tools, with the same words in it.
    title = {"when": {"user": {"regex": "(?i)session title|title for"}}, "text": "A fine title"}
    return [title, ROUNDS[0], second, *ROUNDS[2:]]


@pytest.mark.requirement("A-001", "A-002")
def test_without_a_model_named_it_answers_from_the_hosts_own_tools(dsh: Dsh) -> None:
    dsh.ready("headless", rounds(dsh))
    done = dsh.run("headless", "do two rounds")
    assert done.returncode == 0, done.stderr
    assert "bash: sum-42" in done.stdout
    assert "codename 31667014" in done.stdout
    assert "did not activate" not in done.stderr
    # Once each: the model asked for a tool, the host ran it, the same prompt went on.
    assert [line["status"] for line in dsh.asked() if line["tools"]] == [200, 200, 200]


@pytest.mark.requirement("A-003")
def test_a_saved_choice_of_another_provider_wins(dsh: Dsh) -> None:
    other = {"id": "agent-default-model", "config": {"provider": "somebody-else", "model": "theirs"}}
    dsh.ready("headless", rounds(dsh), other)
    done = dsh.run("headless", "do two rounds")
    assert 'no adapter registered for provider "somebody-else"' in f"{done.stdout}{done.stderr}"
    assert dsh.asked() == []


def test_the_hosts_sandbox_is_around_the_tools_not_around_the_agent(dsh: Dsh) -> None:
    outside = dsh.user / "outside.txt"
    write = {
        "name": "bash",
        "arguments": {"command": f"echo inside > in.txt; echo no > {outside}", "description": "write"},
    }
    dsh.ready("headless", [{"when": {"round": 0}, "calls": [write]}, {"text": "it said {{result.1}}"}])
    dsh.variables |= {"DSH_PERMISSION_MODE": "workspace-write"}
    # Inside, /tmp is another one: a PATH that leads there finds no shell.
    places = [str(HOST / "sandbox" / "usr" / "bin"), dsh.environment["PATH"], "/usr/bin", "/bin"]
    dsh.variables["PATH"] = os.pathsep.join(places)
    done = dsh.run("headless", "write")
    assert done.returncode == 0, done.stderr
    assert (dsh.workspace / "in.txt").read_text(encoding="utf-8") == "inside\n", done.stdout
    assert not outside.exists()


def test_a_bad_setting_leaves_the_host_running_and_names_the_field(dsh: Dsh) -> None:
    dsh.ready("headless", rounds(dsh), timeoutMs="soon")
    done = dsh.run("headless", "do two rounds")
    assert "timeoutMs" in done.stderr
    assert "expected number" in done.stderr
    assert 'no adapter registered for provider "antigravity-acp"' in f"{done.stdout}{done.stderr}"


@pytest.mark.parametrize("setting", [{"timeoutSeconds": 3}, {"permissions": {"deny": ["a b,c"]}}])
def test_a_setting_that_only_python_can_judge_is_said_in_the_chat(dsh: Dsh, setting: dict[str, object]) -> None:
    dsh.ready("headless", rounds(dsh), **setting)
    done = dsh.run("headless", "do two rounds")
    assert next(iter(setting)) in f"{done.stdout}{done.stderr}"
    assert "INVALID_SETTINGS" in f"{done.stdout}{done.stderr}"
