"""Results, limits, hang-ups and repeats in any order: a result is delivered once, or recorded as undelivered."""

import asyncio
import json
import re
from collections import Counter
from itertools import product

import pytest
from helpers.bridge import SOON_S, answer, exported, raw, until
from hypothesis import given, settings
from hypothesis import strategies as st

from antigravity_acp.bridge import Bridge, Catalogue, Endpoint, ParkedCall
from antigravity_acp.bridge._requests import Reading, RequestKey
from antigravity_acp.bridge._waiting import WAIT_TOOL
from antigravity_acp.bridge.calls import Desk
from antigravity_acp.contract import TextBlock, ToolSchema

pytestmark = pytest.mark.requirement("X-010", "X-011")

TOOL = ToolSchema("slow", "", {"type": "object"})


def text_of(reading: Reading) -> str:
    return "" if reading.result is None else str(reading.result["content"][0]["text"])


def ticket_in(text: str) -> str | None:
    found = re.search(r'"ticket": "([^"]+)"', text)
    return found and found[1]


class Connection:
    """One client's connection: reads an answer and then, when told, has written it or not."""

    def __init__(self, desk: Desk, key: RequestKey, ticket: str | None) -> None:
        self.key = key
        self.desk = desk
        self.reading: Reading | None = None
        self.delivered = False
        self.task = asyncio.create_task(self._run(ticket))
        self._written = asyncio.get_running_loop().create_future()

    async def _run(self, ticket: str | None) -> None:
        def arrived() -> None:
            pass

        if ticket is None:
            reading = await self.desk.call(self.key, "slow", "{}", arrived)
        else:
            reading = await self.desk.wait(self.key, ticket, arrived)
        self.reading = reading
        ok = False
        try:
            ok = await self._written
        finally:
            self.delivered = ok
            self.desk.done(reading, delivered=ok)

    def write(self, ok: bool) -> None:
        if self.reading is not None and not self._written.done():
            self._written.set_result(ok)


