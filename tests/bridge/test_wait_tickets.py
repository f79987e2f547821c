"""A result that takes longer than the agent waits: a ticket for the call, the result for the ticket, each once."""

import asyncio
import json
import logging
import math
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from helpers.bridge import (
    SEARCH,
    SOON_S,
    Raw,
    Response,
    answer,
    exported,
    gathered,
    node_client,
    opened,
    python_client,
    raw,
    raws,
    until,
)

from antigravity_acp.bridge import Bridge, Catalogue, Endpoint, ParkedCall
from antigravity_acp.bridge._waiting import WAIT_TOOL, patience
from antigravity_acp.contract import ImageAttachment, ImageBlock, TextBlock, ToolSchema
from antigravity_acp.limits import MAX_PARKED_CALLS

pytestmark = pytest.mark.requirement("X-011")

#: A limit that no test waits for: what it does is brought about by `run_out`.
FAR_S = 1_000.0


@asynccontextmanager
async def lent(
    *tools: ToolSchema, limit_s: float | None = FAR_S, tool_timeout_s: float = math.inf
) -> AsyncIterator[tuple[Bridge, Endpoint]]:
    """A bridge with one endpoint for an agent that gives a call so long."""
    bridge = Bridge(tool_timeout_s=tool_timeout_s)
    try:
        yield bridge, await bridge.open(Catalogue.build(tools or (SEARCH,), name_budget=40), call_limit_s=limit_s)
    finally:
        await bridge.aclose()


def run_out(endpoint: Endpoint) -> None:
    """The agent's limit comes near for every request that waits."""
    for call in list(endpoint.parked.values()):
        if call._request is not None and call._request.open:
            assert call._request.timer is not None
            call._request.stop_timer()
            endpoint.desk._expire(call._request)


def ticket_of(response: Response) -> str:
    """The ticket that a call was answered with."""
    result = response.result()
    assert result["isError"] is False
    assert WAIT_TOOL in response.text()
    (found,) = re.findall(r'\{"ticket": "([^"]+)"\}', response.text())
    return str(found)


def wait(client: Raw, request_id: Any, ticket: str) -> None:
    client.call(request_id, WAIT_TOOL, json.dumps({"ticket": ticket}))


async def ticketed(endpoint: Endpoint, client: Raw, request_id: Any = 1, q: str = "x") -> tuple[ParkedCall, str]:
    """A call that the host has, and whose client has a ticket."""
    client.call(request_id, exported(endpoint), json.dumps({"q": q}))
    (call,) = await gathered(endpoint, 1)
    run_out(endpoint)
    return call, ticket_of(await client.response())


async def waiting(endpoint: Endpoint, call: ParkedCall) -> None:
    """A request waits for the call's result."""
    await until(lambda: call._request is not None and call._request.open)


# ---- the two clocks --------------------------------------------------------------------------------------------------


@pytest.mark.requirement("X-010")
async def test_a_host_that_needs_more_than_twice_the_agents_limit_is_heard_once() -> None:
    limit_s = 0.8
    async with lent(limit_s=limit_s) as (bridge, endpoint), raw(endpoint) as client:
        started = time.monotonic()
        client.call(1, exported(endpoint), '{"q":"slow"}')
        (call,) = await gathered(endpoint, 1)
        ticket, asked, rounds = ticket_of(await client.response()), time.monotonic(), 0
        assert asked - started < limit_s
        while rounds < 2:
            wait(client, 2 + rounds, ticket)
            response = await client.response()
            assert time.monotonic() - asked < limit_s
            assert (response.result()["isError"], ticket_of(response)) == (False, ticket)
            asked, rounds = time.monotonic(), rounds + 1
        assert time.monotonic() - started > 2 * limit_s
        wait(client, 9, ticket)
        await waiting(endpoint, call)
        assert endpoint.parked == {call.id: call}
        assert not call.undelivered
        assert answer(call, "at last")
        assert (await client.response()).result() == {
            "content": [{"type": "text", "text": "at last"}],
            "isError": False,
        }
        assert endpoint.parked == {}
        await until(lambda: bridge.counters["results_by_ticket"] == 1)
        counted = ("calls", "tickets", "waits", "results_by_ticket", "undelivered_results")
        assert [bridge.counters[name] for name in counted] == [1, 1, 3, 1, 0]


