"""The bundle's JavaScript by itself: its types, and its parts against real processes (`js/*.test.mjs`)."""

import os
import subprocess
import sys

import pytest
from helpers.dsh import ROOT, TESTS, node_folder

pytestmark = pytest.mark.dsh

SUITES = sorted(path.name for path in (TESTS / "js").glob("*.test.mjs"))


def node(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(node_folder() / "node"), *arguments]
    env = {**os.environ, "PYTHON": sys.executable}
    return subprocess.run(command, cwd=TESTS, env=env, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("suite", SUITES)
def test_the_parts_of_the_bundle_keep_their_contracts(suite: str) -> None:
    done = node("--test", "--test-timeout=60000", "--test-reporter=tap", f"js/{suite}")
    assert done.returncode == 0, done.stdout[-8000:]
    assert "# pass 0" not in done.stdout


def test_the_bundle_has_no_type_errors() -> None:
    done = node("node_modules/typescript/bin/tsc", "-p", str(ROOT / "dsh"))
    assert done.returncode == 0, done.stdout
