"""An agent in a Windows job object, which ends it with everything that it started, and with the host.

Owns: the job. Its handle is the host's alone and marked so that closing it kills: when the host ends, however it ends,
the kernel closes the handle. The agent starts suspended and runs only once it is in the job, so that nothing it starts
can be outside. Where the job cannot be made, the agent runs without one, and only itself is ended.
Written after Microsoft's documentation and tested against a stand-in for the kernel; never run on Windows.
"""

import asyncio
import ctypes
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ._group import Tree
from ._scratch import Scratch

_log = logging.getLogger("antigravity_acp.acp")

#: ``JobObjectExtendedLimitInformation``, and the limit that kills with the last handle.
_EXTENDED_LIMITS: Final = 9
_KILL_ON_JOB_CLOSE: Final = 0x2000
#: PROCESS_TERMINATE | PROCESS_SET_QUOTA (both wanted for a job) | PROCESS_SUSPEND_RESUME
_ACCESS: Final = 0x0001 | 0x0100 | 0x0800
_CREATE_SUSPENDED: Final = 0x4
_CREATE_NEW_PROCESS_GROUP: Final = 0x200
#: Exit status of what a job kills.
_KILLED: Final = 1


class _BasicLimits(ctypes.Structure):
    _fields_ = (
        ("PerProcessUserTimeLimit", ctypes.c_int64),
        ("PerJobUserTimeLimit", ctypes.c_int64),
        ("LimitFlags", ctypes.c_uint32),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", ctypes.c_uint32),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", ctypes.c_uint32),
        ("SchedulingClass", ctypes.c_uint32),
    )


class ExtendedLimits(ctypes.Structure):
    """``JOBOBJECT_EXTENDED_LIMIT_INFORMATION``."""

    _fields_ = (
        ("BasicLimitInformation", _BasicLimits),
        ("IoInfo", ctypes.c_uint64 * 6),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    )


class Kernel:
    """The calls that are used, by their own names. Handles are integers; 0 is a failure."""

    def __init__(self) -> None:
        library = getattr(ctypes, "WinDLL", None)
        if library is None:
            raise OSError("there are no job objects here")
        kernel32, ntdll = library("kernel32", use_last_error=True), library("ntdll")
        handle, boolean, number = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32
        for source, name, result, arguments in (
            (kernel32, "CreateJobObjectW", handle, (handle, ctypes.c_wchar_p)),
            (kernel32, "SetInformationJobObject", boolean, (handle, ctypes.c_int32, handle, number)),
            (kernel32, "OpenProcess", handle, (number, boolean, number)),
            (kernel32, "AssignProcessToJobObject", boolean, (handle, handle)),
            (kernel32, "TerminateJobObject", boolean, (handle, number)),
            (kernel32, "CloseHandle", boolean, (handle,)),
            (ntdll, "NtResumeProcess", ctypes.c_int32, (handle,)),
        ):
            function = getattr(source, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)


class Job:
    """One job object. Ended by :meth:`close`, which kills what is in it."""

    def __init__(self, kernel: Any) -> None:
        """:raises OSError: when it cannot be made."""
        self._kernel = kernel
        self._handle: int | None = kernel.CreateJobObjectW(None, None)
        if not self._handle:
            raise OSError("no job object")
        limits = ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
        if not kernel.SetInformationJobObject(
            self._handle, _EXTENDED_LIMITS, ctypes.addressof(limits), ctypes.sizeof(limits)
        ):
            self.close()
            raise OSError("no job object that kills")

    def adopt(self, pid: int) -> bool:
        """Put a suspended process into the job, and let it run in any case.

        :returns: whether it is in the job. :raises OSError: when it cannot be let run.
        """
        kernel = self._kernel
        process = kernel.OpenProcess(_ACCESS, False, pid)
        if not process:
            raise OSError("the agent's process cannot be opened")
        try:
            inside = bool(kernel.AssignProcessToJobObject(self._handle, process))
            if kernel.NtResumeProcess(process) < 0:
                raise OSError("the agent's process cannot be resumed")
            return inside
        finally:
            kernel.CloseHandle(process)

    def kill(self) -> None:
        """End everything that is in it."""
        if self._handle:
            self._kernel.TerminateJobObject(self._handle, _KILLED)

    def close(self) -> None:
        """Let go of it, which kills what is still in it."""
        handle, self._handle = self._handle, None
        if handle:
            self._kernel.CloseHandle(handle)


class JobTree(Tree):
    """See the module."""

    def __init__(self, scratch: Scratch, kernel: Any = None) -> None:
        super().__init__(scratch)
        self._kernel = kernel
        self._job: Job | None = None

    async def spawn(
        self, protocol: asyncio.SubprocessProtocol, argv: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        try:
            job = self._job = Job(self._kernel or Kernel())
        except OSError:
            job = None
            _log.warning("no job object could be made: what an agent starts may outlive it")
        flags = _CREATE_NEW_PROCESS_GROUP | (_CREATE_SUSPENDED if job else 0)
        await self._start(protocol, argv, environment, cwd=self._scratch.cwd, creationflags=flags)
        assert self._transport is not None  # noqa: S101 - set by the line above
        self.pid = self._transport.get_pid()
        if job is not None and not job.adopt(self.pid):
            _log.warning("the agent could not be put into its job object: what it starts may outlive it")
        await self._record()

    def terminate(self) -> None:
        if self._transport is not None and not self.exited.is_set():
            self._transport.terminate()

    def kill(self) -> None:
        if self._job is not None:
            self._job.kill()
        if self._transport is not None and not self.exited.is_set():
            self._transport.kill()

    def dismiss(self) -> None:
        self.kill()

    def force(self) -> bool:
        return self.exited.is_set()

    def process_exited(self) -> None:
        # What the agent started must not outlive it.
        if self._job is not None:
            self._job.kill()
            self._job.close()
        assert self._transport is not None  # noqa: S101 - nothing else could have exited
        self._exit(self._transport.get_returncode() or 0)
        self.ended.set()