async def test_a_result_that_is_quick_enough_needs_no_ticket() -> None:
    async with lent(limit_s=2.0) as (bridge, endpoint), raw(endpoint) as client:
        client.call(1, exported(endpoint))
        (call,) = await gathered(endpoint, 1)
        request = call._request
        assert request is not None
        assert answer(call, "quick")
        assert (await client.response()).text() == "quick"
        assert request.timer is None
        assert bridge.counters["tickets"] == 0


def test_a_ticket_comes_before_the_limit_and_only_where_the_host_may_take_longer() -> None:
    assert patience(180, 900) == 170
    assert patience(600, 900) == 590
    assert patience(4, 900) == 3
    assert patience(None, 900) is None
    assert patience(1800, 900) is None
    assert patience(900, 900) is None
    for limit in (0, -1, math.inf, math.nan):
        with pytest.raises(ValueError, match="positive"):
            patience(limit, 900)


# ---- the tool that is lent -------------------------------------------------------------------------------------------


async def listed(client: Raw) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = (await client.rpc({"id": 0, "method": "tools/list"})).result()["tools"]
    return tools


async def test_the_wait_tool_is_lent_only_where_it_is_needed() -> None:
    for limit_s, there in ((None, False), (60.0, True), (899.0, True), (900.0, False), (1800.0, False)):
        async with lent(limit_s=limit_s, tool_timeout_s=900) as (_, endpoint), raw(endpoint) as client:
            names = {tool["name"] for tool in await listed(client)}
            assert names == endpoint.exported_names
            assert (WAIT_TOOL in names) is there
            if not there:
                wait(client, 1, "t-0")
                assert "no tool of this name" in (await client.response()).text()
    async with opened() as (_, endpoint):
        assert WAIT_TOOL not in endpoint.exported_names


async def test_its_definition_is_one_that_agents_take() -> None:
    async with lent() as (_, endpoint), raw(endpoint) as client:
        (tool,) = [tool for tool in await listed(client) if tool["name"] == WAIT_TOOL]
        assert re.fullmatch(r"[a-z0-9_]{1,40}", WAIT_TOOL)
        assert "__" not in WAIT_TOOL
        assert tool["inputSchema"]["type"] == "object"
        assert tool["inputSchema"]["required"] == ["ticket"]


@pytest.mark.requirement("A-043")
async def test_host_tools_of_such_names_keep_working() -> None:
    tools = [ToolSchema(name, "", {"type": "object"}) for name in ("wait", WAIT_TOOL, "Wait for ticket", "t" * 200)]
    async with lent(*tools) as (bridge, endpoint), raw(endpoint) as client:
        assert len(endpoint.exported_names) == len(tools) + 1
        for tool in tools:
            assert exported(endpoint, tool.name) != WAIT_TOOL
            client.call(1, exported(endpoint, tool.name), '{"ticket":"mine"}')
            (call,) = await gathered(endpoint, 1)
            assert (call.name, call.arguments) == (tool.name, '{"ticket":"mine"}')
            answer(call, tool.name)
            assert (await client.response()).text() == tool.name
        assert bridge.counters["calls"] == len(tools)
        assert bridge.counters["waits"] == bridge.counters["refused_tickets"] == 0


async def test_no_host_tool_can_be_exported_under_its_name() -> None:
    # Exported names of host tools end in a hash, whatever the host calls its tools and however little room there is.
    for budget in (18, 24, 40):
        catalogue = Catalogue.build([ToolSchema(WAIT_TOOL), ToolSchema("wait"), ToolSchema("")][:2], name_budget=budget)
        assert all(re.search(r"_[0-9a-f]{8,}$", name) for name in catalogue.exported_names)
    assert not re.search(r"_[0-9a-f]{8,}$", WAIT_TOOL)


# ---- tickets ---------------------------------------------------------------------------------------------------------


async def refused(client: Raw, arguments: str) -> str:
    client.call("r", WAIT_TOOL, arguments)
    response = await client.response()
    assert response.result()["isError"] is True
    return response.text()


