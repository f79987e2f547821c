"""However an agent ends, nothing that it started is left: not in its group, not out of it, not without a parent."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
from helpers.family import BOUND, KINDS, family, family_command, gone, until_gone

from antigravity_acp.acp import AgentProcess, _supervised
from antigravity_acp.acp._group import Tree
from antigravity_acp.contract import LlmError

linux = pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted by the kernel's help, on Linux only")


@pytest.mark.requirement("A-036", "A-037")
async def test_every_kind_of_relative_is_gone_when_closing_returns() -> None:
    async with family(*KINDS) as one:
        await one.process.aclose()
        # At once: what closing promises needs no further waiting.
        assert gone(*one.everyone, one.supervisor) == {*one.everyone, one.supervisor}
        assert one.process.returncode == 0
        assert not one.process.scratch.exists()


@pytest.mark.parametrize("kind", KINDS)
async def test_an_agent_that_exits_by_itself_takes_its_relatives_along(kind: str) -> None:
    async with family(kind) as one:
        one.process.write(b"exit 7\n")
        assert await asyncio.wait_for(one.process.wait(), BOUND) == 7
        await until_gone(one.everyone)


async def test_an_agent_that_is_killed_takes_its_relatives_along() -> None:
    async with family(*KINDS) as one:
        os.kill(one.process.pid, signal.SIGKILL)
        assert await asyncio.wait_for(one.process.wait(), BOUND) == -signal.SIGKILL
        await until_gone(one.everyone)


async def test_relatives_that_hold_the_pipes_delay_nothing() -> None:
    async with family(*KINDS, grace_ms=10_000) as one:
        began = time.monotonic()
        await one.process.aclose()
        assert time.monotonic() - began < 3
        assert await asyncio.wait_for(one.process.read(), BOUND) == b""


@pytest.mark.parametrize(
    ("ignore", "expected"),
    [({"ignore_eof": True}, -signal.SIGTERM), ({"ignore_eof": True, "ignore_term": True}, -signal.SIGKILL)],
    ids=["eof", "eof-and-term"],
)
async def test_a_stubborn_agent_is_ended_step_by_step_with_its_relatives(
    ignore: dict[str, bool], expected: int
) -> None:
    async with family(*KINDS, **ignore, grace_ms=150) as one:  # type: ignore[arg-type]  # bools, by name
        await one.process.aclose()
        assert one.process.returncode == expected
        assert gone(*one.everyone) == set(one.everyone)


async def test_a_stopped_agent_is_ended_too() -> None:
    async with family("group", grace_ms=100) as one:
        os.killpg(one.process.pid, signal.SIGSTOP)
        await one.process.aclose()
        assert gone(*one.everyone) == set(one.everyone)


@linux
async def test_relatives_that_multiply_while_they_are_killed_are_all_killed() -> None:
    program = (
        "import os, time\n"
        "os.write(1, b'up\\n')\n"
        "for _ in range(6):\n"
        "    if os.fork() == 0: os.setsid()\n"  # 64 processes, most without their parent
        "    if os.fork() == 0: continue\n"
        "    break\n"
        "time.sleep(600)\n"
    )
    from antigravity_acp.acp import AgentCommand

    process = await AgentProcess.start(AgentCommand((sys.executable, "-I", "-S", "-c", program)), dispose_grace_ms=50)
    mark = str(process.scratch / "tmp")
    assert await asyncio.wait_for(process.read(), BOUND) == b"up\n"
    await process.aclose()
    assert [pid for pid in psutil.pids() if _temporary_directory(pid) == mark] == []


def _temporary_directory(pid: int) -> str | None:
    try:
        return psutil.Process(pid).environ().get("TMPDIR")
    except psutil.Error:
        return None


# ---- when the supervisor fails --------------------------------------------------------------------------------------
@linux
async def test_a_killed_supervisor_takes_nobody_off_the_hook() -> None:
    async with family("group", "setsid", "daemon", "family", ignore_eof=True, ignore_term=True) as one:
        os.kill(one.supervisor, signal.SIGKILL)
        # The host hears of it at once, and the kernel ends the agent.
        assert await asyncio.wait_for(one.process.wait(), BOUND) == -signal.SIGKILL
        await one.process.aclose()
        assert gone(*one.everyone) == set(one.everyone)
        assert not one.process.scratch.exists()


async def test_a_supervisor_that_hangs_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_supervised, "_SETTLE_S", 0.2)
    async with family("group", "setsid", ignore_eof=True, ignore_term=True, grace_ms=50) as one:
        os.kill(one.supervisor, signal.SIGSTOP)
        await one.process.aclose()
        assert gone(*one.everyone, one.supervisor) == {*one.everyone, one.supervisor}


async def test_a_supervisor_that_is_asked_to_end_takes_everything_along() -> None:
    async with family(*KINDS, ignore_eof=True, ignore_term=True) as one:
        os.kill(one.supervisor, signal.SIGTERM)
        await until_gone([*one.everyone, one.supervisor])
        assert await asyncio.wait_for(one.process.wait(), BOUND) == -signal.SIGKILL


async def test_signals_of_a_terminal_reach_neither_supervisor_nor_agent() -> None:
    async with family("group") as one:
        for number in (signal.SIGINT, signal.SIGHUP):
            os.kill(one.supervisor, number)
        one.process.write(b"exit 3\n")
        assert await asyncio.wait_for(one.process.wait(), BOUND) == 3


async def test_survivors_are_reported_and_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    async with family("setsid") as one:
        tree = one.process._tree
        # A process in the kernel's hands cannot be made here; the last resort says that there is one.
        monkeypatch.setattr(tree.ended, "set", lambda: None)
        monkeypatch.setattr(_supervised, "_SETTLE_S", 0.1)
        monkeypatch.setattr(tree, "force", lambda: False)
        with pytest.raises(LlmError) as caught:
            await one.process.aclose()
        assert caught.value.code == "ACP_TEARDOWN_FAILED"
        assert not one.process.scratch.exists()
        one.process._ending = asyncio.get_running_loop().create_task(asyncio.sleep(0))


# ---- without a supervisor -------------------------------------------------------------------------------------------
@pytest.fixture
def no_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that was compiled into one file."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)


@pytest.mark.usefixtures("no_interpreter")
async def test_a_compiled_host_ends_all_that_bears_the_mark() -> None:
    kinds = [kind for kind in KINDS if kind != "stranger"]
    async with family(*kinds, ignore_eof=True, ignore_term=True, grace_ms=50) as one:
        assert one.supervisor == os.getpid()
        await one.process.aclose()
        assert one.process.returncode == -signal.SIGKILL
        assert gone(*one.everyone) == set(one.everyone)


@pytest.mark.usefixtures("no_interpreter")
async def test_a_compiled_hosts_agent_that_exits_by_itself_takes_its_group_along() -> None:
    async with family("group", "subgroup", "setsid") as one:
        one.process.write(b"exit 0\n")
        assert await asyncio.wait_for(one.process.wait(), BOUND) == 0
        await until_gone(one.relatives["group"])
        await one.process.aclose()
        assert gone(*one.everyone) == set(one.everyone)


@pytest.mark.parametrize("how", ["exits", "not-a-program"])
async def test_an_interpreter_that_cannot_run_the_supervisor_is_done_without(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fake = tmp_path / "python3"
    fake.write_text("#!/bin/sh\nexit 1\n" if how == "exits" else "no program")
    fake.chmod(0o755)
    command = family_command("setsid")
    monkeypatch.setattr(_supervised.SupervisedTree, "_unusable", False)
    monkeypatch.setattr(_supervised, "interpreter", lambda: str(fake))
    for _ in range(2):
        process = await AgentProcess.start(command, dispose_grace_ms=200)
        assert type(process._tree) is Tree
        await process.aclose()
        assert process.returncode == 0
    # Tried once, said once.
    assert [record.levelname for record in caplog.records if "supervisor" in record.getMessage()] == ["WARNING"]
