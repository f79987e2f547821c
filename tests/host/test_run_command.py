"""run_command: bounded, and nothing that it started is left, however it ends."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import psutil
import pytest

from antigravity_acp.contract import AbortController
from antigravity_acp.hooks import ToolError, ToolResult
from antigravity_acp.host import ToolContext, Workspace
from antigravity_acp.host.tools import RunCommand
from antigravity_acp.limits import MAX_COMMAND_OUTPUT_BYTES

#: Each starts one process beside the line's own and tells its pid.
LEFT_BEHIND = {
    "in the group": "sleep 300 & echo $! > pid",
    "in a session of its own": "setsid sleep 300 & echo $! > pid",
    "orphaned in a session of its own": (
        "(setsid bash -c 'echo $$ > pid; exec sleep 300' &) ; until test -s pid; do :; done"
    ),
    "without an environment": "env -i sleep 300 & echo $! > pid",
    "that ignores SIGTERM": (
        "bash -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 1; done' & until test -s pid; do :; done"
    ),
}


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The grace is waited for in full wherever something holds the pipe or ignores SIGTERM."""
    monkeypatch.setattr("antigravity_acp.host.tools.process.COMMAND_GRACE_S", 0.2)


async def use(place: Path, command: str, **arguments: Any) -> ToolResult:
    context = ToolContext(workspace=Workspace(place), signal=AbortController().signal)
    return await RunCommand().run({"command": command, **arguments}, context)


async def pid_in(path: Path) -> int:
    async with asyncio.timeout(10):
        while not path.exists() or not path.read_text().strip():
            await asyncio.sleep(0.01)
    return int(path.read_text())


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_it_runs_in_the_workspace_without_input_and_tells_the_exit_code(tmp_path: Path) -> None:
    result = await use(tmp_path, "pwd; echo err >&2; cat; printf é; exit 3")
    assert (result.text, result.is_error) == (f"{tmp_path.resolve()}\nerr\né\n[exit code 3]", False)
    assert (await use(tmp_path, "true")).text == "[exit code 0]"
    assert (await use(tmp_path, "kill -9 $$")).text == "[ended by signal 9]"


async def test_variables_that_look_like_credentials_do_not_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GEMINI_API_KEY", "my_token", "AWS_SECRET_ACCESS", "Db_Password", "NPM_CREDENTIALS"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("PLAIN", "visible")
    text = (await use(tmp_path, "env")).text
    assert "hunter2" not in text
    assert "PLAIN=visible" in text


async def test_long_output_is_cut_in_the_middle_and_both_ends_are_kept(tmp_path: Path) -> None:
    text = (await use(tmp_path, "echo begin; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo end")).text
    assert text.startswith("begin\nxxx")
    assert text.endswith("xxx\nend\n[exit code 0]")
    assert len(text) < MAX_COMMAND_OUTPUT_BYTES + 200
    cut = int(text.partition("\n[")[2].partition(" bytes cut here]")[0])
    assert cut == 5_000_000 + len("begin\n\nend\n") - MAX_COMMAND_OUTPUT_BYTES


@pytest.mark.parametrize("line", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
async def test_what_a_finished_line_left_in_the_background_is_ended(tmp_path: Path, line: str) -> None:
    async with asyncio.timeout(15):
        result = await use(tmp_path, f"{line}; echo ready")
    assert result.text == "ready\n[exit code 0]"
    assert gone(await pid_in(tmp_path / "pid"))


@pytest.mark.parametrize("line", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
async def test_a_timeout_ends_the_whole_tree(tmp_path: Path, line: str) -> None:
    async with asyncio.timeout(15):
        result = await use(tmp_path, f"echo partial; {line}; sleep 300", timeout_s=0.5)
    assert result.is_error
    assert result.text == "partial\n[ended after 0.5 s, with all it had started]"
    assert gone(await pid_in(tmp_path / "pid"))


@pytest.mark.parametrize("line", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
async def test_a_cancellation_ends_the_whole_tree_before_it_is_passed_on(tmp_path: Path, line: str) -> None:
    running = asyncio.create_task(use(tmp_path, f"{line}; sleep 300"))
    pid = await pid_in(tmp_path / "pid")
    running.cancel()
    async with asyncio.timeout(15):
        with pytest.raises(asyncio.CancelledError):
            await running
    assert gone(pid)


async def test_cancelled_at_any_await_of_its_start_it_leaves_nothing(tmp_path: Path) -> None:
    for steps in range(12):
        running = asyncio.create_task(use(tmp_path, "sleep 300"))
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        async with asyncio.timeout(15):
            with pytest.raises(asyncio.CancelledError):
                await running
        alive = [each for each in psutil.Process().children(recursive=True) if each.status() != psutil.STATUS_ZOMBIE]
        assert [each.name() for each in alive if each.name() in ("bash", "sleep")] == []


@pytest.mark.parametrize("command", ["a\0b", "echo \ud800"])
async def test_a_line_that_cannot_be_given_to_a_process_is_an_error(tmp_path: Path, command: str) -> None:
    with pytest.raises(ToolError):
        await use(tmp_path, command)


async def test_without_bash_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, **_: None)
    with pytest.raises(ToolError, match="no bash"):
        await use(tmp_path, "true")


@pytest.mark.parametrize("how", ["file", "link to it"])
async def test_a_bash_of_the_workspace_is_not_the_one_that_runs_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A workspace's environment is often first on PATH, and tools write files there."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    (work / ".venv/bin").mkdir(parents=True)
    outside.mkdir()
    fake = work / ".venv/bin/bash"
    fake.write_text("#!/bin/sh\necho not bash\n")
    fake.chmod(0o755)
    if how == "link to it":
        (outside / "bash").symlink_to(fake)
    monkeypatch.setenv("PATH", f"{fake.parent if how == 'file' else outside}:/usr/bin:/bin")
    assert (await use(work, "echo $((1 + 1))")).text == "2\n[exit code 0]"


async def test_many_lines_at_once_keep_their_outputs_apart(tmp_path: Path) -> None:
    results = await asyncio.gather(*(use(tmp_path, f"echo {number}; sleep 0.05; echo {number}") for number in range(8)))
    assert [each.text for each in results] == [f"{number}\n{number}\n[exit code 0]" for number in range(8)]
