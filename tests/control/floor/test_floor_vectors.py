"""The public floor vectors: every spelling denied, every harmless mention passed. No line of them is ever run."""

import json
from pathlib import Path
from typing import Any

import pytest

from antigravity_control.floor import check

CLASSES: dict[str, list[Any]] = {}
for _vector in json.loads((Path(__file__).parents[2] / "vectors" / "floor.json").read_text(encoding="utf-8")):
    CLASSES.setdefault(_vector["class"], []).append(_vector)
ENDING = " — blocked unconditionally; this pattern cannot be allowed by policy or approval"


@pytest.mark.requirement("B-037")
@pytest.mark.parametrize("name", CLASSES)
def test_the_floor_decides_as_the_vectors_say(name: str) -> None:
    vectors = CLASSES[name]
    hits = {vector["id"]: check(vector["command"]) for vector in vectors}
    assert {key: "deny" if hit else "pass" for key, hit in hits.items()} == {
        vector["id"]: vector["expect"] for vector in vectors
    }
    for hit in hits.values():
        assert hit is None or (hit.reason.startswith("hardline floor: ") and hit.reason.endswith(ENDING))