async def test_a_ticket_that_is_wrong_foreign_or_used_is_an_error_that_says_so() -> None:
    async with lent() as (bridge, endpoint), raw(endpoint) as client:
        other = await bridge.open(endpoint.catalogue, call_limit_s=FAR_S)
        async with raw(other) as stranger:
            foreign, foreign_ticket = await ticketed(other, stranger)
            assert "No result waits under this ticket" in await refused(client, '{"ticket":"t-000000000000"}')
            assert "No result waits" in await refused(client, json.dumps({"ticket": foreign_ticket}))
            for arguments in ("{}", '{"ticket":7}', "[]"):
                assert "Mend them and call again" in await refused(client, arguments)
            call, ticket = await ticketed(endpoint, client)
            assert answer(call, "mine")
            wait(client, 2, f" {ticket}\n")
            assert (await client.response()).text() == "mine"
            await until(lambda: not endpoint.desk._tickets)
            assert "No result waits" in await refused(client, json.dumps({"ticket": ticket}))
            assert bridge.counters["refused_tickets"] == 3
            assert answer(foreign, "theirs")
            wait(stranger, 2, foreign_ticket)
            assert (await stranger.response()).text() == "theirs"
            await until(lambda: endpoint.desk._tickets == other.desk._tickets == {})


async def test_a_result_that_comes_before_it_is_fetched_waits_for_its_ticket() -> None:
    async with lent() as (bridge, endpoint), raw(endpoint) as client:
        call, ticket = await ticketed(endpoint, client)
        assert not call.undelivered
        image = ImageBlock(ImageAttachment(attachment_id="i", media_type="image/png", bytes=3, data="AAAA"))
        assert call.resolve([TextBlock("denied"), image], is_error=True)
        assert not call.resolve([TextBlock("again")], is_error=False)
        assert endpoint.parked == {}
        assert not call.undelivered
        wait(client, 2, ticket)
        blocks = [{"type": "text", "text": "denied"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}]
        assert (await client.response()).result() == {"content": blocks, "isError": True}
        assert bridge.counters["undelivered_results"] == 0


@pytest.mark.requirement("X-010")
async def test_a_call_that_was_answered_with_a_ticket_and_is_sent_again_runs_once() -> None:
    async with lent() as (bridge, endpoint), raw(endpoint) as client, raw(endpoint) as again:
        call, ticket = await ticketed(endpoint, client)
        for waits in (False, True):
            if waits:
                wait(client, 2, ticket)
                await waiting(endpoint, call)
            again.call(1, exported(endpoint), '{"q": "x"}')
            assert ticket_of(await again.response()) == ticket
        assert answer(call, "once")
        assert (await client.response()).text() == "once"
        assert (bridge.counters["calls"], len(await asyncio.wait_for(_nothing(endpoint), SOON_S))) == (1, 0)


async def _nothing(endpoint: Endpoint) -> list[ParkedCall]:
    """What gathering gives once the endpoint is closed: whatever the host was not given yet."""
    endpoint.close()
    return await endpoint.gather()


async def test_the_same_tool_called_by_the_model_meanwhile_is_a_call_of_its_own() -> None:
    async with lent() as (bridge, endpoint), raw(endpoint) as client, raw(endpoint) as second:
        first, ticket = await ticketed(endpoint, client)
        second.call(2, exported(endpoint), '{"q": "x"}')
        (other,) = await gathered(endpoint, 1)
        assert other.id != first.id
        assert answer(other, "second")
        assert (await second.response()).text() == "second"
        assert answer(first, "first")
        wait(client, 3, ticket)
        assert (await client.response()).text() == "first"
        assert bridge.counters["calls"] == 2


# ---- clients that go -------------------------------------------------------------------------------------------------


@pytest.mark.requirement("X-010")
@pytest.mark.parametrize("how", ["hang up", "cancel"])
async def test_a_wait_that_its_client_gave_up_leaves_the_ticket_good(how: str) -> None:
    async with lent() as (bridge, endpoint), raw(endpoint) as client, raw(endpoint) as side:
        call, ticket = await ticketed(endpoint, client)
        wait(side, "w", ticket)
        await waiting(endpoint, call)
        if how == "hang up":
            await side.close()
        else:
            params = {"requestId": "w", "reason": "context deadline exceeded"}
            await client.rpc({"method": "notifications/cancelled", "params": params})
            assert (await side.response()).json()["error"]["code"] == -32800
        await until(lambda: call._request is None)
        assert not call.undelivered
        assert answer(call, "still there")
        wait(client, 2, ticket)
        assert (await client.response()).text() == "still there"
        assert bridge.counters["undelivered_results"] == 0


