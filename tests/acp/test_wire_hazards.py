"""What agents print that is not the protocol, and what must come of it."""

import json
import logging
from typing import Any

import pytest
from helpers.agent import agent, play

from antigravity_acp.acp import AgentText, AgentToolCall
from antigravity_acp.contract import LlmError

SECRET = "sentence-that-must-not-be-logged"


@pytest.mark.parametrize(
    "step",
    [
        {"raw": f"plain text {SECRET}"},
        {"raw": "42"},
        {"raw": "null"},
        {"raw": "[1, 2]"},
        {"raw": '"text"'},
        {"raw": '{"half": '},
        {"raw": "{" * 5000},
        {"raw": '{"a":' * 3000},
        {"hex": "fffe00ff"},
    ],
)
async def test_a_line_that_is_no_object_is_noise_and_nothing_else(step: dict[str, Any]) -> None:
    async with agent() as one:
        seen = await play(await one.new_session(), {"say": "before "}, step, {"say": "after"})
        assert seen.text == "before after"
        assert seen.outcome.stop_reason == "end_turn"
        assert one.counters.noise_lines == 1


async def test_blank_lines_and_carriage_returns_are_not_noise() -> None:
    async with agent() as one:
        seen = await play(await one.new_session(), {"hex": "0d"}, {"raw": ""}, {"hex": "20200d"}, {"say": "ok"})
        assert seen.text == "ok"
        assert one.counters.noise_lines == 0


async def test_text_that_is_not_utf8_is_repaired_and_not_lost() -> None:
    def frame(text: bytes) -> str:
        return (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"SID","update":'
            b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"' + text + b'"}}}}'
        ).hex()

    async with agent() as one:
        session = await one.new_session()
        own = [
            frame(text).replace(b"SID".hex(), session.id.encode().hex())
            for text in (b"a\xffb", rb"c\ud800d", rb"e\ud83d\ude00f", b"g\xed\xa0\x80h")
        ]
        seen = await play(session, *({"hex": line} for line in own))
        assert seen.text == "a\ufffdb" + "c\ufffdd" + "e\U0001f600f" + "g" + "\ufffd" * 3 + "h"
        assert seen.text.encode()
        assert one.counters.noise_lines == 0
        assert one.counters.repaired_frames == 3


async def test_a_stream_of_noise_is_no_acp_agent() -> None:
    async with agent() as one:
        session = await one.new_session()
        with pytest.raises(LlmError) as caught:
            await play(session, {"raw": "progress 1%", "times": 1001}, {"no_answer": True})
        assert caught.value.code == "ACP_PROTOCOL_ERROR"
        assert "1000" in caught.value.message
        assert one.failure().code == "ACP_PROTOCOL_ERROR"
        assert not one.alive


async def test_noise_between_frames_never_adds_up() -> None:
    async with agent() as one:
        steps = [step for _ in range(3) for step in ({"raw": "noise", "times": 900}, {"say": "x"})]
        assert (await play(await one.new_session(), *steps)).text == "xxx"
        assert one.counters.noise_lines == 2700


async def test_a_frame_of_three_megabytes_passes_and_one_over_the_limit_ends_the_connection() -> None:
    async with agent() as one:
        assert len((await play(await one.new_session(), {"long_line": 3_000_000})).text) == 3_000_000
        session = await one.new_session()
        with pytest.raises(LlmError) as caught:
            await play(session, {"long_line": 33 * 1024 * 1024})
        assert caught.value.code == "ACP_PROTOCOL_ERROR"
        assert str(32 * 1024 * 1024) in caught.value.message


async def test_the_last_frame_counts_without_its_newline() -> None:
    async with agent() as one:
        seen = await play(await one.new_session(), {"say": "done"}, {"half_exit": True})
        assert (seen.text, seen.outcome.stop_reason) == ("done", "end_turn")


async def test_unknown_updates_and_content_are_counted_and_the_turn_goes_on() -> None:
    async with agent() as one:
        seen = await play(
            await one.new_session(),
            {"update": {"sessionUpdate": "hologram", "data": SECRET}},
            {"update": {"sessionUpdate": 7}},
            {"update": {}},
            {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "x"}}},
            {"update": {"sessionUpdate": "agent_message_chunk", "content": None}},
            {"update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": 5}}},
            {"update": {"sessionUpdate": "tool_call_update", "toolCallId": 7}},
            {"update": {"sessionUpdate": "plan", "entries": []}},
            {"say": "ok"},
        )
        assert (seen.text, len(seen.events)) == ("ok", 1)
        counters = one.counters
        assert (counters.unknown_updates, counters.unsupported_content, counters.silent_updates) == (3, 4, 1)


@pytest.mark.requirement("A-061")
async def test_occupancy_of_the_context_is_no_usage() -> None:
    async with agent() as one:
        update = {"sessionUpdate": "usage_update", "used": None, "size": 100}
        seen = await play(await one.new_session(), {"update": update}, {"say": "ok"})
        assert seen.outcome.usage is None
        assert len(seen.events) == 1


async def test_an_unknown_stop_reason_is_returned_as_it_is() -> None:
    async with agent() as one:
        assert (await play(await one.new_session(), {"stop": "lunch_break"})).outcome.stop_reason == "lunch_break"
        assert (await play(await one.new_session(), {"stop": None})).outcome.stop_reason == ""
        assert (await play(await one.new_session(), {"stop": {"a": 1}})).outcome.stop_reason == ""


