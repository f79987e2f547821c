"""Where the harness ends, the engine answers with an error; the next prompt works and knows the context."""

import asyncio
from pathlib import Path

import pytest
from helpers.engine_peer import Peer, RpcError, engine
from helpers.engine_tools import ToolServer

SCRIPT = """
rules:
  - {when: {user: fault 500}, http_error: 500}
  - {when: {user: fault 429}, http_error: 429, retry_delay_s: 7.5}
  - {when: {user: fault 401}, http_error: 401}
  - {when: {user: fault garbage}, text: [secret part, rest], garbage: true}
  - {when: {user: fault empty}, empty: true}
  - {when: {user: fault blocked}, text: I, finish: SAFETY}
  - {when: {user: fault length}, text: cut, finish: MAX_TOKENS}
  - {when: {user: fault norule}, calls: [{name: not_declared}]}
  - {when: {user: slow}, text: [one, two, three, four, five, six], pause_ms: 500}
  - {when: {user: use good, round: 0}, calls: [{name: good}]}
  - text: "fine: {{user}}"
"""


async def fails(peer: Peer, session: str, text: str) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await peer.prompt(session, text, timeout=20)
    message = f"{caught.value} {caught.value.data}"
    assert "scripted" not in message.replace("scripted model", ""), "remote text in an error"
    assert text not in message
    return caught.value


async def works(peer: Peer, session: str, *known: str) -> None:
    peer.updates.clear()
    assert (await peer.prompt(session, "hello again"))["stopReason"] == "end_turn"
    assert peer.text(session) == "fine: hello again"
    for text in known:
        assert text in peer.last_bodies_text(), "the context is lost"


async def test_http_errors_of_the_model_are_typed_and_the_session_goes_on(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session()
        await peer.prompt(session, "the number is 42")
        error = await fails(peer, session, "fault 500")
        assert (error.type, error.data["status"]) == ("model_http", 500)
        await works(peer, session, "the number is 42", "fault 500")
        error = await fails(peer, session, "fault 429")
        assert (error.type, error.data["retryDelayMs"]) == ("quota", 7500)
        error = await fails(peer, session, "fault 401")
        assert (error.type, error.data["status"]) == ("model_http", 401)
        error = await fails(peer, session, "fault norule")
        assert error.type == "model_http"
        assert "script" in str(error)
        await works(peer, session, "the number is 42", "fault 429")


async def test_garbage_and_endless_emptiness_of_the_model_end_the_turn_not_the_session(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session()
        await peer.prompt(session, "the number is 42")
        assert (await fails(peer, session, "fault garbage")).type == "model_output"
        await works(peer, session, "the number is 42")
        before = len(peer.seen())
        assert (await fails(peer, session, "fault empty")).type == "empty_output"
        await works(peer, session, "the number is 42")
        assert len(peer.seen()) - before < 15, "the harness asked the model without end"


async def test_blocked_and_cut_answers_have_their_stop_reasons(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session()
        assert (await peer.prompt(session, "fault blocked"))["stopReason"] == "refusal"
        assert (await peer.prompt(session, "fault length"))["stopReason"] == "max_tokens"
        await works(peer, session, "fault length")


async def test_a_turn_has_at_most_the_model_calls_it_was_given(tmp_path: Path) -> None:
    script = "rules:\n  - {calls: [{name: good}]}\n"
    server = ToolServer()
    server.add("good", lambda _: "good")
    async with server.serve() as tools, engine(tmp_path, "--max-model-calls", "3", script=script) as peer:
        await peer.initialize()
        session = await peer.new_session(tools.descriptor())
        for _ in range(2):
            tools.calls.clear()
            assert (await peer.prompt(session, "for ever"))["stopReason"] == "max_turn_requests"
            assert 2 <= len(tools.calls) <= 3


async def test_kill_of_the_harness_in_a_turn_and_while_idle(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session()
        await peer.prompt(session, "the number is 42")
        (harness,) = await peer.until_harnesses(1)
        harness.kill()
        harness.wait(5)
        await works(peer, session, "the number is 42")
        turn = peer.prompt_soon(session, "slow")
        await peer.until(lambda: "one" in peer.text())
        (harness,) = await peer.until_harnesses(1)
        harness.kill()
        with pytest.raises(RpcError) as caught:
            await asyncio.wait_for(turn, 10)
        assert caught.value.type == "harness_died"
        await works(peer, session, "the number is 42")


async def test_a_stuck_harness_blocks_nobody_and_is_killed(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session, other = await peer.new_session(), await peer.new_session()
        await peer.prompt(other, "the other one")
        turn = peer.prompt_soon(session, "slow")
        await peer.until(lambda: "one" in peer.text(session))
        for harness in peer.harnesses():
            harness.suspend()
        await peer.cancel(session)
        assert (await asyncio.wait_for(turn, 4))["stopReason"] == "cancelled"
        third = await peer.new_session()
        await works(peer, third)
        await works(peer, session)


async def test_a_tool_the_harness_drops_does_not_end_the_session_at_its_second_turn(tmp_path: Path) -> None:
    server = ToolServer()
    server.add("good", lambda _: "good")
    server.add("bad name", lambda _: "bad")
    server.add("badschema", lambda _: "bad", schema={"type": "object", "properties": {"a": {"items": [{}]}}})
    async with server.serve() as tools, engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session(tools.descriptor())
        for turn in range(3):
            await works(peer, session, *(["hello again"] if turn else []))
        await peer.prompt(session, "use good")
        assert tools.calls == [("good", {})]


async def test_a_tool_server_that_is_down_is_an_error_of_its_own_at_every_prompt(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        dead = {"type": "http", "name": "dead", "url": "http://127.0.0.1:9/mcp", "headers": []}
        session = await peer.new_session(dead)
        error = await fails(peer, session, "anybody there")
        assert error.type == "mcp_unavailable"
        error = await fails(peer, session, "anybody there")
        assert error.type == "mcp_unavailable"


async def test_a_model_that_cannot_be_reached(tmp_path: Path) -> None:
    async with engine(tmp_path, "--gemini-base-url", "http://127.0.0.1:9", "--model", "m") as peer:
        await peer.initialize()
        session = await peer.new_session()
        assert (await fails(peer, session, "anybody there")).type == "model_unreachable"


async def test_a_harness_that_cannot_start_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    fake = tmp_path / "localharness"
    fake.write_text("#!/bin/sh\nexit 3\n")
    fake.chmod(0o755)
    async with engine(tmp_path, script=SCRIPT, env={"ANTIGRAVITY_HARNESS_PATH": str(fake)}) as peer:
        await peer.initialize()
        session = await peer.new_session()
        assert (await fails(peer, session, "anybody there")).type == "harness_start"
        assert (await fails(peer, session, "anybody there")).type == "harness_start"
