"""Exported names: readable, within an agent's rules and budget, and never the same for two tools."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antigravity_acp.bridge import _names
from antigravity_acp.bridge._names import MIN_BUDGET, export_names

NAMES = st.one_of(st.text(min_size=1, max_size=60), st.from_regex(r"[a-zA-Z]{1,4}[._/ -]?[a-z]{0,3}", fullmatch=True))


@pytest.mark.requirement("A-043")
@settings(max_examples=120, deadline=None)
@given(st.sets(NAMES, max_size=30), st.integers(MIN_BUDGET, 64))
def test_any_names_keep_the_pattern_the_budget_and_their_difference(names: set[str], budget: int) -> None:
    exported = export_names(names, budget)
    assert set(exported) == names
    assert len(set(exported.values())) == len(names)
    for name in exported.values():
        assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", name), name
        assert len(name) <= budget


@pytest.mark.requirement("A-043")
def test_names_that_normalise_alike_stay_apart() -> None:
    alike = ["read-file", "read_file", "read.file", "readFile", "READ FILE", "read__file", "_read_file_", "réad-file"]
    exported = export_names(alike, 48)
    assert len(set(exported.values())) == len(alike)
    assert {name[:-9] for name in exported.values()} == {"read_file"}


@pytest.mark.requirement("A-043")
def test_two_names_that_meet_in_stem_and_short_hash_get_a_longer_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_names, "_digest", lambda name: "00000000" + name.encode().hex().ljust(24, "0"))
    exported = export_names(["a b", "a-b"], 32)
    assert len(set(exported.values())) == 2
    assert sorted(map(len, exported.values())) == [len("a_b_") + 8, len("a_b_") + 16]


def test_the_name_does_not_depend_on_the_other_tools() -> None:
    assert export_names(["search", "other"], 40)["search"] == export_names(["search"], 40)["search"]


def test_a_budget_without_room_for_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="needs at least"):
        export_names(["search"], MIN_BUDGET - 1)
