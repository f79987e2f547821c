"""The official JSON Schema Test Suite, run through what judges a tool call's arguments."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema_rs
import pytest

from antigravity_acp.bridge._json import read_strictly
from antigravity_acp.bridge.export import _Flattener
from antigravity_acp.bridge.validation import ArgumentValidator, SchemaError

SUITE = Path(__file__).resolve().parents[1] / "data" / "json-schema-test-suite" / "tests"
#: A host that the suite serves documents from; a case that names it needs a document that we never fetch.
REMOTE = "http://localhost:1234/"
DRAFTS = {
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}
#: Required tests of the vendored commit, and how many of them stand under a schema that needs a remote document.
COUNTS = {"draft7": (927, 23), "draft2020-12": (1299, 49)}


class Outcome(NamedTuple):
    passed: int
    failed: list[str]
    refused: int
    refused_without_need: list[str]


def run(draft: str) -> Outcome:
    passed, refused = 0, 0
    failed: list[str] = []
    refused_without_need: list[str] = []
    for path in sorted((SUITE / draft).glob("*.json")):
        for group in json.loads(path.read_text(encoding="utf-8")):
            where = f"{path.name}: {group['description']}"
            try:
                validator = ArgumentValidator(as_parameters(group["schema"], DRAFTS[draft]))
            except SchemaError as error:
                refused += len(group["tests"])
                if REMOTE not in json.dumps(group["schema"]):
                    refused_without_need.append(f"{where}: {error}")
                continue
            for case in group["tests"]:
                # The suite's data goes the way that arguments go: as text, read strictly.
                valid = not validator.problems(read_strictly(json.dumps(case["data"])))
                if valid == case["valid"]:
                    passed += 1
                else:
                    failed.append(f"{where}: {case['description']}")
    return Outcome(passed, failed, refused, refused_without_need)


def as_parameters(schema: Any, draft: str) -> dict[str, Any]:
    """A suite's schema as a tool's parameters: an object that declares its draft."""
    return {"$schema": draft, **(schema if isinstance(schema, dict) else {"allOf": [schema]})}


@pytest.mark.requirement("A-044")
@pytest.mark.parametrize("draft", DRAFTS)
def test_arguments_are_judged_as_the_official_suite_says(draft: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run(draft)
    judged = outcome.passed + len(outcome.failed)
    with capsys.disabled():
        rate = outcome.passed / judged
        print(f"\n{draft}: {outcome.passed}/{judged} passed ({rate:.2%}), {outcome.refused} need a remote document")
        for line in outcome.failed:
            print(f"  failed: {line}")
    assert rate >= 0.995
    assert outcome.refused_without_need == []
    assert (judged + outcome.refused, outcome.refused) == COUNTS[draft]


@pytest.mark.requirement("A-044")
@pytest.mark.parametrize("draft", DRAFTS)
def test_what_the_agent_is_shown_means_the_same_as_what_calls_are_judged_by(draft: str) -> None:
    """The flat 2020-12 form gives the suite's verdicts too, except where ``$dynamicRef`` depends on the way in."""
    differing: list[str] = []
    for path in sorted((SUITE / draft).glob("*.json")):
        for group in json.loads(path.read_text(encoding="utf-8")):
            try:
                original = ArgumentValidator(as_parameters(group["schema"], DRAFTS[draft]))
            except SchemaError:
                continue
            flat = _Flattener(original.schema, original.draft)
            shown = jsonschema_rs.Draft202012Validator({**flat.root, "$defs": flat.definitions}, offline=True)
            verdicts = [shown.is_valid(read_strictly(json.dumps(case["data"]))) for case in group["tests"]]
            differing += [path.name for case, v in zip(group["tests"], verdicts, strict=True) if v != case["valid"]]
    assert differing.count("dynamicRef.json") == len(differing) - differing.count("defs.json")
    assert len(differing) <= 2
