"""Order, back-pressure and the edges of a turn."""

import asyncio

import psutil
import pytest
from helpers.agent import BOUND, agent, play
from helpers.loopback import prompt_of

from antigravity_acp.acp import AgentEvent, AgentText, Cancelled
from antigravity_acp.contract import LlmError


async def test_updates_right_before_the_answer_all_arrive_first_and_in_order() -> None:
    async with agent() as one:
        words = [f"{n} " for n in range(500)]
        order: list[str] = []

        async def slow(event: AgentEvent) -> None:
            if len(order) % 100 == 0:
                await asyncio.sleep(0.001)
            assert isinstance(event, AgentText)
            order.append(event.text)

        await play(await one.new_session(), {"say": words}, on_event=slow)
        assert order == words


async def test_a_slow_consumer_slows_the_agent_and_nothing_piles_up() -> None:
    async with agent() as one:
        session = await one.new_session()
        gate = asyncio.Event()
        first = asyncio.Event()
        count = 0

        async def stuck(event: AgentEvent) -> None:
            nonlocal count
            count += 1
            first.set()
            await gate.wait()

        # 20 MB of frames: far more than pipes and read-ahead hold.
        steps = ({"flood": 20_000, "text": "y" * 900},)
        before = len(asyncio.all_tasks())
        running = asyncio.create_task(play(session, *steps, on_event=stuck))
        await asyncio.wait_for(first.wait(), BOUND)
        # The agent has written what fits into its pipe and our read-ahead, and then nothing more.
        written, quiet = -1, 0
        async with asyncio.timeout(BOUND):
            while quiet < 10:
                now = psutil.Process(one.pid).io_counters().write_chars
                quiet = quiet + 1 if now == written else 0
                written = now
                await asyncio.sleep(0.02)
        assert 500_000 < written < 2_000_000
        assert count == 1
        assert len(asyncio.all_tasks()) <= before + 2
        gate.set()
        assert (await running).outcome.stop_reason == "end_turn"
        assert count == 20_000


async def test_a_consumer_that_walks_away_does_not_block_the_wire() -> None:
    async with agent() as one:
        session = await one.new_session()
        reached = asyncio.Event()

        async def never(event: AgentEvent) -> None:
            reached.set()
            await asyncio.Event().wait()

        running = asyncio.create_task(
            session.prompt(prompt_of({"flood": 5000}), on_event=never, on_permission=lambda _: Cancelled())
        )
        await asyncio.wait_for(reached.wait(), BOUND)
        running.cancel()
        await asyncio.wait({running}, timeout=BOUND)
        assert running.cancelled()
        # The rest of the flood is read and dropped, so another session works at once.
        assert (await play(await one.new_session(), {"say": "free"})).text == "free"
        async with asyncio.timeout(BOUND):
            while one.counters.late_updates < 5000:
                await asyncio.sleep(0)
        assert one.counters.late_updates == 5000


async def test_what_the_consumer_raises_ends_its_prompt_and_not_the_connection() -> None:
    async with agent() as one:
        session = await one.new_session()

        async def broken(event: AgentEvent) -> None:
            raise ValueError("consumer")

        with pytest.raises(ValueError, match="consumer"):
            await play(session, {"say": ["a", "b"]}, {"no_answer": True}, on_event=broken)
        assert one.alive
        assert (await play(await one.new_session(), {"say": "still here"})).text == "still here"


async def test_updates_after_the_answer_belong_to_no_turn() -> None:
    late = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "late"}}
    async with agent() as one:
        session = await one.new_session()
        seen = await play(session, {"say": "in time"}, {"late": [late, late]})
        assert seen.text == "in time"
        # The next prompt of another session is answered after those two lines, so they have been read by now.
        assert (await play(await one.new_session(), {"say": "next"})).text == "next"
        assert one.counters.late_updates == 2


async def test_updates_of_sessions_that_are_not_ours_are_dropped() -> None:
    update = {"sessionUpdate": "tool_call", "toolCallId": "x", "title": "foreign"}
    text = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "foreign"}}
    async with agent() as one:
        seen = await play(
            await one.new_session(),
            {"update": update, "session": "other"},
            {"update": text, "session": "other"},
            {"say": "own"},
        )
        assert seen.text == "own"
        assert len(seen.events) == 1
        assert one.counters.foreign_updates == 2


