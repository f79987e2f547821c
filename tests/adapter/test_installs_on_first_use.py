"""From nothing to a tool turn: the official server is downloaded, unpacked, proven, started, and calls a host's tool.

The archive is a stand-in in the real layout, served over HTTPS by a local server; everything else is the real thing.
"""

import asyncio
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.conversation import Conversation, code_of, running, until
from helpers.https_server import Exchange, Server, cut_after, serve, status
from helpers.official import official_archive, server_program

from antigravity_acp.acp import launch
from antigravity_acp.adapter import AntigravityAdapter
from antigravity_acp.contract import LlmError, Notice
from antigravity_acp.settings import Settings
from antigravity_provisioning import Asset, releases
from antigravity_provisioning.store import Store


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine of a user who has nothing of Antigravity."""
    for name, value in (("HOME", tmp_path / "home"), ("XDG_CACHE_HOME", tmp_path / "cache")):
        value.mkdir(mode=0o700)
        monkeypatch.setenv(name, str(value))
    for name in ("AGY_ACP_BIN", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def published(bare: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A server that has published an archive, which is the pinned one from now on."""

    def publish(server: Server) -> Asset:
        real = releases.pinned("linux-x86_64")
        digest = hashlib.sha256(server.data).hexdigest()
        asset = real._replace(url=server.url, size=len(server.data), sha256=digest, unpacked=0)
        monkeypatch.setattr(releases, "pinned", lambda platform=None: asset)
        monkeypatch.setenv("SSL_CERT_FILE", server.ca_file)
        return asset

    return publish


def data_of(folder: Path, program: bytes | None = None, padding: int = 0) -> bytes:
    return official_archive(folder / "archive.zip", program, padding=padding).read_bytes()


def official(**settings: Any) -> Settings:
    return Settings.from_mapping({"engine": "official", **settings})


CALL = {"call": {"name": "read_file", "arguments": {"path": "a.txt"}}}


@pytest.mark.requirement("A-050", "X-005")
async def test_install_locate_initialize_and_a_tool_turn(bare: Path, published: Callable[..., Any]) -> None:
    notices: list[Notice] = []
    with serve(data_of(bare)) as server:
        asset = published(server)
        adapter = AntigravityAdapter(official(), notify=notices.append)
        async with _disposed(adapter):
            chat = Conversation(adapter)
            first = await chat.play(CALL, {"tell": "initialize"})
            second = await chat.answer({first.calls[0].id: "content of a"})
        assert "result:read_file:content of a" in second.text
        assert len(server.requests) == 1
        installed = Store().find(asset)
        assert installed is not None
        assert installed.proven
        assert [notice.code for notice in notices][-2:] == ["install.initialize", "install.done"]
        assert all(0 <= notice.progress <= 1 for notice in notices if notice.progress is not None)
        # Another adapter, another day: nothing is downloaded, and no network is needed.
        server.always(status(500))
        async with running(official()) as again:
            assert (await Conversation(again).play({"say": "offline"})).text == "offline"
        assert len(server.requests) == 1


async def test_requests_that_come_together_install_once(bare: Path, published: Callable[..., Any]) -> None:
    with serve(data_of(bare)) as server:
        published(server)
        async with running(official()) as adapter:
            chats = [Conversation(adapter, session_id=f"s{n}") for n in range(4)]
            replies = await asyncio.gather(*(chat.play({"say": "hello"}) for chat in chats))
            assert [reply.text for reply in replies] == ["hello"] * 4
            assert adapter.diagnostics()["process_starts"] == 4
        assert len(server.requests) == 1


