"""One endpoint speaks both protocol eras, also to clients that mix them up as Google's harness does."""

from collections.abc import Mapping
from typing import Any

import pytest
from helpers.bridge import Raw, Response, answer, exported, gathered, opened, raw

from antigravity_acp.bridge import SERVER_NAME_LENGTH

MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "antigravity-client", "version": "v1.0.0"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}, "roots": {}},
}
INITIALIZE = {"capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


def headers(method: str, name: str | None = None) -> dict[str, str | None]:
    return {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, "Mcp-Name": name}


async def modern(client: Raw, method: str, **params: Any) -> Response:
    name = params.get("name")
    return await client.rpc({"id": 1, "method": method, "params": {**params, "_meta": META}}, headers(method, name))


AGREED = {
    "2024-11-05": "2024-11-05",
    "2025-03-26": "2025-03-26",
    "2025-06-18": "2025-06-18",
    "2025-11-25": "2025-11-25",
    MODERN: "2025-11-25",
    "1999-01-01": "2025-11-25",
}


@pytest.mark.requirement("A-040")
@pytest.mark.parametrize("header", [None, MODERN, "2025-06-18"])
async def test_the_handshake_agrees_on_a_version_whatever_the_header_says(header: str | None) -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        for offered, agreed in AGREED.items():
            message = {"id": 1, "method": "initialize", "params": {"protocolVersion": offered, **INITIALIZE}}
            response = await client.rpc(message, {"MCP-Protocol-Version": header})
            assert response.status == 200
            assert response.result()["protocolVersion"] == agreed
            assert response.result()["capabilities"] == {"tools": {"listChanged": False}}
            assert "mcp-session-id" not in response.headers


async def test_a_body_of_the_handshake_era_is_served_under_any_known_or_newer_header() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        for header in (None, "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN, "2099-01-01"):
            listed = await client.rpc({"id": 1, "method": "tools/list"}, {"MCP-Protocol-Version": header})
            assert listed.status == 200
            (tool,) = listed.result()["tools"]
            assert tool["name"] == exported(endpoint)
            assert endpoint.contacted
            client.call(2, tool["name"], MCP_Protocol_Version=header)
            (call,) = await gathered(endpoint, 1)
            assert answer(call)
            assert (await client.response()).text() == 'for {"q":"x"}'


async def test_a_header_that_no_client_sends_is_refused() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        for header in ("", "latest", "1999-01-01"):
            response = await client.rpc({"id": 1, "method": "tools/list"}, {"MCP-Protocol-Version": header})
            assert response.json()["error"]["code"] == -32600


async def test_the_modern_era_needs_no_handshake() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        assert not endpoint.contacted
        discovered = (await modern(client, "server/discover")).result()
        assert discovered["supportedVersions"] == [MODERN]
        assert discovered["resultType"] == "complete"
        assert not endpoint.contacted
        (tool,) = (await modern(client, "tools/list")).result()["tools"]
        assert endpoint.contacted
        assert "annotations" not in tool
        client.send(
            "POST", "/mcp", headers("tools/call", tool["name"]), modern_call(tool["name"], '{"q": "x", "n": 1.50}')
        )
        (call,) = await gathered(endpoint, 1)
        assert (call.name, call.arguments) == ("search", '{"q": "x", "n": 1.50}')
        answer(call, "no", is_error=True)
        result = (await client.response()).result()
        assert (result["content"], result["isError"]) == ([{"type": "text", "text": "no"}], True)


def modern_call(name: str, arguments: str) -> bytes:
    import json

    params = f'{{"name":{json.dumps(name)},"arguments":{arguments},"_meta":{json.dumps(META)}}}'
    return f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}'.encode()


DISAGREEING: tuple[dict[str, str | None], ...] = (
    {"MCP-Protocol-Version": None},
    {"MCP-Protocol-Version": "2025-11-25"},
    {"Mcp-Method": "tools/call"},
)


async def test_a_modern_client_that_disagrees_with_its_own_headers_is_told() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        for changed in DISAGREEING:
            message = {"id": 1, "method": "tools/list", "params": {"_meta": META}}
            response = await client.rpc(message, headers("tools/list") | changed)
            assert (response.status, response.json()["error"]["code"]) == (400, -32020)


async def test_an_unknown_modern_version_is_answered_with_those_we_speak() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        future = {**META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}
        message = {"id": 1, "method": "server/discover", "params": {"_meta": future}}
        response = await client.rpc(message, headers("server/discover") | {"MCP-Protocol-Version": "2031-01-01"})
        assert response.status == 400
        assert response.json()["error"]["data"]["supported"] == [MODERN]


async def test_what_is_not_offered_is_not_found_in_either_era() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        for method in ("subscriptions/listen", "resources/list", "prompts/list", "no/such"):
            old = await client.rpc({"id": 1, "method": method})
            assert (old.status, old.json()["error"]["code"]) == (200, -32601), method
            new = await modern(client, method, notifications={"toolsListChanged": True})
            assert (new.status, new.json()["error"]["code"]) == (404, -32601), method


async def test_an_older_probe_without_envelope_is_told_to_shake_hands() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        response = await client.rpc({"id": 1, "method": "server/discover"}, {"MCP-Protocol-Version": MODERN})
        assert response.json()["error"]["code"] == -32601


UNANSWERED: tuple[Mapping[str, Any], ...] = (
    {"method": "notifications/initialized"},
    {"method": "notifications/roots/list_changed"},
    {"method": "notifications/cancelled", "params": {"requestId": 99}},
    {"method": "notifications/cancelled", "params": {"requestId": None}},
    {"method": "notifications/cancelled"},
    {"method": "notifications/unheard-of", "params": 7},
    {"id": 4, "result": {}},
    {"id": 4, "error": {"code": 1, "message": "m"}},
)


async def test_what_needs_no_answer_is_accepted_without_one() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        for message in UNANSWERED:
            response = await client.rpc(message)
            assert (response.status, response.body) == (202, b""), message


async def test_the_server_name_is_short_random_and_survives_every_sanitiser() -> None:
    async with opened() as (bridge, endpoint):
        names = {(await bridge.open(endpoint.catalogue)).server_name for _ in range(20)}
        assert len(names) == 20
        for name in names:
            assert len(name) == SERVER_NAME_LENGTH
            assert name.isalnum()
            assert name == name.lower()
            assert name.isascii()
