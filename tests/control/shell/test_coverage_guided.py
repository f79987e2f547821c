"""The shell reader under a fuzzer that follows its branches; the target is `tests/fuzz/shell_target.py`."""

import subprocess
import sys
from pathlib import Path

import pytest

TARGET = Path(__file__).parents[2] / "fuzz" / "shell_target.py"
#: Where a shell's grammar turns; the fuzzer combines them.
WORDS = (
    "$(",
    "`",
    "<<E\n",
    "$'\\x72m'",
    "{a,b}",
    "&&",
    "eval ",
    "sh -c '",
    "env -S ",
    "\\\n",
    "sudo ",
    "rm -rf /",
    "echo ",
)


def fuzz(folder: Path, runs: int) -> str:
    corpus, words = folder / "corpus", folder / "words"
    corpus.mkdir()
    (corpus / "allowed").write_bytes(b"echo a")
    for number, word in enumerate(WORDS):
        (corpus / str(number)).write_bytes(f"echo a; {word} b".encode())
    quoted = ("".join(f"\\x{byte:02x}" for byte in word.encode()) for word in WORDS)
    words.write_text("".join(f'"{word}"\n' for word in quoted))
    done = subprocess.run(
        [sys.executable, str(TARGET), f"-runs={runs}", "-max_len=2048", "-timeout=20", f"-dict={words}", str(corpus)],
        cwd=folder, capture_output=True, text=True, check=False, timeout=3000,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stderr


@pytest.mark.requirement("X-009")
def test_a_few_thousand_inputs_break_nothing(tmp_path: Path) -> None:
    assert "Done 2000 runs" in fuzz(tmp_path, 2_000)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_inputs_break_nothing(tmp_path: Path) -> None:
    assert "Done 200000 runs" in fuzz(tmp_path, 200_000)
