"""Every way not to be let in: nothing but POST /mcp with the exact Host, no Origin and a living bearer."""

import asyncio
import json
import logging
from collections.abc import Mapping

import pytest
from helpers.bridge import SOON_S, exported, gathered, opened, port_of, raw, until

from antigravity_acp.limits import MAX_BODY_BYTES

LIST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
BEARER = "Authorization"


@pytest.mark.requirement("A-040")
async def test_the_bearer_is_256_bits_fresh_and_needed_on_every_request() -> None:
    async with opened() as (bridge, endpoint), raw(endpoint) as client:
        (name, value) = endpoint.headers[0]
        token = value.removeprefix("Bearer ")
        assert (name, len(bytes.fromhex(token))) == (BEARER, 32)
        other = await bridge.open(endpoint.catalogue)
        assert other.headers != endpoint.headers
        assert other.server_name != endpoint.server_name
        assert (await client.request(LIST)).status == 200
        for wrong in (None, "", "Bearer", "Bearer ", value[:-1], f"{value}x", f"Basic {token}", token):
            async with raw(endpoint) as stranger:
                response = await stranger.request(LIST, headers={BEARER: wrong})
                assert (response.status, response.headers["www-authenticate"]) == (401, "Bearer"), wrong


@pytest.mark.requirement("A-040")
async def test_two_bearers_in_one_request_are_none() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        assert (await client.request(LIST, headers={"authorization": endpoint.headers[0][1]})).status == 401


@pytest.mark.requirement("A-040")
async def test_an_endpoint_that_was_closed_is_closed_for_its_bearer_only() -> None:
    async with opened() as (bridge, endpoint), raw(endpoint) as client:
        other = await bridge.open(endpoint.catalogue)
        assert (await client.request(LIST)).status == 200
        endpoint.close()
        endpoint.close()
        assert (await client.request(LIST)).status == 401
        async with raw(other) as second:
            assert (await second.request(LIST)).status == 200


@pytest.mark.requirement("A-040")
async def test_it_listens_on_the_ipv4_loopback_address_only() -> None:
    async with opened() as (bridge, endpoint):
        assert bridge._listener is not None
        assert bridge._listener._socket.getsockname()[0] == "127.0.0.1"
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.2", port_of(endpoint))


HOSTS = (
    "localhost:{port}",
    "127.0.0.1:{port}.evil.example",
    "127.0.0.1",
    "127.0.0.1:{wrong}",
    "127.0.0.1:{port}@evil.example",
    "evil.example",
    "[::1]:{port}",
    "127.1:{port}",
    "2130706433:{port}",
    "",
)


@pytest.mark.requirement("A-041")
async def test_another_host_is_not_served() -> None:
    async with opened() as (_, endpoint):
        port = port_of(endpoint)
        for host in HOSTS:
            async with raw(endpoint) as client:
                response = await client.request(LIST, headers={"Host": host.format(port=port, wrong=port + 1)})
                assert response.status == 421, host
        async with raw(endpoint) as client:
            assert (await client.request(LIST, headers={"Host": None})).status == 400
        async with raw(endpoint) as client:
            assert (await client.request(LIST, headers={"host": f"127.0.0.1:{port}"})).status == 400


@pytest.mark.requirement("A-041")
async def test_any_origin_is_refused() -> None:
    async with opened() as (_, endpoint):
        for origin in ("null", "https://evil.example", f"http://127.0.0.1:{port_of(endpoint)}", "", "file://"):
            async with raw(endpoint) as client:
                assert (await client.request(LIST, headers={"Origin": origin})).status == 403, origin


@pytest.mark.requirement("A-041")
async def test_another_method_is_answered_with_the_one_that_is_allowed() -> None:
    async with opened() as (_, endpoint):
        for method in ("GET", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "post"):
            async with raw(endpoint) as client:
                response = await client.request(b"", method=method, headers={"Accept": "text/event-stream"})
                assert (response.status, response.headers["allow"]) == (405, "POST"), method


PATHS = ("/", "/mcp/", "/mcp/x", "/MCP", "//mcp", "/%6dcp", "/mcp?x=1", "/.well-known/oauth-protected-resource/mcp")


@pytest.mark.requirement("A-041")
async def test_another_path_does_not_exist() -> None:
    async with opened() as (_, endpoint):
        for path in PATHS:
            async with raw(endpoint) as client:
                assert (await client.request(LIST, path=path)).status == 404, path
            async with raw(endpoint) as client:
                # Discovery requests of agents carry no bearer; a 401 would start a sign-in.
                assert (await client.request(b"", method="GET", path=path, headers={BEARER: None})).status == 404


