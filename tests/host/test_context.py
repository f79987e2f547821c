"""The context: services, effects in reverse order, scopes, and a disposal that cannot be left half done."""

import asyncio

import pytest

from antigravity_acp.host import Context, ContextError


async def test_effects_are_undone_in_reverse_order_one_after_the_other() -> None:
    ctx = Context()
    log: list[str] = []

    def step(name: str) -> None:
        async def undo() -> None:
            log.append(f"{name} begins")
            await asyncio.sleep(0)
            log.append(f"{name} ends")

        ctx.effect(undo, name)

    step("first")
    ctx.effect(lambda: log.append("sync"), "sync")
    step("last")
    assert await ctx.dispose() == ()
    assert log == ["last begins", "last ends", "sync", "first begins", "first ends"]


async def test_one_failing_disposer_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    ctx = Context("shop")
    log: list[str] = []

    async def cancelled() -> None:
        raise asyncio.CancelledError

    def broken() -> None:
        raise ValueError("token hunter2")

    ctx.effect(lambda: log.append("a"), "a")
    ctx.effect(broken, "broken")
    ctx.effect(cancelled, "cancelled")
    ctx.effect(lambda: log.append("b"), "b")
    failures = await ctx.dispose()
    assert log == ["b", "a"]
    assert [type(each) for each in failures] == [asyncio.CancelledError, ValueError]
    assert "broken" in caplog.text
    assert "hunter2" not in caplog.text


async def test_a_child_is_undone_where_it_was_made_and_its_services_with_it() -> None:
    ctx = Context()
    log: list[str] = []
    ctx.effect(lambda: log.append("before"))
    child = ctx.child("plugin")
    child.effect(lambda: log.append("child"))
    child.provide("clock", "tick")
    ctx.effect(lambda: log.append("after"))
    assert ctx.get("clock") == "tick"
    await ctx.dispose()
    assert log == ["after", "child", "before"]
    assert ctx.get("clock") is None
    assert child.disposed


async def test_a_child_that_is_gone_is_not_undone_again() -> None:
    ctx = Context()
    log: list[str] = []
    child = ctx.child("plugin")
    child.effect(lambda: log.append("child"))
    await child.dispose()
    await child.dispose()
    await ctx.dispose()
    assert log == ["child"]


async def test_an_effect_undone_early_is_not_undone_again() -> None:
    ctx = Context()
    log: list[str] = []
    undo = ctx.effect(lambda: log.append("x"))
    await undo()
    await undo()
    await ctx.dispose()
    assert log == ["x"]


async def test_a_second_provider_of_a_service_is_refused_and_changes_nothing() -> None:
    ctx = Context()
    ctx.provide("llm", 1)
    with pytest.raises(ContextError, match="`llm` is already provided"):
        ctx.child("other").provide("llm", 2)
    assert ctx.require("llm") == 1
    with pytest.raises(ContextError, match="no service named `tools`"):
        ctx.require("tools")
    await ctx.dispose()


async def test_a_disposed_scope_takes_nothing_more() -> None:
    ctx = Context()
    await ctx.dispose()
    for attempt in (lambda: ctx.effect(print), lambda: ctx.provide("a", 1), lambda: ctx.child("b")):
        with pytest.raises(ContextError, match="disposed"):
            attempt()


async def test_a_cancelled_caller_does_not_leave_the_disposal_half_done() -> None:
    ctx = Context()
    log: list[str] = []
    entered, go = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        entered.set()
        await go.wait()
        log.append("slow")

    ctx.effect(lambda: log.append("first"))
    ctx.effect(slow)
    caller = asyncio.create_task(ctx.dispose())
    await entered.wait()
    caller.cancel()
    await asyncio.sleep(0)
    assert not caller.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert log == ["slow", "first"]


async def test_two_callers_wait_for_one_disposal() -> None:
    ctx = Context()
    log: list[str] = []
    ctx.effect(lambda: log.append("x"))
    await asyncio.gather(ctx.dispose(), ctx.dispose())
    assert log == ["x"]


async def test_a_disposer_that_hangs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antigravity_acp.host.context.HOOK_TIMEOUT_S", 0.05)
    ctx = Context()
    log: list[str] = []
    ctx.effect(lambda: log.append("first"))
    ctx.effect(asyncio.Event().wait, "hangs")
    failures = await ctx.dispose()
    assert [type(each) for each in failures] == [TimeoutError]
    assert log == ["first"]
