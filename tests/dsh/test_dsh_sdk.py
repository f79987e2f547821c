"""Turns through the host's Python SDK: tools in parallel and in rounds, sub-agents, and parts that go away."""

import signal
import stat
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from helpers.dsh import Dsh, Sdk, gone, home, sdk, sidecar_of, wait_for

pytestmark = pytest.mark.dsh


def bash(command: str) -> dict[str, Any]:
    return {"name": "bash", "arguments": {"command": command, "description": "run it"}}


SLOW = {"when": {"user": "very slowly"}, "text": [f"piece {number} " for number in range(600)], "pause_ms": 50}
HELD = {"when": {"user": "hold on"}, "hang": True}
HEARD = {"text": "heard you"}


LIMITS = {"a short limit": 0.3, "a long limit": 60.0, "a used up account": None}


def rules(dsh: Dsh) -> list[dict[str, Any]]:
    """What the model does, by what the person says."""
    runs, errands, made = (dsh.workspace / name for name in ("runs.txt", "errands.txt", "made.txt"))
    task = {"description": "an errand", "prompt": "errand 31667014"}
    limits = [
        {"when": {"user": words}, "http_error": 429, **({} if delay is None else {"retry_delay_s": delay})}
        for words, delay in LIMITS.items()
    ]
    return [
        *limits,
        {
            "when": {"user": "three rounds", "round": 0},
            "calls": [bash(f"echo a >> {runs}; echo out-a"), bash(f"echo b >> {runs}; echo out-b")],
        },
        {"when": {"user": "three rounds", "round": 1}, "calls": [bash(f"echo c >> {runs}; echo out-c")]},
        {"when": {"user": "three rounds", "round": 2}, "calls": [bash(f"echo d >> {runs}; echo out-d")]},
        {"when": {"user": "three rounds"}, "text": "{{result.1}}{{result.2}}{{result.3}}{{result.4}}"},
        {"when": {"user": "what is denied", "round": 0}, "calls": [bash(f"touch {made} # FORBIDDEN")]},
        {"when": {"user": "what is denied"}, "text": "the tool said {{result.1}}"},
        {"when": {"user": "delegate now", "round": 0}, "calls": [{"name": "subagent", "arguments": task}]},
        {"when": {"user": "delegate now"}, "text": "delegated"},
        {"when": {"user": "errand 31667014", "round": 0}, "calls": [bash(f"echo run >> {errands}")]},
        {"when": {"user": "errand 31667014"}, "text": "the errand is done"},
        {"when": {"user": "beside", "round": 0}, "calls": [bash("echo done-{{user}}")]},
        {"when": {"user": "beside"}, "text": "{{result.1}}"},
    ]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Dsh, Sdk]]:
    """One host for all tests that leave it as it was; each has sessions of its own."""
    with (
        home(tmp_path_factory.mktemp("sdk") / "dsh") as dsh,
        sdk(dsh.ready("sdk", rules(dsh), dsh.desk(deny="FORBIDDEN"))) as host,
    ):
        yield dsh, host


@pytest.mark.requirement("A-001", "A-002")
def test_two_parallel_calls_and_three_rounds_run_once_each(shared: tuple[Dsh, Sdk]) -> None:
    dsh, host = shared
    turn = host.run("three rounds", "rounds")
    assert turn["finish"] == "completed", turn
    assert turn["final"].split() == ["out-a", "out-b", "out-c", "out-d"]
    assert sorted((dsh.workspace / "runs.txt").read_text(encoding="utf-8").split()) == ["a", "b", "c", "d"]
    assert len(host.results("rounds")) == 4


def test_what_the_host_denies_the_model_sees_and_nothing_runs(shared: tuple[Dsh, Sdk]) -> None:
    dsh, host = shared
    assert "the desk says no" in host.run("what is denied", "denied")["final"]
    assert not (dsh.workspace / "made.txt").exists()


def test_a_tool_that_starts_a_sub_agent_of_the_same_provider(shared: tuple[Dsh, Sdk]) -> None:
    dsh, host = shared
    log = dsh.workspace / "errands.txt"
    before = len(dsh.asked())
    assert host.run("delegate now", "boss")["final"] == "delegated"
    # The child goes on by itself after the parent's turn, with the host's tools and this provider.
    wait_for(lambda: log.exists() and len(dsh.asked()) >= before + 4)
    assert log.read_text(encoding="utf-8") == "run\n"
    assert dsh.asked()[-1]["status"] == 200


def test_turns_of_several_sessions_run_beside_each_other(shared: tuple[Dsh, Sdk]) -> None:
    _, host = shared
    for number in range(3):
        host.prompt("beside", f"p{number}")
    for _ in range(3):
        turn = host.wait(lambda line: str(line.get("done")).startswith("p"))
        assert turn["finish"] == "completed", turn
        assert turn["final"].startswith("done-")


@pytest.mark.parametrize(("words", "retried"), [(words, words == "a short limit") for words in LIMITS])
def test_a_short_limit_is_waited_for_and_a_long_one_or_a_used_up_account_is_not(
    shared: tuple[Dsh, Sdk], words: str, retried: bool
) -> None:
    _, host = shared
    turn = host.run(words, words)
    events = [line["event"] for line in host.events if line.get("session") == words and "event" in line]
    waits = [event["data"] for event in events if event["type"] == "llm/retry"]
    error = next(event["data"]["reason"]["error"] for event in events if event["type"] == "turn/end")
    assert turn["finish"] == "error"
    assert error["code"] == ("QUOTA" if LIMITS[words] is None else "RATE_LIMIT")
    assert error["message"].startswith("[ACP_QUOTA] ")
    assert [wait["delayMs"] for wait in waits] == ([300] * 5 if retried else [])


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


def test_a_sidecar_that_is_killed_fails_its_call_and_is_started_again(dsh: Dsh) -> None:
    dsh.killed = True
    with sdk(dsh.ready("sdk", [SLOW, HELD, HEARD], dsh.desk())) as host:
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

        # Between two turns nobody notices.
        second = sidecar_of(host.host)
        second.kill()
        assert gone([second])
        assert host.run("and now", "s2")["final"] == "heard you"

        # Before the first chunk it is the host's own retry that mends it. The next agent reads the script anew.
        third = sidecar_of(host.host)
        host.prompt("hold on", "s3")
        wait_for(lambda: [one for one in dsh.asked() if one["tools"] and "hold on" in one["user"]])
        dsh.scripted([HEARD])
        third.kill()
        turn = host.wait(lambda line: line.get("done") == "s3")
        assert turn["final"] == "heard you", turn
        retries = [line for line in host.events if line.get("event", {}).get("type") == "llm/retry"]
        assert [line["session"] for line in retries] == ["s3"]


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


def started(host: Any, dsh: Dsh) -> list[psutil.Process]:
    """All processes of a host whose answer has begun to stream."""
    sidecar = sidecar_of(host.host)
    wait_for(lambda: dsh.seen("piece"))
    return [sidecar, *sidecar.children(recursive=True), host.host]
