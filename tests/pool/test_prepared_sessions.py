"""A prepared session is claimed only on an exact match, once; what the agent and its MCP client see is never stale."""

import asyncio
import json
from typing import Any

import httpx2
import pytest
from helpers.conversation import TOOLS, Conversation, running, schema, until
from helpers.loopback import directive, loopback_settings

from antigravity_acp.adapter import AntigravityAdapter
from antigravity_acp.contract import ToolSchema, user

pytestmark = pytest.mark.requirement("X-002")
BASH = {"call": {"name": "bash", "arguments": {}}}
LOOK = ({"tell": "session"}, {"say": "\n"}, {"tell": "requests"}, {"say": "\n"}, {"list": True})


def prepared(adapter: AntigravityAdapter, count: int = 1) -> Any:
    return lambda: adapter.diagnostics()["prepared_sessions"] == count


async def tool_turn(adapter: AntigravityAdapter, session: str = "first") -> None:
    chat = Conversation(adapter, session_id=session)
    first = await chat.play(BASH)
    await chat.answer({first.calls[0].id: "x"})


async def look(adapter: AntigravityAdapter, session: str = "next", **changes: Any) -> tuple[dict[str, Any], Any, Any]:
    """What the agent sees in the next turn: its session/new parameters, all its requests, its tools."""
    chat = Conversation(adapter, session_id=session)
    chat.base |= changes
    reply = await chat.play(*LOOK)
    session_new, requests, tools = reply.text.split("\n")
    names = [name for name in json.loads(tools.removeprefix("tools:")) if name != "wait_for_ticket"]
    return json.loads(session_new), json.loads(requests), names


async def status(endpoint: dict[str, Any]) -> int:
    headers = {item["name"]: item["value"] for item in endpoint["headers"]}
    async with httpx2.AsyncClient(trust_env=False) as client:
        return (await client.post(endpoint["url"], headers=headers, json={})).status_code


async def test_the_next_turn_finds_its_session_open_and_its_model_selected() -> None:
    async with running(models="config", model_ids=["loop-1", "loop-2"]) as adapter:
        chat = Conversation(adapter, model="loop-2")
        first = await chat.play(BASH)
        await chat.answer({first.calls[0].id: "x"})
        await until(prepared(adapter), "a session is prepared")
        _, requests, tools = await look(adapter, model="loop-2")
        # Two of each, the second ones from the preparation: between the request and its prompt there is nothing.
        assert requests[-1] == "session/prompt"
        assert requests.count("session/new") == requests.count("session/set_config_option") == 2
        assert requests[-2] == "session/set_config_option"
        assert len(tools) == len(TOOLS)
        assert adapter.diagnostics()["process_starts"] == 1


async def test_a_turn_that_comes_while_the_session_is_being_opened_waits_for_it() -> None:
    async with running() as adapter:
        await tool_turn(adapter)
        _, requests, _ = await look(adapter)
        assert requests.count("session/new") == 2
        assert adapter.diagnostics()["process_starts"] == 1


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"tools": TOOLS[:2]}, id="a tool gone"),
        pytest.param({"tools": (*TOOLS, schema("more"))}, id="a tool more"),
        pytest.param({"tools": (ToolSchema("bash", "Another text.", TOOLS[1].parameters), *TOOLS[::2])}, id="text"),
        pytest.param({"model": "loop-2"}, id="model"),
    ],
)
async def test_another_catalogue_or_model_opens_its_own_session_and_revokes_the_prepared_one(
    changes: dict[str, Any],
) -> None:
    async with running(models="config", model_ids=["loop-1", "loop-2"]) as adapter:
        await tool_turn(adapter)
        await until(prepared(adapter), "a session is prepared")
        (idle,) = adapter._pool._idle
        assert idle.standby is not None
        assert idle.standby.endpoint is not None
        stale = {
            "url": idle.standby.endpoint.url,
            "headers": [{"name": name, "value": value} for name, value in idle.standby.endpoint.headers],
        }
        assert await status(stale) != 401
        session_new, requests, tools = await look(adapter, **changes)
        assert requests.count("session/new") == 3
        assert len(tools) == len(changes.get("tools", TOOLS))
        assert session_new["mcpServers"][0]["headers"] != stale["headers"]
        assert await status(stale) == 401


async def test_two_requests_never_get_the_same_session() -> None:
    async with running() as adapter:
        await tool_turn(adapter)
        await until(prepared(adapter), "a session is prepared")
        chats = [Conversation(adapter, session_id=f"s{n}") for n in range(3)]
        replies = await asyncio.gather(*(chat.play({"tell": "session"}, BASH) for chat in chats))
        endpoints = {json.dumps(json.loads(reply.text)["mcpServers"]) for reply in replies}
        assert len(endpoints) == 3
        for chat, reply in zip(chats, replies, strict=True):
            assert (await chat.answer({reply.calls[0].id: "x"})).kind == "stop"


async def test_a_request_without_tools_never_gets_a_session_with_tools() -> None:
    async with running() as adapter:
        await tool_turn(adapter)
        await until(prepared(adapter), "a session is prepared")
        chat = Conversation(adapter, session_id="text", tools=())
        chat.messages.append(user(directive({"tell": "session"})))
        assert json.loads((await chat.generate()).text)["mcpServers"] == []


async def test_it_can_be_switched_off() -> None:
    async with running(loopback_settings(None, prepareSessions=False)) as adapter:
        await tool_turn(adapter)
        await until(lambda: adapter.diagnostics()["idle_processes"] == 1, "the process is back")
        assert adapter.diagnostics()["prepared_sessions"] == 0
        _, requests, _ = await look(adapter)
        assert requests.count("session/new") == 2


async def test_no_session_is_prepared_on_a_process_that_may_not_open_another_one_after_it() -> None:
    async with running(loopback_settings(None, maxSessionsPerProcess=2)) as adapter:
        await tool_turn(adapter)
        await until(lambda: adapter.diagnostics()["idle_processes"] == 1, "the process is back")
        assert adapter.diagnostics()["prepared_sessions"] == 0


async def test_disposal_while_a_session_is_being_prepared_leaves_nothing() -> None:
    async with running() as adapter:
        await tool_turn(adapter)


async def test_a_prepared_session_goes_with_its_process() -> None:
    async with running(loopback_settings(None, idleProcessTimeoutMs=300)) as adapter:
        await tool_turn(adapter)
        await until(prepared(adapter), "a session is prepared")
        await until(lambda: adapter.diagnostics()["processes"] == 0, "the process has expired")
        assert adapter.diagnostics()["prepared_sessions"] == 0
        assert adapter._bridge._endpoints == set()