async def test_updates_before_the_session_is_known_reach_it_and_never_its_turn() -> None:
    models = [{"value": "early-1", "name": "One"}, {"value": "early-2", "name": "Two"}]
    option = {"id": "model", "type": "select", "currentValue": "early-2", "options": models}
    early = [
        {"sessionUpdate": "config_option_update", "configOptions": [option]},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "welcome"}},
        {"sessionUpdate": "available_commands_update", "availableCommands": []},
    ]
    async with agent({"early_updates": early}) as one:
        session = await one.new_session()
        assert [choice.id for choice in session.models] == ["early-1", "early-2"]
        assert session.current_model == "early-2"
        assert (await play(session, {"say": "answer"})).text == "answer"


async def test_early_updates_are_bounded() -> None:
    many = [{"sessionUpdate": "plan", "entries": []}] * 400
    async with agent({"early_updates": many}) as one:
        await one.new_session()
        assert one.counters.overflowed_updates == 400 - 256


async def test_two_prompts_in_one_session_at_once_are_refused() -> None:
    async with agent() as one:
        session = await one.new_session()
        running = asyncio.create_task(play(session, {"wait_cancel": 20}))
        await asyncio.sleep(0)
        with pytest.raises(LlmError) as caught:
            await play(session, {"say": "second"})
        assert caught.value.code == "ACP_SESSION_BUSY"
        await session.cancel()
        assert (await running).outcome.stop_reason == "cancelled"


@pytest.mark.parametrize(
    ("how", "expected"), [("cancelled", "cancelled"), ("end_turn", "end_turn"), ("error", "cancelled")]
)
async def test_a_cancelled_prompt_ends_however_the_agent_says_it(how: str, expected: str) -> None:
    async with agent({"cancel": how}) as one:
        session = await one.new_session()
        spoken = asyncio.Event()

        async def heard(event: AgentEvent) -> None:
            spoken.set()

        running = asyncio.create_task(play(session, {"say": "working"}, {"wait_cancel": 20}, on_event=heard))
        await asyncio.wait_for(spoken.wait(), BOUND)
        await session.cancel()
        assert (await running).outcome.stop_reason == expected


async def test_an_agent_that_says_cancelled_without_being_asked_reports_an_error() -> None:
    async with agent() as one:
        session = await one.new_session()
        with pytest.raises(LlmError) as caught:
            await play(session, {"error": {"code": -32000, "message": "context canceled"}})
        assert caught.value.code == "ACP_RPC_ERROR"


async def test_a_cancel_without_a_prompt_sends_nothing() -> None:
    async with agent() as one:
        session = await one.new_session()
        await session.cancel()
        seen = await play(session, {"tell": "requests"})
        await session.cancel()
        assert "session/cancel" not in seen.text


async def test_the_end_of_an_agent_is_noticed_while_nothing_is_asked() -> None:
    async with agent() as one:
        called: list[str] = []
        one.on_closed.append(lambda: called.append("closed"))
        session = await one.new_session()
        steps = ({"say": "x"}, {"exit": 9})
        with pytest.raises(LlmError) as caught:
            await play(session, *steps)
        assert caught.value.code == "ACP_DISCONNECTED"
        assert "exit status 9" in caught.value.message
        assert "session/prompt" in caught.value.message
        await asyncio.wait_for(one.closed(), BOUND)
        assert called == ["closed"]
        assert not one.alive
        with pytest.raises(LlmError) as caught:
            await one.new_session()
        assert caught.value.code == "ACP_DISCONNECTED"


async def test_the_end_of_an_agent_is_noticed_although_its_consumer_has_stopped_reading() -> None:
    async with agent() as one:
        session = await one.new_session()
        reached = asyncio.Event()

        async def never(event: AgentEvent) -> None:
            reached.set()
            await asyncio.Event().wait()

        running = asyncio.create_task(
            session.prompt(
                prompt_of({"say": ["a", "b"]}, {"exit": 1}), on_event=never, on_permission=lambda _: Cancelled()
            )
        )
        await asyncio.wait_for(reached.wait(), BOUND)
        await asyncio.wait_for(one.closed(), BOUND)
        running.cancel()
        await asyncio.wait({running}, timeout=BOUND)


async def test_an_answer_followed_by_death_is_an_answer() -> None:
    for _ in range(5):
        async with agent() as one:
            session = await one.new_session()
            order: list[str] = []
            watch = asyncio.create_task(one.closed())
            watch.add_done_callback(lambda _, order=order: order.append("closed"))  # type: ignore[misc]
            seen = await play(session, {"say": "whole"}, {"half_exit": True})
            order.append("answered")
            assert seen.outcome.stop_reason == "end_turn"
            await asyncio.wait_for(watch, BOUND)
            await asyncio.sleep(0)
            assert order == ["answered", "closed"]
