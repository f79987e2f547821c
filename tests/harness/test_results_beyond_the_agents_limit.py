"""Google's harness gives up on a tool call at its limit, and the host takes longer: the model still gets the result."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers.conversation import TOOLS, Conversation, code_of, until
from helpers.engine import engine
from helpers.journals import json_lines

from antigravity_acp.adapter import AntigravityAdapter
from antigravity_acp.contract import tool_result

pytestmark = pytest.mark.requirement("X-011")

#: The harness's limit, and how it is set.
LIMIT_S = 4
SHORT = ("--mcp-timeout", str(LIMIT_S))
#: What a model does that was answered with a ticket: it goes on waiting.
FOLLOW = {
    "when": {"result": {"regex": r'"ticket": "(?P<ticket>[^"]+)"\}\s*\Z'}},
    "text": "Waiting.",
    "calls": [{"name": "wait_for_ticket", "arguments": {"ticket": "{{match.ticket}}"}}],
}


def call(**arguments: Any) -> dict[str, Any]:
    return {"name": "bash", "arguments": arguments}


RULES = [{"when": {"round": 0}, "text": "Calling.", "calls": [call(command="slow")]}, FOLLOW]
QUOTE = {"text": "It says: {{result}}"}


def received(folder: Path) -> list[dict[str, Any]]:
    """What the model endpoint received, in order."""
    return json_lines(folder / "model.jsonl")


def counted(adapter: AntigravityAdapter) -> dict[str, int]:
    names = ("calls", "tickets", "results_by_ticket", "undelivered_results")
    return {name: adapter._bridge.counters[name] for name in names}


async def ticket_is_out(adapter: AntigravityAdapter, *, waits: int = 1) -> None:
    await until(lambda: adapter._bridge.counters["waits"] >= waits, "the model waits with its ticket")


async def freed(adapter: AntigravityAdapter) -> None:
    await until(lambda: adapter.diagnostics()["active_turns"] == 0, "the turn is over")
    await until(lambda: adapter.diagnostics()["parked_calls"] == 0, "nothing is parked")


@pytest.mark.requirement("X-010")
@pytest.mark.parametrize("is_error", [False, True])
async def test_a_tool_that_takes_two_and_a_half_times_the_limit(tmp_path: Path, is_error: bool) -> None:
    async with engine(tmp_path, [*RULES, QUOTE], arguments=SHORT) as adapter:
        chat = Conversation(adapter)
        first = await chat.generate_hello()
        assert [json.loads(one.arguments) for one in first.calls] == [{"command": "slow"}]
        await asyncio.sleep(2.5 * LIMIT_S)  # the slow tool itself
        assert adapter.diagnostics()["parked_calls"] == 1
        one = first.calls[0].id
        second = await chat.answer({one: tool_result(one, "REAL RESULT", is_error=is_error)})
        assert second.kind == "stop"
        assert "REAL RESULT" in second.text.partition("It says: ")[2]
        # What the model said between its waits came with the stream that follows, every word.
        rounds = adapter._bridge.counters["waits"]
        assert rounds >= 3
        assert second.text.startswith("Waiting." * rounds)
        assert second.calls == []
        assert counted(adapter) == {"calls": 1, "tickets": 1, "results_by_ticket": 1, "undelivered_results": 0}
        assert adapter.diagnostics()["process_starts"] == 1
    # The harness never gave up on a call, and the model was given the result once.
    last = json.dumps(received(tmp_path)[-1]["body"])
    assert "deadline" not in last
    assert last.count("REAL RESULT") == 1


@pytest.mark.requirement("A-013")
async def test_the_next_call_of_the_same_message_goes_on_while_a_ticket_is_out(tmp_path: Path) -> None:
    rules = [
        {"when": {"round": 0}, "calls": [call(command="slow"), call(command="quick")]},
        {
            "when": {"round": 1, "result": {"regex": r'"ticket": "(?P<ticket>[^"]+)"\}'}},
            "calls": [{"name": "wait_for_ticket", "arguments": {"ticket": "{{match.ticket}}"}}],
        },
        {"text": "{{result.2}} and {{result.3}}"},
    ]
    async with engine(tmp_path, rules, arguments=SHORT) as adapter:
        chat = Conversation(adapter)
        first = await chat.generate_hello()
        assert [json.loads(one.arguments)["command"] for one in first.calls] == ["slow"]
        await until(lambda: adapter._bridge.counters["calls"] == 2, "the harness goes on after the ticket")
        second = await chat.answer({first.calls[0].id: "SLOW RESULT"})
        assert [json.loads(one.arguments)["command"] for one in second.calls] == ["quick"]
        third = await chat.answer({second.calls[0].id: "QUICK RESULT"})
        assert third.kind == "stop"
        assert "QUICK RESULT" in third.text.partition(" and ")[0]
        assert "SLOW RESULT" in third.text.partition(" and ")[2]
        assert counted(adapter) == {"calls": 2, "tickets": 1, "results_by_ticket": 1, "undelivered_results": 0}


@pytest.mark.requirement("X-010")
async def test_a_model_that_does_not_fetch_its_result_leaves_a_record_and_the_turn_ends(tmp_path: Path) -> None:
    rules = [{"when": {"round": 0}, "calls": [call()]}, {"text": "I do not wait."}]
    async with engine(tmp_path, rules, arguments=SHORT) as adapter:
        chat = Conversation(adapter)
        first = await chat.generate_hello()
        await until(lambda: len(received(tmp_path)) >= 2 and adapter.diagnostics()["parked_calls"] == 0, "it ended")
        assert adapter._bridge.counters["tickets"] == 1
        reply = await chat.answer({first.calls[0].id: "too late"})
        assert reply.kind == "stop"
        assert adapter._bridge.counters["undelivered_results"] == 1


async def test_an_abort_while_a_ticket_is_out_frees_everything(tmp_path: Path) -> None:
    async with engine(tmp_path, [*RULES, QUOTE], arguments=SHORT) as adapter:
        chat = Conversation(adapter)
        await chat.generate_hello()
        await ticket_is_out(adapter)
        chat.controller.abort()
        await freed(adapter)
        assert adapter._bridge.counters["results_by_ticket"] == 0


async def test_an_agent_that_dies_while_a_ticket_is_out_is_seen_at_once(tmp_path: Path) -> None:
    async with engine(tmp_path, [*RULES, QUOTE], arguments=SHORT) as adapter:
        chat = Conversation(adapter)
        first = await chat.generate_hello()
        await ticket_is_out(adapter)
        for child in psutil.Process().children(recursive=True):
            child.kill()
        await freed(adapter)
        chat.messages.append(tool_result(first.calls[0].id, "for nobody"))
        assert await code_of(adapter.stream(chat.options())) == "ACP_DISCONNECTED"


async def test_the_tool_timeout_counts_across_tickets(tmp_path: Path) -> None:
    async with engine(tmp_path, [*RULES, QUOTE], arguments=SHORT, toolTimeoutMs=(LIMIT_S + 3) * 1000) as adapter:
        chat = Conversation(adapter)
        first = await chat.generate_hello()
        started = time.monotonic()
        await freed(adapter)
        assert LIMIT_S < time.monotonic() - started < LIMIT_S + 6
        assert counted(adapter)["tickets"] == 1
        chat.messages.append(tool_result(first.calls[0].id, "too late"))
        assert await code_of(adapter.stream(chat.options())) == "ACP_TOOL_TIMEOUT"


@pytest.mark.parametrize(
    ("arguments", "tool_timeout_ms"), [((), 900_000), (SHORT, LIMIT_S * 1000)], ids=["engine's default", "short"]
)
async def test_an_agent_that_waits_as_long_as_the_host_may_take_is_lent_no_wait_tool(
    tmp_path: Path, arguments: tuple[str, ...], tool_timeout_ms: int
) -> None:
    async with engine(tmp_path, [{"text": "x"}], arguments=arguments, toolTimeoutMs=tool_timeout_ms) as adapter:
        await Conversation(adapter).generate_hello()
    assert "wait_for_ticket" not in json.dumps(received(tmp_path)[-1])


async def test_the_model_is_told_of_the_wait_tool_where_the_limit_is_shorter(tmp_path: Path) -> None:
    async with engine(tmp_path, [{"text": "x"}], arguments=("--mcp-timeout", "0")) as adapter:
        await Conversation(adapter).generate_hello()
    # Beside ours are two of the harness's own, for the resources of MCP servers, which are refused unseen.
    ours = [name for name in received(tmp_path)[-1]["tools"] if name.startswith("mcp_dsh")]
    assert sum(name.endswith("_wait_for_ticket") for name in ours) == 1
    assert len(ours) == len(TOOLS) + 1


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_an_approval_of_400_seconds_on_the_harness_with_its_own_limit_of_180(tmp_path: Path) -> None:
    rules = [*RULES, QUOTE]
    async with engine(tmp_path, rules, arguments=("--mcp-timeout", "0")) as adapter:
        chat = Conversation(adapter)
        first = await chat.generate_hello()
        await asyncio.sleep(400)  # a person who thinks it over
        assert adapter._bridge.counters["waits"] == 2
        second = await chat.answer({first.calls[0].id: "APPROVED AND DONE"})
        assert "APPROVED AND DONE" in second.text.partition("It says: ")[2]
        assert counted(adapter) == {"calls": 1, "tickets": 1, "results_by_ticket": 1, "undelivered_results": 0}
    assert "deadline" not in json.dumps(received(tmp_path)[-1]["body"])
