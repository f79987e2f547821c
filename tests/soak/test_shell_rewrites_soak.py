"""`make soak`: many thousand spellings, each run by the real bash and read."""

import os
from pathlib import Path
from random import Random, randrange

import pytest
from helpers.rewrites import MARKER, MENTIONS, Playground, line
from helpers.shell_policy import decide

from antigravity_control.floor import check
from antigravity_control.shell import read_line

pytestmark = [pytest.mark.soak, pytest.mark.skipif(os.name == "nt", reason="needs bash")]
ROUNDS = 20_000


@pytest.mark.timeout(3600)
@pytest.mark.requirement("B-003", "B-037")
def test_many_thousand_spellings_are_seen(tmp_path: Path) -> None:
    start = randrange(1 << 32)
    print(f"seed {start}")
    playground = Playground(tmp_path)
    ran = exact = 0
    for seed in range(start, start + ROUNDS):
        text = line(Random(seed), [MARKER, "-rf", "/"], seed % 5)
        arguments = playground.arguments(text)
        if arguments is None:
            continue
        ran += 1
        read = read_line(text)
        named = any(unit.guess == MARKER for unit in read.units)
        exact += named
        assert named or not read.understood, (seed, text)
        assert decide(text, {"allow": ["command(*)"], "deny": [f"command({MARKER})"]}) != "allow", (seed, text)
        if "unset_here}" not in text and "-rf / " in arguments.replace("\n", " "):
            assert check(line(Random(seed), ["rm", "-rf", "/"], seed % 5)), (seed, text)
    print(f"{ran} of {ROUNDS} ran, {exact} of them named exactly")
    assert ran > ROUNDS / 2


@pytest.mark.timeout(3600)
def test_many_thousand_mentions_pass(tmp_path: Path) -> None:
    playground = Playground(tmp_path)
    for seed in range(ROUNDS // 10):
        random = Random(seed)
        text = random.choice(MENTIONS)(random, f"{MARKER} -rf /")
        assert not playground.runs(text)
        read = read_line(text)
        assert all(unit.guess != MARKER for unit in read.units), (seed, text)
