"""This project as a plugin: found by its entry point, validated first, mounted, taken back."""

import subprocess
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest
from helpers.scripted_adapter import ScriptedAdapter

from antigravity_acp.contract import GenerateOptions, LlmError, user
from antigravity_acp.hooks.own import AntigravityPlugin, plugin
from antigravity_acp.host import Host, ModelChoice, Selection
from antigravity_acp.manifest import manifest

ID = "antigravity-acp"


@pytest.fixture
def disposals(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every adapter of the plugin whose disposal has come to its end."""
    from antigravity_acp.adapter import AntigravityAdapter

    ended: list[Any] = []
    original = AntigravityAdapter.dispose

    async def recording(self: AntigravityAdapter) -> None:
        await original(self)
        ended.append(self)

    monkeypatch.setattr(AntigravityAdapter, "dispose", recording)
    return ended


def routes(host: Host) -> list[str]:
    return [info.id for info in host.ctx.llm.list_providers()]


@pytest.mark.requirement("A-002")
def test_the_manifest_names_entry_point_route_default_model_and_settings() -> None:
    this = manifest()
    group, _, name = this.entry_point.partition(":")
    (point,) = [each for each in entry_points(group=group) if each.name == name]
    assert point.load() is plugin
    assert (this.id, this.provider, this.default_model) == (ID, "antigravity-acp", "server-default")
    for field in this.settings["properties"].values():
        assert field["title"]
        assert field["description"]
        assert "default" in field


@pytest.mark.requirement("A-001", "A-002")
async def test_started_the_host_finds_it_and_disposed_it_takes_its_route_back(disposals: list[Any]) -> None:
    host = await Host({ID: {"timeoutMs": 5}}).start(Selection(only=frozenset({ID})))
    assert host.failures == []
    assert routes(host) == ["antigravity-acp"]
    registry = host.ctx.llm
    await host.dispose()
    assert registry.list_providers() == ()
    assert len(disposals) == 1


@pytest.mark.requirement("A-001")
async def test_unmounting_the_plugin_frees_the_route_for_the_next_owner(disposals: list[Any]) -> None:
    async with Host() as host:
        assert await host.mount(ID, AntigravityPlugin())
        with pytest.raises(LlmError, match="DUPLICATE_ADAPTER"):
            host.ctx.llm.register_adapter([ID], ScriptedAdapter())
        await host.unmount(ID)
        assert len(disposals) == 1
        host.ctx.llm.register_adapter([ID], ScriptedAdapter())


@pytest.mark.parametrize(
    ("config", "field", "expected"),
    [
        ({"timeoutMs": "hunter2"}, "timeoutMs", "integer"),
        ({"engine": "hunter2"}, "engine", "official"),
        ({"env": {"A": 5}}, "env.A", "string"),
        ({"colour": "hunter2"}, "colour", ""),
    ],
)
async def test_an_invalid_setting_names_the_field_and_registers_nothing(
    config: dict[str, Any], field: str, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Host({ID: config}) as host:
        assert not await host.mount(ID, AntigravityPlugin())
        reason = host.failures[0].reason
        assert field in reason
        assert expected in reason
        assert "hunter2" not in reason + caplog.text
        assert routes(host) == []


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"control": True, "permissions": {"deny": ["command(git push"]}}, "`permissions.deny[0]` is not valid"),
        ({"timeoutMs": "hunter2"}, "timeoutMs"),
    ],
)
async def test_who_chooses_the_default_model_of_a_plugin_that_refused_its_settings_is_told_so(
    config: dict[str, Any], place: str
) -> None:
    async with Host({ID: config}) as host:
        await host.start(Selection(only=frozenset({ID})))
        with pytest.raises(LlmError) as caught:
            host.choose_model()
    assert caught.value.code == "INVALID_SETTINGS"
    assert place in caught.value.message
    assert "hunter2" not in caught.value.message


async def test_a_route_that_is_taken_leaves_the_first_owner_and_no_adapter_behind() -> None:
    async with Host() as host:
        first = ScriptedAdapter()
        host.ctx.llm.register_adapter([ID], first)
        assert not await host.mount(ID, AntigravityPlugin())
        assert "antigravity-acp" in host.failures[0].reason
        assert [info.name for info in host.ctx.llm.list_providers()] == ["Scripted"]


async def test_one_object_can_be_mounted_in_two_hosts_with_settings_of_their_own(disposals: list[Any]) -> None:
    async with Host({ID: {"timeoutMs": 1}}) as first, Host({ID: {"timeoutMs": 2}}) as second:
        assert await first.mount(ID, plugin)
        assert await second.mount(ID, plugin)
        await first.dispose()
        assert routes(second) == [ID]
        assert len(disposals) == 1
    assert len(disposals) == 2


@pytest.mark.requirement("A-003")
async def test_fresh_chats_use_the_plugins_default_and_saved_choices_win() -> None:
    async with Host() as host:
        with pytest.raises(LlmError, match="NO_ADAPTER"):
            host.choose_model()
        assert host.choose_model(profile="other/m") == ModelChoice("other", "m")
        await host.mount(ID, AntigravityPlugin())
        assert str(host.choose_model()) == "antigravity-acp/server-default"
        assert str(host.choose_model(profile="p/one")) == "p/one"
        assert str(host.choose_model(profile="p/one", session="s/two")) == "s/two"
        await host.unmount(ID)
        assert host.default_model is None


async def test_a_disposed_plugins_adapter_answers_nothing_more() -> None:
    async with Host() as host:
        await host.mount(ID, AntigravityPlugin())
        adapter = host.ctx.llm._owner(ID)
        await host.unmount(ID)
        options = GenerateOptions(provider=ID, model="server-default", messages=(user("hi"),))
        with pytest.raises(LlmError, match="ACP_DISPOSED"):
            await anext(aiter(adapter.stream(options)))


def test_finding_the_plugin_and_importing_the_host_loads_no_agent_and_no_terminal_library() -> None:
    code = """
import sys
import antigravity_acp.host, antigravity_acp.hooks.own
heavy = {"mcp", "acp", "rich", "uvicorn", "pydantic", "jsonschema_rs"}
print(sorted((heavy | {"antigravity_acp.adapter", "antigravity_acp.bridge"}) & set(sys.modules)))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"
