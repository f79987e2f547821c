"""Bounds of the harness, shortened: the class itself, in this process, with the real binary or one that hangs."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers.engine_peer import environment

from antigravity_engine import backends, limits
from antigravity_engine.errors import EngineError
from antigravity_engine.harness import Harness, NotDeliveredError
from antigravity_engine.plan import Gate, Plan
from antigravity_engine.script import ScriptServer, parse_script


def plan(tmp_path: Path, server: ScriptServer, **env: str) -> Plan:
    for name in ("app", "save", "home"):
        (tmp_path / name).mkdir()
    return Plan(
        conversation_id="0123456789abcdef" * 2,
        backend=backends.Backend("gemini", base_url=server.base_url, api_key="k"),
        model="scripted",
        system_text="system",
        workspace=str(tmp_path),
        servers=(),
        disabled_tools=frozenset(),
        native_tools=False,
        app=tmp_path / "app",
        save=tmp_path / "save",
        home=tmp_path / "home",
        mcp_timeout_s=60,
        model_retries=0,
        max_model_calls=0,
        environment=environment(tmp_path, env),
    )


async def no(_: Any) -> bool:
    return False


async def drop(_kind: str, _text: str) -> None:
    pass


async def test_a_harness_that_hangs_at_its_start_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "START_S", 3.0)
    monkeypatch.setattr(limits, "CLOSE_S", 0.2)
    hanging = tmp_path / "localharness"
    hanging.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    hanging.chmod(0o755)
    monkeypatch.setenv("ANTIGRAVITY_HARNESS_PATH", str(hanging))
    with ScriptServer(parse_script("rules: [{text: a}]"), key="k") as server:
        harness = Harness(plan(tmp_path, server), Gate(no, no, no, no), busy=lambda: False)
        with pytest.raises(EngineError) as caught:
            await harness.start()
        assert caught.value.type == "harness_start"
        assert harness.pid is not None
        assert not psutil.pid_exists(harness.pid)


async def test_a_silent_model_and_a_busy_tool_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SILENCE_S", 0.4)
    busy = True
    with ScriptServer(parse_script("rules: [{hang: true}]"), key="k") as server:
        harness = Harness(plan(tmp_path, server), Gate(no, no, no, no), busy=lambda: busy)
        await harness.start()
        assert harness.usable
        turn = asyncio.create_task(harness.prompt([("text", "hello")], drop))
        done, _ = await asyncio.wait({turn}, timeout=1.5)
        assert not done, "a turn was ended while a tool runs"
        busy = False
        with pytest.raises(EngineError) as caught:
            await asyncio.wait_for(turn, 5)
        assert caught.value.type == "model_silent"
        await harness.aclose()
        assert not harness.usable


async def test_a_stopped_harness_is_killed_within_its_bound_and_takes_no_prompt(tmp_path: Path) -> None:
    with ScriptServer(parse_script("rules: [{text: a}]"), key="k") as server:
        harness = Harness(plan(tmp_path, server), Gate(no, no, no, no), busy=lambda: False)
        await harness.start()
        assert harness.pid is not None
        process = psutil.Process(harness.pid)
        process.suspend()
        began = asyncio.get_running_loop().time()
        await asyncio.gather(harness.aclose(), harness.aclose())
        assert asyncio.get_running_loop().time() - began < limits.CLOSE_S + limits.KILL_S
        assert not psutil.pid_exists(process.pid)
        with pytest.raises(NotDeliveredError):
            await harness.prompt([("text", "hello")], drop)
