"""Whatever is started is ended: abort, early stop, failure, timeout, death and disposal, at every stage of a turn."""

import asyncio
import json
import os
import signal

import pytest
from helpers.conversation import BOUND, Conversation, code_of, collect, running, until
from helpers.loopback import directive, loopback_settings

from antigravity_acp.contract import AbortController, Message, TextBlock, TextDelta, user

BASH = {"call": {"name": "bash", "arguments": {}}}


def empty(adapter: object) -> bool:
    found = adapter.diagnostics()  # type: ignore[attr-defined]
    busy = found["processes"] - found["idle_processes"]
    return (busy, found["active_turns"], found["parked_calls"]) == (0, 0, 0)


@pytest.mark.requirement("A-020")
@pytest.mark.parametrize("results", [{}, {"twice": True}, {"foreign": True}], ids=["missing", "duplicate", "foreign"])
async def test_wrong_results_fail_and_free_everything(results: dict[str, bool]) -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        first = await chat.play(BASH)
        call = first.calls[0].id
        answers = [Message("tool", (TextBlock("x"),), tool_call_id=call)] * 2 if "twice" in results else []
        if "foreign" in results:
            answers = [Message("tool", (TextBlock("x"),), tool_call_id="call_forged")]
        chat.messages += answers
        assert await code_of(adapter.stream(chat.options())) == "ACP_TOOL_RESULTS_MISSING"
        await until(lambda: empty(adapter), "all is freed")


@pytest.mark.requirement("A-021")
@pytest.mark.parametrize("change", ["model", "tools", "prefix", "system"])
async def test_changed_context_closes_the_old_exchange_and_starts_anew(change: str) -> None:
    async with running(models="config", model_ids=["loop-1", "loop-2"]) as adapter:
        chat = Conversation(adapter)
        first = await chat.play(BASH, {"say": "after"})
        chat.messages.append(Message("tool", (TextBlock("R-WORD"),), tool_call_id=first.calls[0].id))
        changes: dict[str, object] = {}
        if change == "model":
            changes["model"] = "loop-2"
        if change == "tools":
            changes["tools"] = chat.base["tools"][:2]
        if change == "system":
            changes["system"] = "another"
        if change == "prefix":
            chat.messages.insert(0, user("an older message"))
        chat.messages.append(user(directive({"tell": "prompt"})))
        reply = await chat.generate(**changes)
        assert "R-WORD" in reply.text
        assert adapter.diagnostics()["process_starts"] == 2
        await until(lambda: empty(adapter), "all is freed")


@pytest.mark.requirement("A-022")
async def test_auxiliary_calls_never_touch_a_suspended_turn() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        first = await chat.play(BASH)
        title = [user(directive({"say": "A title"}))]
        reply = await collect(adapter.stream(chat.options(messages=tuple(title), tools=(), purpose="session-title")))
        assert reply.text == "A title"
        assert "result:bash:ok" in (await chat.answer({first.calls[0].id: "ok"})).text


@pytest.mark.requirement("A-029")
async def test_a_tool_may_call_the_provider_while_its_parent_waits() -> None:
    async with running() as adapter:
        parent = Conversation(adapter, session_id="parent")
        first = await parent.play(BASH)
        child = Conversation(adapter, session_id="child")
        inner = await child.play(BASH, {"say": " inner"})
        assert adapter.diagnostics()["active_turns"] == 2
        assert "inner" in (await child.answer({inner.calls[0].id: "x"})).text
        assert "result:bash:from the child" in (await parent.answer({first.calls[0].id: "from the child"})).text


async def test_conversations_without_a_session_id_are_found_by_their_calls() -> None:
    async with running() as adapter:
        chats = [Conversation(adapter, session_id=None) for _ in range(3)]
        replies = [await chat.play(BASH) for chat in chats]
        for number, (chat, reply) in reversed(list(enumerate(zip(chats, replies, strict=True)))):
            assert f"result:bash:r{number}" in (await chat.answer({reply.calls[0].id: f"r{number}"})).text


