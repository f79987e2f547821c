"""Verifying and unpacking an archive of the official one's kind, against the system's ``unzip`` and ``sha256sum``.

Both sides are whole programs that start, work and end, in turn, on the same disk; the disk has caught up before each.
Ours does more within its time: it judges the archive, hashes every file and waits until all of it is on the disk.
Memory is the peak of our process, interpreter included.
"""

import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAME = "provisioning"
RUNS = 3
MEMORY_MB = 64
#: Megabytes of the two programs; together they pack to about 160.
FILES = {"agy_acp_server.par": 400, "localharness_external": 125}

OURS = """
import resource, sys
from pathlib import Path
from antigravity_provisioning._hashing import sha256_of
from antigravity_provisioning.archive import unpack
archive, folder = map(Path, sys.argv[1:3])
if sha256_of(archive)[1] != sys.argv[3]:
    sys.exit("the archive is not what was written")
unpack(archive, folder, required=sys.argv[4:])
# What getrusage tells includes the parent's memory from before `exec`; where the kernel tells our own, that is taken.
status = Path("/proc/self/status")
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform != "darwin" else 1 / 1024)
if status.exists():
    peak = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
print(peak / 1024)
"""


def blocks(count: int = 8) -> list[bytes]:
    """Megabytes that pack to a third, as programs do: words out of a thousand or two, noise and runs of zeros."""
    source = random.Random(20261001)
    words = [source.randbytes(source.randrange(6, 18)) for _ in range(1200)]
    made = []
    for _ in range(count):
        block = bytearray()
        while len(block) < 1 << 20:
            block += b"".join(source.choices(words, k=60))
            if source.random() < 0.05:
                block += source.randbytes(500)
            if source.random() < 0.7:
                block += bytes(source.randrange(1200))
        made.append(bytes(block[: 1 << 20]))
    return made


def build(path: Path) -> str:
    """Write the archive; its SHA-256."""
    megabytes = blocks()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, size in FILES.items():
            info = zipfile.ZipInfo(name, (2026, 10, 1, 12, 0, 0))
            info.create_system, info.external_attr, info.compress_type = 3, 0o100755 << 16, zipfile.ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as file:
                for index in range(size):
                    file.write(megabytes[index % len(megabytes)])
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def timed(commands: Sequence[Sequence[str]]) -> tuple[float, str]:
    """Seconds that programs take one after the other, all of which must succeed, and what the last one printed."""
    os.sync()
    began = time.perf_counter()
    for argv in commands:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True, timeout=300)
    return time.perf_counter() - began, done.stdout.decode()


def run(runs: int = RUNS) -> dict[str, Any]:
    """Ratios with their bounds; see the module. :raises RuntimeError: when a program to compare with is missing."""
    unzip, sha256sum = shutil.which("unzip"), shutil.which("sha256sum")
    if unzip is None or sha256sum is None:
        raise RuntimeError("this benchmark compares with `unzip` and `sha256sum`; install both")
    with tempfile.TemporaryDirectory(prefix="antigravity-acp-bench-") as name:
        root = Path(name)
        archive = root / "server.zip"
        digest = build(archive)
        times: dict[str, list[float]] = {"ours": [], "unzip and sha256sum": []}
        peaks: list[float] = []
        for _ in range(runs):
            for kind, found in times.items():
                folder = root / "unpacked"
                folder.mkdir()
                if kind == "ours":
                    took, output = timed([[sys.executable, "-c", OURS, str(archive), str(folder), digest, *FILES]])
                    peaks.append(float(output))
                else:
                    took, output = timed([[unzip, "-q", str(archive), "-d", str(folder)], [sha256sum, str(archive)]])
                    if not output.startswith(digest):
                        raise RuntimeError("sha256sum disagrees about the archive")
                found.append(took)
                shutil.rmtree(folder)
        packed = archive.stat().st_size / 1e6
    speed, memory = "verify and unpack over unzip and sha256sum", f"peak memory over {MEMORY_MB} MB"
    return {
        "runs": runs,
        "ratios": {
            speed: min(times["ours"]) / min(times["unzip and sha256sum"]),
            memory: max(peaks) / MEMORY_MB,
        },
        "bounds": {speed: 1.0, memory: 1.0},
        "seconds": times,
        "archive_mb": packed,
        "unpacked_mb": sum(FILES.values()) * (1 << 20) / 1e6,
        "peak_memory_mb": max(peaks),
    }
