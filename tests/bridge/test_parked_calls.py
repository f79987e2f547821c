"""The life of a call: parked, joined, answered, denied, given up. The host runs each once; nothing of it stays."""

import asyncio
import gc
import json
from typing import Any

import pytest
from helpers.bridge import SOON_S, Raw, answer, exported, gathered, opened, raw, raws, until

from antigravity_acp.contract import ImageAttachment, ImageBlock, OpaqueBlock, ReasoningBlock, TextBlock, ToolSchema
from antigravity_acp.limits import MAX_PARKED_CALLS

LOSSLESS = '{ "q": "\\u00e9\\ud83d\\ude00\\/", "n": 123456789012345678901234567890.123456789012345678901234567890 }'


@pytest.mark.requirement("A-009")
async def test_a_call_reaches_the_host_with_its_original_name_raw_arguments_and_a_fresh_id() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        seen = set()
        for _ in range(2):
            client.call(1, exported(endpoint), LOSSLESS)
            (call,) = await gathered(endpoint, 1)
            assert (call.name, call.arguments) == ("search", LOSSLESS)
            assert call.id.startswith("call_")
            assert endpoint.parked == {call.id: call}
            assert not call.undelivered
            seen.add(call.id)
            assert answer(call, "done")
            response = await client.response()
            assert response.headers["content-type"] == "application/json"
            assert response.result() == {"content": [{"type": "text", "text": "done"}], "isError": False}
            assert endpoint.parked == {}
        assert len(seen) == 2


@pytest.mark.requirement("A-012")
async def test_a_denial_reaches_the_agent_as_an_error_result() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        client.call(1, exported(endpoint))
        (call,) = await gathered(endpoint, 1)
        assert call.resolve([TextBlock("The user said no.")], is_error=True)
        result = (await client.response()).result()
        assert result == {"content": [{"type": "text", "text": "The user said no."}], "isError": True}


@pytest.mark.requirement("A-044")
async def test_invalid_arguments_are_answered_and_never_reach_the_host() -> None:
    async with opened() as (bridge, endpoint), raw(endpoint) as client:
        for arguments in ('{"q":7}', "{}", "[]", '{"q":"a","q":"b"}', '{"q":"x","n":NaN}', '{"q":"\\ud800"}', "null"):
            client.call(5, exported(endpoint), arguments)
            response = await client.response()
            assert response.json()["id"] == 5
            assert response.result()["isError"], arguments
            assert "Mend them and call again" in response.text()
        client.call("x", "search")
        assert "no tool of this name" in (await client.response()).text()
        assert endpoint.parked == {}
        assert bridge.counters["calls"] == 0


async def test_every_result_carries_text_and_images_pass_beside_it() -> None:
    png = ImageBlock(ImageAttachment(attachment_id="i", media_type="image/png", bytes=3, data="AAAA"))
    kept_by_the_host = ImageBlock(ImageAttachment(attachment_id="i", media_type="image/jpeg", bytes=3))
    image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
    text = lambda value: {"type": "text", "text": value}  # noqa: E731 - a table of shapes below
    table: list[tuple[list[Any], bool, list[Any]]] = [
        ([png], False, [text("The tool returned an image."), image]),
        ([png, png], False, [text("The tool returned 2 images."), image, image]),
        ([TextBlock("a"), png, TextBlock("b")], False, [text("a"), image, text("b")]),
        ([kept_by_the_host], False, [text("[An image (image/jpeg) that the host did not include]")]),
        ([], False, [text("The tool returned nothing.")]),
        ([TextBlock("")], True, [text("The tool failed without a message.")]),
        ([ReasoningBlock("why")], False, [text("why")]),
        ([OpaqueBlock({"type": "table", "rows": [1]})], False, [text('{"type": "table", "rows": [1]}')]),
        ([TextBlock("half \ud800 a pair")], False, [text("half ? a pair")]),
    ]
    async with opened() as (_, endpoint), raw(endpoint) as client:
        for content, is_error, expected in table:
            client.call(1, exported(endpoint))
            (call,) = await gathered(endpoint, 1)
            call.resolve(content, is_error=is_error)
            assert (await client.response()).result() == {"content": expected, "isError": is_error}


