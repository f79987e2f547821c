"""The public vectors, as far as command lines are concerned: what must never be allowed, and what rules decide."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.shell_policy import decide

VECTORS = Path(__file__).parents[2] / "vectors"


def commands(name: str) -> list[Any]:
    """The vectors of a file that are about command lines, one parameter a class."""
    classes: dict[str, list[Any]] = {}
    for vector in json.loads((VECTORS / name).read_text(encoding="utf-8")):
        if vector["call"]["action"] == "command":
            classes.setdefault(vector["class"], []).append(vector)
    return [pytest.param(vectors, id=name) for name, vectors in classes.items()]


def decided(vector: dict[str, Any]) -> str:
    return decide(vector["call"]["target"], vector["settings"]["permissions"], cwd=vector["workspace"])


@pytest.mark.requirement("B-003")
@pytest.mark.parametrize("vectors", commands("bypass.json"))
def test_a_known_bypass_is_never_allowed(vectors: list[dict[str, Any]]) -> None:
    assert [vector["id"] for vector in vectors if decided(vector) == "allow"] == []


@pytest.mark.requirement("B-003")
@pytest.mark.parametrize("vectors", commands("rules.json"))
def test_command_rules_decide_as_the_vectors_say(vectors: list[dict[str, Any]]) -> None:
    wanted = {vector["id"]: "ask" if vector.get("soft") else vector["expect"] for vector in vectors}
    assert {vector["id"]: decided(vector) for vector in vectors} == wanted