async def test_one_generation_at_a_time_in_a_session() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user(directive({"say": "x"}, {"wait_cancel": 30})))
        stream = adapter.stream(chat.options())
        async with asyncio.timeout(BOUND):
            await anext(stream)
        assert await code_of(adapter.stream(chat.options())) == "ACP_SESSION_BUSY"
        await stream.aclose()


async def test_too_many_unfinished_turns_fail_at_once() -> None:
    async with running(loopback_settings(None, maxActiveToolSessions=2)) as adapter:
        chats = [Conversation(adapter, session_id=f"s{n}") for n in range(3)]
        first = await chats[0].play(BASH)
        await chats[1].play(BASH)
        chats[2].messages.append(user(directive(BASH)))
        assert await code_of(adapter.stream(chats[2].options())) == "ACP_SESSION_LIMIT"
        assert adapter.diagnostics()["process_starts"] == 2
        await chats[0].answer({first.calls[0].id: "x"})
        assert (await chats[2].generate()).kind == "tool-calls"


async def test_abort_before_the_start_starts_nothing() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user("x"))
        chat.controller.abort()
        assert await code_of(adapter.stream(chat.options())) == "ABORTED"
        assert adapter.diagnostics()["process_starts"] == 0


async def test_abort_during_the_start_ends_the_process() -> None:
    async with running(init_hangs=True) as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user("x"))
        pending = asyncio.create_task(code_of(adapter.stream(chat.options())))
        await until(lambda: adapter.diagnostics()["process_starts"] == 1, "a process was started")
        chat.controller.abort()
        assert await pending == "ABORTED"


@pytest.mark.parametrize("cancel", ["cancelled", "end_turn", "error", "ignore"])
async def test_abort_in_the_middle_of_text_is_an_abort_whatever_the_agent_answers(cancel: str) -> None:
    async with running(loopback_settings({"cancel": cancel}, cancelGraceMs=200)) as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user(directive({"say": "x"}, {"wait_cancel": 30})))
        stream = adapter.stream(chat.options())
        async with asyncio.timeout(BOUND):
            while not isinstance(await anext(stream), TextDelta):
                pass
        chat.controller.abort({"kind": "user"})
        async with asyncio.timeout(1):
            assert await code_of(stream, opened=True) == "ABORTED"
        await until(lambda: empty(adapter), "all is freed")


@pytest.mark.requirement("A-010")
async def test_abort_while_the_host_runs_a_tool_frees_everything() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        first = await chat.play(BASH)
        chat.controller.abort()
        await until(lambda: empty(adapter), "all is freed")
        chat.controller = AbortController()
        chat.messages.append(user(directive({"say": "fresh"})))
        assert first.kind == "tool-calls"
        assert (await chat.generate()).text == "fresh"


async def test_a_consumer_that_walks_away_ends_the_turn_at_any_chunk() -> None:
    async with running() as adapter:
        for stop_after in range(1, 6):
            chat = Conversation(adapter, session_id=f"s{stop_after}")
            chat.messages.append(user(directive({"think": "a"}, {"say": ["b", "c"]}, {"wait_cancel": 30})))
            stream = adapter.stream(chat.options())
            async with asyncio.timeout(BOUND):
                for _ in range(stop_after):
                    await anext(stream)
                await stream.aclose()
            await until(lambda: empty(adapter), "all is freed")


async def test_a_consumer_that_stops_right_after_the_calls_can_still_continue() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user(directive(BASH)))
        stream = adapter.stream(chat.options())
        chunks = []
        async with asyncio.timeout(BOUND):
            async for chunk in stream:
                chunks.append(chunk)
                if chunk.to_wire()["type"] == "finish":
                    break
            await stream.aclose()
        from helpers.conversation import Reply

        reply = Reply(chunks)
        chat.messages.append(reply.message)
        assert "result:bash:ok" in (await chat.answer({reply.calls[0].id: "ok"})).text


async def test_a_cancelled_consumer_ends_the_turn() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user(directive({"say": "x"}, {"wait_cancel": 30})))
        task = asyncio.create_task(collect(adapter.stream(chat.options())))
        await until(lambda: adapter.diagnostics()["processes"] == 1, "the agent runs")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: empty(adapter), "all is freed")


