"""The floor, kind by kind: lines it denies and everyday lines it leaves alone. No line of the tables is ever run."""

import json
from pathlib import Path
from typing import Any

import pytest

from antigravity_control.floor import ENTRIES, check


def kinds(name: str) -> list[Any]:
    """One parameter for each kind of the table ``name``: its reason and its lines."""
    groups = json.loads((Path(__file__).parent / f"{name}_lines.json").read_text(encoding="ascii"))
    return [pytest.param(group["why"], group["lines"], id=group["class"]) for group in groups]


@pytest.mark.requirement("B-037")
@pytest.mark.parametrize(("why", "lines"), kinds("deny"))
def test_a_catastrophic_line_is_denied_in_every_spelling(why: str, lines: list[str]) -> None:
    hits = {line: check(line) for line in lines}
    assert [line for line, hit in hits.items() if hit is None] == [], why
    assert {hit.entry for hit in hits.values() if hit} <= {entry.name for entry in ENTRIES}


@pytest.mark.requirement("B-037")
@pytest.mark.parametrize(("why", "lines"), kinds("pass"))
def test_an_everyday_line_is_left_to_the_rules(why: str, lines: list[str]) -> None:
    assert [(line, hit.entry) for line in lines if (hit := check(line))] == [], why
