"""The traffic of Google's harness (a Go client), byte for byte in its order, on raw sockets.

Facts: measured on harness 0.1.22. It discovers, opens a subscription, probes for OAuth without a bearer, lists once,
and sends its cancellation beside closing the stream.
"""

import json
from typing import Any

import pytest
from helpers.bridge import answer, exported, gathered, opened, raw, until

MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "antigravity-client", "version": "v1.0.0"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}, "roots": {}},
    "antigravity.google/artifacts_dir": "/tmp/x",
    "antigravity.google/conversation_id": "c" * 32,
    "progressToken": "c:1",
}
GO: dict[str, str | None] = {
    "User-Agent": "Go-http-client/1.1",
    "Accept": "application/json, text/event-stream",
    "Accept-Encoding": "gzip",
    "Mcp-Protocol-Version": MODERN,
}
WELL_KNOWN = ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource")


def body(request_id: int | None, method: str, **params: Any) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(message if request_id is None else {**message, "id": request_id}).encode()


@pytest.mark.requirement("A-040", "A-041")
async def test_a_session_of_the_harness_in_the_modern_era() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client, raw(endpoint) as second:
        discover = body(1, "server/discover", _meta=META)
        found = (await client.request(discover, headers=GO | {"Mcp-Method": "server/discover"})).result()
        assert found["supportedVersions"] == [MODERN]
        assert found["capabilities"] == {"tools": {"listChanged": False}}

        listen = body(2, "subscriptions/listen", notifications={"toolsListChanged": True}, _meta=META)
        refused = await second.request(listen, headers=GO | {"Mcp-Method": "subscriptions/listen"})
        assert (refused.status, refused.json()["error"]["code"]) == (404, -32601)

        for path in WELL_KNOWN * 2:
            async with raw(endpoint) as probe:
                assert (
                    await probe.request(b"", method="GET", path=path, headers=GO | {"Authorization": None})
                ).status == 404

        (tool,) = (
            await client.request(body(3, "tools/list", _meta=META), headers=GO | {"Mcp-Method": "tools/list"})
        ).result()["tools"]
        assert (await client.request(body(None, "notifications/roots/list_changed"), headers=GO)).status == 202

        arguments = {"q": "x"}
        called = GO | {"Mcp-Method": "tools/call", "Mcp-Name": tool["name"]}
        client.send("POST", "/mcp", called, body(4, "tools/call", name=tool["name"], arguments=arguments, _meta=META))
        (call,) = await gathered(endpoint, 1)
        assert answer(call, "done")
        response = await client.response()
        assert response.headers["content-type"] == "application/json"
        assert "mcp-session-id" not in response.headers
        assert response.text() == "done"

        client.send("POST", "/mcp", called, body(5, "tools/call", name=tool["name"], arguments=arguments, _meta=META))
        (call,) = await gathered(endpoint, 1)
        cancel = body(None, "notifications/cancelled", reason="context deadline exceeded", requestId=5)
        assert (await second.request(cancel, headers=GO)).status == 202
        await client.close()
        await until(lambda: call.undelivered)
        assert not answer(call)


@pytest.mark.requirement("A-040", "A-041")
async def test_a_session_of_the_harness_that_negotiated_down_and_keeps_its_header() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        assert (await client.request(body(1, "initialize", **initialize), headers=GO)).result()["protocolVersion"]
        assert (await client.request(body(None, "notifications/initialized"), headers=GO)).status == 202
        async with raw(endpoint) as stream:
            refused = await stream.request(b"", method="GET", headers=GO | {"Accept": "text/event-stream"})
            assert (refused.status, refused.headers["allow"]) == (405, "POST")
        assert (await client.request(body(2, "tools/list"), headers=GO)).result()["tools"]
        client.send("POST", "/mcp", GO, body(3, "tools/call", name=exported(endpoint), arguments={"q": "x"}))
        (call,) = await gathered(endpoint, 1)
        assert answer(call, "done")
        assert (await client.response()).text() == "done"
