"""`make soak`: eight writers of 2 000 rows each, hundreds of kills, hundreds of rotations."""

import os
import random
from pathlib import Path

import pytest
from helpers.ledgers import BOUND_S, WRITERS, acknowledged, start

from antigravity_control.ledger import read, verify

pytestmark = [pytest.mark.soak, pytest.mark.skipif(os.name == "nt", reason="SIGKILL and fork")]
ROWS = 2_000
KILLS = 400


@pytest.mark.timeout(1800)
@pytest.mark.requirement("X-007")
def test_sixteen_thousand_rows_and_four_hundred_kills(tmp_path: Path) -> None:
    folder, acks = tmp_path / "ledger", tmp_path / "acks"
    acks.mkdir()
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    assert start("crowd", folder, acks, ROWS, KILLS, seed, 500).wait(BOUND_S) == 0
    known = acknowledged(acks)
    found = {entry.seq: entry.text("call") for entry in read(folder)}
    report = verify(folder)
    print(f"{len(known)} acknowledged, {len(found) - len(known)} written and not, {report.files} files")
    assert len(known) == WRITERS * ROWS
    assert known.items() <= found.items()
    assert report.ok, report.faults