@pytest.mark.requirement("A-045")
async def test_requests_for_powers_that_were_not_given_are_refused() -> None:
    async with agent() as one:
        for method in ("fs/read_text_file", "terminal/create", "_vendor/secret", "elicitation/create"):
            step = {"request": {"method": method, "params": {"path": SECRET}}}
            seen = await play(await one.new_session(), step)
            assert '"code": -32601' in seen.text
        assert one.counters.unknown_requests == 4


async def test_malformed_frames_are_counted_and_break_nothing() -> None:
    lines = [
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse"}}',
        '{"jsonrpc":"2.0","id":[1],"result":{}}',
        '{"jsonrpc":"2.0","id":true,"result":{}}',
        '{"jsonrpc":"2.0","id":2.0,"result":{}}',
        '{"jsonrpc":"2.0","id":99,"result":{}}',
        '{"jsonrpc":"2.0"}',
        '{"jsonrpc":"2.0","method":7}',
        '{"jsonrpc":"2.0","id":{},"method":"session/request_permission"}',
        '{"jsonrpc":"2.0","method":"session/update"}',
        '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":3,"update":{}}}',
        '{"jsonrpc":"2.0","method":"unknown/thing","params":[]}',
    ]
    async with agent() as one:
        seen = await play(await one.new_session(), *({"raw": line} for line in lines), {"say": "ok"})
        assert seen.text == "ok"
        counters = one.counters
        assert counters.unmatched_responses == 6
        assert (counters.malformed_frames, counters.unknown_notifications) == (3, 2)


@pytest.mark.parametrize("error", ["text", 7, None, [], {"code": "x", "message": 5}, {"code": 1.5}, {}])
async def test_an_error_answer_of_any_shape_is_an_error_and_not_a_crash(error: Any) -> None:
    async with agent({"models": None}) as one:
        session = await one.new_session()
        # The prompt is request 2; the malformed answer comes first and is the one that counts.
        line = {"jsonrpc": "2.0", "id": 2, "error": error}
        raw = json.dumps(line)
        if error is None:
            assert (await play(session, {"raw": raw}, {"no_answer": True})).outcome.stop_reason == ""
            return
        with pytest.raises(LlmError) as caught:
            await play(session, {"raw": raw}, {"no_answer": True})
        assert caught.value.code == "ACP_RPC_ERROR"


@pytest.mark.requirement("A-063")
async def test_nothing_of_an_agents_traffic_reaches_any_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with agent({"init_lines": [SECRET]}) as one:
        session = await one.new_session()
        await play(
            session,
            {"raw": SECRET},
            {"notify": {"method": "x/unknown", "params": {"a": SECRET}}},
            {"notify": {"method": "elicitation/complete", "params": {"a": SECRET}}},
            {"request": {"method": "x/unknown", "params": {"a": SECRET}}},
            {"request": {"method": "session/request_permission", "params": {"sessionId": SECRET}}},
            {"request": {"method": "session/request_permission", "params": SECRET}},
            {"update": {"sessionUpdate": "hologram", "a": SECRET}},
            {"update": {"sessionUpdate": "agent_message_chunk", "content": SECRET}},
            {"update": {"sessionUpdate": "tool_call", "toolCallId": "1", "title": SECRET}, "session": SECRET},
            {"stderr": 1, "text": SECRET},
            {"say": SECRET},
        )
        with pytest.raises(LlmError) as caught:
            await play(await one.new_session(), {"error": {"code": -32603, "message": SECRET, "data": {"m": SECRET}}})
        assert SECRET not in str(caught.value)
    assert SECRET not in caplog.text
    # The SDK logs to the root logger what its handlers cannot take; none of ours may end there.
    assert [record for record in caplog.records if record.name == "root"] == []


async def test_a_tool_call_keeps_the_identity_of_its_first_report() -> None:
    def report(what: str, server: str | None, **more: Any) -> dict[str, Any]:
        meta = {"_meta": {"mcp": {"server": server, "tool": "t"}}} if server else {}
        return {"update": {"sessionUpdate": what, "toolCallId": "c", "title": "T", **meta, **more}}

    async with agent() as one:
        seen = await play(
            await one.new_session(),
            report("tool_call", "ours", kind="other", status="pending"),
            report("tool_call", "ours", kind="other", status="pending"),
            report("tool_call_update", "theirs", status="completed"),
            report("tool_call_update", None),
        )
        calls = [event for event in seen.events if isinstance(event, AgentToolCall)]
        assert [(call.first, call.announced, call.server) for call in calls] == [
            (True, True, "ours"),
            (False, True, "ours"),
            (False, False, "ours"),
            (False, False, "ours"),
        ]


async def test_a_text_that_quotes_a_chunk_is_still_text() -> None:
    async with agent() as one:
        tricky = '{"sessionUpdate":"agent_thought_chunk","method":"session/update"}'
        seen = await play(await one.new_session(), {"say": tricky}, {"native": {"title": '_chunk"'}}, {"think": tricky})
        assert (seen.text, seen.thoughts, len(seen.events)) == (tricky, tricky, 3)
        assert isinstance(seen.events[0], AgentText)
