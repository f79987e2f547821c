"""Reading a command line for a decision, against what bash needs to parse the same lines.

Both read the same everyday lines in one run, turn about. Ours reads, applies the floor, and stays in the process; bash
(`bash -n`, which parses and runs nothing) is measured both ways: once for each line, as a hook would have to call it,
and once for all lines, where starting it no longer counts.
"""

import shutil
import subprocess
import time
from collections.abc import Callable
from typing import Any

from antigravity_control.floor import check
from antigravity_control.shell import read_line

NAME = "shell_parse"
ROUNDS = 5
LINES = (
    "git status --short",
    "make -j4 all && ./run --fast 2>&1 | tee build.log",
    'for f in src/*.py; do python -m py_compile "$f" || echo \'bad\' "$f"; done',
    "find . -name '*.tmp' -mtime +3 -exec rm -v {} +",
    "timeout 30 env LANG=C sort -u names.txt > sorted.txt",
    "cat <<'END' > notes.txt\nfirst\nsecond $line\nEND",
    "docker run --rm -v \"$PWD\":/w image sh -c 'cd /w && npm test'",
    "curl -sS https://example.com/data.json | jq '.items[] | .name' | head -20",
)
#: A line may cost this share of a `bash -n` process, its start included.
BOUND = 1.0


def ours() -> None:
    for line in LINES:
        check(read_line(line))


def one_by_one() -> None:
    for line in LINES:
        subprocess.run(["bash", "-n", "-c", line], check=True, stderr=subprocess.DEVNULL)


def all_at_once() -> None:
    subprocess.run(["bash", "-n"], input="\n".join(LINES * 50).encode(), check=True, stderr=subprocess.DEVNULL)


def seconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def run() -> dict[str, Any]:
    """Best of some rounds each, taken in turn."""
    if shutil.which("bash") is None:
        raise SystemExit("bench shell_parse: bash is not on PATH")
    ours()
    times = {work.__name__: min(seconds(work) for _ in range(ROUNDS)) for work in (ours, one_by_one, all_at_once)}
    amortised = times["all_at_once"] / 50
    return {
        "ratios": {
            "reading a line over `bash -n` of the line": times["ours"] / times["one_by_one"],
            "reading a line over its share of one `bash -n` of 400 lines": times["ours"] / amortised,
        },
        "bounds": {"reading a line over `bash -n` of the line": BOUND},
        "microseconds a line": round(times["ours"] / len(LINES) * 1e6),
    }
