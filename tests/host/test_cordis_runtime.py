"""The plugin in the real Cordis runtime for Python (PyPI `deepseek-cordis`)."""

from collections.abc import AsyncIterator
from types import ModuleType
from typing import Any

import pytest
from deepseek_cordis import Context, Fiber, FiberState, inspect_plugin

from antigravity_acp.contract import LlmError
from antigravity_acp.hooks import own
from antigravity_acp.host import LlmRegistry

ROUTE = "antigravity-acp"


@pytest.fixture
async def root() -> AsyncIterator[Context]:
    root = Context()
    yield root
    for runtime in root.registry.values():
        for fiber in runtime.fibers:
            await fiber.dispose()


def routes(llm: LlmRegistry) -> list[str]:
    return [info.id for info in llm.list_providers()]


class Disposals(list[str]):
    """What happened while the plugin was undone, in order."""


@pytest.fixture
def disposals(monkeypatch: pytest.MonkeyPatch) -> Disposals:
    from antigravity_acp.adapter import AntigravityAdapter

    log = Disposals()
    original = AntigravityAdapter.dispose

    async def recording(self: AntigravityAdapter) -> None:
        await original(self)
        log.append("adapter ended")

    monkeypatch.setattr(AntigravityAdapter, "dispose", recording)
    return log


@pytest.mark.requirement("A-001")
@pytest.mark.parametrize("mounted", [own, own.plugin, own.apply], ids=["module", "object", "function"])
async def test_mounted_the_route_is_there_and_disposed_it_is_gone(
    root: Context, mounted: ModuleType | object, disposals: Disposals
) -> None:
    llm = LlmRegistry()
    root.provide("llm", llm)
    fiber: Fiber = await root.plugin(mounted, {"timeoutMs": 5})
    assert fiber.state is FiberState.ACTIVE
    assert routes(llm) == [ROUTE]
    assert disposals == []
    await fiber.dispose()
    assert routes(llm) == []
    assert disposals == ["adapter ended"]
    assert fiber.cleanup_errors == ()


@pytest.mark.parametrize("mounted", [own, own.plugin, own.apply], ids=["module", "object", "function"])
def test_what_it_needs_is_declared(mounted: object) -> None:
    meta = inspect_plugin(mounted)
    assert (meta.name, tuple(meta.inject)) == ("antigravity-acp", ("llm",))


async def test_it_waits_for_the_service_and_follows_it(root: Context, disposals: Disposals) -> None:
    fiber = root.plugin(own)
    await fiber
    assert fiber.state is FiberState.PENDING
    llm = LlmRegistry()
    withdraw = root.provide("llm", llm)
    await fiber
    assert (fiber.state, routes(llm)) == (FiberState.ACTIVE, [ROUTE])
    removal: Any = withdraw()
    await removal
    await fiber
    assert (fiber.state, routes(llm), disposals) == (FiberState.PENDING, [], ["adapter ended"])
    again = LlmRegistry()
    root.provide("llm", again)
    await fiber
    assert routes(again) == [ROUTE]


@pytest.mark.parametrize(
    ("config", "code"), [({"timeoutMs": "hunter2"}, "INVALID_SETTINGS"), ("hunter2", "INVALID_SETTINGS")]
)
async def test_an_invalid_setting_fails_the_mount_and_registers_nothing(root: Context, config: Any, code: str) -> None:
    llm = LlmRegistry()
    root.provide("llm", llm)
    with pytest.raises(LlmError) as caught:
        await root.plugin(own, config)
    assert caught.value.code == code
    assert "hunter2" not in str(caught.value)
    assert routes(llm) == []


async def test_a_second_mount_on_the_same_registry_is_refused_and_the_first_one_stays(
    root: Context, disposals: Disposals
) -> None:
    llm = LlmRegistry()
    root.provide("llm", llm)
    first = await root.plugin(own)
    with pytest.raises(LlmError, match="DUPLICATE_ADAPTER"):
        await root.plugin(own)
    assert routes(llm) == [ROUTE]
    await first.dispose()
    assert routes(llm) == []


async def test_a_host_whose_registration_is_itself_the_disposer_works_too(root: Context, disposals: Disposals) -> None:
    log: list[str] = []

    class ForeignRegistry:
        def register_adapter(self, providers: list[str], adapter: object) -> Any:
            log.append(f"+{providers}")

            async def take_back() -> None:
                log.append("-")
                disposals.append("route back")

            return take_back

    root.provide("llm", ForeignRegistry())
    fiber = await root.plugin(own)
    await fiber.dispose()
    assert log == [f"+['{ROUTE}']", "-"]
    assert disposals == ["route back", "adapter ended"]