@pytest.mark.requirement("X-010")
async def test_a_wait_that_is_sent_twice_under_one_id_is_one_wait() -> None:
    async with lent() as (_, endpoint), raw(endpoint) as one, raw(endpoint) as two:
        call, ticket = await ticketed(endpoint, one)
        wait(one, 2, ticket)
        await waiting(endpoint, call)
        wait(two, 2, ticket)
        await until(lambda: call._request is not None and call._request.readers == 2)
        assert answer(call, "same")
        assert [(await client.response()).text() for client in (one, two)] == ["same", "same"]


async def test_of_two_waits_the_newer_one_gets_the_result() -> None:
    async with lent() as (bridge, endpoint), raw(endpoint) as one, raw(endpoint) as two:
        call, ticket = await ticketed(endpoint, one)
        wait(one, 2, ticket)
        await waiting(endpoint, call)
        wait(two, 3, ticket)
        older = await one.response()
        assert older.result()["isError"]
        assert "Another call with the same ticket" in older.text()
        assert answer(call, "newer")
        assert (await two.response()).text() == "newer"
        await until(lambda: bridge.counters["results_by_ticket"] == 1)


async def test_a_cancelled_call_that_has_its_ticket_is_not_given_up() -> None:
    # A client may cancel what was just answered; the id means nothing any more.
    async with lent() as (bridge, endpoint), raw(endpoint) as client:
        call, ticket = await ticketed(endpoint, client, request_id="c")
        await client.rpc({"method": "notifications/cancelled", "params": {"requestId": "c"}})
        assert not call.undelivered
        assert bridge.counters["cancelled_calls"] == 0
        assert answer(call, "kept")
        wait(client, 2, ticket)
        assert (await client.response()).text() == "kept"


async def test_a_result_that_nobody_fetches_is_counted_and_logged_without_its_content(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "antigravity_acp")
    async with lent() as (bridge, endpoint), raw(endpoint) as client:
        call, ticket = await ticketed(endpoint, client, q="PRIVATE-QUESTION")
        assert answer(call, "PRIVATE-ANSWER")
        assert bridge.counters["undelivered_results"] == 0
        await endpoint.aclose()
        assert call.undelivered
        endpoint.close()
        assert bridge.counters["undelivered_results"] == 1
    assert sum("could not be delivered" in record.message for record in caplog.records) == 1
    for private in ("PRIVATE", ticket, call.id):
        assert private not in caplog.text


@pytest.mark.requirement("A-037")
async def test_a_turn_that_ends_while_a_ticket_is_out_answers_the_wait_and_records_the_result() -> None:
    async with lent() as (bridge, endpoint), raw(endpoint) as client, raw(endpoint) as second:
        call, ticket = await ticketed(endpoint, client)
        idle, _ = await ticketed(endpoint, second, request_id=2)
        wait(client, 3, ticket)
        await waiting(endpoint, call)
        await endpoint.aclose()
        response = await client.response()
        assert response.result()["isError"]
        assert "turn ended" in response.text()
        assert endpoint.desk._reading == 0
        assert endpoint.desk._tickets == endpoint.parked == {}
        for late in (call, idle):
            assert late.undelivered
            assert not answer(late)
            assert not answer(late)
        assert bridge.counters["undelivered_results"] == 2


async def test_an_agent_that_dies_with_its_ticket_leaves_a_recorded_result() -> None:
    async with lent() as (bridge, endpoint):
        async with raw(endpoint) as client, raw(endpoint) as side:
            call, ticket = await ticketed(endpoint, client)
            wait(side, 2, ticket)
            await waiting(endpoint, call)
        await until(lambda: endpoint.desk._reading == 0)
        answer(call, "for nobody")
        endpoint.close()
        assert call.undelivered
        assert bridge.counters["undelivered_results"] == 1


