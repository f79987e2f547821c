"""Processes are lent exclusively, kept idle for a while, few at a time, and never lent when they may be unwell."""

import asyncio
import json
import os
import signal

import pytest
from helpers.conversation import BOUND, Conversation, code_of, collect, running, until
from helpers.loopback import directive, loopback_settings

from antigravity_acp.adapter import AntigravityAdapter
from antigravity_acp.contract import user

BASH = {"call": {"name": "bash", "arguments": {}}}
PID = {"tell": "pid"}


def settled(adapter: AntigravityAdapter) -> bool:
    found = adapter.diagnostics()
    return bool(found["processes"] == found["idle_processes"] and found["active_turns"] == 0)


async def text(adapter: AntigravityAdapter, *steps: dict[str, object], session: str = "text") -> str:
    reply = await Conversation(adapter, session_id=session, tools=()).play(*steps)
    return reply.text


async def tool_turn(adapter: AntigravityAdapter, session: str) -> int:
    """One whole turn with tools; the pid of the agent that served it."""
    chat = Conversation(adapter, session_id=session)
    first = await chat.play(PID, BASH)
    await chat.answer({first.calls[0].id: "x"})
    await until(lambda: settled(adapter), "the process is back")
    return int(json.loads(first.text))


@pytest.mark.requirement("A-026")
async def test_the_next_turn_uses_the_same_process_and_another_session() -> None:
    async with running() as adapter:
        assert await tool_turn(adapter, "one") == await tool_turn(adapter, "two")
        assert adapter.diagnostics()["process_starts"] == 1


@pytest.mark.requirement("A-024", "A-026")
async def test_turns_at_the_same_time_never_share_a_process_and_two_of_them_stay_idle() -> None:
    async with running(loopback_settings(None, prepareSessions=False)) as adapter:
        chats = [Conversation(adapter, session_id=f"s{n}") for n in range(4)]
        first = await asyncio.gather(*(chat.play(PID, BASH) for chat in chats))
        assert len({reply.text for reply in first}) == 4
        await asyncio.gather(*(c.answer({r.calls[0].id: "x"}) for c, r in zip(chats, first, strict=True)))
        await until(lambda: settled(adapter), "all processes are back")
        assert adapter.diagnostics()["idle_processes"] == 2


@pytest.mark.requirement("A-028")
async def test_an_idle_process_expires() -> None:
    async with running(loopback_settings(None, idleProcessTimeoutMs=50)) as adapter:
        await text(adapter, {"say": "x"})
        await until(lambda: adapter.diagnostics()["processes"] == 0, "it has expired")


@pytest.mark.requirement("A-028")
async def test_a_process_is_replaced_after_its_share_of_sessions() -> None:
    async with running(loopback_settings(None, maxSessionsPerProcess=2, prepareSessions=False)) as adapter:
        pids = [await text(adapter, PID, session=f"s{n}") for n in range(5)]
        assert pids[0] == pids[1]
        assert pids[2] == pids[3]
        assert len(set(pids)) == 3


@pytest.mark.requirement("A-028")
async def test_a_process_that_dies_while_it_waits_is_never_lent() -> None:
    async with running() as adapter:
        pid = int(await text(adapter, PID))
        await until(lambda: adapter.diagnostics()["idle_processes"] == 1, "it waits")
        os.kill(pid, signal.SIGKILL)
        await until(lambda: adapter.diagnostics()["processes"] == 0, "its end was seen")
        assert int(await text(adapter, PID)) != pid


@pytest.mark.requirement("A-028", "A-036")
@pytest.mark.parametrize("how", ["abort", "error", "walk away"])
async def test_a_process_whose_turn_did_not_end_properly_is_not_kept(how: str) -> None:
    async with running(loopback_settings({"cancel": "ignore"}, cancelGraceMs=50)) as adapter:
        chat = Conversation(adapter, tools=())
        end = {"error": {"code": -32603, "message": "x"}} if how == "error" else {"wait_cancel": 30}
        chat.messages.append(user(directive({"say": "x"}, end)))
        stream = adapter.stream(chat.options())
        async with asyncio.timeout(BOUND):
            await anext(stream)
            if how == "abort":
                chat.controller.abort()
            if how != "walk away":
                assert await code_of(stream, opened=True) in ("ABORTED", "ACP_RPC_ERROR")
            await stream.aclose()
        await until(lambda: adapter.diagnostics()["processes"] == 0, "it was ended")


@pytest.mark.requirement("A-017", "A-027")
async def test_the_empty_session_of_discovery_is_claimed_once_by_a_request_without_tools() -> None:
    async with running(models="config") as adapter:
        await adapter.list_models("antigravity-acp")
        await until(lambda: adapter.diagnostics()["prepared_sessions"] == 1, "the session waits")
        assert json.loads(await text(adapter, {"tell": "requests"})).count("session/new") == 1
        await until(lambda: settled(adapter), "the process is back")
        assert json.loads(await text(adapter, {"tell": "requests"})).count("session/new") == 2
        assert adapter.diagnostics()["process_starts"] == 1


