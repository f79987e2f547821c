"""Ending a bridge: quick, complete, and with an answer for everyone who waits."""

import asyncio
import signal
import socket
import sys
import time

import pytest
from helpers.bridge import answer, exported, gathered, opened, port_of, raw, raws, until

from antigravity_acp.bridge import Bridge, Catalogue
from antigravity_acp.contract import LlmError, ToolSchema

#: What ending may take: 0.15 s for answers under way, and what a busy machine adds.
QUICK_S = 1.0


@pytest.mark.requirement("A-025", "A-037")
async def test_closing_an_endpoint_answers_what_is_parked_with_an_error() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        client.call(1, exported(endpoint))
        (call,) = await gathered(endpoint, 1)
        await endpoint.aclose()
        assert endpoint.desk._reading == 0
        result = (await client.response()).result()
        assert result["isError"]
        assert "turn ended" in result["content"][0]["text"]
        assert endpoint.parked == {}
        assert not answer(call)
        assert await endpoint.gather() == []


@pytest.mark.requirement("A-037")
async def test_closing_the_bridge_answers_every_call_and_ends_soon() -> None:
    async with opened() as (bridge, endpoint), raws(endpoint, 10) as clients:
        for index, client in enumerate(clients):
            client.call(index, exported(endpoint))
        await gathered(endpoint, 10)
        started = time.monotonic()
        await bridge.aclose()
        assert time.monotonic() - started < QUICK_S
        for client in clients:
            assert (await client.response()).result()["isError"]
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port_of(endpoint))


async def test_clients_that_stall_do_not_hold_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antigravity_acp.bridge._app.STREAM_AFTER_S", 0.01)
    async with opened() as (bridge, endpoint), raws(endpoint, 4) as (_, half_head, half_body, deaf):
        half_head.writer.write(b"POST /mcp HT")
        half_body.send("POST", "/mcp", {"Content-Length": "1000"}, b"{")
        deaf.call(1, exported(endpoint))
        deaf.reader._transport.pause_reading()  # type: ignore[attr-defined]  # a client that no longer reads
        (call,) = await gathered(endpoint, 1)
        await until(lambda: endpoint.desk._arriving == 1)
        assert answer(call, "x" * 16_000_000)
        assert bridge._listener is not None
        assert bridge._listener._server is not None
        connections = bridge._listener._server.server_state.connections
        await until(lambda: any(each.transport.get_write_buffer_size() for each in connections))
        started = time.monotonic()
        await bridge.aclose()
        assert time.monotonic() - started < QUICK_S


async def test_closing_twice_or_before_anything_was_opened_is_harmless() -> None:
    bridge = Bridge()
    await bridge.aclose()
    await bridge.aclose()
    with pytest.raises(LlmError) as caught:
        await bridge.open(Catalogue.build([ToolSchema("t")], name_budget=48))
    assert caught.value.code == "ACP_DISPOSED"


async def test_closing_is_complete_also_when_it_is_cancelled() -> None:
    async with opened() as (bridge, endpoint), raw(endpoint) as client:
        client.send("POST", "/mcp", {"Content-Length": "10"}, b"{")
        await until(lambda: endpoint.desk._arriving == 1)
        closing = asyncio.create_task(bridge.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port_of(endpoint))


async def test_endpoints_opened_at_once_share_one_listener() -> None:
    bridge = Bridge()
    try:
        catalogue = Catalogue.build([ToolSchema("t")], name_budget=48)
        endpoints = await asyncio.gather(*(bridge.open(catalogue) for _ in range(8)))
        assert len({endpoint.url for endpoint in endpoints}) == 1
        assert len({endpoint.headers for endpoint in endpoints}) == 8
    finally:
        await bridge.aclose()


async def test_an_opening_that_is_cancelled_leaves_nothing() -> None:
    for passes in range(6):
        bridge = Bridge()
        opening = asyncio.create_task(bridge.open(Catalogue.build([ToolSchema("t")], name_budget=48)))
        for _ in range(passes):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await bridge.aclose()


async def test_the_hosts_signal_handlers_and_log_settings_stay_as_they_are() -> None:
    import logging

    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    names = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
    loggers = [(logger.level, logger.propagate, list(logger.handlers)) for logger in map(logging.getLogger, names)]
    async with opened():
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert loggers == [
        (logger.level, logger.propagate, list(logger.handlers)) for logger in map(logging.getLogger, names)
    ]


async def test_small_answers_are_not_held_back_by_the_kernel() -> None:
    """Without TCP_NODELAY a second answer on a connection takes 40 ms."""
    async with opened() as (bridge, endpoint), raw(endpoint) as client:
        await client.rpc({"id": 0, "method": "ping"})
        assert bridge._listener is not None
        assert bridge._listener._server is not None
        (connection,) = bridge._listener._server.server_state.connections
        option = connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert option != 0


async def test_importing_the_room_does_not_import_the_protocol_libraries() -> None:
    code = "import sys, antigravity_acp.bridge as b; print(sorted({'mcp', 'uvicorn', 'pydantic'} & set(sys.modules)))"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert out.strip() == b"[]"
