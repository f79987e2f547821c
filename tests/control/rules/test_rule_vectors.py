"""The public vectors: rules, paths and bypasses. No line of them is ever run."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.policies import policy

from antigravity_control import Request
from antigravity_control.jsonl import decide_vector

VECTORS = Path(__file__).parents[2] / "vectors"
HOLDS: dict[str, Callable[[Path], bool]] = {
    "linux-procfs": lambda _root: os.path.exists("/proc/self/root"),
    "case-insensitive-fs": lambda root: _ignores_case(root),
    "case-sensitive-fs": lambda root: not _ignores_case(root),
}


def _ignores_case(root: Path) -> bool:
    (root / "probe").touch()
    found = (root / "PROBE").exists()
    (root / "probe").unlink()
    return found


def load(name: str) -> list[Any]:
    return [
        pytest.param(vector, id=vector["id"])
        for vector in json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))
    ]


def build(setup: list[dict[str, str]]) -> None:
    for item in setup:
        path = Path(next(item[key] for key in ("dir", "file", "symlink", "hardlink") if key in item))
        path.parent.mkdir(parents=True, exist_ok=True)
        if "dir" in item:
            path.mkdir(exist_ok=True)
        elif "file" in item:
            path.write_text("content")
        elif "symlink" in item:
            path.symlink_to(item["to"])
        else:
            path.hardlink_to(item["to"])


def check(vector: dict[str, Any], answer: dict[str, Any]) -> None:
    assert "error" not in answer
    assert answer["id"] == vector["id"]
    if "expect" in vector:
        assert (answer["decision"], answer["soft"]) == (vector["expect"], vector.get("soft", False)), vector["why"]
    else:
        assert answer["decision"] in ("ask", "deny"), vector.get("why") or vector["call"]
    assert answer["reason"]


@pytest.mark.requirement("B-001", "B-002", "B-003", "B-004", "B-005", "B-006", "X-006")
@pytest.mark.parametrize("vector", load("rules"))
def test_the_rule_engine_says_what_the_vector_expects(vector: dict[str, Any]) -> None:
    check(vector, decide_vector(vector))


@pytest.mark.parametrize("vector", load("bypass"))
def test_a_known_bypass_is_never_silently_allowed(vector: dict[str, Any]) -> None:
    check(vector, decide_vector(vector))


@pytest.mark.parametrize("vector", load("paths"))
def test_file_rules_on_a_real_folder_tree(vector: dict[str, Any], tmp_path: Path) -> None:
    root = tmp_path.resolve()
    placed = json.loads(json.dumps(vector).replace("{root}", str(root)))
    build(placed["setup"])
    requires = vector.get("requires")
    if requires is not None and not HOLDS[requires](root):
        # A volume that this machine does not have: the engine is told instead of finding out.
        assert requires.startswith("case-")
        lists = placed["settings"]["permissions"]
        ruled = policy(**lists, workspace=placed["workspace"], folds=lambda _: requires == "case-insensitive-fs")
        made = ruled.decide(Request(placed["call"]["action"], placed["call"]["target"]))
        assert made.decision == vector["expect"]
        return
    check(placed, decide_vector(placed))
