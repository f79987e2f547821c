"""Every code of the table can be reached: by an agent's fault (the matrix) or by what a host does (the scenes here)."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from helpers.conversation import TOOLS, Conversation, running, schema
from helpers.fault_cells import CELLS
from helpers.loopback import directive, loopback_settings
from helpers.scripted_adapter import ScriptedAdapter

from antigravity_acp.acp.process import AgentProcess
from antigravity_acp.adapter import AntigravityAdapter
from antigravity_acp.contract import ERRORS, GenerateOptions, LlmError, ProviderInfo, user
from antigravity_acp.host import LlmRegistry
from antigravity_acp.settings import Settings

CALL = {"call": {"name": "bash", "arguments": {}}}
SECRET = "word-of-a-plugin"
Scene = Callable[[pytest.MonkeyPatch, Path], Awaitable[Any]]
SCENES: dict[str, Scene] = {}


def produces(code: str) -> Callable[[Scene], Scene]:
    def add(scene: Scene) -> Scene:
        SCENES[code] = scene
        return scene

    return add


async def ask(adapter: AntigravityAdapter, **changes: Any) -> None:
    """One stream call of a new conversation, read to its end."""
    chat = Conversation(adapter)
    chat.messages.append(user(directive({"say": "x"})))
    async with aclosing(adapter.stream(chat.options(**changes))) as stream:
        async for _ in stream:
            pass


@produces("UNSUPPORTED_OPTION")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    async with running() as adapter:
        await ask(adapter, temperature=0.5)


@produces("ACP_BINARY_MISSING")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    async with running(Settings.from_mapping({"command": str(folder / "nothing-here")})) as adapter:
        await ask(adapter)


@produces("ACP_INSTALL_FAILED")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    # Nothing is here, and the network ends at a closed port.
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(folder))
    monkeypatch.delenv("AGY_ACP_BIN", raising=False)
    async with running(Settings.from_mapping({"engine": "official"})) as adapter:
        await ask(adapter)


@produces("ACP_CONTEXT_LIMIT")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    error = {"code": -32603, "message": "Internal error", "data": {"type": "context_limit"}}
    async with running(steps=[{"error": error}]) as adapter:
        chat = Conversation(adapter)
        await chat.generate_hello()


@produces("ACP_PLATFORM_UNSUPPORTED")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder / "nothing-here"))
    async with running() as adapter:
        await ask(adapter)


@produces("ACP_TOOL_CATALOG_INVALID")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    async with running() as adapter:
        await ask(adapter, tools=(schema("twice"), schema("twice")))


@produces("ACP_TOOL_RESULTS_MISSING")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        await chat.play(CALL)
        await chat.answer({"call_of_nobody": "x"})


@produces("ACP_TOOL_TIMEOUT")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    async with running(loopback_settings(None, toolTimeoutMs=50)) as adapter:
        chat = Conversation(adapter)
        reply = await chat.play(CALL)
        async with asyncio.timeout(10):
            while adapter.diagnostics()["active_turns"]:
                await asyncio.sleep(0.005)
        await chat.answer({reply.calls[0].id: "late"})


@produces("ACP_SESSION_LIMIT")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    async with running(loopback_settings(None, maxActiveToolSessions=1)) as adapter:
        await Conversation(adapter, session_id="s0").play(CALL)
        await ask(adapter)


@produces("ACP_SESSION_BUSY")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user(directive({"say": "x"}, {"wait_cancel": 30})))
        async with aclosing(adapter.stream(chat.options())) as stream:
            await anext(stream)
            await ask(adapter)


@produces("ACP_TEARDOWN_FAILED")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    ending = AgentProcess._end

    async def survives(process: AgentProcess) -> None:
        # A process in the kernel's hands cannot be made here.
        await ending(process)
        raise LlmError("ACP_TEARDOWN_FAILED")

    monkeypatch.setattr(AgentProcess, "_end", survives)
    adapter = AntigravityAdapter(loopback_settings())
    # The turn itself has gone well, and says so.
    await ask(adapter, tools=TOOLS)
    await adapter.dispose()


@produces("ACP_DISPOSED")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    async with running() as adapter:
        await adapter.dispose()
        await ask(adapter)


@produces("DUPLICATE_ADAPTER")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    registry = LlmRegistry()
    for _ in range(2):
        registry.register_adapter(["a"], ScriptedAdapter())


@produces("NO_ADAPTER")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    await LlmRegistry().resolve_model("nobody", "m")


@produces("INVALID_ADAPTER")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    LlmRegistry().register_adapter([], ScriptedAdapter())


@produces("UNKNOWN")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    class Broken(ScriptedAdapter):
        def provider_info(self, provider: str) -> ProviderInfo:
            raise RuntimeError(SECRET)

    LlmRegistry().register_adapter(["a"], Broken())


@produces("REGISTRATION_DISPOSED")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    registration = LlmRegistry().register_adapter(["a"], ScriptedAdapter())
    registration.dispose()
    registration.replace(["b"])


@produces("INVALID_SETTINGS")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    Settings.from_mapping({"timeoutMs": SECRET})


@produces("INVALID_REQUEST")
async def _(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    GenerateOptions.from_wire({"provider": "a", "model": "m", "messages": SECRET})


@pytest.mark.parametrize("code", SCENES)
async def test_the_host_reaches(code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(LlmError) as caught:
        await SCENES[code](monkeypatch, tmp_path)
    assert caught.value.code == code
    assert SECRET not in str(caught.value)


def test_every_code_is_reached_by_a_test() -> None:
    reached = {cell.outcome for cell in CELLS} - {"ok", "max-tokens"} | SCENES.keys()
    assert sorted(ERRORS.keys() - reached) == []
    assert sorted(reached - ERRORS.keys()) == []