@pytest.mark.requirement("A-033")
async def test_the_claim_is_void_once_the_process_served_another_session() -> None:
    async with running(loopback_settings({"models": "config"}, prepareSessions=False)) as adapter:
        await adapter.list_models("antigravity-acp")
        await tool_turn(adapter, "tools")
        assert adapter.diagnostics()["prepared_sessions"] == 0
        assert json.loads(await text(adapter, {"tell": "requests"})).count("session/new") == 3


@pytest.mark.requirement("A-033")
async def test_the_claim_is_void_once_its_process_has_died() -> None:
    async with running() as adapter:
        await adapter.list_models("antigravity-acp")
        (client,) = adapter._pool._clients
        os.kill(client.pid, signal.SIGKILL)
        await until(lambda: adapter.diagnostics()["prepared_sessions"] == 0, "the claim is gone")
        assert await text(adapter, {"say": "fresh"}) == "fresh"


@pytest.mark.requirement("A-017")
async def test_a_claimed_session_gets_the_model_that_was_asked_for() -> None:
    async with running(models="config", model_ids=["loop-1", "loop-2"]) as adapter:
        await adapter.list_models("antigravity-acp")
        reply = await Conversation(adapter, tools=(), model="loop-2").play({"tell": "requests"})
        methods = json.loads(reply.text)
        assert methods.count("session/new") == 1
        assert methods.index("session/set_config_option") < methods.index("session/prompt")


@pytest.mark.requirement("A-031")
async def test_requests_without_tools_pass_one_at_a_time_and_share_one_process() -> None:
    async with running() as adapter:
        pids = await asyncio.gather(*(text(adapter, PID, session=f"s{n}") for n in range(6)))
        assert len(set(pids)) == 1
        assert adapter.diagnostics()["process_starts"] == 1


@pytest.mark.requirement("A-031")
async def test_a_request_without_tools_never_borrows_a_process_with_a_parked_exchange() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        first = await chat.play(PID, BASH)
        assert await text(adapter, PID) != first.text
        assert (await chat.answer({first.calls[0].id: "x"})).kind == "stop"


async def test_a_request_that_waits_for_its_place_can_be_aborted() -> None:
    async with running() as adapter:
        slow = Conversation(adapter, session_id="slow", tools=())
        slow.messages.append(user(directive({"say": "x"}, {"wait_cancel": 30})))
        stream = adapter.stream(slow.options())
        waiting = Conversation(adapter, session_id="waiting", tools=())
        waiting.messages.append(user("x"))
        async with asyncio.timeout(BOUND):
            await anext(stream)
            task = asyncio.create_task(code_of(adapter.stream(waiting.options())))
            await asyncio.wait({task}, timeout=0)
            waiting.controller.abort()
            assert await task == "ABORTED"
            await stream.aclose()
        assert await text(adapter, {"say": "on"}) == "on"


async def test_the_next_request_does_not_wait_for_the_end_of_a_cancelled_ones_process() -> None:
    settings = loopback_settings({"cancel": "ignore", "ignore_eof": True}, cancelGraceMs=3000, disposeGraceMs=300)
    async with running(settings) as adapter:
        chat = Conversation(adapter, tools=())
        chat.messages.append(user(directive({"say": "x"}, {"wait_cancel": 30})))
        stream = adapter.stream(chat.options())
        async with asyncio.timeout(BOUND):
            await anext(stream)
        chat.controller.abort()
        assert await code_of(stream, opened=True) == "ABORTED"
        async with asyncio.timeout(2):
            assert await text(adapter, {"say": "at once"}) == "at once"


@pytest.mark.requirement("A-030")
async def test_the_bound_on_unfinished_turns_never_counts_finished_ones() -> None:
    async with running(loopback_settings(None, maxActiveToolSessions=1)) as adapter:
        for n in range(3):
            await tool_turn(adapter, f"s{n}")


@pytest.mark.requirement("A-032")
async def test_disposal_waits_for_borrowed_and_idle_processes() -> None:
    adapter = AntigravityAdapter(loopback_settings({"cancel": "ignore", "ignore_eof": True}, disposeGraceMs=200))
    try:
        await text(adapter, {"say": "x"})
        chat = Conversation(adapter)
        await chat.play(BASH)
    finally:
        async with asyncio.timeout(BOUND):
            await adapter.dispose()
    found = adapter.diagnostics()
    assert (found["processes"], found["idle_processes"], found["prepared_sessions"]) == (0, 0, 0)


async def test_auxiliary_calls_use_the_pool_like_any_request_without_tools() -> None:
    async with running() as adapter:
        await text(adapter, {"say": "x"})
        await until(lambda: settled(adapter), "the process is back")
        chat = Conversation(adapter, session_id="text", tools=())
        chat.messages.append(user(directive({"say": "a title"})))
        assert (await collect(adapter.stream(chat.options(purpose="session-title")))).text == "a title"
        assert adapter.diagnostics()["process_starts"] == 1
