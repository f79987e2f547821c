"""Which program is started, and what is said when there is none."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from antigravity_acp.acp import launch
from antigravity_acp.acp.launch import AgentCommand, resolve_command
from antigravity_acp.contract import LlmError
from antigravity_acp.settings import Settings


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any agent: an empty home and an empty PATH."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("AGY_ACP_BIN", raising=False)
    for name in ("PYTHONPATH", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bin").mkdir()
    return tmp_path


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    return path


def server(folder: Path) -> Path:
    program(folder / "localharness_external")
    return program(folder / "agy_acp_server.par")


def resolve(**values: Any) -> AgentCommand:
    return resolve_command(Settings.from_mapping(values))


def fails(**values: Any) -> str:
    with pytest.raises(LlmError) as caught:
        resolve(**values)
    assert caught.value.code == "ACP_BINARY_MISSING"
    return caught.value.message


@pytest.mark.requirement("X-004")
def test_a_command_wins_over_everything(bare: Path) -> None:
    server(bare / ".local" / "bin")
    agent = program(bare / "my-agent")
    command = resolve(command=str(agent), args=["--acp"], engine="official", env={"A": "hidden"})
    assert command.argv == (str(agent), "--acp")
    assert command.env == {"A": "hidden"}
    assert "hidden" not in repr(command)


def test_a_command_is_found_on_path_and_made_absolute(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = program(bare / "bin" / "some-agent")
    assert resolve(command="some-agent").argv == (str(found),)
    monkeypatch.chdir(bare)
    assert os.path.isabs(resolve(command="./bin/some-agent").argv[0])
    assert resolve(command="~/bin/some-agent").argv == (str(found),)


def test_a_command_that_is_not_there_is_never_replaced(bare: Path) -> None:
    server(bare / ".local" / "bin")
    message = fails(command="/nowhere/secret-name")
    assert "`command`" in message
    assert "secret-name" not in message
    assert "PATH" in fails(command="secret-name")
    plain = bare / "plain"
    plain.write_text("x")
    fails(command=str(plain))


def test_agy_is_named_as_the_wrong_program(bare: Path) -> None:
    agy = program(bare / "bin" / "agy")
    for value in ("agy", str(agy)):
        assert "does not speak ACP" in fails(command=value)


def test_the_official_server_as_command_is_checked_and_gets_its_argument(bare: Path) -> None:
    path = server(bare / "unpacked")
    expected = ("--uid=",) if sys.platform.startswith("linux") else ()
    assert resolve(command=str(path)).argv == (str(path), *expected)
    assert resolve(command=str(path), args=["--own"]).argv == (str(path), "--own")
    (path.parent / "localharness_external").unlink()
    assert "localharness_external" in fails(command=str(path))


def test_the_official_engine_is_located(bare: Path) -> None:
    path = server(bare / ".local" / "share" / "agy_acp_server")
    for engine in ("official", "auto"):
        assert resolve(engine=engine, args=["-v"]).argv[0] == str(path)
        assert resolve(engine=engine, args=["-v"]).argv[-1] == "-v"


def test_nothing_official_says_what_was_searched(bare: Path) -> None:
    message = fails(engine="official")
    for word in ("AGY_ACP_BIN", "PATH", "~/.local/bin", "registry"):
        assert word in message


def test_auto_falls_back_to_the_embedded_engine_that_has_a_model(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "has_engine", lambda: True)
    assert "GEMINI_API_KEY" in fails()
    monkeypatch.setenv("GEMINI_API_KEY", "hidden")
    assert resolve().argv == (sys.executable, "-P", "-m", "antigravity_engine")
    monkeypatch.delenv("GEMINI_API_KEY")
    assert resolve(args=["--openai-base-url=http://127.0.0.1:1/v1"]).argv[-1].endswith("/v1")
    assert resolve(env={"GOOGLE_GENAI_USE_VERTEXAI": "true"}).argv[-1] == "antigravity_engine"
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert resolve(engine="embedded").env == {"PYTHONPATH": "/somewhere"}


def test_auto_does_not_hide_a_broken_server_that_somebody_named(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "has_engine", lambda: True)
    monkeypatch.setenv("AGY_ACP_BIN", str(bare / "gone" / "agy_acp_server.par"))
    assert "AGY_ACP_BIN" in fails()


def test_without_anything_the_message_names_both_ways(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "has_engine", lambda: False)
    message = fails()
    assert "pip install 'dsh-antigravity-acp[engine]'" in message
    assert "AGY_ACP_BIN" in message
    assert "`command`" in message
    assert "pip install" in fails(engine="embedded")


def test_the_engine_counts_only_with_googles_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    assert launch.has_engine()
    monkeypatch.setattr(launch, "_ENGINE_SDK", ("no_such_parent.child",))
    assert not launch.has_engine()


def test_a_compiled_host_does_not_start_itself(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "has_engine", lambda: True)
    for executable, frozen in (("/opt/host/host-app", False), (sys.executable, True), ("", False)):
        monkeypatch.setattr(sys, "executable", executable)
        monkeypatch.setattr(sys, "frozen", frozen, raising=False)
        assert "antigravity-engine" in fails(engine="embedded")
        script = program(bare / "bin" / "antigravity-engine")
        assert resolve(engine="embedded").argv == (str(script),)
        script.unlink()


def test_what_an_agents_process_needs_is_known_by_its_program(bare: Path) -> None:
    gemini = program(bare / "bin" / "gemini")
    assert resolve(command="gemini", args=["--acp"]).env["GEMINI_CLI_TRUST_WORKSPACE"] == "true"
    node = program(bare / "bin" / "node")
    by_node = resolve(command=str(node), args=["/x/bundle/gemini.js", "--acp"], env={"GEMINI_CLI_NO_RELAUNCH": "own"})
    assert by_node.env == {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "own"}
    assert gemini.exists()
    assert resolve(command=str(node), args=["other.js"]).env == {}
