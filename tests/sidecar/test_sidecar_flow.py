"""Back-pressure both ways: what a host does not acknowledge or read stalls that, and only that, in bounded memory."""

import asyncio
import json
from typing import Any

import pytest
from helpers.conversation import BOUND
from helpers.sidecar import SCRIPTED, Host, Stream, sidecar

from antigravity_acp.contract import Finish, GenerateOptions, StreamChunk, TextDelta, user
from antigravity_acp.limits import SIDECAR_REQUESTS, SIDECAR_UNREAD_BYTES, SIDECAR_WINDOW

FLOOD = 10_000


def scene(*steps: dict[str, Any], session: str | None = None) -> GenerateOptions:
    return GenerateOptions(
        provider="antigravity-acp", model="m1", messages=(user(json.dumps(steps)),), session_id=session
    )


DONE = {"finish": "stop"}


def text(chunks: list[StreamChunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))


async def pulled(host: Host) -> int:
    """How many chunks the adapter has been asked for; the answer comes after everything that was written before."""
    found = await host.request("diagnostics")
    count = found["pulled"]
    assert isinstance(count, int)
    return count


async def test_a_stream_that_is_not_acknowledged_stops_at_its_window_and_holds_up_no_other() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        host.keep = False
        slow = host.stream(scene({"say": "x", "times": FLOOD}, DONE), acknowledge=False)
        await slow.until(SIDECAR_WINDOW)
        fast = host.stream(scene({"say": "y", "times": 2_000}, DONE))
        assert len(text(await fast.end())) == 2_000

        assert await pulled(host) == SIDECAR_WINDOW + len(fast.chunks)
        assert len(slow.chunks) == SIDECAR_WINDOW
        slow.ack(10)
        await slow.until(SIDECAR_WINDOW + 10)
        assert await pulled(host) == SIDECAR_WINDOW + 10 + len(fast.chunks)
        assert (await host.request("diagnostics"))["sidecar_unacknowledged"] == SIDECAR_WINDOW

        slow.acknowledge = True
        slow.ack(SIDECAR_WINDOW)
        assert len(text(await slow.end())) == FLOOD
        assert isinstance(slow.chunks[-1], Finish)


async def test_more_acknowledgements_than_chunks_widen_no_window() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        stream = host.stream(scene({"say": "x", "times": FLOOD}, DONE), acknowledge=False)
        await stream.until(SIDECAR_WINDOW)
        stream.ack(1_000_000)
        await stream.until(2 * SIDECAR_WINDOW)
        assert await pulled(host) == 2 * SIDECAR_WINDOW
        stream.cancel()
        assert await stream.code() == "ABORTED"


async def test_a_cancel_reaches_a_stream_that_waits_for_acknowledgements() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        stream = host.stream(scene({"say": "x", "times": FLOOD}, DONE), acknowledge=False)
        await stream.until(SIDECAR_WINDOW)
        stream.cancel()
        assert await stream.code() == "ABORTED"
        # What was open has been closed, and nothing else came.
        assert len(stream.chunks) == SIDECAR_WINDOW + 1


async def test_a_host_that_does_not_read_stalls_streams_in_bounded_memory_and_is_still_heard() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        await pulled(host)
        before = host.family()[0].memory_info().rss
        host.stop_reading()
        word = "x" * 20_000
        streams = [host.stream(scene({"say": word, "times": FLOOD}, DONE)) for _ in range(20)]
        probe = host.stream(scene({"wait": True}))
        for stream in streams:
            # Acknowledged ahead of time: it is the pipe that holds them up, not the window.
            for _ in range(50):
                stream.ack(SIDECAR_WINDOW)
        await settled(host)
        # A request that comes later is read all the same, although its answer cannot be.
        late = host.ask("diagnostics")
        for stream in (*streams, probe):
            stream.cancel()
        await settled(host)
        # 4 GB were asked for.
        assert host.family()[0].memory_info().rss - before < 64 * 1024 * 1024
        host.read_on()
        async with asyncio.timeout(BOUND):
            await late
        assert {await stream.code() for stream in (*streams, probe)} == {"ABORTED"}
        assert (await host.request("diagnostics"))["aborted"] == 21


async def settled(host: Host) -> None:
    """Return when the process has nothing to do, within the bound."""
    process = host.family()[0]
    async with asyncio.timeout(BOUND):
        used = -1.0
        while used != (used := sum(process.cpu_times()[:2])):
            await asyncio.sleep(0.1)


async def test_a_host_that_asks_and_asks_and_does_not_read_is_not_read_either() -> None:
    async with sidecar(argv=SCRIPTED, limit=8192) as host:
        host.keep = False
        await pulled(host)
        before = host.family()[0].memory_info().rss
        host.stop_reading()
        asked = {"call": {"id": "c1", "name": "x" * 60, "arguments": {}}}
        answers = [host.ask("control/decide", asked) for _ in range(25_000)]
        assert host.process.stdin is not None
        transport = host.process.stdin.transport
        await settled(host)
        # It has stopped reading: what was asked beyond the bound waits at the host.
        assert transport.get_write_buffer_size() > 512 * 1024
        assert host.family()[0].memory_info().rss - before < SIDECAR_UNREAD_BYTES + 24 * 1024 * 1024
        host.read_on()
        async with asyncio.timeout(BOUND):
            assert len(await asyncio.gather(*answers)) == 25_000


async def test_chunks_that_are_there_together_leave_together_and_none_waits_for_more() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        # The adapter waits after its first words, so they must have left by then.
        held = host.stream(scene({"say": "now"}, {"wait": True}))
        await held.until(3)
        assert text(held.chunks) == "now"
        held.cancel()
        assert await held.code() == "ABORTED"

        many = host.stream(scene({"say": "x", "times": 198}, DONE))
        await many.end()
        assert len(many.chunks) == 201
        assert many.frames <= 5


async def test_a_slow_request_holds_up_nothing() -> None:
    async with sidecar({"args": ["models:wait"]}, SCRIPTED) as host:
        slow = host.ask("models/list", key="slow")
        waiting = host.stream(scene({"wait": True}))
        assert (await host.request("models/resolve", {"model": "m"}))["id"] == "m"
        waiting.cancel()
        assert await waiting.code() == "ABORTED"
        assert not slow.done()
        host.notify("$/cancel", id="slow")
        with pytest.raises(Exception, match="cancelled") as caught:
            await slow
        assert getattr(caught.value, "code", "") == "ABORTED"


async def test_one_request_too_many_is_refused_and_the_open_ones_can_still_be_cancelled() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        streams: list[Stream] = [host.stream(scene({"wait": True})) for _ in range(SIDECAR_REQUESTS + 1)]
        assert await streams[-1].code() == "SIDECAR_BUSY"
        for stream in streams[:-1]:
            stream.cancel()
        assert {await stream.code() for stream in streams[:-1]} == {"ABORTED"}
        assert len((await host.request("models/list"))["models"]) == 2


async def test_notices_for_a_host_that_does_not_read_are_bounded() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        few = host.stream(scene({"notice": "Downloading.", "times": 3}, DONE))
        await few.end()
        assert (
            host.notices
            == [{"code": "install.download", "level": "info", "message": "Downloading.", "progress": 0.5}] * 3
        )
        host.stop_reading()
        many = host.stream(scene({"notice": "n" * 1_000, "times": 5_000}, DONE))
        await settled(host)
        host.read_on()
        await many.end()
        assert (await host.request("diagnostics"))["sidecar_dropped_notices"] > 3_000
