"""What this machine is: its platform key, its processor, its disk.

Owns: the checks that come before a download of hundreds of megabytes. Starts no process, opens no connection. What
cannot be found out passes: a check refuses only what is known to fail.

What is known of the server's needs: x86-64 builds end with an illegal instruction on processors without AVX. Whether it
runs on musl is not known, so a missing glibc is told by `describe` and refused by nobody. A Python that is itself
translated (Rosetta, x86-64 on Windows for ARM) is taken for what it says it is: the server of that processor is used,
and runs translated too.
"""

import glob
import os
import platform
import shutil
import struct
import sys
from pathlib import Path
from typing import Any, Final

from ._asset import Asset
from .errors import ProvisioningError

#: Room that stays free beside the archive and its files, bytes.
MARGIN: Final = 256 << 20
#: Of an archive whose files are not known, this many times its size is expected; measured: 1.8 to 3.6.
_EXPANSION: Final = 4

_SYSTEMS: Final = {"linux": "linux", "darwin": "darwin", "windows": "windows"}
_MACHINES: Final = {
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "x64": "x86_64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
    "armv8l": "armv8l",
}
_CPUINFO: Final = "/proc/cpuinfo"
# winnt.h: PF_SSSE3_INSTRUCTIONS_AVAILABLE, PF_AVX_INSTRUCTIONS_AVAILABLE
_WINDOWS_SSSE3: Final = 36
_WINDOWS_AVX: Final = 39


def platform_key() -> str:
    """The registry's name of this platform, e.g. ``linux-x86_64``; also for platforms that have no release.

    It is the machine's, not the interpreter's: a 32-bit Python on a 64-bit system gets the 64-bit server.
    """
    # On Windows this is PROCESSOR_ARCHITEW6432 for a 32-bit process; a 32-bit process elsewhere sees the kernel's name.
    system, machine = platform.system().lower(), platform.machine().lower()
    return f"{_SYSTEMS.get(system, system or 'unknown')}-{_MACHINES.get(machine, machine or 'unknown')}"


def has_avx(key: str | None = None) -> bool | None:
    """Whether the processor has AVX, ``None`` when that is not known or has no meaning."""
    key = platform_key() if key is None else key
    if not key.endswith("-x86_64"):
        return None
    try:
        if key.startswith("linux"):
            return _linux_flag("avx")
        if key.startswith("darwin"):
            # Rosetta hides AVX from sysctl on systems where it translates it.
            return None if _sysctl("sysctl.proc_translated") else _sysctl("hw.optional.avx1_0")
        return _windows_avx()
    except (OSError, AttributeError, ValueError):
        return None


def check_cpu(asset: Asset) -> None:
    """Refuse a processor that is known to lack an instruction that the server needs.

    :raises ProvisioningError: ``platform/cpu``.
    """
    if has_avx(asset.platform) is False:
        raise ProvisioningError(
            "platform",
            "cpu",
            "This processor has no AVX instructions, and the Antigravity server ends at once without them (illegal "
            "instruction). Use a machine with AVX, enable it in the virtual machine's processor model, or use the "
            "embedded engine.",
        )


def space_needed(asset: Asset) -> int:
    """Bytes that an installation needs at its peak: the archive, its files and a margin."""
    return asset.size + (asset.unpacked or _EXPANSION * asset.size) + MARGIN


def check_disk(folder: Path, need: int) -> None:
    """Refuse when the file system of a folder, which need not exist yet, has less than ``need`` bytes free.

    :raises ProvisioningError: ``disk/disk-full``; ``disk/disk`` when the file system cannot be asked.
    """
    existing = _nearest_existing(folder)
    try:
        free = free_space(existing)
    except OSError as error:
        raise ProvisioningError(
            "disk", "disk", f"The file system of {existing} cannot be read ({error.strerror or 'error'}). Check it."
        ) from error
    if free < need:
        raise ProvisioningError(
            "disk",
            "disk-full",
            f"{existing} has {_mb(free)} MB free and {_mb(need)} MB are needed. Free {_mb(need - free)} MB, or choose "
            "another cache folder.",
        )


def free_space(folder: Path) -> int:
    """Bytes that this user may still write where a folder is, or would be. :raises OSError: nobody can say."""
    return shutil.disk_usage(_nearest_existing(folder)).free


def describe() -> dict[str, Any]:
    """Facts for a report: ``platform``, ``system``, ``machine``, ``python_bits``, ``libc``, ``avx``, ``translated``.

    ``libc`` is ``None`` where it has no meaning; ``avx`` and ``translated`` are ``None`` when not known.
    """
    return {
        "platform": platform_key(),
        "system": platform.system(),
        "machine": platform.machine(),
        "python_bits": struct.calcsize("P") * 8,
        "libc": _libc() if sys.platform == "linux" else None,
        "avx": has_avx(),
        "translated": _translated(),
    }


def _mb(size: int) -> int:
    return -(-size // 1_000_000)


def _nearest_existing(folder: Path) -> Path:
    folder = Path(os.path.abspath(folder))
    # Not pathlib's look, which raises below a folder that this user may not enter.
    return next((path for path in (folder, *folder.parents) if os.path.exists(path)), folder)


def _linux_flag(flag: str) -> bool | None:
    with open(_CPUINFO, encoding="ascii", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() == "flags":
                return flag in value.split()
    return None


def _sysctl(name: str) -> bool | None:
    """A number that the kernel of macOS knows, as a truth; ``None`` when it does not know the name."""
    import ctypes

    value, size = ctypes.c_int(0), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
    library = ctypes.CDLL(None)
    failed = library.sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return None if failed else value.value != 0


def _windows_avx() -> bool | None:
    import ctypes

    present = getattr(ctypes, "windll").kernel32.IsProcessorFeaturePresent  # noqa: B009 - exists on Windows only
    # Older versions of Windows answer 0 for features that they do not know; every processor of interest has SSSE3.
    return bool(present(_WINDOWS_AVX)) if present(_WINDOWS_SSSE3) else None


def _translated() -> bool | None:
    try:
        return _sysctl("sysctl.proc_translated") if sys.platform == "darwin" else None
    except (OSError, AttributeError):
        return None


def _libc() -> str:
    name, version = platform.libc_ver()
    if name:
        return f"{name} {version}".strip()
    return "musl" if glob.glob("/lib/ld-musl-*") else "unknown"
