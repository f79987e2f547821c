"""run_command in the real sandbox: the same bounds and the same end as without, and never without it by accident."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers import bubblewrap

from antigravity_acp.contract import AbortController
from antigravity_acp.hooks import ToolError, ToolResult
from antigravity_acp.host import ToolContext, Workspace
from antigravity_acp.host.tools import RunCommand
from antigravity_acp.limits import MAX_COMMAND_OUTPUT_BYTES
from antigravity_control.sandbox import SandboxPlan

#: Each leaves a process behind that is told by the line itself: inside, pids are not the machine's.
LEFT_BEHIND = {
    "in the group": "sleep 321 &",
    "in a session of its own": "setsid sleep 321 &",
    "a daemon without parent and environment": "(setsid env -i setsid sleep 321 </dev/null >/dev/null 2>&1 &) ;",
    "that ignores SIGTERM": "bash -c 'trap \"\" TERM HUP; exec sleep 321' &",
}


@pytest.fixture(autouse=True)
def sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    bubblewrap.put_on_path(monkeypatch)
    monkeypatch.setattr("antigravity_acp.host.tools.process.COMMAND_GRACE_S", 0.2)


def confined(command: str, cwd: Path) -> SandboxPlan | None:
    return SandboxPlan(workspace=cwd)


async def use(
    place: Path, command: str, sandbox_for: Callable[[str, Path], SandboxPlan | None] = confined, **arguments: Any
) -> ToolResult:
    context = ToolContext(workspace=Workspace(place), signal=AbortController().signal)
    return await RunCommand(sandbox_for).run({"command": command, **arguments}, context)


def sleepers() -> list[int]:
    return [each.pid for each in psutil.process_iter(["cmdline"]) if "321" in (each.info["cmdline"] or [])]


async def test_a_line_runs_inside_and_one_without_a_plan_outside(tmp_path: Path) -> None:
    asked: list[tuple[str, Path]] = []

    def sandbox_for(command: str, cwd: Path) -> SandboxPlan | None:
        asked.append((command, cwd))
        return None if command.startswith("echo free") else SandboxPlan(workspace=cwd)

    beside = tmp_path.parent / f"{tmp_path.name}-beside"
    line = f"; pwd; echo x > {beside}; exit 3"
    result = await use(tmp_path, "echo err >&2; cat" + line, sandbox_for)
    assert (result.text, result.is_error) == (f"err\n{tmp_path.resolve()}\n[exit code 3]", False)
    assert not beside.exists()
    assert (await use(tmp_path, "echo free" + line, sandbox_for)).text == f"free\n{tmp_path.resolve()}\n[exit code 3]"
    assert beside.read_text() == "x\n"
    assert [cwd for _, cwd in asked] == [tmp_path.resolve()] * 2


async def test_only_listed_variables_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOT_CALLED_A_SECRET", "hunter2")
    assert "hunter2" not in (await use(tmp_path, "env; tr '\\0' '\\n' < /proc/1/environ")).text


async def test_long_output_is_cut_as_outside(tmp_path: Path) -> None:
    text = (await use(tmp_path, "echo begin; head -c 3000000 /dev/zero | tr '\\0' x; echo end")).text
    assert text.startswith("begin\nxxx")
    assert text.endswith("xxxend\n[exit code 0]")
    assert len(text) < MAX_COMMAND_OUTPUT_BYTES + 200


@pytest.mark.parametrize("line", LEFT_BEHIND.values(), ids=LEFT_BEHIND)
@pytest.mark.parametrize("how", ["exit", "timeout", "cancellation"])
async def test_nothing_of_a_line_is_left_however_it_ends(tmp_path: Path, line: str, how: str) -> None:
    async with asyncio.timeout(20):
        if how == "exit":
            assert (await use(tmp_path, f"{line} echo ready")).text == "ready\n[exit code 0]"
        elif how == "timeout":
            result = await use(tmp_path, f"{line} echo partial; sleep 321", timeout_s=0.5)
            assert (result.text, result.is_error) == ("partial\n[ended after 0.5 s, with all it had started]", True)
        else:
            running = asyncio.create_task(use(tmp_path, f"{line} touch started; sleep 321"))
            while not (tmp_path / "started").exists():
                await asyncio.sleep(0.01)
            assert sleepers()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
    assert sleepers() == []
    assert not (tmp_path / ".git").exists()


async def test_cancelled_at_any_await_of_its_start_it_leaves_nothing(tmp_path: Path) -> None:
    for steps in range(16):
        running = asyncio.create_task(use(tmp_path, "sleep 321"))
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        async with asyncio.timeout(15):
            with pytest.raises(asyncio.CancelledError):
                await running
        assert (sleepers(), list(tmp_path.iterdir())) == ([], [])


async def test_without_a_program_for_the_sandbox_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"was not run.*Install bubblewrap"):
        await use(tmp_path, "echo x > ran")
    assert list(tmp_path.iterdir()) == []


async def test_a_sandbox_that_does_not_work_is_an_error_and_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, work = tmp_path / "fake", tmp_path / "work"
    fake.mkdir()
    work.mkdir()
    (fake / "bwrap").write_text('#!/bin/bash\nwhile [ "${1:---}" != -- ]; do shift; done; shift; exec "$@"\n')
    (fake / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(fake))
    with pytest.raises(ToolError, match="does not confine"):
        await use(work, "touch ran")
    assert list(work.iterdir()) == []


async def test_a_grant_that_cannot_be_one_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"was not run.*src/\*\*"):
        await use(tmp_path, "touch ran", lambda _, cwd: SandboxPlan(workspace=cwd, writable=(Path("src/**"),)))
    assert list(tmp_path.iterdir()) == []


async def test_a_working_directory_outside_the_plan_is_an_error(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with pytest.raises(ToolError, match="working directory"):
        await use(tmp_path / "a", "touch ran", lambda _, cwd: SandboxPlan(workspace=tmp_path / "b"))
    assert list((tmp_path / "a").iterdir()) == []


async def test_many_lines_at_once_keep_apart_and_leave_nothing(tmp_path: Path) -> None:
    results = await asyncio.gather(
        *(use(tmp_path, f"echo {number}; sleep 0.05; mkdir .git/x 2>/dev/null || echo kept") for number in range(6))
    )
    assert [each.text for each in results] == [f"{number}\nkept\n[exit code 0]" for number in range(6)]
    assert list(tmp_path.iterdir()) == []
