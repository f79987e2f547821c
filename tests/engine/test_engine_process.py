"""The engine as a process: starting, refusing, ending, and what it leaves (nothing)."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from helpers.engine_peer import RpcError, engine, environment
from helpers.engine_tools import ToolServer

SCRIPT = """
rules:
  - {when: {user: slow}, text: [one, two, three, four, five, six], pause_ms: 300}
  - {when: {user: hold, round: 0}, calls: [{name: hold}]}
  - text: "fine: {{user}}"
"""


def run(tmp_path: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "antigravity_engine", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        stdin=subprocess.DEVNULL,
        env=environment(tmp_path, env),
    )


def scratch(tmp_path: Path) -> list[str]:
    return sorted(entry.name for entry in (tmp_path / "tmp").iterdir() if entry.name.startswith("antigravity"))


async def gone(processes: list[psutil.Process]) -> None:
    async with asyncio.timeout(8):
        while any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes):
            await asyncio.sleep(0.05)


@pytest.mark.requirement("X-011")
@pytest.mark.parametrize(
    ("arguments", "limit"), [((), 1800), (("--mcp-timeout", "7"), 7), (("--mcp-timeout", "0"), 180)]
)
async def test_the_limit_of_a_tool_call_is_announced(tmp_path: Path, arguments: tuple[str, ...], limit: int) -> None:
    async with engine(tmp_path, *arguments) as peer:
        capabilities = (await peer.initialize())["agentCapabilities"]
        assert capabilities["_meta"] == {"antigravity-acp": {"mcpCallLimitSeconds": limit}}


@pytest.mark.requirement("X-001")
async def test_without_a_back_end_a_session_asks_for_authentication_and_says_how(tmp_path: Path) -> None:
    async with engine(tmp_path) as peer:
        answer = await peer.initialize()
        methods = {method["id"] for method in answer["authMethods"]}
        assert methods == {"gemini-api-key", "vertex-api-key", "vertex-adc", "openai-compatible"}
        with pytest.raises(RpcError) as caught:
            await peer.new_session()
        assert caught.value.code == -32000
        assert caught.value.type == "auth_required"
        assert "GEMINI_API_KEY" in str(caught.value)
        with pytest.raises(RpcError) as caught:
            await peer.request("authenticate", {"methodId": "gemini-api-key"})
        assert caught.value.code == -32000
        with pytest.raises(RpcError) as caught:
            await peer.request("authenticate", {"methodId": "anything"})
        assert caught.value.code == -32602


async def test_with_a_key_only_the_method_in_use_is_named(tmp_path: Path) -> None:
    async with engine(tmp_path, "--model", "m", env={"GEMINI_API_KEY": "k"}) as peer:
        answer = await peer.initialize()
        assert [method["id"] for method in answer["authMethods"]] == ["gemini-api-key"]
        assert await peer.request("authenticate", {"methodId": "gemini-api-key"}) == {}


def test_check_says_in_one_line_what_is_used_or_missing(tmp_path: Path) -> None:
    missing = run(tmp_path, "--check")
    assert missing.returncode == 2
    assert missing.stdout == ""
    assert missing.stderr.count("\n") == 1
    assert "GEMINI_API_KEY" in missing.stderr
    good = run(tmp_path, "--check", GEMINI_API_KEY="very-secret")
    assert (good.returncode, good.stdout.count("\n")) == (0, 1)
    assert good.stdout.startswith("ready: Gemini end point at generativelanguage.googleapis.com")
    assert "very-secret" not in good.stdout + good.stderr
    bad = tmp_path / "bad.yml"
    bad.write_text("rules:\n  - text: fine\n  - txet: wrong\n")
    broken = run(tmp_path, "--check", "--script", str(bad))
    assert broken.returncode == 2
    assert "bad.yml, rule 2" in broken.stderr
    assert "txet" in broken.stderr
    no_harness = run(tmp_path, "--check", GEMINI_API_KEY="k", ANTIGRAVITY_HARNESS_PATH="/nowhere")
    assert no_harness.returncode == 2
    assert "harness" in no_harness.stderr


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    code = """
import sys
from antigravity_engine.cli import _parse
try:
    _parse(["--help"])
except SystemExit:
    pass
