"""`make soak`: 200 installers killed at random instants, a second one running all the time."""

import os
import random
from pathlib import Path

import pytest
from helpers.installs import left_over, release
from helpers.killed_installs import kill_installers

from antigravity_provisioning.store import Store

pytestmark = [pytest.mark.soak, pytest.mark.skipif(os.name == "nt", reason="SIGKILL")]
KILLS = 200


@pytest.mark.requirement("A-052")
def test_two_hundred_killed_installers_never_leave_a_half_server(tmp_path: Path) -> None:
    given = release(tmp_path / "archives", padding=1_000_000)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    outcome = kill_installers(tmp_path / "root", given, kills=KILLS, seed=seed)
    print(f"{outcome.kills} kills, {outcome.interrupted} in the midst of an installation; found then: {outcome.found}")
    assert outcome.faults == []
    # The kills must have hit something, or they prove nothing.
    assert outcome.interrupted > KILLS / 10
    assert left_over(Store(tmp_path / "root")) == []
