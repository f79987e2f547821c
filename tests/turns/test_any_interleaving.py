"""Any turn that an agent can play, read and answered in any way, keeps the contract (real processes, real endpoint).

Each example is a turn of several rounds with text, thoughts and calls; the host answers in any order, and somewhere it
may abort or walk away. Whatever happens: the chunks keep their rules, no character is lost, every call is answered
once and with its own result.
"""

import asyncio
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.conversation import Conversation, collect, until
from helpers.loopback import directive, loopback_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antigravity_acp.adapter import AntigravityAdapter
from antigravity_acp.contract import LlmError, tool_result, user

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=6)
UPDATES = st.lists(st.tuples(st.sampled_from(["say", "think"]), WORDS), max_size=4)
ROUNDS = st.lists(st.tuples(UPDATES, st.integers(1, 4), st.booleans()), max_size=3)


class Runner:
    """One event loop and one adapter for all examples, so that an example costs milliseconds."""

    def __init__(self) -> None:
        self.loop = asyncio.Runner()
        self.adapter = self.loop.run(self._make())
        self.number = 0

    async def _make(self) -> AntigravityAdapter:
        return AntigravityAdapter(loopback_settings(None, cancelGraceMs=500))

    def close(self) -> None:
        self.loop.run(self.adapter.dispose())
        self.loop.close()


@pytest.fixture
def runner() -> Iterator[Runner]:
    one = Runner()
    yield one
    one.close()


def steps_of(rounds: list[Any], tail: list[tuple[str, str]]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    for number, (updates, calls, parallel) in enumerate(rounds):
        steps += [{kind: text} for kind, text in updates]
        wanted = [{"name": "bash", "arguments": {"command": f"{number}.{index}"}} for index in range(calls)]
        steps.append({"calls": wanted, "parallel": parallel})
    return [*steps, *({kind: text} for kind, text in tail), {"say": "end"}]


def said(rounds: list[Any], tail: list[tuple[str, str]], kind: str) -> str:
    every = [update for updates, *_ in rounds for update in updates] + tail
    return "".join(text for one, text in every if one == kind)


async def play(
    runner: Runner, rounds: list[Any], tail: list[tuple[str, str]], stop: int | None, order: random.Random
) -> None:
    runner.number += 1
    chat = Conversation(runner.adapter, session_id=f"example {runner.number}")
    chat.messages.append(user(directive(*steps_of(rounds, tail))))
    texts, thoughts, asked = "", "", []
    for segment in range(100):
        if segment == stop:
            chat.controller.abort()
            with pytest.raises(LlmError, match="ABORTED"):
                await collect(runner.adapter.stream(chat.options()))
            break
        reply = await chat.generate()
        texts += reply.text
        thoughts += reply.thoughts
        if reply.kind == "stop":
            break
        commands = {call.id: json.loads(call.arguments)["command"] for call in reply.calls}
        asked += commands.values()
        ids = list(commands)
        order.shuffle(ids)
        chat.messages += [tool_result(call_id, f"<{commands[call_id]}>") for call_id in ids]
    else:
        raise AssertionError("the turn never ended")
    await until(lambda: runner.adapter.diagnostics()["active_turns"] == 0, "the turn is over")
    if stop is not None and chat.controller.signal.aborted:
        return
    expected = [f"{number}.{index}" for number, (_, calls, _) in enumerate(rounds) for index in range(calls)]
    assert sorted(asked) == expected
    for command in expected:
        assert texts.count(f"result:bash:<{command}>") == 1
    spoken = texts
    for command in expected:
        spoken = spoken.replace(f"result:bash:<{command}>", "")
    assert spoken.replace("\n", "") == (said(rounds, tail, "say") + "end").replace("\n", "")
    assert thoughts == said(rounds, tail, "think")


@pytest.mark.requirement("A-013", "A-060", "X-010")
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rounds=ROUNDS, tail=UPDATES, stop=st.none() | st.integers(0, 4), seed=st.integers(0, 2**32))
def test_any_turn_keeps_the_contract(
    runner: Runner, rounds: list[Any], tail: list[tuple[str, str]], stop: int | None, seed: int
) -> None:
    runner.loop.run(play(runner, rounds, tail, stop, random.Random(seed)))
