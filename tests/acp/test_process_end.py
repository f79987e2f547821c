"""Whatever an agent does, its whole group and its directory are gone afterwards, in bounded time."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from helpers.agent import BOUND, agent, play
from helpers.loopback import loopback_settings

from antigravity_acp.acp import AgentClient, AgentCommand, AgentProcess


async def until_gone(pid: int) -> None:
    async with asyncio.timeout(BOUND):
        while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            await asyncio.sleep(0.01)


@pytest.mark.requirement("A-036")
async def test_a_polite_agent_ends_by_itself_when_its_input_closes() -> None:
    async with agent(disposeGraceMs=10_000) as one:
        started = time.monotonic()
        await one.aclose()
        assert time.monotonic() - started < 5
        assert one._process.returncode == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"ignore_eof": True}, -signal.SIGTERM), ({"ignore_eof": True, "ignore_term": True}, -signal.SIGKILL)],
)
async def test_a_stubborn_agent_is_ended_step_by_step(options: dict[str, Any], expected: int) -> None:
    async with agent(options, disposeGraceMs=150) as one:
        await one.aclose()
        assert one._process.returncode == expected


@pytest.mark.requirement("A-036")
async def test_the_whole_group_ends_with_the_leader() -> None:
    async with agent() as one:
        seen = await play(await one.new_session(), {"grandchild": "plain"})
        grandchild = int(seen.text.partition(":")[2])
        assert psutil.pid_exists(grandchild)
        await one.aclose()
        await until_gone(grandchild)


async def test_a_leader_that_dies_by_itself_takes_its_group_along() -> None:
    async with agent() as one:
        seen = await play(await one.new_session(), {"grandchild": "plain"})
        grandchild = int(seen.text.partition(":")[2])
        os.kill(one.pid, signal.SIGKILL)
        await asyncio.wait_for(one.closed(), BOUND)
        await until_gone(grandchild)


async def test_a_grandchild_of_another_session_that_holds_the_pipes_delays_nothing() -> None:
    async with agent(disposeGraceMs=5_000) as one:
        seen = await play(await one.new_session(), {"grandchild": "setsid"})
        grandchild = int(seen.text.partition(":")[2])
        os.kill(one.pid, signal.SIGKILL)
        # asyncio's own wait would hang here as long as the grandchild lives.
        assert await asyncio.wait_for(one._process.wait(), BOUND) == -signal.SIGKILL
        await asyncio.wait_for(one.closed(), BOUND)
        started = time.monotonic()
        await one.aclose()
        assert time.monotonic() - started < 4
        await until_gone(grandchild)


@pytest.mark.requirement("A-037")
async def test_an_agent_that_floods_while_it_is_ended_is_ended() -> None:
    async with agent({"ignore_eof": True}, disposeGraceMs=300) as one:
        session = await one.new_session()
        running = asyncio.create_task(play(session, {"flood": 500_000, "text": "z" * 200}, {"sleep": 20}))
        await asyncio.sleep(0)
        await one.aclose()
        await asyncio.wait({running}, timeout=BOUND)
        assert running.exception() is not None


async def test_an_agent_that_says_much_at_its_end_is_let_out_by_itself() -> None:
    program = "import sys\nsys.stdin.read()\nsys.stdout.write('z' * 5_000_000)"
    command = AgentCommand((sys.executable, "-I", "-S", "-c", program))
    process = await AgentProcess.start(command, dispose_grace_ms=5_000)
    await process.aclose()
    # Nobody read those 5 MB; on a full pipe it would have had to be killed.
    assert process.returncode == 0


async def test_closing_twice_and_at_the_same_time_is_one_closing() -> None:
    async with agent({"ignore_eof": True}, disposeGraceMs=100) as one:
        await asyncio.gather(*(one.aclose() for _ in range(5)))
        await one.aclose()


@pytest.mark.parametrize("how", ["task", "scope"])
async def test_a_cancelled_close_still_ends_everything(how: str) -> None:
    async with agent({"ignore_eof": True}, disposeGraceMs=200) as one:
        scratch = one._process.scratch
        if how == "task":
            closing = asyncio.create_task(one.aclose())
            await asyncio.sleep(0.02)
            for _ in range(3):
                closing.cancel()
                await asyncio.sleep(0)
            await asyncio.wait({closing}, timeout=BOUND)
            assert closing.cancelled()
        else:
            with anyio.move_on_after(0.02) as scope:
                await one.aclose()
            assert scope.cancel_called
        assert one._process.returncode == -signal.SIGTERM
        assert not scratch.exists()


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.01, 0.03, 0.08, 0.2])
async def test_a_start_that_is_cancelled_at_any_moment_leaves_nothing(delay: float) -> None:
    starting = asyncio.create_task(AgentClient.start(loopback_settings({"init_hangs": True}, disposeGraceMs=200)))
    await asyncio.sleep(delay)
    starting.cancel()
    await asyncio.wait({starting}, timeout=BOUND)
    assert starting.cancelled()


def test_a_loop_that_ends_in_the_middle_still_ends_the_agent() -> None:
    """``asyncio.run`` cancels every task at its end, the one that ends the process too."""
    pids: list[int] = []
    folders: list[Path] = []

    async def main() -> None:
        one = await AgentClient.start(loopback_settings({"ignore_eof": True, "ignore_term": True}, disposeGraceMs=100))
        pids.append(one.pid)
        folders.append(one._process.scratch)
        asyncio.get_running_loop().create_task(one.aclose())
        await asyncio.sleep(0.01)

    asyncio.run(main())
    assert not psutil.pid_exists(pids[0])
    assert not folders[0].exists()


async def test_an_agent_that_does_not_read_its_input_does_not_block_a_cancel() -> None:
    program = "import sys,time\nline=sys.stdin.readline()\nsys.stdout.write('x\\n'); sys.stdout.flush()\ntime.sleep(60)"
    command = AgentCommand((sys.executable, "-I", "-S", "-c", program))
    process = await AgentProcess.start(command, dispose_grace_ms=100)
    try:
        process.write(b"go\n")
        assert await asyncio.wait_for(process.read(), BOUND) == b"x\n"
        process.write(b"y" * 4_000_000)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(process.drain(), 0.05)
        # A half-sent frame must not hold up the end.
        started = time.monotonic()
    finally:
        await process.aclose()
    assert time.monotonic() - started < 5
    with pytest.raises(ConnectionError):
        process.write(b"after")


async def test_the_agent_is_in_a_session_of_its_own() -> None:
    async with agent() as one:
        assert os.getsid(one.pid) == one.pid
        assert os.getpgid(one.pid) == one.pid != os.getpgid(0)


async def test_files_that_an_agent_leaves_go_with_it() -> None:
    async with agent() as one:
        where = json.loads((await play(await one.new_session(), {"tell": "cwd"})).text)
        inside = Path(where["tmp"]) / "_MEI123"
        inside.mkdir()
        (inside / "big").write_bytes(b"x" * 100_000)
        (inside / "readonly").write_bytes(b"x")
        (inside / "readonly").chmod(0o400)
    assert not inside.parent.parent.exists()


async def test_a_spawn_that_fails_leaves_no_directory(tmp_path: Path) -> None:
    from antigravity_acp.contract import LlmError

    for argv in (("/nonexistent/agent",), (str(tmp_path),), ("bad\0name",)):
        with pytest.raises(LlmError) as caught:
            await AgentProcess.start(AgentCommand(argv), dispose_grace_ms=100)
        assert caught.value.code == "ACP_BINARY_MISSING"
        assert argv[0] not in caught.value.message


@pytest.mark.skipif(os.name == "nt", reason="how POSIX starts programs")
@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (None, 0, "there is no such file"),
        # An ELF program of another C library looks the same to the system: its loader is missing.
        (b"#!/nonexistent/loader\n", 0o755, "not the loader that it names"),
        (b"\x7fELF\x02\x01\x01 cut", 0o755, "damaged"),
        (b"", 0o755, "damaged"),
        (b"#!/bin/sh\n", 0o644, "chmod"),
    ],
    ids=["missing", "no loader", "cut", "empty", "no permission"],
)
async def test_a_program_that_the_system_refuses_is_told_with_the_reason(
    tmp_path: Path, content: bytes | None, mode: int, words: str
) -> None:
    from antigravity_acp.contract import LlmError

    program = tmp_path / "agent"
    if content is not None:
        program.write_bytes(content)
        program.chmod(mode)
    with pytest.raises(LlmError, match=words) as caught:
        await AgentProcess.start(AgentCommand((str(program),)), dispose_grace_ms=100)
    assert caught.value.code == "ACP_BINARY_MISSING"
    assert str(tmp_path) not in caught.value.message


def test_the_host_may_be_a_thread() -> None:
    """Some hosts run their loop in a thread of their own."""
    code = (
        "import asyncio, sys, threading\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from helpers.loopback import loopback_settings\n"
        "from antigravity_acp.acp import AgentClient\n"
        "async def main():\n"
        "    one = await AgentClient.start(loopback_settings())\n"
        "    await one.new_session()\n"
        "    await one.aclose()\n"
        "    print('ended', one._process.returncode)\n"
        "t = threading.Thread(target=lambda: asyncio.run(main())); t.start(); t.join()\n"
    )
    tests = str(Path(__file__).resolve().parents[1])
    done = subprocess.run([sys.executable, "-c", code, tests], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "ended 0", done.stderr
