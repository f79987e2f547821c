"""Counters are real and disjoint, or they are not there."""

from typing import Any

import pytest
from helpers.agent import agent, play

from antigravity_acp.acp._usage import read_usage
from antigravity_acp.contract import TokenUsage


def wire(**values: Any) -> dict[str, Any]:
    return {"inputTokens": 100, "outputTokens": 50, **values}


@pytest.mark.parametrize(
    ("usage", "uncached_input", "visible_output"),
    [
        (wire(), 100, 50),
        (wire(totalTokens=150), 100, 50),
        # every part counted apart
        (wire(totalTokens=190, cachedReadTokens=30, thoughtTokens=10), 100, 50),
        # cached tokens are a part of the input, as Gemini counts
        (wire(totalTokens=150, cachedReadTokens=30), 70, 50),
        (wire(totalTokens=160, cachedReadTokens=30, thoughtTokens=10), 70, 50),
        # thoughts are a part of the output
        (wire(totalTokens=150, thoughtTokens=10), 100, 40),
        (wire(totalTokens=150, cachedReadTokens=30, cachedWriteTokens=5, thoughtTokens=10), 65, 40),
        # a total that nothing explains changes nothing
        (wire(totalTokens=7, cachedReadTokens=30), 100, 50),
    ],
)
def test_parts_that_the_total_shows_to_be_inside_are_taken_out(
    usage: dict[str, Any], uncached_input: int, visible_output: int
) -> None:
    read = read_usage(usage)
    assert read is not None
    assert (read.input_tokens, read.output_tokens) == (uncached_input, visible_output)
    assert read.total_tokens == usage.get("totalTokens")
    assert read.cache_read_tokens == usage.get("cachedReadTokens")


@pytest.mark.requirement("A-061")
@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        [],
        "x",
        {"inputTokens": 1},
        {"used": 5, "size": 10},
        wire(inputTokens="100"),
        wire(inputTokens=1.5),
        wire(inputTokens=True),
        wire(outputTokens=-1),
        wire(totalTokens=-1),
        wire(thoughtTokens="x"),
        wire(cachedReadTokens=-5),
    ],
)
def test_a_malformed_usage_is_none(usage: Any) -> None:
    assert read_usage(usage) is None


@pytest.mark.requirement("A-061")
async def test_usage_comes_from_the_prompts_answer_only() -> None:
    async with agent() as one:
        seen = await play(await one.new_session(), {"usage": wire(totalTokens=150)}, {"say": "x"})
        assert seen.outcome.usage == TokenUsage(100, 50, 150)
        seen = await play(await one.new_session(), {"usage": {"inputTokens": None}}, {"say": "x"})
        assert seen.outcome.usage is None
        assert seen.outcome.stop_reason == "end_turn"