print(sorted({"google", "yaml", "msgspec", "asyncio", "acp"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "--native-tools" in done.stdout


async def test_the_end_of_stdin_ends_everything_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session()
        turn = peer.prompt_soon(session, "slow")
        await peer.until(peer.text)
        harnesses = await peer.until_harnesses(1)
        assert len(scratch(tmp_path)) == 1
        assert peer.process.stdin is not None
        peer.process.stdin.close()
        assert await asyncio.wait_for(peer.process.wait(), 6) == 0
        with pytest.raises(ConnectionError):
            await turn
        await gone(harnesses)
        assert scratch(tmp_path) == []


async def test_sigterm_ends_it_in_order(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        await peer.prompt(await peer.new_session(), "hello")
        harnesses = await peer.until_harnesses(1)
        peer.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(peer.process.wait(), 6) == 0
        await gone(harnesses)
        assert scratch(tmp_path) == []


async def test_kill_9_leaves_no_process_and_the_next_start_sweeps_its_directory(tmp_path: Path) -> None:
    server = ToolServer()
    server.hold()
    async with server.serve() as tools:
        async with engine(tmp_path, script=SCRIPT) as peer:
            await peer.initialize()
            session = await peer.new_session(tools.descriptor())
            turn = peer.prompt_soon(session, "hold")
            await asyncio.wait_for(tools.started.wait(), 20)
            processes = psutil.Process(peer.process.pid).children(recursive=True)
            assert processes
            peer.process.kill()
            await peer.process.wait()
            await gone(processes)
            with pytest.raises(ConnectionError):
                await turn
        (left,) = scratch(tmp_path)
        async with engine(tmp_path, script=SCRIPT) as peer:
            await peer.initialize()
            assert left not in scratch(tmp_path)
            assert len(scratch(tmp_path)) == 1
            async with engine(tmp_path, script=SCRIPT) as second:
                await second.initialize()
                assert len(scratch(tmp_path)) == 2, "a living engine's directory was swept"


async def test_parallel_sessions_do_not_mix_and_few_idle_harnesses_stay(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        sessions = [await peer.new_session() for _ in range(5)]
        turns = [peer.prompt_soon(session, f"mine {index}") for index, session in enumerate(sessions)]
        results = await asyncio.wait_for(asyncio.gather(*turns), 60)
        assert {result["stopReason"] for result in results} == {"end_turn"}
        for index, session in enumerate(sessions):
            assert peer.text(session) == f"fine: mine {index}"
        await peer.until_harnesses(2)
        peer.updates.clear()
        await peer.prompt(sessions[0], "once more")
        assert peer.text(sessions[0]) == "fine: once more"
        contents = peer.last_bodies_text()
        assert "mine 0" in contents
        assert "mine 1" not in contents


async def test_closing_a_session_removes_its_harness_and_its_transcript(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session()
        await peer.prompt(session, "hello")
        root = tmp_path / "tmp" / scratch(tmp_path)[0]
        assert list(root.rglob(f"*{session}*"))
        await peer.request("session/close", {"sessionId": session})
        await peer.until_harnesses(0)
        assert not list(root.rglob(f"*{session}*"))
        with pytest.raises(RpcError) as caught:
            await peer.prompt(session, "hello")
        assert caught.value.type == "session_not_found"


async def test_the_home_of_the_harness_is_shared_and_state_is_kept_only_on_request(tmp_path: Path) -> None:
    state = tmp_path / "kept"
    cache = tmp_path / "cache"
    env = {"XDG_CACHE_HOME": str(cache)}
    for _ in range(2):
        async with engine(tmp_path, "--state", str(state), script=SCRIPT, env=env) as peer:
            await peer.initialize()
            await peer.prompt(await peer.new_session(), "hello")
    assert len(list(state.rglob("*.db"))) == 2
    assert len(list(tmp_path.rglob("webm_encoder"))) == 1
    assert scratch(tmp_path) == []


async def test_wrong_frames_and_wrong_parameters_are_answered_and_harm_nothing(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        assert peer.process.stdin is not None
        for frame in (b"null\n", b"42\n", b"[]\n", b"{not json\n", b"\xff\xfe\n", b"\n", b'{"id": 99, "result": 1}\n'):
            peer.process.stdin.write(frame)
        await peer.initialize()
        cases = [
            ("session/new", {"cwd": "relative", "mcpServers": []}, "invalid_params"),
            (
                "session/new",
                {"cwd": "/", "mcpServers": [{"type": "sse", "name": "s", "url": "http://x"}]},
                "invalid_params",
            ),
            ("session/new", {"cwd": "/", "mcpServers": [{"name": "a b", "command": "x"}]}, "invalid_params"),
            ("session/load", {"sessionId": "x"}, "method_not_found"),
            ("session/prompt", {"sessionId": "x", "prompt": [{"type": "text", "text": "t"}]}, "session_not_found"),
        ]
        for method, params, kind in cases:
            with pytest.raises(RpcError) as caught:
                await peer.request(method, params)
            assert caught.value.type == kind, method
        session = await peer.new_session()
        for blocks in ([], [{"type": "audio", "data": "", "mimeType": "audio/wav"}], [{"type": "text", "text": " "}]):
            with pytest.raises(RpcError) as caught:
                await peer.request("session/prompt", {"sessionId": session, "prompt": blocks})
            assert caught.value.type == "invalid_params"
        with pytest.raises(RpcError) as caught:
            await peer.request(
                "session/set_config_option", {"sessionId": session, "configId": "model", "value": "other"}
            )
        assert caught.value.type == "invalid_model"
        await peer.prompt(session, "hello")
        assert peer.text() == "fine: hello"


async def test_nothing_of_a_conversation_is_logged(tmp_path: Path) -> None:
    server = ToolServer()
    server.add("hold", lambda _: "tool-output-secret")
    env = {"ANTIGRAVITY_ENGINE_LOG": "DEBUG"}
    async with server.serve() as tools, engine(tmp_path, script=SCRIPT, env=env) as peer:
        await peer.initialize()
        session = await peer.new_session(tools.descriptor())
        await peer.prompt(session, "hold the prompt-secret")
        for harness in peer.harnesses():
            harness.kill()
        await peer.prompt(session, "another prompt-secret")
    assert b"secret" not in peer.stderr
    assert tools.token.encode() not in peer.stderr
    assert peer.noise == []


async def test_streamed_pieces_arrive_as_they_come(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session()
        turn = peer.prompt_soon(session, "slow")
        await peer.until(lambda: "one" in peer.text())
        assert not turn.done()
        assert "six" not in peer.text()
        await asyncio.wait_for(turn, 20)
        assert peer.text() == "onetwothreefourfivesix"
