"""Whole turns through the sidecar, on real agents."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from helpers.conversation import BOUND
from helpers.engine import engine_settings
from helpers.journals import json_lines
from helpers.loopback import directive
from helpers.sidecar import SCRIPTED, Host, on_loopback, sidecar, talk, until_gone

from antigravity_acp.contract import user
from antigravity_acp.limits import SIDECAR_KEPT_SIGNALS

CALL = {"call": {"name": "bash", "arguments": {"command": "ls", "n": 1.0}}}


async def numbers(host: Host) -> tuple[int, int, int, int]:
    found = await host.request("diagnostics")
    busy = found["processes"] - found["idle_processes"]
    return busy, found["active_turns"], found["parked_calls"], found["sidecar_kept_signals"]


@pytest.mark.requirement("A-009", "A-010", "A-012")
async def test_a_tool_turn_goes_on_in_the_same_prompt_and_its_signal_is_forgotten_at_the_end() -> None:
    async with sidecar(on_loopback()) as host:
        chat = talk(host)
        first = await chat.play({"think": "hm"}, {"say": ["Loo", "king."]}, CALL, {"say": " Done."}, {"usage": {}})
        assert (first.kind, first.text, first.thoughts) == ("tool-calls", "Looking.", "hm")
        assert [(one.name, json.loads(one.arguments)) for one in first.calls] == [("bash", {"command": "ls", "n": 1.0})]
        assert await numbers(host) == (1, 1, 1, 1)
        # A title beside it has an agent of its own and leaves the turn's signal alone.
        title = talk(host, tools=())
        assert (await title.play({"say": "A title"}, purpose="session-title")).text == "A title"
        assert (await numbers(host))[2:] == (1, 1)

        second = await chat.answer({first.calls[0].id: "a.txt"})
        assert (second.kind, second.text) == ("stop", "result:bash:a.txt Done.")
        assert await numbers(host) == (0, 0, 0, 0)


@pytest.mark.requirement("A-035", "A-036")
async def test_a_cancel_reaches_the_agent_at_once_between_two_stream_calls_and_in_mid_stream(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    async with sidecar(on_loopback({"record": str(record)}, cancelGraceMs=200)) as host:
        chat = talk(host)
        first = await chat.play(CALL, {"say": "never"})
        assert first.kind == "tool-calls"
        assert "session/cancel" not in record.read_text(encoding="utf-8")
        name = next(iter(host.streams))
        began = time.perf_counter()
        host.streams[name].cancel()
        async with asyncio.timeout(BOUND):
            while not any(frame.get("method") == "session/cancel" for frame in json_lines(record)):
                await asyncio.sleep(0.001)
        took = time.perf_counter() - began
        print(f"cancel between two stream calls: {took * 1e3:.1f} ms until the agent has written it down")
        assert took < 0.5
        async with asyncio.timeout(BOUND):
            while await numbers(host) != (0, 0, 0, 0):
                await asyncio.sleep(0.01)
        # The same session begins anew.
        chat.messages.append(user(directive({"say": "again"})))
        assert (await chat.generate(tools=())).text == "again"

        chat.messages.append(user(directive({"say": "begun"}, {"wait_cancel": 60})))
        stream = host.stream(chat.options(tools=()))
        await stream.until(2)
        began = time.perf_counter()
        stream.cancel()
        assert await stream.code() == "ABORTED"
        took = time.perf_counter() - began
        print(f"cancel in mid-stream: {took * 1e3:.1f} ms until the request is answered")
        assert took < 0.5
        assert [type(chunk).__name__ for chunk in stream.chunks] == ["BlockStart", "TextDelta", "BlockEnd"]


async def test_a_slow_agent_holds_up_no_other_and_a_flood_is_bounded_to_its_window() -> None:
    async with sidecar(on_loopback()) as host:
        chats = [talk(host, session_id=name) for name in ("flood", "fast")]
        chats[0].messages.append(user(directive({"flood": 10_000, "text": "0123456789"})))
        host.keep = False
        flood = host.stream(chats[0].options(), acknowledge=False)
        await flood.until(256)
        before = host.family()[0].memory_info().rss
        assert (await chats[1].play({"say": ["a", "b"]})).text == "ab"
        assert len(flood.chunks) == 256
        assert host.family()[0].memory_info().rss - before < 48 * 1024 * 1024
        flood.acknowledge = True
        flood.ack(256)
        assert len(await flood.end()) > 10_000


async def test_signals_of_turns_that_nobody_continues_are_bounded() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        calls = json.dumps([{"finish": "tool-calls"}])
        # Without a session nothing says that a turn is over, so the oldest are forgotten; with one the next says it.
        for session in (*[None] * (SIDECAR_KEPT_SIGNALS + 6), *["s1"] * 3):
            chat = talk(host, session_id=session)
            chat.messages.append(user(calls))
            await host.stream(chat.options()).end()
        names = list(host.streams)
        for name in (names[0], names[-3], names[-2]):
            host.notify("stream/cancel", stream=name)
        found = await host.request("diagnostics")
        assert (found["sidecar_kept_signals"], found["sidecar_unknown_cancels"]) == (SIDECAR_KEPT_SIGNALS, 3)
        host.notify("stream/cancel", stream=names[-1])
        host.notify("stream/cancel", stream=names[-4])
        found = await host.request("diagnostics")
        assert (found["sidecar_kept_signals"], found["aborted"]) == (SIDECAR_KEPT_SIGNALS - 2, 2)


@pytest.mark.requirement("A-036", "A-037")
async def test_the_embedded_engine_answers_lists_models_and_ends_with_its_host(tmp_path: Path) -> None:
    rules = [
        {"when": {"round": 0}, "text": "Looking.", "calls": [{"name": "bash", "arguments": {"command": "ls"}}]},
        {"when": {"round": 1}, "text": "It says: {{result}}", "calls": [{"name": "bash", "arguments": {}}]},
    ]
    async with sidecar(engine_settings(tmp_path, rules)) as host:
        ids = [model["id"] for model in (await host.request("models/list"))["models"]]
        assert ids[0] == "server-default"
        assert "scripted-2" in ids
        chat = talk(host)
        first = await chat.generate_hello()
        assert first.kind == "tool-calls"
        second = await chat.answer({first.calls[0].id: "REAL"})
        assert (second.kind, "It says: REAL" in second.text) == ("tool-calls", True)
        family = host.family()
        assert len(family) > 2
    # The end of the input came while the harness waited for the host's tool.
    await until_gone(family)
