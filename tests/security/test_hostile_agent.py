"""An agent that means harm can neither hang the host, fill its memory, nor put its own words into an error or a log."""

import asyncio
import gc
import json
import logging
import time

import pytest
from helpers.agent import agent, play
from helpers.conversation import Conversation, code_of, running
from helpers.loopback import directive, loopback_settings

from antigravity_acp.acp._redact import redact
from antigravity_acp.acp.transport import MAX_EARLY_BYTES, AgentTransport
from antigravity_acp.acp.updates import MAX_ID, AgentToolCall, Counters, UpdateReader
from antigravity_acp.contract import LlmError, user

SECRET = "words-of-the-agent"


@pytest.mark.parametrize("name", ["retryAfter", "retryAfterMs", "code", "resetsAt"])
async def test_a_number_that_no_float_can_hold_is_no_reason_to_wait_or_to_log(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = {"code": 1, "message": f"quota exceeded: {SECRET}", "data": {name: 10**400}}
    async with running(loopback_settings(timeoutMs=8000)) as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user(directive({"error": error})))
        with caplog.at_level(logging.DEBUG):
            assert await code_of(adapter.stream(chat.options())) == "ACP_QUOTA"
    gc.collect()
    assert SECRET not in caplog.text


async def test_the_number_of_an_error_carries_no_message_of_the_agent() -> None:
    async with agent() as one:
        with pytest.raises(LlmError) as caught:
            await play(await one.new_session(), {"error": {"code": int("31337" * 200), "message": "x"}})
    assert "31337" not in caught.value.message


@pytest.mark.parametrize("unit", ["a", "+", "a.", "a=", "token", "http://", "\"'", "bearer "])
def test_the_tail_of_stderr_is_redacted_in_linear_time(unit: str) -> None:
    began = time.monotonic()
    redact(unit * (16 * 1024 // len(unit)))
    assert time.monotonic() - began < 3  # unbounded repetitions took more than 20 s


@pytest.mark.parametrize(
    "text",
    ["my_api_key_2 = hunter2hunter2", '"client-secret": "hunter2hunter2"', "from hunter2hunter2@example.com now"],
)
def test_bounded_patterns_still_find_what_they_are_for(text: str) -> None:
    assert "hunter2" not in redact(text)


class OneChunk:
    """The pipe of an agent that wrote this much at once, then ended."""

    def __init__(self, data: bytes) -> None:
        self.chunks = [data]

    async def read(self) -> bytes:
        return self.chunks.pop() if self.chunks else b""

    def write(self, data: bytes) -> None:
        """Nothing is read at the other end."""

    async def drain(self) -> None:
        """Never full."""


@pytest.mark.parametrize("line", [b"\n", b" \r\n", b"{}\n", b'{"method":"x"}\n'])
async def test_lines_without_content_leave_room_for_the_rest_of_the_host(line: bytes) -> None:
    transport = AgentTransport(OneChunk(line * 20_000), Counters(), on_end=lambda: None)
    turns = 0

    async def host() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(host())
    assert await transport.receive() is None
    other.cancel()
    assert turns > 50


def test_ids_are_remembered_with_a_bound_and_stay_distinct() -> None:
    reader = UpdateReader(Counters())

    def report(end: str) -> AgentToolCall:
        update = {"sessionUpdate": "tool_call", "toolCallId": "i" * 100_000 + end}
        event = reader.read({**update, "_meta": {"mcp": {"server": "s" * 100_000, "tool": "t" * 100_000 + end}}})
        assert isinstance(event, AgentToolCall)
        return event

    one, again, other = report("1"), report("1"), report("2")
    assert (one.first, again.first, other.first) == (True, False, True)
    assert one.call_id == again.call_id != other.call_id
    assert one.tool != other.tool
    assert all(len(text or "") < 2 * MAX_ID for text in (one.call_id, one.server, one.tool))


async def test_updates_before_the_session_is_known_are_kept_within_a_bound() -> None:
    update = {"sessionUpdate": "plan", "text": "x" * (MAX_EARLY_BYTES // 2)}
    frame = json.dumps({"method": "session/update", "params": {"sessionId": "early", "update": update}}).encode()
    counters = Counters()
    transport = AgentTransport(OneChunk(b"\n".join([frame] * 3)), counters, on_end=lambda: None)
    with transport.expecting_session():
        assert await transport.receive() is None
    assert (counters.overflowed_updates, counters.foreign_updates) == (2, 1)


@pytest.mark.parametrize(
    "update",
    [
        pytest.param({"toolCallId": "interaction_1", "kind": "execute"}, id="an action under the id of a question"),
        pytest.param({"toolCallId": 7, "kind": "execute"}, id="an announcement without a usable id"),
        pytest.param({"toolCallId": "x" * 5000, "kind": "execute"}, id="an id of any length"),
    ],
)
async def test_no_id_hides_what_the_agent_does_on_its_own(update: dict[str, object]) -> None:
    reported = {"sessionUpdate": "tool_call", "title": "rm", "status": "completed", **update}
    async with running(loopback_settings(None, nativeToolPolicy="reject")) as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user(directive({"update": reported}, {"say": "never seen"})))
        assert await code_of(adapter.stream(chat.options())) == "ACP_NATIVE_TOOLS_UNSUPPORTED"
