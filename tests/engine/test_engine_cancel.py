"""Cancelling, at the moments at which the harness loses sessions."""

import asyncio
from pathlib import Path

import pytest
from helpers.engine_peer import Peer, RpcError, allow, engine
from helpers.engine_tools import ToolServer

SCRIPT = """
rules:
  - when: {user: slow}
    text: [first, second, third, fourth]
    pause_ms: 400
  - when: {user: never}
    hang: true
  - when: {user: hold, round: 0}
    calls: [{name: hold}]
  - when: {user: hold}
    text: "after {{result}}"
  - text: "fine: {{user}}"
"""


async def still_works(peer: Peer, session: str, earlier: str) -> None:
    peer.updates.clear()
    result = await peer.prompt(session, "are you there")
    assert result["stopReason"] == "end_turn"
    assert peer.text(session) == "fine: are you there"
    assert earlier in peer.last_bodies_text(), "the context is lost"


async def test_cancel_in_the_middle_of_text_ends_the_turn_at_once_and_keeps_the_context(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session()
        turn = peer.prompt_soon(session, "slow one")
        await peer.until(peer.text)
        await peer.cancel(session)
        result = await asyncio.wait_for(turn, 3)
        assert result["stopReason"] == "cancelled"
        assert "fourth" not in peer.text()
        await still_works(peer, session, "slow one")


async def test_cancel_while_the_model_says_nothing_at_all(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session()
        await peer.prompt(session, "warm up")
        turn = peer.prompt_soon(session, "never answer")
        async with asyncio.timeout(20):
            while len(peer.seen()) < 2:
                await asyncio.sleep(0.02)
        await peer.cancel(session)
        assert (await asyncio.wait_for(turn, 3))["stopReason"] == "cancelled"
        await still_works(peer, session, "warm up")


async def test_cancel_while_a_tool_runs_reaches_the_tool_and_ends_its_call(tmp_path: Path) -> None:
    server = ToolServer()
    server.hold()
    async with server.serve() as tools, engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session(tools.descriptor())
        for _ in range(3):
            turn = peer.prompt_soon(session, "hold on")
            await asyncio.wait_for(tools.started.wait(), 20)
            await peer.cancel(session)
            assert (await asyncio.wait_for(turn, 3))["stopReason"] == "cancelled"
            assert peer.of("tool_call_update")[-1]["status"] == "failed"
            await asyncio.wait_for(tools.cancelled.wait(), 5)
            tools.started.clear()
            tools.cancelled.clear()
        await still_works(peer, session, "hold on")


async def test_a_permission_answered_after_the_cancel_runs_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    server = ToolServer()
    server.hold()
    async with server.serve() as tools, engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session(tools.descriptor())
        late = asyncio.Event()

        async def answer(params: dict[str, object]) -> dict[str, object]:
            await late.wait()
            return allow(params)

        peer.on_permission = answer
        for _ in range(3):
            peer.asked.clear()
            late.clear()
            turn = peer.prompt_soon(session, "hold on")
            await asyncio.wait_for(peer.asked.wait(), 20)
            await peer.cancel(session)
            assert (await asyncio.wait_for(turn, 3))["stopReason"] == "cancelled"
            late.set()
        assert tools.calls == []
        await still_works(peer, session, "hold on")
        assert tools.calls == []


async def test_a_prompt_right_after_a_cancel_is_answered_ten_times_in_a_row(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session()
        await peer.prompt(session, "remember this")
        for round_ in range(10):
            turn = peer.prompt_soon(session, f"slow {round_}")
            if round_ % 2:  # the others are cancelled before the harness has said anything
                await peer.until(peer.text)
            await peer.cancel(session)
            follower = peer.prompt_soon(session, f"now {round_}")
            assert (await asyncio.wait_for(turn, 3))["stopReason"] == "cancelled"
            peer.updates.clear()
            assert (await asyncio.wait_for(follower, 15))["stopReason"] == "end_turn"
            assert peer.text() == f"fine: now {round_}"
            peer.updates.clear()
        await still_works(peer, session, "remember this")
        assert len(await peer.until_harnesses(1)) == 1


async def test_cancel_without_a_turn_does_nothing_and_a_second_prompt_is_refused(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session()
        await peer.cancel(session)
        await peer.cancel("no such session")
        turn = peer.prompt_soon(session, "slow one")
        await peer.until(peer.text)
        with pytest.raises(RpcError) as caught:
            await peer.prompt(session, "me too")
        assert caught.value.type == "busy"
        await peer.cancel(session)
        await asyncio.wait_for(turn, 3)