async def test_an_abort_cancels_the_download_and_the_next_request_resumes_it(
    bare: Path, published: Callable[..., Any]
) -> None:
    data = data_of(bare, padding=5_000_000)
    half, held = len(data) // 2, asyncio.Event()
    loop = asyncio.get_running_loop()

    async def half_and_wait(exchange: Exchange) -> None:
        await exchange.good(stop=half)
        loop.call_soon_threadsafe(held.set)
        await asyncio.Event().wait()

    with serve(data) as server:
        asset = published(server)
        server.script(half_and_wait)
        async with running(official()) as adapter:
            chat = Conversation(adapter)
            asking = asyncio.create_task(chat.play({"say": "never"}))
            async with asyncio.timeout(20):
                await held.wait()
            part = Store().downloads / f"{asset.sha256}.part"
            await until(lambda: part.is_file() and part.stat().st_size > 0, "some of it is on disk")
            chat.controller.abort()
            with pytest.raises(LlmError) as caught:
                await asking
            assert caught.value.code == "ABORTED"
            kept = part.stat().st_size
            assert kept > 0
            other = Conversation(adapter, session_id="s2")
            assert (await other.play({"say": "resumed"})).text == "resumed"
        assert server.requests[-1].range_start == kept


async def test_one_of_two_that_wait_may_go_without_the_other(bare: Path, published: Callable[..., Any]) -> None:
    data = data_of(bare)
    begun, go = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def wait_for_it(exchange: Exchange) -> None:
        gate = asyncio.Event()
        here = asyncio.get_running_loop()
        loop.call_soon_threadsafe(lambda: asyncio.ensure_future(_then(go, lambda: here.call_soon_threadsafe(gate.set))))
        loop.call_soon_threadsafe(begun.set)
        await gate.wait()
        await exchange.good()

    with serve(data) as server:
        published(server)
        server.script(wait_for_it)
        async with running(official()) as adapter:
            first, second = Conversation(adapter, session_id="a"), Conversation(adapter, session_id="b")
            leaving = asyncio.create_task(first.play({"say": "never"}))
            staying = asyncio.create_task(second.play({"say": "here"}))
            async with asyncio.timeout(20):
                await begun.wait()
            await until(lambda: adapter._pool._installer._waiting == 2, "both wait")
            first.controller.abort()
            with pytest.raises(LlmError):
                await leaving
            go.set()
            assert (await staying).text == "here"
        assert len(server.requests) == 1


async def test_disposal_ends_an_installation(bare: Path, published: Callable[..., Any]) -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def never(exchange: Exchange) -> None:
        loop.call_soon_threadsafe(begun.set)
        await asyncio.Event().wait()

    with serve(data_of(bare)) as server:
        published(server)
        server.always(never)
        adapter = AntigravityAdapter(official())
        asking = asyncio.create_task(code_of(Conversation(adapter).adapter.stream(_hello(adapter))))
        async with asyncio.timeout(20):
            await begun.wait()
            await adapter.dispose()
        assert await asking == "ACP_DISPOSED"


@pytest.mark.parametrize(
    ("shell", "options", "stage_text"),
    [("exit 3", {}, "exit status 3"), ("", {"name": "some-other-agent"}, "calls itself something else")],
    ids=["dead", "another agent"],
)
async def test_a_server_that_does_not_prove_itself_is_a_failure_of_that_stage(
    bare: Path, published: Callable[..., Any], shell: str, options: dict[str, Any], stage_text: str
) -> None:
    with serve(data_of(bare, server_program(shell=shell, **options))) as server:
        asset = published(server)
        async with running(official()) as adapter:
            with pytest.raises(LlmError) as caught:
                await Conversation(adapter).play({"say": "never"})
        assert caught.value.code == "ACP_INSTALL_FAILED"
        assert "`initialize`" in caught.value.message
        assert stage_text in caught.value.message
        assert "sign out" not in caught.value.message
        installed = Store().find(asset)
        assert installed is not None
        assert not installed.proven


async def test_without_permission_to_install_nothing_is_asked_of_the_network(
    bare: Path, published: Callable[..., Any]
) -> None:
    with serve(data_of(bare)) as server:
        published(server)
        async with running(official(autoInstall=False)) as adapter:
            stream = adapter.stream(_hello(adapter))
            assert await code_of(stream) == "ACP_BINARY_MISSING"
        assert server.connections == 0


