"""Turns through the host's Python SDK: tools in parallel and in rounds, sub-agents, and parts that go away."""

import signal
import stat
from typing import Any

import psutil
import pytest
from helpers.dsh import Dsh, gone, sdk, sidecar_of, wait_for

pytestmark = pytest.mark.dsh


def bash(command: str) -> dict[str, Any]:
    return {"name": "bash", "arguments": {"command": command, "description": "run it"}}


def text_of(result: dict[str, Any]) -> str:
    """The text of a `tool/result` event."""
    return str(result)


SLOW = {"when": {"user": "very slowly"}, "text": [f"piece {number} " for number in range(600)], "pause_ms": 50}
HEARD = {"text": "heard you"}


@pytest.mark.requirement("A-001", "A-002")
def test_two_parallel_calls_and_three_rounds_run_once_each(dsh: Dsh) -> None:
    log = dsh.workspace / "runs.txt"
    rules = [
        {"when": {"round": 0}, "calls": [bash(f"echo a >> {log}; echo out-a"), bash(f"echo b >> {log}; echo out-b")]},
        {"when": {"round": 1}, "calls": [bash(f"echo c >> {log}; echo out-c")]},
        {"when": {"round": 2}, "calls": [bash(f"echo d >> {log}; echo out-d")]},
        {"text": "{{result.1}}{{result.2}}{{result.3}}{{result.4}}"},
    ]
    with sdk(dsh.ready("sdk", rules)) as host:
        turn = host.run("go")
    assert turn["finish"] == "completed", turn
    assert turn["final"].split() == ["out-a", "out-b", "out-c", "out-d"]
    assert sorted(log.read_text(encoding="utf-8").split()) == ["a", "b", "c", "d"]
    assert len(host.results()) == 4


def test_what_the_host_denies_the_model_sees_and_nothing_runs(dsh: Dsh) -> None:
    made = dsh.workspace / "made.txt"
    rules = [
        {"when": {"round": 0}, "calls": [bash(f"touch {made} # FORBIDDEN")]},
        {"text": "the tool said {{result.1}}"},
    ]
    with sdk(dsh.ready("sdk", rules, dsh.desk(deny="FORBIDDEN"))) as host:
        turn = host.run("go")
    assert "the desk says no" in turn["final"]
    assert not made.exists()


def test_a_tool_that_starts_a_sub_agent_of_the_same_provider(dsh: Dsh) -> None:
    log = dsh.workspace / "errands.txt"
    task = {"description": "an errand", "prompt": "errand 31667014"}
    rules = [
        {"when": {"user": "delegate now", "round": 0}, "calls": [{"name": "subagent", "arguments": task}]},
        {"when": {"user": "delegate now"}, "text": "delegated"},
        {"when": {"user": "errand 31667014", "round": 0}, "calls": [bash(f"echo run >> {log}")]},
        {"text": "the errand is done"},
    ]
    with sdk(dsh.ready("sdk", rules)) as host:
        assert host.run("delegate now")["final"] == "delegated"
        # The child goes on by itself after the parent's turn, with the host's tools and this provider.
        wait_for(lambda: log.exists() and len(dsh.asked()) >= 4)
    assert log.read_text(encoding="utf-8") == "run\n"
    assert dsh.asked()[-1]["rule"] in (3, 4)


def test_turns_of_several_sessions_run_beside_each_other(dsh: Dsh) -> None:
    rules = [{"when": {"round": 0}, "calls": [bash("echo done-{{user}}")]}, {"text": "{{result.1}}"}]
    with sdk(dsh.ready("sdk", rules)) as host:
        for number in range(3):
            host.prompt("go", f"p{number}")
        for _ in range(3):
            turn = host.wait(lambda line: "done" in line)
            assert turn["finish"] == "completed", turn


def test_close_in_mid_stream_leaves_no_process(dsh: Dsh) -> None:
    with sdk(dsh.ready("sdk", [SLOW, HEARD], dsh.desk())) as host:
        host.prompt("very slowly")
        family = started(host, dsh)
        host.close()
        assert gone(family)


def test_a_host_that_is_killed_leaves_no_process(dsh: Dsh) -> None:
    with sdk(dsh.ready("sdk", [SLOW, HEARD], dsh.desk())) as host:
        host.prompt("very slowly")
        family = started(host, dsh)
        host.host.kill()
        assert gone(family)
    dsh.killed = True


def test_a_sidecar_killed_in_mid_stream_fails_that_call_and_the_next_works(dsh: Dsh) -> None:
    with sdk(dsh.ready("sdk", [SLOW, HEARD], dsh.desk())) as host:
        host.prompt("very slowly")
        family = started(host, dsh)
        sidecar_of(host.host).send_signal(signal.SIGKILL)
        turn = host.wait(lambda line: "done" in line)
        assert turn["finish"] == "error", turn
        # A part of the answer was there: the host must not ask again by itself.
        assert "ACP_DISCONNECTED" in str([line for line in host.events if "turn/end" in str(line)])
        assert not [line for line in host.events if line.get("event", {}).get("type") == "llm/retry"]
        assert gone([one for one in family if one.pid != host.host.pid])
        assert host.run("are you there", "s2")["final"] == "heard you"
    dsh.killed = True


def test_a_sidecar_that_is_gone_between_two_turns_is_not_noticed(dsh: Dsh) -> None:
    with sdk(dsh.ready("sdk", [HEARD])) as host:
        assert host.run("one")["final"] == "heard you"
        first = sidecar_of(host.host)
        first.kill()
        assert gone([first])
        assert host.run("two")["final"] == "heard you"
    dsh.killed = True


def test_a_sidecar_that_always_ends_is_given_up_with_one_clear_error(dsh: Dsh) -> None:
    starts = dsh.folder / "starts"
    program = dsh.folder / "antigravity-acp"
    program.write_text(f"#!/bin/sh\necho x >> {starts}\nexit 3\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    dsh.install("sdk")
    dsh.configure("sdk", python=str(program))
    with sdk(dsh) as host:
        turn = host.run("go")
        assert turn["finish"] == "error"
        ends = [line["event"] for line in host.events if line.get("event", {}).get("type") == "turn/end"]
        assert "3 times in a row" in str(ends[-1])
        assert "ACP_DISCONNECTED" in str(ends[-1])
    assert len(starts.read_text(encoding="utf-8").split()) == 3


@pytest.mark.parametrize(("delay", "retried"), [(0.3, True), (60, False), (None, False)])
def test_a_short_limit_is_waited_for_and_a_long_one_or_a_used_up_account_is_not(
    dsh: Dsh, delay: float | None, retried: bool
) -> None:
    rule = {"http_error": 429} if delay is None else {"http_error": 429, "retry_delay_s": delay}
    with sdk(dsh.ready("sdk", [rule])) as host:
        turn = host.run("go")
        events = [line["event"] for line in host.events if "event" in line]
    waits = [event["data"] for event in events if event["type"] == "llm/retry"]
    error = next(event["data"]["reason"]["error"] for event in events if event["type"] == "turn/end")
    assert turn["finish"] == "error"
    assert error["code"] == ("QUOTA" if delay is None else "RATE_LIMIT")
    assert error["message"].startswith("[ACP_QUOTA] ")
    assert [wait["delayMs"] for wait in waits] == ([300] * 5 if retried else [])


def started(host: Any, dsh: Dsh) -> list[psutil.Process]:
    """All processes of a host whose answer has begun to stream."""
    sidecar = sidecar_of(host.host)
    wait_for(lambda: dsh.seen("piece"))
    return [sidecar, *sidecar.children(recursive=True), host.host]