async def test_a_segment_that_takes_too_long_is_a_timeout() -> None:
    async with running(loopback_settings({"cancel": "ignore"}, timeoutMs=400, cancelGraceMs=50)) as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user(directive({"say": "x"}, {"wait_cancel": 30})))
        assert await code_of(adapter.stream(chat.options())) == "ACP_TIMEOUT"
        await until(lambda: empty(adapter), "all is freed")


async def test_the_models_clock_stops_while_the_host_owns_the_tools() -> None:
    async with running(loopback_settings(None, timeoutMs=1500)) as adapter:
        chat = Conversation(adapter)
        first = await chat.play(BASH)
        await asyncio.sleep(1.7)  # longer than the model may take: this is the clock under test
        assert (await chat.answer({first.calls[0].id: "ok"})).kind == "stop"


async def test_a_host_that_never_answers_is_told_once_and_may_then_start_anew() -> None:
    async with running(loopback_settings(None, toolTimeoutMs=100)) as adapter:
        chat = Conversation(adapter)
        first = await chat.play(BASH)
        await until(lambda: empty(adapter), "the place is free")
        chat.messages.append(Message("tool", (TextBlock("late"),), tool_call_id=first.calls[0].id))
        assert await code_of(adapter.stream(chat.options())) == "ACP_TOOL_TIMEOUT"
        chat.messages.append(user(directive({"tell": "prompt"})))
        assert "late" in (await chat.generate()).text


async def test_an_agent_that_dies_while_calls_are_parked_frees_its_place_at_once() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        first = await chat.play({"tell": "pid"}, BASH)
        os.kill(int(json.loads(first.text)), signal.SIGKILL)
        await until(lambda: empty(adapter), "the place is free")
        chat.messages.append(Message("tool", (TextBlock("R-WORD"),), tool_call_id=first.calls[0].id))
        assert await code_of(adapter.stream(chat.options())) == "ACP_DISCONNECTED"
        chat.messages.append(user(directive({"tell": "prompt"})))
        assert "R-WORD" in (await chat.generate()).text


@pytest.mark.parametrize("stage", ["starting", "text", "suspended"])
async def test_disposal_at_any_stage_ends_everything(stage: str) -> None:
    agent = {"init_hangs": True} if stage == "starting" else {}
    async with running(**agent) as adapter:
        chat = Conversation(adapter)
        if stage == "suspended":
            await chat.play(BASH)
            await adapter.dispose()
        else:
            chat.messages.append(user(directive({"say": "x"}, {"wait_cancel": 30})))
            task = asyncio.create_task(code_of(adapter.stream(chat.options())))
            await until(lambda: adapter.diagnostics()["process_starts"] == 1, "a process was started")
            async with asyncio.timeout(BOUND):
                await adapter.dispose()
            assert await task == "ACP_DISPOSED"
        assert empty(adapter)
        assert await code_of(adapter.stream(chat.options(messages=(user("x"),)))) == "ACP_DISPOSED"


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ({"stop": "refusal"}, "ACP_REFUSAL"),
        ({"stop": "max_turn_requests"}, "ACP_TURN_LIMIT"),
        ({"stop": "a_reason_of_next_year"}, "ACP_UNKNOWN_STOP"),
        ({"error": {"code": -32603, "message": "SECRET"}}, "ACP_RPC_ERROR"),
        ({"exit": 1}, "ACP_DISCONNECTED"),
    ],
)
async def test_failed_ends_close_their_blocks_and_free_everything(step: dict[str, object], code: str) -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user(directive({"say": "partial"}, step)))
        assert await code_of(adapter.stream(chat.options())) == code
        await until(lambda: empty(adapter), "all is freed")


async def test_an_empty_turn_is_a_failure_and_max_tokens_is_not() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user(directive({"stop": "end_turn"})))
        assert await code_of(adapter.stream(chat.options())) == "EMPTY_RESPONSE"
        reply = await Conversation(adapter, session_id="s2").play({"say": "x"}, {"stop": "max_tokens"})
        assert reply.kind == "max-tokens"