async def test_auto_answers_with_the_engine_when_the_installation_fails(
    bare: Path, published: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    notices: list[Notice] = []
    monkeypatch.setenv("GEMINI_API_KEY", "unused")
    # The engine itself is proven elsewhere; here a quicker agent stands where it would.
    stand_in = official_program(bare)
    monkeypatch.setattr(launch, "_engine_program", lambda: (stand_in,))
    with serve(data_of(bare)) as server:
        published(server)
        server.always(status(404))
        adapter = AntigravityAdapter(Settings.from_mapping(), notify=notices.append)
        async with _disposed(adapter):
            for n in range(2):
                chat = Conversation(adapter, session_id=f"s{n}")
                assert (await chat.play({"say": "the engine"})).text == "the engine"
        assert len(server.requests) == 1, "it is not tried again at every start"
    failed = [notice for notice in notices if notice.code == "install.failed"]
    assert [notice.level for notice in failed] == ["warning"]
    assert "404" in failed[0].message


async def test_auto_answers_with_the_engine_as_long_as_what_was_installed_has_not_answered(
    bare: Path, published: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "unused")
    stand_in = official_program(bare)
    monkeypatch.setattr(launch, "_engine_program", lambda: (stand_in,))
    notices: list[Notice] = []
    switch = bare / "switch"
    # As on a system whose C library is too old: it is whole, and it never starts.
    with serve(data_of(bare, server_program(shell=f"[ -f {switch} ] || exit 127"))) as server:
        asset = published(server)
        adapter = AntigravityAdapter(Settings.from_mapping(), notify=notices.append)
        async with _disposed(adapter):
            assert (await Conversation(adapter, session_id="a").play({"say": "the engine"})).text == "the engine"
            # Three at once: the process of the first one is not enough, so more are started.
            chats = [Conversation(adapter, session_id=f"s{n}") for n in range(3)]
            replies = await asyncio.gather(*(chat.play({"say": "the engine"}) for chat in chats))
            assert [reply.text for reply in replies] == ["the engine"] * 3
            assert adapter.diagnostics()["process_starts"] >= 3
        assert [notice.code for notice in notices].count("install.failed") == 1
        assert Store().health(asset) == "unproven"
        # Another day, mended: it is proven without another download, and used.
        switch.touch()
        async with running(Settings.from_mapping()) as again:
            assert (await Conversation(again).play({"say": "the server"})).text == "the server"
        assert Store().health(asset) == "proven"
        assert len(server.requests) == 1


async def test_auto_without_an_alternative_tells_of_the_installation(
    bare: Path, published: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "has_engine", lambda: False)
    with serve(data_of(bare)) as server:
        published(server)
        server.script(status(404))
        async with running(Settings.from_mapping()) as adapter:
            stream = adapter.stream(_hello(adapter))
            assert await code_of(stream) == "ACP_INSTALL_FAILED"
            # Nothing else can answer, so the next request tries again.
            assert (await Conversation(adapter).play({"say": "there"})).text == "there"


async def test_a_cut_download_goes_on_where_it_was(bare: Path, published: Callable[..., Any]) -> None:
    data = data_of(bare, padding=200_000)
    with serve(data) as server:
        published(server)
        server.script(*(cut_after(len(data) * n // 4) for n in (1, 2, 3)))
        async with running(official()) as adapter:
            assert (await Conversation(adapter).play({"say": "whole"})).text == "whole"
        assert [request.range_start for request in server.requests] == sorted(
            request.range_start for request in server.requests
        )


def official_program(folder: Path) -> str:
    path = folder / "engine-stand-in"
    path.write_bytes(server_program(name="antigravity-engine", auth=[]))
    path.chmod(0o755)
    return str(path)


def _hello(adapter: AntigravityAdapter) -> Any:
    chat = Conversation(adapter, session_id="x", tools=())
    from antigravity_acp.contract import user

    chat.messages.append(user("hello"))
    return chat.options()


async def _then(event: asyncio.Event, action: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        await event.wait()
    action()


class _disposed:
    """Disposes an adapter at the end of the block, within a bound."""

    def __init__(self, adapter: AntigravityAdapter) -> None:
        self._adapter = adapter

    async def __aenter__(self) -> AntigravityAdapter:
        return self._adapter

    async def __aexit__(self, *_: object) -> None:
        async with asyncio.timeout(20):
            await self._adapter.dispose()
