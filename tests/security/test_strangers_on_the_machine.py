"""Who has no bearer gets nothing, and cannot use up what the host needs either."""

import asyncio
import os
import sys

import pytest
from helpers.bridge import SOON_S, opened, port_of, raw

from antigravity_acp.limits import MAX_STRANGERS

HALF_A_HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n"
NO_BEARER = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n"

#: Opens connections, sends the same bytes on each, says so, and holds them until its stdin ends.
STRANGER = """
import socket, sys
port, count, data = int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3])
held = []
for _ in range(count):
    one = socket.create_connection(("127.0.0.1", port))
    try:
        one.sendall(data)
    except OSError:
        pass
    held.append(one)
print("held", flush=True)
sys.stdin.read()
"""


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are counted through /proc")
@pytest.mark.parametrize("data", [HALF_A_HEAD, NO_BEARER, b""], ids=["half a head", "no bearer", "silence"])
async def test_connections_of_strangers_are_bounded_and_the_agent_is_served(data: bytes) -> None:
    async with opened() as (_, endpoint), raw(endpoint) as agent:
        assert (await agent.rpc({"id": 1, "method": "tools/list"})).status == 200
        before = descriptors()
        stranger = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", STRANGER, str(port_of(endpoint)), str(3 * MAX_STRANGERS), data.hex()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert stranger.stdin is not None
        assert stranger.stdout is not None
        try:
            async with asyncio.timeout(SOON_S):
                assert await stranger.stdout.readline() == b"held\n"
                # Another connection is served only after those before it were accepted.
                async with raw(endpoint) as late:
                    assert (await late.rpc({"id": 2, "method": "tools/list"})).status == 200
            assert descriptors() - before < MAX_STRANGERS + 50
            # A connection that has shown the bearer is not the one that goes.
            assert (await agent.rpc({"id": 3, "method": "tools/list"})).status == 200
        finally:
            stranger.stdin.close()
            await stranger.wait()


HEADS = {
    "two Hosts": "Host: {host}\r\nHost: evil.example\r\nAuthorization: {bearer}\r\nContent-Length: {size}",
    "two bearers": "Host: {host}\r\nAuthorization: Bearer x\r\nAuthorization: {bearer}\r\nContent-Length: {size}",
    "two lengths": "Host: {host}\r\nAuthorization: {bearer}\r\nContent-Length: {size}\r\nContent-Length: 1",
    "another name": "Host: evil.example\r\nAuthorization: {bearer}\r\nContent-Length: {size}",
    "localhost": "Host: localhost:{port}\r\nAuthorization: {bearer}\r\nContent-Length: {size}",
    "an empty Origin": "Host: {host}\r\nOrigin:\r\nAuthorization: {bearer}\r\nContent-Length: {size}",
    "no Host": "Authorization: {bearer}\r\nContent-Length: {size}",
}


@pytest.mark.parametrize("target", ["/mcp", "http://127.0.0.1:{port}/mcp", "/x/../mcp", "/%6dcp", "//mcp"])
@pytest.mark.parametrize("head", [*HEADS.values(), None], ids=[*HEADS, "a good head"])
async def test_no_spelling_of_a_request_gets_around_the_guard(target: str, head: str | None) -> None:
    good = head is None and target == "/mcp"
    async with opened() as (_, endpoint), raw(endpoint) as client:
        body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
        port = port_of(endpoint)
        values = {"host": f"127.0.0.1:{port}", "port": port, "bearer": endpoint.headers[0][1], "size": len(body)}
        lines = (head or "Host: {host}\r\nAuthorization: {bearer}\r\nContent-Length: {size}").format(**values)
        client.writer.write(
            f"POST {target.format(**values)} HTTP/1.1\r\nContent-Type: application/json\r\n{lines}\r\n\r\n".encode()
        )
        client.writer.write(body)
        assert ((await client.head()).status == 200) is good
