"""Whatever an adapter does, the registry's stream keeps the chunk contract and ends with exactly one finish."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from helpers.scripted_adapter import ScriptedAdapter, call, done, text
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from antigravity_acp.contract import (
    AbortController,
    AbortSignal,
    BlockEnd,
    BlockStart,
    Finish,
    GenerateOptions,
    LlmError,
    OpaqueBlock,
    ReasoningBlock,
    ReasoningDelta,
    StreamChunk,
    TextBlock,
    TextDelta,
    TokenUsage,
    ToolCallBlock,
    ToolCallDelta,
    Usage,
    user,
)
from antigravity_acp.host import LlmRegistry


def asked(signal: AbortSignal | None = None, provider: str = "x") -> GenerateOptions:
    return GenerateOptions(provider=provider, model="m", messages=(user("hi"),), signal=signal)


def mounted(adapter: ScriptedAdapter) -> LlmRegistry:
    registry = LlmRegistry()
    registry.register_adapter(["x"], adapter)
    return registry


async def collect(*reply: Any) -> tuple[list[StreamChunk], ScriptedAdapter]:
    adapter = ScriptedAdapter(reply)
    return [chunk async for chunk in mounted(adapter).stream(asked())], adapter


def the_finish(chunks: list[StreamChunk]) -> Finish:
    assert [isinstance(chunk, Finish) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    last = chunks[-1]
    assert isinstance(last, Finish)
    return last


def assert_contract(chunks: list[StreamChunk]) -> None:
    """The contract in words of the design, checked independently of the code under test."""
    the_finish(chunks)
    seen, open_blocks = 0, {}
    for chunk in chunks[:-1]:
        if isinstance(chunk, BlockStart):
            assert chunk.index == seen
            seen += 1
            open_blocks[chunk.index] = chunk.block_type
        elif isinstance(chunk, BlockEnd):
            kind = {TextBlock: "text", ReasoningBlock: "reasoning", ToolCallBlock: "tool-call"}[type(chunk.block)]
            assert open_blocks.pop(chunk.index) == kind
        elif not isinstance(chunk, Usage):
            kind = {TextDelta: "text", ReasoningDelta: "reasoning", ToolCallDelta: "tool-call"}[type(chunk)]
            assert open_blocks[chunk.index] == kind
    assert not open_blocks


async def test_a_good_stream_passes_unchanged() -> None:
    reply = [*text("a"), *call("t", index=1), Usage(TokenUsage(1, 2)), done("tool-calls")]
    chunks, _ = await collect(*reply)
    assert chunks == reply


async def test_what_comes_after_the_finish_is_dropped_and_the_generator_is_closed() -> None:
    chunks, adapter = await collect(*text("a"), done(), *text("late", 1), done())
    assert chunks == [*text("a"), done()]
    assert adapter.closed == 1


async def test_a_missing_finish_becomes_an_error() -> None:
    chunks, _ = await collect(*text("a"))
    reason = the_finish(chunks).reason
    assert (reason.kind, reason.failure and reason.failure.code) == ("error", "UNKNOWN")


async def test_a_failure_in_the_middle_of_blocks_closes_them_with_what_had_come() -> None:
    chunks, _ = await collect(
        BlockStart(0, "reasoning"),
        ReasoningDelta(0, "hm"),
        BlockStart(1, "tool-call"),
        ToolCallDelta(1, "c", '{"a":', "t"),
        LlmError("ACP_DISCONNECTED"),
    )
    assert chunks[-3:-1] == [BlockEnd(0, ReasoningBlock("hm")), BlockEnd(1, ToolCallBlock("c", "t", '{"a":'))]
    assert the_finish(chunks).reason.failure.code == "ACP_DISCONNECTED"  # type: ignore[union-attr]  # there is one


async def test_a_plain_exception_becomes_unknown_without_a_word_of_its_text(caplog: pytest.LogCaptureFixture) -> None:
    chunks, _ = await collect(RuntimeError("token hunter2"))
    failure = the_finish(chunks).reason.failure
    assert failure is not None
    assert failure.code == "UNKNOWN"
    assert "hunter2" not in failure.message + caplog.text


async def test_aborted_is_a_kind_of_its_own() -> None:
    chunks, _ = await collect(LlmError("ABORTED"))
    assert the_finish(chunks).reason.kind == "aborted"


async def test_an_unknown_route_is_a_finish_not_an_exception() -> None:
    chunks = [chunk async for chunk in LlmRegistry().stream(asked())]
    assert [the_finish(chunks).reason.failure.code, len(chunks)] == ["NO_ADAPTER", 1]  # type: ignore[union-attr]


async def test_an_adapter_that_fails_before_it_gives_an_iterator_is_contained() -> None:
    class Late(ScriptedAdapter):
        def stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]:
            raise LlmError("UNSUPPORTED_OPTION")

    chunks = [chunk async for chunk in mounted(Late()).stream(asked())]
    assert the_finish(chunks).reason.failure.code == "UNSUPPORTED_OPTION"  # type: ignore[union-attr]  # there is one


@pytest.mark.parametrize(
    "reply",
    [
        [BlockStart(1, "text")],
        [*text("a"), BlockStart(0, "text")],
        [*text("a"), TextDelta(0, "more")],
        [BlockStart(0, "text"), ReasoningDelta(0, "x")],
        [BlockStart(0, "text"), BlockEnd(0, ReasoningBlock("x"))],
        [BlockEnd(0, OpaqueBlock({"type": "odd"}))],
        [*call("t"), *call("t", index=1)],
        [done("tool-calls")],
        ["no chunk"],
    ],
)
async def test_a_broken_stream_ends_as_an_error_and_still_keeps_the_contract(reply: list[Any]) -> None:
    chunks, adapter = await collect(*reply, done())
    assert_contract(chunks)
    assert the_finish(chunks).reason.kind == "error"
    assert adapter.closed == 1


async def test_a_delta_without_a_start_gets_one() -> None:
    chunks, _ = await collect(TextDelta(0, "a"), done())
    assert chunks == [*text("a"), done()]


PIECES = st.one_of(
    st.builds(BlockStart, st.integers(0, 3), st.sampled_from(["text", "reasoning", "tool-call"])),
    st.builds(TextDelta, st.integers(0, 3), st.text(max_size=3)),
    st.builds(ReasoningDelta, st.integers(0, 3), st.text(max_size=3)),
    st.builds(ToolCallDelta, st.integers(0, 3), st.sampled_from(["c1", "c2"]), st.just("{}"), st.just("t")),
    st.builds(
        BlockEnd,
        st.integers(0, 3),
        st.sampled_from([TextBlock("t"), ReasoningBlock("r"), ToolCallBlock("c1", "t", "{}"), OpaqueBlock({})]),
    ),
    st.builds(Usage, st.just(TokenUsage(1, 1))),
    st.sampled_from([done(), done("tool-calls"), done("max-tokens"), 42, None]),
    st.sampled_from([LlmError("ABORTED"), ValueError("x")]),
)


@given(st.lists(PIECES, max_size=12))
@example([BlockEnd(0, ToolCallBlock("c1", "t", "{}")), BlockEnd(1, ToolCallBlock("c1", "t", "{}"))])
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_order_of_chunks_breaks_the_contract(reply: list[Any]) -> None:
    chunks, adapter = asyncio.run(collect(*reply))
    assert_contract(chunks)
    assert adapter.closed == 1


async def test_a_consumer_that_stops_early_closes_the_adapters_generator() -> None:
    adapter = ScriptedAdapter([*text("a"), asyncio.Event(), done()])
    async with aclosing(mounted(adapter).stream(asked())) as chunks:
        async for _ in chunks:
            break
        assert adapter.closed == 0
    assert adapter.closed == 1


async def test_a_consumer_that_just_walks_away_closes_it_too() -> None:
    adapter = ScriptedAdapter([*text("a"), asyncio.Event(), done()])
    async for _ in mounted(adapter).stream(asked()):
        break
    async with asyncio.timeout(5):
        while adapter.closed == 0:
            await asyncio.sleep(0)


async def test_a_cancelled_consumer_closes_it_and_stays_cancelled() -> None:
    reached = asyncio.Event()

    async def reply(options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        yield BlockStart(0, "text")
        reached.set()
        await asyncio.Event().wait()

    adapter = ScriptedAdapter(reply)

    async def consume() -> None:
        async with aclosing(mounted(adapter).stream(asked())) as chunks:
            async for _ in chunks:
                pass

    task = asyncio.create_task(consume())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert adapter.closed == 1


async def test_a_generator_that_fails_while_it_is_closed_does_not_hide_the_finish(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def reply(options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        try:
            yield done()
        finally:
            raise RuntimeError("hunter2")

    adapter = ScriptedAdapter(reply)
    # The adapter's own generator, without the helper's wrapping.
    adapter.stream = reply  # type: ignore[method-assign,assignment]  # an async generator function is an adapter's stream
    chunks = [chunk async for chunk in mounted(adapter).stream(asked())]
    assert chunks == [done()]
    assert "closed" in caplog.text
    assert "hunter2" not in caplog.text


async def test_a_signal_that_fired_before_never_reaches_the_adapter() -> None:
    controller = AbortController()
    controller.abort()
    adapter = ScriptedAdapter([done()])
    chunks = [chunk async for chunk in mounted(adapter).stream(asked(controller.signal))]
    assert the_finish(chunks).reason.kind == "aborted"
    assert adapter.requests == []


async def test_any_failure_after_the_signal_is_an_abort() -> None:
    controller = AbortController()

    async def reply(options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        yield BlockStart(0, "text")
        controller.abort()
        raise ConnectionError

    chunks = [chunk async for chunk in mounted(ScriptedAdapter(reply)).stream(asked(controller.signal))]
    assert the_finish(chunks).reason.kind == "aborted"
    assert_contract(chunks)


@pytest.mark.parametrize("busy", [False, True])
async def test_an_adapter_that_ignores_the_signal_is_interrupted_after_its_grace(
    busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antigravity_acp.host.llm.ABORT_GRACE_S", 0.05)
    controller = AbortController()

    async def reply(options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        yield BlockStart(0, "text")
        controller.abort()
        while busy:  # an endless flood that never waits
            yield TextDelta(0, "x")
        await asyncio.Event().wait()

    adapter = ScriptedAdapter(reply)
    async with asyncio.timeout(10):
        chunks = [chunk async for chunk in mounted(adapter).stream(asked(controller.signal))]
    assert the_finish(chunks).reason.kind == "aborted"
    assert_contract(chunks)
    assert adapter.closed == 1
    assert controller.signal._listeners == {}


async def test_a_stream_leaves_no_listener_on_a_signal_that_outlives_it() -> None:
    controller = AbortController()
    adapter = ScriptedAdapter([*text("a"), done()])
    assert [chunk async for chunk in mounted(adapter).stream(asked(controller.signal))]
    assert controller.signal._listeners == {}
