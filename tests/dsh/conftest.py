"""Homes of the real host; see tests/helpers/dsh.py and install.py."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.dsh import HOST, Dsh, wait_for


@pytest.fixture
def dsh(tmp_path: Path) -> Iterator[Dsh]:
    """A home of the host, empty; fails a test after which something of an agent is left on the disk."""
    assert (HOST / ".ready").exists(), "the host is not installed: run `python tests/dsh/install.py` or `make test-dsh`"
    made = Dsh(tmp_path)
    yield made
    if not made.killed:
        wait_for(lambda: not list(made.tmp.glob("antigravity*")), 10)
