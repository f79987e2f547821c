"""The job object of Windows, against a stand-in for the kernel. Nothing here has run on Windows."""

import asyncio
import ctypes
import signal
import sys
from contextlib import suppress
from typing import Any

import psutil
import pytest
from helpers.family import BOUND, family_command, lives

from antigravity_acp.acp._job import ExtendedLimits, Job, JobTree, Kernel
from antigravity_acp.acp._pipes import Pipes
from antigravity_acp.acp._scratch import Scratch


class FakeKernel:
    """Job objects as far as they are used here: what is in one ends with its last handle. Names of the real calls."""

    def __init__(self, *fails: str) -> None:
        self.fails = fails
        self.calls: list[str] = []
        self.handles: dict[int, Any] = {}
        self.limits = 0

    def _new(self, what: Any) -> int:
        handle = 100 + len(self.calls)
        self.handles[handle] = what
        return handle

    def _called(self, name: str) -> bool:
        self.calls.append(name)
        return name not in self.fails

    def CreateJobObjectW(self, security: None, name: None) -> int | None:
        return self._new([]) if self._called("CreateJobObjectW") else None

    def SetInformationJobObject(self, job: int, kind: int, address: int, size: int) -> int:
        assert (kind, size) == (9, ctypes.sizeof(ExtendedLimits))
        self.limits = ExtendedLimits.from_address(address).BasicLimitInformation.LimitFlags
        return self._called("SetInformationJobObject")

    def OpenProcess(self, access: int, inherit: bool, pid: int) -> int | None:
        assert access == 0x0901
        return self._new(pid) if self._called("OpenProcess") else None

    def AssignProcessToJobObject(self, job: int, process: int) -> int:
        if not self._called("AssignProcessToJobObject"):
            return 0
        self.handles[job].append(self.handles[process])
        return 1

    def NtResumeProcess(self, process: int) -> int:
        return 0 if self._called("NtResumeProcess") else -1073741790

    def TerminateJobObject(self, job: int, status: int) -> int:
        self._called("TerminateJobObject")
        self._kill(self.handles[job])
        return 1

    def CloseHandle(self, handle: int) -> int:
        self._called("CloseHandle")
        what = self.handles.pop(handle)
        if isinstance(what, list) and self.limits & 0x2000:
            self._kill(what)
        return 1

    @staticmethod
    def _kill(pids: list[int]) -> None:
        for pid in pids:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()


class StartedTree(JobTree):
    """Starts without Windows' flags, which other systems refuse, and remembers them."""

    flags = 0

    async def _start(self, *arguments: Any, creationflags: int, **options: Any) -> None:
        self.flags = creationflags
        await super()._start(*arguments, **options)


async def start(kernel: FakeKernel) -> tuple[StartedTree, Pipes, Scratch]:
    scratch = Scratch.make()
    tree, pipes = StartedTree(scratch, kernel), Pipes()
    pipes.on_collected, tree.on_exit = tree.process_exited, pipes.agent_exited
    try:
        await tree.spawn(pipes, family_command().argv, {"PATH": "/usr/bin:/bin"})
    except BaseException:
        await finish(tree, pipes, scratch)
        raise
    return tree, pipes, scratch


async def finish(tree: JobTree, pipes: Pipes, scratch: Scratch) -> None:
    tree.kill()
    await asyncio.wait_for(tree.ended.wait(), BOUND)
    pipes.close()
    await asyncio.wait_for(pipes.closed.wait(), BOUND)
    scratch.remove()


def test_the_structure_has_the_size_that_windows_expects() -> None:
    assert ctypes.sizeof(ExtendedLimits) == (144 if ctypes.sizeof(ctypes.c_void_p) == 8 else 112)


async def test_the_agent_runs_only_once_it_is_in_a_job_that_kills() -> None:
    kernel = FakeKernel()
    tree, pipes, scratch = await start(kernel)
    assert tree.flags == 0x4 | 0x200, "suspended, in a group of its own"
    assert kernel.limits == 0x2000
    assert kernel.calls == [
        "CreateJobObjectW",
        "SetInformationJobObject",
        "OpenProcess",
        "AssignProcessToJobObject",
        "NtResumeProcess",
        "CloseHandle",
    ]
    assert list(kernel.handles.values()) == [[tree.pid]], "only the job's own handle stays open"
    await finish(tree, pipes, scratch)


async def test_killing_ends_the_job_and_closes_it() -> None:
    kernel = FakeKernel()
    tree, pipes, scratch = await start(kernel)
    await finish(tree, pipes, scratch)
    assert tree.returncode == -signal.SIGKILL
    assert kernel.handles == {}
    assert tree.force()


async def test_an_agent_that_exits_by_itself_takes_its_job_along() -> None:
    kernel = FakeKernel()
    tree, pipes, scratch = await start(kernel)
    pipes.write(b"exit 5\n")
    await asyncio.wait_for(tree.ended.wait(), BOUND)
    assert tree.returncode == 5
    assert kernel.calls[-2:] == ["TerminateJobObject", "CloseHandle"]
    assert kernel.handles == {}
    await finish(tree, pipes, scratch)


@pytest.mark.parametrize("call", ["CreateJobObjectW", "SetInformationJobObject"])
async def test_without_a_job_the_agent_runs_and_it_is_said(call: str, caplog: pytest.LogCaptureFixture) -> None:
    kernel = FakeKernel(call)
    tree, pipes, scratch = await start(kernel)
    assert tree.flags == 0x200, "nobody would resume it"
    assert lives(tree.pid)
    assert "may outlive" in caplog.text
    assert kernel.handles == {}
    await finish(tree, pipes, scratch)


async def test_an_agent_outside_the_job_is_let_run_and_it_is_said(caplog: pytest.LogCaptureFixture) -> None:
    kernel = FakeKernel("AssignProcessToJobObject")
    tree, pipes, scratch = await start(kernel)
    assert "NtResumeProcess" in kernel.calls
    assert "may outlive" in caplog.text
    await finish(tree, pipes, scratch)


@pytest.mark.parametrize("call", ["OpenProcess", "NtResumeProcess"])
async def test_an_agent_that_cannot_be_let_run_is_a_failed_start(call: str) -> None:
    kernel = FakeKernel(call)
    with pytest.raises(OSError, match="process cannot be"):
        await start(kernel)


def test_the_last_handle_kills() -> None:
    kernel = FakeKernel()
    job = Job(kernel)
    job.close()
    job.close()
    job.kill()
    assert kernel.calls == ["CreateJobObjectW", "SetInformationJobObject", "CloseHandle"]


@pytest.mark.skipif(sys.platform == "win32", reason="there it exists")
def test_elsewhere_there_is_no_such_kernel() -> None:
    with pytest.raises(OSError, match="no job objects"):
        Kernel()
