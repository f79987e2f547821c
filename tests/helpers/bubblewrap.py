"""The real bubblewrap for tests, without being root: `python tests/helpers/bubblewrap.py` fetches it.

It is taken from PATH, else from `tests/.tools/bubblewrap`, where the distribution's package is unpacked.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import filelock
import pytest

FOLDER = Path(__file__).resolve().parents[1] / ".tools" / "bubblewrap"
#: Seconds to wait for the package, all steps together.
LIMIT_S = 100


class NoBubblewrapError(Exception):
    """It is not here and cannot be fetched; the text says why."""


def directory() -> Path:
    """The directory that holds `bwrap`, fetched if need be. :raises NoBubblewrapError:"""
    if found := shutil.which("bwrap"):
        return Path(found).resolve().parent
    FOLDER.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(FOLDER / ".lock", timeout=LIMIT_S):
        place = FOLDER / "usr" / "bin"
        if not (place / "bwrap").exists():
            _unpack()
    return place


def put_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `bwrap` found first. Without one: a failure in CI, a skip with its reason elsewhere."""
    if sys.platform != "linux":
        pytest.skip("bubblewrap is for Linux")
    try:
        place = directory()
    except NoBubblewrapError as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI has to test the real sandbox: {error}")
        pytest.skip(str(error))
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")


def _unpack() -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise NoBubblewrapError("no bubblewrap here, and no apt-get to fetch it with: install it")
    # The tests close the way out of this machine by proxies that lead nowhere; this is no test.
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    try:
        subprocess.run(
            ["apt-get", "download", "--quiet", "bubblewrap"],
            cwd=FOLDER,
            env=environment,
            check=True,
            capture_output=True,
            timeout=LIMIT_S,
        )
        for package in FOLDER.glob("bubblewrap*.deb"):
            subprocess.run(["dpkg", "-x", package.name, "."], cwd=FOLDER, check=True, timeout=LIMIT_S)
            package.unlink()
    except (OSError, subprocess.SubprocessError) as error:
        raise NoBubblewrapError(f"bubblewrap cannot be fetched ({type(error).__name__}): install it") from None


if __name__ == "__main__":
    print(directory())