# ---- many ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("X-010", "A-042")
async def test_64_calls_that_all_need_tickets_each_get_their_own_result() -> None:
    async with lent(limit_s=3.0) as (bridge, endpoint), raws(endpoint, MAX_PARKED_CALLS) as clients:
        for index, client in enumerate(clients):
            client.call(index, exported(endpoint), f'{{"q":"{index}"}}')
        calls = await gathered(endpoint, MAX_PARKED_CALLS)
        tickets = [ticket_of(await client.response()) for client in clients]
        assert len(set(tickets)) == bridge.counters["tickets"] == MAX_PARKED_CALLS
        assert len(endpoint.parked) == MAX_PARKED_CALLS
        # One half waits when the results come, the other fetches them afterwards; tickets may cross connections.
        half = MAX_PARKED_CALLS // 2
        for index, client in enumerate(clients[:half]):
            wait(client, 100 + index, tickets[-1 - index])
        await until(lambda: bridge.counters["waits"] == half)
        for call in calls:
            assert answer(call)
        for index, client in enumerate(clients[:half]):
            assert (await client.response()).text() == f'for {{"q":"{MAX_PARKED_CALLS - 1 - index}"}}'
        # What is not fetched counts as open: a model that fetches nothing cannot pile up results.
        for index in range(half):
            clients[0].call(200 + index, exported(endpoint), f'{{"q":"more {index}"}}')
            (more,) = await gathered(endpoint, 1)
            run_out(endpoint)
            tickets.append(ticket_of(await clients[0].response()))
            assert answer(more)
        clients[0].call(300, exported(endpoint))
        assert "64 tool calls are open" in (await clients[0].response()).text()
        for index in range(half):
            wait(clients[0], 400 + index, tickets[index])
            assert (await clients[0].response()).text() == f'for {{"q":"{index}"}}'
        clients[0].call(500, exported(endpoint))
        answer(*await gathered(endpoint, 1))
        await clients[0].response()
        assert bridge.counters["undelivered_results"] == 0


async def test_waits_are_no_news_for_the_host_and_keep_no_batch_from_leaving() -> None:
    async with lent() as (_, endpoint), raw(endpoint) as client, raws(endpoint, 3) as others:
        call, ticket = await ticketed(endpoint, client)
        assert not endpoint.desk._parallel
        gathering = asyncio.create_task(endpoint.gather())
        wait(client, 2, ticket)
        await waiting(endpoint, call)
        assert not gathering.done()
        for index, other in enumerate(others):
            other.call(10 + index, exported(endpoint))
        batch = await gathering
        while len(batch) < 3:
            batch += await endpoint.gather()
        assert call not in batch
        for each in (*batch, call):
            assert answer(each)
        for each_client in (client, *others):
            await each_client.response()


@pytest.mark.parametrize("name", ["python modern", "python legacy", "typescript"])
async def test_official_clients_follow_a_ticket(name: str) -> None:
    async with lent(limit_s=1.6) as (bridge, endpoint):
        arguments = {"q": "slow"}

        async def play(call_tool: Any) -> str:
            pending = asyncio.create_task(call_tool(exported(endpoint), arguments))
            (call,) = await gathered(endpoint, 1)
            (ticket,) = re.findall(r'"ticket": "([^"]+)"', await pending)
            pending = asyncio.create_task(call_tool(WAIT_TOOL, {"ticket": ticket}))
            await waiting(endpoint, call)
            assert answer(call, "fetched")
            return str(await pending)

        if name == "typescript":
            async with node_client(endpoint, "@modelcontextprotocol/sdk") as node:

                async def by_node(tool: str, given: dict[str, Any]) -> str:
                    return str((await node.ask("call", name=tool, arguments=given))["content"][0]["text"])

                text = await play(by_node)
        else:
            async with python_client(endpoint, "auto" if name == "python modern" else "legacy") as client:

                async def by_python(tool: str, given: dict[str, Any]) -> str:
                    return str((await client.call_tool(tool, given)).content[0].text)

                text = await play(by_python)
        assert text == "fetched"
        assert bridge.counters["calls"] == 1
