"""Homes of the real host; see tests/helpers/dsh.py and install.py."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from helpers.dsh import Dsh, gone, home


@pytest.fixture(scope="module", autouse=True)
def nothing_left() -> Iterator[None]:
    """Fails a file whose tests leave a process or scratch directory; a host may serve several of them."""
    root = Path(tempfile.gettempdir())
    scratch = set(root.glob("antigravity*"))
    yield
    assert gone(psutil.Process().children(recursive=True), 5)
    assert set(root.glob("antigravity*")) <= scratch


@pytest.fixture
def dsh(tmp_path: Path) -> Iterator[Dsh]:
    """A home of the host, empty."""
    with home(tmp_path / "dsh") as made:
        yield made