@pytest.mark.requirement("A-042")
async def test_a_body_that_says_it_is_too_large_is_refused_unread() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        client.send("POST", "/mcp", {"Content-Length": str(MAX_BODY_BYTES + 1)}, b"")
        assert (await client.head()).status == 413


@pytest.mark.requirement("A-042")
async def test_a_sender_of_a_large_body_gets_to_read_the_refusal() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        client.send("POST", "/mcp", {"Content-Length": str(6 * MAX_BODY_BYTES)}, b"")
        for _ in range(6):
            client.writer.write(b"x" * MAX_BODY_BYTES)
            await client.writer.drain()
        assert (await client.response()).status == 413


@pytest.mark.requirement("A-042")
async def test_a_chunked_body_is_counted_while_it_comes() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        client.send("POST", "/mcp", {"Content-Length": None, "Transfer-Encoding": "chunked"}, b"")
        chunk = b"%x\r\n%b\r\n" % (65_536, b" " * 65_536)
        for _ in range(17):
            client.writer.write(chunk)
        assert (await client.head()).status == 413


@pytest.mark.requirement("A-042")
async def test_a_body_of_exactly_one_mebibyte_is_served() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        assert (await client.request(LIST.ljust(MAX_BODY_BYTES))).status == 200


KINDS: tuple[tuple[Mapping[str, str | None], int], ...] = (
    ({"Content-Type": "text/plain"}, 415),
    ({"Content-Type": None}, 415),
    ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ({"Content-Encoding": "gzip"}, 415),
    ({"Accept": "text/html"}, 406),
    ({"Content-Type": "Application/JSON; charset=utf-8"}, 200),
    ({"Accept": None}, 200),
    ({"Accept": "*/*"}, 200),
    ({"Accept": "application/json;q=0.9"}, 200),
)


async def test_only_json_is_read_and_only_what_we_speak_is_promised() -> None:
    async with opened() as (_, endpoint):
        for headers, status in KINDS:
            async with raw(endpoint) as client:
                assert (await client.request(LIST, headers=headers)).status == status, headers


BODIES = (
    (b"", -32700),
    (b"{", -32700),
    (b"\xff{}", -32700),
    (b"\xef\xbb\xbf{}", -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/list"} trailing', -32700),
    (b'{"params":' + b"[" * 100_000, -32700),
    (b"[]", -32600),
    (b"42", -32600),
    (b"{}", -32600),
    (b"[" + LIST + b"," + LIST + b"]", -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}', -32600),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}', -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"tools/list"}', -32600),
    (b'{"jsonrpc":"2.0","id":{},"method":"tools/list"}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}', -32602),
)


async def test_a_body_that_is_no_request_is_told_so() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        for body, code in BODIES:
            response = await client.request(body)
            assert (response.status, response.json()["error"]["code"]) == (400, code), body[:80]
            assert (await client.request(LIST)).status == 200


async def test_an_id_comes_back_as_it_was_sent() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        for request_id in (0, -1, "a", "", "0", 2**70, "é"):
            assert (await client.rpc({"id": request_id, "method": "ping"})).json()["id"] == request_id


async def test_a_body_that_never_ends_does_not_keep_calls_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antigravity_acp.bridge._app.BODY_TIMEOUT_S", 0.2)
    async with opened() as (_, endpoint), raw(endpoint) as stalled, raw(endpoint) as client:
        stalled.send("POST", "/mcp", {"Content-Length": "100"}, b"{")
        await until(lambda: endpoint.desk._arriving == 1)
        client.call(1, exported(endpoint))
        await gathered(endpoint, 1)
        assert (await stalled.head()).status == 408


async def test_refusals_show_nothing_of_the_request_and_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "antigravity_acp")
    async with opened() as (bridge, endpoint), raw(endpoint) as client:
        response = await client.request(b'{"secret', headers={BEARER: "Bearer secret-token", "X-Secret": "secret"})
        assert b"secret" not in response.body
        assert bridge.counters["refused_requests"] == 1
    async with opened() as (_, endpoint), raw(endpoint) as client:
        client.writer.write(b"secret nonsense\r\n\r\n")
        async with asyncio.timeout(SOON_S):
            assert b"secret" not in await client.reader.read()
    assert "secret" not in caplog.text
    assert endpoint.headers[0][1].removeprefix("Bearer ") not in repr(endpoint)