@pytest.mark.requirement("A-042")
async def test_the_65th_open_call_is_refused_at_once_and_the_64_are_unharmed() -> None:
    async with opened() as (bridge, endpoint), raw(endpoint) as late, raws(endpoint, MAX_PARKED_CALLS) as clients:
        for index, client in enumerate(clients):
            client.call(index, exported(endpoint), f'{{"q":"{index}"}}')
        calls = await gathered(endpoint, MAX_PARKED_CALLS)
        late.call(99, exported(endpoint))
        refused = await late.response()
        assert refused.result()["isError"]
        assert "64 tool calls are open" in refused.text()
        assert len(endpoint.parked) == bridge.parked_calls == MAX_PARKED_CALLS == 64
        for call in reversed(calls):
            assert answer(call)
        for index, client in enumerate(clients):
            assert (await client.response()).text() == f'for {{"q":"{index}"}}'
        late.call(100, exported(endpoint))
        assert answer((await gathered(endpoint, 1))[0])
        await late.response()


@pytest.mark.requirement("A-013")
async def test_calls_that_come_together_leave_together() -> None:
    async with opened() as (_, endpoint), raws(endpoint, 8) as clients:
        for client in clients:
            await client.rpc({"id": 0, "method": "ping"})
        waiting = asyncio.create_task(endpoint.gather())
        await asyncio.sleep(0)
        for index, client in enumerate(clients):
            client.call(index, exported(endpoint))
        calls = await waiting
        assert len(calls) == 8
        for call in calls:
            answer(call)
        for client in clients:
            await client.response()


async def test_a_call_that_comes_later_leaves_with_the_next_round() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as one, raw(endpoint) as two:
        one.call(1, exported(endpoint), '{"q":"1"}')
        (first,) = await endpoint.gather()
        two.call(2, exported(endpoint), '{"q":"2"}')
        (second,) = await endpoint.gather()
        assert (first.arguments, second.arguments) == ('{"q":"1"}', '{"q":"2"}')
        assert answer(first)
        assert answer(second)
        await asyncio.gather(one.response(), two.response())


async def test_idle_connections_do_not_slow_gathering_down() -> None:
    async with opened() as (bridge, endpoint), raws(endpoint, 3), raw(endpoint) as client:
        assert bridge._listener is not None
        listener = bridge._listener
        await until(lambda: len(listener._silent) == 4)
        await until(lambda: listener.silent == 0)
        client.call(1, exported(endpoint))
        (call,) = await gathered(endpoint, 1)
        answer(call)
        await client.response()


async def test_a_gather_that_is_cancelled_loses_no_call() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        client.call(1, exported(endpoint))
        waiting = asyncio.create_task(endpoint.gather())
        async with asyncio.timeout(SOON_S):
            while not endpoint.parked:
                await asyncio.sleep(0)
        # The call is parked, and gathering still looks for others that come with it.
        assert waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        (call,) = await gathered(endpoint, 1)
        answer(call)
        await client.response()


@pytest.mark.requirement("X-010")
async def test_a_request_sent_twice_while_it_waits_is_one_call_of_the_host() -> None:
    async with opened() as (bridge, endpoint), raw(endpoint) as one, raw(endpoint) as two:
        one.call(7, exported(endpoint))
        (call,) = await gathered(endpoint, 1)
        two.call(7, exported(endpoint))
        await until(lambda: bridge.counters["joined_calls"] == 1)
        assert len(endpoint.parked) == 1
        assert answer(call, "once")
        assert [(await client.response()).text() for client in (one, two)] == ["once", "once"]
        assert bridge.counters["calls"] == 1


@pytest.mark.requirement("X-010")
async def test_equal_ids_alone_join_nothing() -> None:
    async with opened() as (bridge, endpoint), raws(endpoint, 4) as clients:
        sent: list[tuple[Any, str]] = [(0, '{"q":"a"}'), (0, '{"q":"b"}'), ("0", '{"q":"a"}'), (0, '{"q": "a"}')]
        for client, (request_id, arguments) in zip(clients, sent, strict=True):
            client.call(request_id, exported(endpoint), arguments)
        calls = await gathered(endpoint, 4)
        for call in calls:
            answer(call, call.id)
        texts = [(await client.response()).text() for client in clients]
        assert sorted(texts) == sorted(call.id for call in calls)
        assert bridge.counters["joined_calls"] == 0


