"""However the bytes of stdout are cut, the same frames come out. No process: the pipe is the test's own."""

import asyncio
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antigravity_acp.acp.transport import AgentTransport
from antigravity_acp.acp.updates import AgentEvent, AgentText, AgentThought, Counters, UpdateReader


class Bytes:
    """A pipe that holds everything already."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = list(chunks)
        self.written: list[bytes] = []

    async def read(self) -> bytes:
        return self.chunks.pop(0) if self.chunks else b""

    def write(self, data: bytes) -> None:
        self.written.append(data)

    async def drain(self) -> None:
        return


class Sink:
    def __init__(self, counters: Counters) -> None:
        self.reader = UpdateReader(counters)
        self.events: list[AgentEvent] = []
        self.over = False

    def read(self, update: dict[str, Any]) -> AgentEvent | None:
        return self.reader.read(update)

    async def deliver(self, events: list[AgentEvent]) -> None:
        assert not self.over
        self.events += events

    def turn_over(self) -> None:
        self.over = True


def update(session: str, kind: str, text: str) -> bytes:
    params = {"sessionId": session, "update": {"sessionUpdate": kind, "content": {"type": "text", "text": text}}}
    return msgspec.json.encode({"jsonrpc": "2.0", "method": "session/update", "params": params})


LINES = st.lists(
    st.one_of(
        st.builds(update, st.just("a"), st.sampled_from(["agent_message_chunk", "agent_thought_chunk"]), st.text()),
        st.builds(update, st.just("b"), st.just("agent_message_chunk"), st.text(max_size=3)),
        st.builds(update, st.just("nobody"), st.just("agent_message_chunk"), st.text(max_size=3)),
        st.sampled_from([b"noise", b"", b"\r", b"42", b'{"id":1}', b'{"method":"x","id":"q"}']),
    ),
    max_size=30,
)


async def run(chunks: list[bytes]) -> tuple[dict[str, list[AgentEvent]], Counters, list[bytes]]:
    counters = Counters()
    pipe = Bytes([chunk for chunk in chunks if chunk])
    transport = AgentTransport(pipe, counters, on_end=lambda: None)
    sinks = {key: Sink(counters) for key in "ab"}
    for key, sink in sinks.items():
        assert transport.register(key, sink) == []
    while await transport.receive() is not None:
        pass
    assert transport.failure is None
    return {key: sink.events for key, sink in sinks.items()}, counters, pipe.written


@settings(max_examples=150, deadline=None)
@given(lines=LINES, cuts=st.lists(st.integers(0, 4000), max_size=12), newline_at_end=st.booleans())
def test_cuts_between_chunks_change_nothing(lines: list[bytes], cuts: list[int], newline_at_end: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if newline_at_end else b"")
    edges = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    chunks = [data[start:end] for start, end in pairwise(edges)]
    whole, cut = asyncio.run(run([data])), asyncio.run(run(chunks))
    assert whole == cut
    expected = [msgspec.json.decode(line)["params"] for line in lines if b"session/update" in line]
    for key in "ab":
        texts = [
            (AgentThought if item["update"]["sessionUpdate"] == "agent_thought_chunk" else AgentText)(
                item["update"]["content"]["text"]
            )
            for item in expected
            if item["sessionId"] == key
        ]
        assert whole[0][key] == texts


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=3000))
def test_any_bytes_at_all_end_in_peace(data: bytes) -> None:
    asyncio.run(run([data[:1000], data[1000:]]))


async def test_a_response_ends_its_turn_before_the_next_line_is_read() -> None:
    counters = Counters()
    response = b'{"jsonrpc":"2.0","id":7,"result":{"stopReason":"end_turn"}}'
    pipe = Bytes([b"\n".join([update("a", "agent_message_chunk", "x"), response, b"noise"]) + b"\n"])
    transport = AgentTransport(pipe, counters, on_end=lambda: None)
    sink = Sink(counters)
    transport.register("a", sink)
    await transport.send({"jsonrpc": "2.0", "id": 7, "method": "session/prompt", "params": {"sessionId": "a"}})
    assert (await transport.receive()) == {"id": 7, "result": {"stopReason": "end_turn"}}
    assert sink.over
    assert sink.events == [AgentText("x")]


async def test_a_second_answer_to_the_same_request_is_dropped() -> None:
    counters = Counters()
    pipe = Bytes([b'{"id":1,"result":1}\n{"id":1,"result":2}\n'])
    transport = AgentTransport(pipe, counters, on_end=lambda: None)
    await transport.send({"id": 1, "method": "x"})
    assert await transport.receive() == {"id": 1, "result": 1}
    assert await transport.receive() is None
    assert counters.unmatched_responses == 1


async def test_an_agent_that_asks_without_end_is_given_up() -> None:
    counters = Counters()
    lines = b"".join(b'{"id":%d,"method":"session/request_permission","params":{}}\n' % n for n in range(300))
    transport = AgentTransport(Bytes([lines]), counters, on_end=lambda: None)
    received = 0
    while await transport.receive() is not None:
        received += 1
    assert received == 256
    assert transport.failure is not None
    assert transport.failure.code == "ACP_PROTOCOL_ERROR"


@pytest.mark.parametrize("text", ["plain", "lone \ud800 surrogate", "\u2028 é \U0001f600"])
async def test_what_we_send_is_always_utf8(text: str) -> None:
    pipe = Bytes([])
    transport = AgentTransport(pipe, Counters(), on_end=lambda: None)
    await transport.send({"id": 1, "method": "x", "params": {"text": text}})
    line = pipe.written[0]
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert msgspec.json.decode(line)["params"]["text"] == text.replace("\ud800", "?")
