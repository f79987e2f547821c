"""Routes: all or nothing, one owner each, taken back with their scope."""

import pytest
from helpers.scripted_adapter import ScriptedAdapter, done, text

from antigravity_acp.contract import (
    AbortSignal,
    GenerateOptions,
    LlmError,
    ModelInfo,
    ProviderInfo,
    ResolvedModelInfo,
    user,
)
from antigravity_acp.host import Context, LlmRegistry


def routes(registry: LlmRegistry) -> list[str]:
    return [info.id for info in registry.list_providers()]


class Misnamed(ScriptedAdapter):
    """Describes one of its routes wrongly."""

    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer = answer

    def provider_info(self, provider: str) -> ProviderInfo:
        if provider != "bad":
            return ProviderInfo(provider, "Good")
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]  # that is the fault under test


@pytest.mark.requirement("A-001")
def test_a_second_owner_of_one_route_gets_none_of_its_routes() -> None:
    registry = LlmRegistry()
    registry.register_adapter(["a", "b"], ScriptedAdapter())
    with pytest.raises(LlmError) as caught:
        registry.register_adapter(["c", "b", "d"], ScriptedAdapter())
    assert caught.value.code == "DUPLICATE_ADAPTER"
    assert "`b`" in caught.value.message
    assert routes(registry) == ["a", "b"]


def test_a_route_named_twice_in_one_registration_is_a_duplicate() -> None:
    registry = LlmRegistry()
    with pytest.raises(LlmError, match="DUPLICATE_ADAPTER"):
        registry.register_adapter(["a", "a"], ScriptedAdapter())
    assert routes(registry) == []


@pytest.mark.parametrize("answer", [ProviderInfo("other", "X"), ProviderInfo("bad", ""), None, RuntimeError("hunter2")])
def test_metadata_that_is_wrong_registers_nothing_and_leaks_nothing(answer: object) -> None:
    registry = LlmRegistry()
    with pytest.raises(LlmError) as caught:
        registry.register_adapter(["good", "bad"], Misnamed(answer))
    assert caught.value.code == ("UNKNOWN" if isinstance(answer, Exception) else "INVALID_ADAPTER")
    assert "hunter2" not in str(caught.value)
    assert routes(registry) == []


@pytest.mark.parametrize("names", [[], [""]])
def test_no_route_at_all_is_refused(names: list[str]) -> None:
    with pytest.raises(LlmError, match="INVALID_ADAPTER"):
        LlmRegistry().register_adapter(names, ScriptedAdapter())


def test_disposing_twice_does_not_take_the_routes_of_the_next_owner() -> None:
    registry = LlmRegistry()
    first = registry.register_adapter(["a"], ScriptedAdapter())
    first.dispose()
    registry.register_adapter(["a"], ScriptedAdapter(name="Second"))
    first.dispose()
    assert [info.name for info in registry.list_providers()] == ["Second"]


def test_replacing_routes_is_all_or_nothing_too() -> None:
    registry = LlmRegistry()
    registration = registry.register_adapter(["a", "b"], ScriptedAdapter())
    registry.register_adapter(["taken"], ScriptedAdapter())
    with pytest.raises(LlmError, match="DUPLICATE_ADAPTER"):
        registration.replace(["c", "taken"])
    assert sorted(routes(registry)) == ["a", "b", "taken"]
    registration.replace(["b", "c"])
    assert sorted(routes(registry)) == ["b", "c", "taken"]
    registration.replace([])
    assert routes(registry) == ["taken"]
    registration.replace(["a"])
    registration.dispose()
    assert routes(registry) == ["taken"]
    with pytest.raises(LlmError, match="REGISTRATION_DISPOSED"):
        registration.replace(["a"])


async def test_what_a_scope_registered_goes_with_it_though_its_owner_forgot() -> None:
    ctx = Context()
    registry = LlmRegistry()
    ctx.provide("llm", registry)
    plugin = ctx.child("plugin")
    plugin.llm.register_adapter(["forgotten"], ScriptedAdapter())
    assert routes(ctx.llm) == ["forgotten"]
    await plugin.dispose()
    assert routes(registry) == []
    await ctx.dispose()


async def test_a_disposed_scope_cannot_register_a_route_that_nobody_would_take_back() -> None:
    ctx = Context()
    registry = LlmRegistry()
    ctx.provide("llm", registry)
    plugin = ctx.child("plugin")
    view = plugin.llm
    await plugin.dispose()
    with pytest.raises(Exception, match="disposed"):
        view.register_adapter(["late"], ScriptedAdapter())
    assert routes(registry) == []
    await ctx.dispose()


async def test_two_adapters_stand_side_by_side_and_each_answers_for_its_own_route() -> None:
    registry = LlmRegistry()
    left, right = ScriptedAdapter([*text("left"), done()]), ScriptedAdapter([*text("right"), done()])
    registry.register_adapter(["left"], left)
    registry.register_adapter(["right"], right)
    for name in ("right", "left"):
        options = GenerateOptions(provider=name, model="small", messages=(user("hi"),))
        assert name in [getattr(chunk, "text", "") async for chunk in registry.stream(options)]
    assert [len(each.requests) for each in (left, right)] == [1, 1]
    assert [(each.provider, each.id) for each in await registry.list_models()] == [
        (provider, model) for provider in ("left", "right") for model in ("small", "large")
    ]


async def test_a_route_that_cannot_be_asked_is_named_and_does_not_hide_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(ScriptedAdapter):
        async def list_models(self, provider: str) -> list[ModelInfo]:
            raise RuntimeError("hunter2")

    registry = LlmRegistry()
    registry.register_adapter(["broken"], Broken())
    registry.register_adapter(["good"], ScriptedAdapter())
    assert {each.provider for each in await registry.list_models()} == {"good"}
    assert "`broken`" in caplog.text
    assert "hunter2" not in caplog.text
    with pytest.raises(LlmError) as caught:
        await registry.list_models("broken")
    assert caught.value.code == "UNKNOWN"
    assert "hunter2" not in str(caught.value)


async def test_an_answer_about_another_model_or_route_is_refused() -> None:
    class Confused(ScriptedAdapter):
        async def list_models(self, provider: str) -> list[ModelInfo]:
            return [ModelInfo("other", "m", "M")]

        async def resolve_model(
            self, provider: str, model: str, signal: AbortSignal | None = None
        ) -> ResolvedModelInfo:
            return ResolvedModelInfo(provider, "another", "Another")

    registry = LlmRegistry()
    registry.register_adapter(["x"], Confused())
    with pytest.raises(LlmError, match="INVALID_ADAPTER"):
        await registry.resolve_model("x", "m")
    with pytest.raises(LlmError, match="INVALID_ADAPTER"):
        await registry.list_models("x")


async def test_an_unlisted_model_can_be_resolved_and_an_unknown_route_names_the_known_ones() -> None:
    registry = LlmRegistry()
    registry.register_adapter(["known"], ScriptedAdapter())
    assert (await registry.resolve_model("known", "unlisted")).id == "unlisted"
    with pytest.raises(LlmError) as caught:
        await registry.resolve_model("nobody", "m")
    assert caught.value.code == "NO_ADAPTER"
    assert "`known`" in caught.value.message