@pytest.mark.requirement("X-010")
async def test_a_client_that_drops_the_connection_and_asks_again_gets_the_one_result() -> None:
    async with opened() as (bridge, endpoint), raw(endpoint) as two:
        async with raw(endpoint) as one:
            one.call(7, exported(endpoint))
            (call,) = await gathered(endpoint, 1)
        await until(lambda: call.undelivered)
        two.call(7, exported(endpoint))
        await until(lambda: not call.undelivered)
        assert answer(call, "late but once")
        assert (await two.response()).text() == "late but once"
        assert bridge.counters["calls"] == 1


@pytest.mark.requirement("X-010")
async def test_a_result_without_a_client_is_recorded_and_fetched_by_the_same_request() -> None:
    async with opened() as (bridge, endpoint), raw(endpoint) as two:
        async with raw(endpoint) as one:
            one.call(7, exported(endpoint))
            (call,) = await gathered(endpoint, 1)
        await until(lambda: call.undelivered)
        assert not answer(call, "nobody there")
        assert call.undelivered
        assert endpoint.parked == {}
        assert bridge.counters["undelivered_results"] == 1
        two.call(7, exported(endpoint))
        assert (await two.response()).text() == "nobody there"
        two.call(7, exported(endpoint))
        (again,) = await gathered(endpoint, 1)
        assert again.id != call.id
        answer(again)
        await two.response()


async def test_results_that_nobody_fetches_do_not_pile_up() -> None:
    async with opened() as (bridge, endpoint):
        for index in range(12):
            async with raw(endpoint) as client:
                client.call(index, exported(endpoint))
                (call,) = await gathered(endpoint, 1)
            await until(lambda call=call: call.undelivered)
            assert not answer(call)
        assert bridge.counters["undelivered_results"] == 12
        assert len(endpoint.desk._late) == 8


async def test_a_call_whose_client_left_before_the_host_saw_it_never_was() -> None:
    async with opened() as (bridge, endpoint), raw(endpoint) as other:
        async with raw(endpoint) as client:
            client.call(1, exported(endpoint), '{"q":"gone"}')
            await until(lambda: endpoint.parked)
        await until(lambda: bridge.counters["withdrawn_calls"] == 1)
        other.call(1, exported(endpoint), '{"q":"here"}')
        (call,) = await gathered(endpoint, 1)
        assert call.arguments == '{"q":"here"}'
        answer(call)
        await other.response()


async def cancelled(client: Raw, request_id: Any) -> None:
    params = {"requestId": request_id, "reason": "context deadline exceeded"}
    assert (await client.rpc({"method": "notifications/cancelled", "params": params})).status == 202


@pytest.mark.requirement("A-037")
async def test_a_cancelled_request_ends_while_the_hosts_side_goes_on() -> None:
    async with opened() as (bridge, endpoint), raw(endpoint) as client, raw(endpoint) as side:
        client.call("c-1", exported(endpoint))
        (call,) = await gathered(endpoint, 1)
        await cancelled(side, "c-2")
        await cancelled(side, 1)
        assert not call.undelivered
        await cancelled(side, "c-1")
        response = await client.response()
        assert response.json() == {
            "jsonrpc": "2.0",
            "id": "c-1",
            "error": {"code": -32800, "message": "Request cancelled"},
        }
        assert call.undelivered
        assert endpoint.parked == {call.id: call}
        side.call("c-1", exported(endpoint))
        (fresh,) = await gathered(endpoint, 1)
        assert not answer(call)
        assert endpoint.parked == {fresh.id: fresh}
        assert answer(fresh, "mine")
        assert (await side.response()).text() == "mine"
        assert bridge.counters["undelivered_results"] == 1


async def test_a_cancellation_that_could_mean_two_calls_ends_neither() -> None:
    async with opened() as (bridge, endpoint), raw(endpoint) as one, raw(endpoint) as two, raw(endpoint) as side:
        one.call(0, exported(endpoint), '{"q":"one"}')
        two.call(0, exported(endpoint), '{"q":"two"}')
        calls = await gathered(endpoint, 2)
        await cancelled(side, 0)
        assert bridge.counters["cancelled_calls"] == 0
        for call in calls:
            assert answer(call)
        assert [(await one.response()).text(), (await two.response()).text()] == [
            'for {"q":"one"}',
            'for {"q":"two"}',
        ]


