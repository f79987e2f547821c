"""The real bash is the judge: what it runs has to be seen, in every spelling that the generator makes.

A marker is really run, in an empty folder. The same spelling with the dangerous name in the marker's place is only
read, never run.
"""

import os
import shutil
from pathlib import Path
from random import Random

import pytest
from helpers.rewrites import MARKER, MENTIONS, Playground, line
from helpers.shell_policy import decide
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antigravity_control.floor import check
from antigravity_control.shell import read_line

pytestmark = pytest.mark.skipif(os.name == "nt" or not shutil.which("bash"), reason="needs bash")
ARGV = [MARKER, "-rf", "/"]
EVIL = ["rm", "-rf", "/"]
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Playground:
    return Playground(tmp_path_factory.mktemp("playground"))


def seen(text: str) -> bool:
    """Whether a reader of the line would ask or see the marker."""
    read = read_line(text)
    return not read.understood or any(unit.guess == MARKER for unit in read.units)


@pytest.mark.requirement("B-003")
@QUICK
@given(st.integers(0, 1 << 32), st.integers(0, 3))
def test_what_bash_runs_is_never_allowed_past_a_rule(playground: Playground, seed: int, depth: int) -> None:
    text = line(Random(seed), ARGV, depth)
    if not playground.runs(text):
        return
    assert seen(text)
    assert decide(text, {"allow": ["command(*)"], "deny": [f"command({MARKER})"]}) != "allow"
    others = [f"command({name})" for name in ("echo", "true", "cat", "env", "bash", "sh", "eval", "find", "xargs", "v")]
    assert decide(text, {"allow": others}) != "allow"


@pytest.mark.requirement("B-037")
@QUICK
@given(st.integers(0, 1 << 32), st.integers(0, 3))
def test_the_floor_denies_every_spelling_that_bash_runs(playground: Playground, seed: int, depth: int) -> None:
    text = line(Random(seed), ARGV, depth)
    # What an unset variable hides, nobody can know: such a line is asked about, see above.
    if "unset_here}" in text or "-rf / " not in f"{(playground.arguments(text) or '').strip()} ":
        return
    assert check(line(Random(seed), EVIL, depth)) is not None


@QUICK
@given(st.integers(0, 1 << 32), st.integers(0, len(MENTIONS) - 1))
def test_a_mention_is_not_a_command(playground: Playground, seed: int, kind: int) -> None:
    text = MENTIONS[kind](Random(seed), " ".join(ARGV))
    assert not playground.runs(text)
    read = read_line(text)
    assert read.understood
    assert all(unit.guess != MARKER for unit in read.units)
    assert check(MENTIONS[kind](Random(seed), " ".join(EVIL))) is None


@pytest.mark.parametrize("name", ["mk", "./mk", "/usr/bin/mk"])
def test_a_name_that_is_quoted_in_parts_is_one_name(name: str) -> None:
    for seed in range(40):
        random = Random(seed)
        spelled = "".join(random.choice([char, f"'{char}'", f'"{char}"', f"\\{char}"]) for char in name)
        (unit,) = read_line(f"{spelled} x").units
        assert unit.argv[0].text == name
        assert unit.name == "mk"


def test_the_marker_really_runs(playground: Playground) -> None:
    assert playground.runs("mk")
    assert playground.runs("$'\\x6d'k -rf /")
    assert not playground.runs("echo mk")
    assert Path("/usr/bin/mk").exists() is False