class World:
    """One desk, its clients and its host; every step is one thing that can happen."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.desk = Desk(self.counters, patience_s=1_000)
        self.connections: list[Connection] = []
        self.calls: list[ParkedCall] = []
        self.resolved: list[ParkedCall] = []
        self.tickets: list[str] = []
        self.ids = 0

    async def step(self, op: str, number: int = 0) -> None:
        if op == "tick":
            await asyncio.sleep(0)
        elif op == "gather":
            await self.gather()
        elif op == "resolve":
            if left := [one for one in self.calls if one not in self.resolved]:
                self.resolve(left[number % len(left)])
        elif op == "limit":
            self.run_out(number)
        else:
            self.client(op, number)
        self.learn()

    async def gather(self) -> None:
        # Gathering waits for ever if the only fresh call is withdrawn meanwhile: what is under way happens first.
        for _ in range(3):
            await asyncio.sleep(0)
        if self.desk._fresh:
            async with asyncio.timeout(SOON_S):
                self.calls += await self.desk.gather()

    def client(self, op: str, number: int) -> None:
        open_ = [one for one in self.connections if not one.task.done()]
        if op == "call":
            self.ids += 1
            self.connect(RequestKey(f"{self.ids}", "slow", "{}"), None)
        elif op == "repeat" and self.connections:
            self.connect(*self.sent[number % len(self.sent)])
        elif op == "wait" and self.tickets:
            self.ids += 1
            ticket = self.tickets[number % len(self.tickets)]
            self.connect(RequestKey(f"{self.ids}", WAIT_TOOL, ticket), ticket)
        elif op in ("write", "fail") and open_:
            open_[number % len(open_)].write(op == "write")
        elif op == "hang up" and open_:
            open_[number % len(open_)].task.cancel()
        elif op == "cancel":
            self.desk.cancel(f"{1 + number % (self.ids + 1)}")

    async def play(self, *ops: str) -> None:
        for op in ops:
            await self.step(op)

    @property
    def sent(self) -> list[tuple[RequestKey, str | None]]:
        return [(one.key, one.key.arguments if one.key.tool == WAIT_TOOL else None) for one in self.connections]

    def connect(self, key: RequestKey, ticket: str | None) -> None:
        self.connections.append(Connection(self.desk, key, ticket))

    def run_out(self, number: int) -> None:
        requests = [call._request for call in self.desk.parked.values()]
        waiting = [one for one in requests if one is not None and one.open and one.timer is not None]
        if waiting:
            request = waiting[number % len(waiting)]
            request.stop_timer()
            self.desk._expire(request)

    def resolve(self, call: ParkedCall) -> None:
        self.resolved.append(call)
        call.resolve([TextBlock(f"result of {call.id}")], is_error=False)

    def learn(self) -> None:
        """The model knows the tickets that were written to it."""
        for one in self.connections:
            if one.delivered and one.reading is not None and (ticket := ticket_in(text_of(one.reading))):
                self.tickets += [ticket] if ticket not in self.tickets else []

    async def end(self) -> None:
        self.desk.close()
        for call in self.calls:
            if call not in self.resolved:
                self.resolve(call)
        for one in self.connections:
            one.write(True)
            one.task.cancel() if one.reading is None else None
        await asyncio.gather(*(one.task for one in self.connections), return_exceptions=True)

    def check(self) -> None:
        keys: dict[str, set[RequestKey]] = {}
        late = 0
        for one in self.connections:
            text = "" if one.reading is None or not one.delivered else text_of(one.reading)
            if text.startswith("result of "):
                late += one.key not in keys.setdefault(text, set()) and one.reading.request is None  # type: ignore[union-attr]  # a reading that was written
                keys[text].add(one.key)
        assert all(len(one) == 1 for one in keys.values()), "a result went to two requests"
        assert len(keys) + self.counters["undelivered_results"] - late == len(self.resolved), "a result got lost"
        assert self.desk._reading == 0
        assert [self.desk.parked, self.desk._by_request, self.desk._tickets, self.desk._late] == [{}, {}, {}, {}]
        assert all(
            one.reading is None or one.reading.result is None or text_of(one.reading) for one in self.connections
        )


OPS = ("call", "repeat", "wait", "write", "fail", "hang up", "cancel", "limit", "gather", "resolve", "tick")


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 5)), max_size=60))
def test_any_order_of_events_delivers_each_result_once_or_records_it(steps: list[tuple[str, int]]) -> None:
    async def play() -> None:
        world = World()
        for op, number in steps:
            await world.step(op, number)
        await world.end()
        world.check()

    asyncio.run(play())


@pytest.mark.parametrize("result_first", [True, False])
@pytest.mark.parametrize("waits", [True, False])
async def test_a_result_at_the_very_limit_is_delivered_once(result_first: bool, waits: bool) -> None:
    """Limit and result in one pass of the loop, for a call and for a wait, in both orders."""
    world = World()
    await world.play("call", "tick", "gather")
    if waits:
        await world.play("limit", "tick", "tick", "write", "tick", "tick", "wait", "tick")
    await world.play(*(("resolve", "limit") if result_first else ("limit", "resolve")))
    for _ in range(2):
        await world.play("tick", "tick", "tick", "write", "tick", "tick", "wait")
    texts = [text_of(one.reading) for one in world.connections if one.reading is not None]
    assert sum(text.startswith("result of ") for text in texts) == 1
    await world.end()
    world.check()
    assert world.counters["undelivered_results"] == 0


async def test_a_ticket_that_could_not_be_written_is_void_and_the_same_request_still_joins() -> None:
    for resolved_before in (False, True):
        world = World()
        for op in (
            "call",
            "tick",
            "gather",
            "limit",
            "tick",
            "tick",
            *(["resolve"] if resolved_before else []),
            "fail",
        ):
            await world.step(op, 0)
        await until(lambda world=world: not world.desk._tickets)
        (call,) = world.calls
        assert call.undelivered
        await world.play("repeat", "tick")
        if not resolved_before:
            assert not call.undelivered
            await world.step("resolve")
        await until(lambda world=world: world.connections[-1].reading is not None)
        assert text_of(world.connections[-1].reading) == f"result of {call.id}"  # type: ignore[arg-type]  # just seen
        assert world.counters["calls"] == 1
        await world.end()
        world.check()


async def test_a_ticket_that_somebody_came_with_was_delivered_whatever_its_writing_said() -> None:
    # The client reads the ticket, closes that connection and asks on another before we are through with the first.
    world = World()
    await world.play("call", "tick", "gather", "limit", "tick", "tick")
    world.tickets += world.desk._tickets
    await world.play("wait", "tick", "fail", "tick", "tick", "resolve", "tick", "tick", "write", "tick", "tick")
    assert world.connections[1].delivered
    assert text_of(world.connections[1].reading).startswith("result of ")  # type: ignore[arg-type]  # it was delivered
    await world.end()
    world.check()
    assert world.counters["undelivered_results"] == 0


async def test_a_result_that_is_being_written_is_not_given_to_a_second_wait() -> None:
    world = World()
    await world.play("call", "tick", "gather", "limit", "tick", "tick", "write", "tick", "tick", "resolve")
    await world.play("wait", "tick", "tick", "wait", "tick", "tick")
    first, second = (one.reading for one in world.connections[1:])
    assert first is not None
    assert second is not None
    assert text_of(first).startswith("result of ")
    assert "Another call with the same ticket" in text_of(second)
    # The first writing fails after all: the ticket is still good.
    await world.play("fail", "tick", "tick", "wait", "tick", "tick")
    third = world.connections[-1].reading
    assert third is not None
    assert text_of(third) == text_of(first)
    await world.end()
    world.check()


async def test_real_clocks_results_around_the_limit_arrive_once() -> None:
    """Result and limit as close together as the machine lets them be, through the whole bridge."""
    limit_s = 0.2
    bridge = Bridge()
    seen: Counter[str] = Counter()
    try:
        endpoint = await bridge.open(Catalogue.build([TOOL], name_budget=40), call_limit_s=limit_s)
        patience_s = endpoint.desk.patience_s
        assert patience_s is not None
        offsets = [step / 2_000 for step in range(-10, 11)]
        await asyncio.gather(
            *(_race(endpoint, index, patience_s + by, seen) for index, (by, _) in enumerate(product(offsets, range(3))))
        )
    finally:
        await bridge.aclose()
    assert sum(seen.values()) == len(offsets) * 3
    assert bridge.counters["undelivered_results"] == 0
    assert bridge.counters["calls"] == len(offsets) * 3
    # Otherwise nothing was tried here.
    assert seen["at once"] > 0
    assert seen["by ticket"] > 0


_turn = asyncio.Semaphore(8)


async def _race(endpoint: Endpoint, index: int, after_s: float, seen: Counter[str]) -> None:
    async with _turn, raw(endpoint) as client:
        client.call(index, exported(endpoint, "slow"), json.dumps({"index": index}))
        await until(lambda: any(f'"index": {index}}}' in call.arguments for call in endpoint.parked.values()))
        (call,) = [call for call in endpoint.parked.values() if f'"index": {index}}}' in call.arguments]
        call._handed_out = True
        asyncio.get_running_loop().call_later(after_s, answer, call, f"result {index}")
        response = await client.response()
        kind = "at once"
        while (ticket := ticket_in(response.text())) is not None:
            kind = "by ticket"
            client.call(f"w{index}", WAIT_TOOL, json.dumps({"ticket": ticket}))
            response = await client.response()
        assert response.text() == f"result {index}"
        seen[kind] += 1
