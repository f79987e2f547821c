"""How long `antigravity-acp --help` takes, against `python -c "import mcp"`.

Whole processes, from start to exit, in turn: one of each after the other, so that a busy machine slows down both.
"""

import shutil
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from typing import Any

NAME = "cli_start"
RUNS = 11
BOUND = 0.35


def seconds(argv: Sequence[str]) -> float:
    """One run of a program that must succeed, from start to exit."""
    began = time.perf_counter()
    subprocess.run(argv, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True, timeout=60)
    return time.perf_counter() - began


def run(runs: int = RUNS) -> dict[str, Any]:
    """Ratio of the medians with its bound; see the module."""
    command = shutil.which("antigravity-acp", path=sysconfig.get_path("scripts"))
    if command is None:
        raise RuntimeError("antigravity-acp is not installed in this Python; run `make` first")
    programs = {"help": [command, "--help"], "import mcp": [sys.executable, "-c", "import mcp"]}
    for argv in programs.values():
        seconds(argv)  # the first run may compile and fill caches
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(runs):
        for name, argv in programs.items():
            times[name].append(seconds(argv))
    medians = {name: statistics.median(found) for name, found in times.items()}
    ratio = "help over import mcp"
    return {
        "runs": runs,
        "ratios": {ratio: medians["help"] / medians["import mcp"]},
        "bounds": {ratio: BOUND},
        "seconds": medians,
    }