async def test_a_cancellation_stays_within_its_endpoint() -> None:
    async with opened() as (bridge, endpoint), raw(endpoint) as client:
        other = await bridge.open(endpoint.catalogue)
        async with raw(other) as stranger:
            client.call(0, exported(endpoint))
            (call,) = await gathered(endpoint, 1)
            await cancelled(stranger, 0)
            assert not call.undelivered
            assert answer(call)
            await client.response()


async def test_two_endpoints_never_see_each_others_calls_or_tools() -> None:
    async with opened() as (bridge, endpoint), raw(endpoint) as client:
        catalogue = type(endpoint.catalogue).build([ToolSchema("other", "", {})], name_budget=48)
        other = await bridge.open(catalogue)
        client.call(0, exported(other, "other"), "{}")
        assert "no tool of this name" in (await client.response()).text()
        client.call(0, exported(endpoint))
        (call,) = await gathered(endpoint, 1)
        assert other.parked == {}
        answer(call)
        await client.response()


async def test_a_call_is_answered_once() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        client.call(1, exported(endpoint))
        (call,) = await gathered(endpoint, 1)
        assert answer(call, "first")
        assert not answer(call, "second")
        assert (await client.response()).text() == "first"


async def test_a_parked_call_shows_signs_of_life_and_then_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antigravity_acp.bridge._app.STREAM_AFTER_S", 0.02)
    monkeypatch.setattr("antigravity_acp.bridge._app.KEEP_ALIVE_S", 0.02)
    async with opened() as (_, endpoint), raw(endpoint) as client, raw(endpoint) as plain:
        client.call(1, exported(endpoint), '{"q":"stream"}')
        plain.call(2, exported(endpoint), '{"q":"plain"}', Accept="application/json")
        calls = await gathered(endpoint, 2)
        head = await client.head()
        assert (head.status, head.headers["content-type"]) == (200, "text/event-stream")
        assert [await client.chunk() for _ in range(3)] == [b": waiting\n\n"] * 3
        head = await plain.head()
        assert (head.status, head.headers["content-type"]) == (200, "application/json")
        assert [await plain.chunk() for _ in range(3)] == [b" "] * 3
        for call in calls:
            assert answer(call)
        event = b""
        while not event.startswith(b"event: message\ndata: "):
            event = await client.chunk()
        assert json.loads(event.partition(b"data: ")[2])["result"]["content"][0]["text"] == 'for {"q":"stream"}'
        text = b""
        while chunk := await plain.chunk():
            text += chunk
        assert json.loads(text)["result"]["content"][0]["text"] == 'for {"q":"plain"}'


async def test_a_client_that_takes_streams_only_gets_one_at_once() -> None:
    async with opened() as (_, endpoint), raw(endpoint) as client:
        client.call(1, exported(endpoint), Accept="text/event-stream")
        (call,) = await gathered(endpoint, 1)
        answer(call, "streamed")
        response = await client.response()
        assert response.headers["content-type"] == "text/event-stream"
        assert response.text() == "streamed"


async def test_a_client_that_hangs_up_on_a_stream_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antigravity_acp.bridge._app.STREAM_AFTER_S", 0.01)
    async with opened() as (_, endpoint):
        async with raw(endpoint) as client:
            client.call(1, exported(endpoint))
            (call,) = await gathered(endpoint, 1)
            await client.head()
        await until(lambda: call.undelivered)
        assert not answer(call)


async def test_300_calls_on_one_endpoint_leave_nothing_behind() -> None:
    async with opened() as (bridge, endpoint), raw(endpoint) as client:

        async def rounds(count: int) -> int:
            for index in range(count):
                client.call(index, exported(endpoint))
                (call,) = await gathered(endpoint, 1)
                call.resolve([TextBlock("x" * 8_192)], is_error=False)
                await client.response()
            del call
            gc.collect()
            return len(gc.get_objects())

        await rounds(20)
        before = await rounds(20)
        after = await rounds(280)
        assert after - before < 50
        desk = endpoint.desk
        assert [desk._parked, desk._by_request, desk._late, desk._fresh, desk._arriving] == [{}, {}, {}, [], 0]
        assert bridge.counters["calls"] == 320
