"""Arguments are judged exactly, told apart from what every reader reads alike, and never quoted in a message."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antigravity_acp.bridge import Catalogue
from antigravity_acp.bridge.catalogue import Tool
from antigravity_acp.contract import ToolSchema


def built(**parameters: Any) -> Tool:
    catalogue = Catalogue.build([ToolSchema("tool", "", parameters)], name_budget=48)
    tool = catalogue.find(catalogue.names["tool"])
    assert tool is not None
    return tool


OPEN = built(type="object")

EXACT = [
    '{"n": 123456789012345678901234567890}',
    '{"n": -0, "m": 1.0, "k": 1e400, "j": 1E+2}',
    '{"n": 0.123456789012345678901234567890}',
    '{"s": "\\u00e9\\ud83d\\ude00\\/\\n", "t": "é😀"}',
    '{ "spaces" :\t[ 1 ,\n2 ] }',
    '{"": {"": []}, "a": null}',
]


@pytest.mark.requirement("A-009")
def test_the_host_gets_the_text_that_the_agent_wrote() -> None:
    for text in EXACT:
        assert OPEN.judge(text).text == text


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8))


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.text(max_size=8), VALUES | st.lists(VALUES, max_size=4), max_size=5))
def test_any_object_passes_unchanged_through_a_tool_that_takes_everything(arguments: dict[str, Any]) -> None:
    for text in (json.dumps(arguments), json.dumps(arguments, ensure_ascii=False, indent=1)):
        assert OPEN.judge(text).text == text


AMBIGUOUS: list[tuple[str, str]] = [
    ('{"a": 1, "a": 1}', "given twice"),
    ('{"o": {"a": 1, "\\u0061": 2}}', "given twice"),
    ('{"a": NaN}', "NaN"),
    ('{"a": [-Infinity]}', "NaN and Infinity"),
    ('{"a": "\\ud800"}', "surrogate"),
    ('{"\\udfff": 1}', "surrogate"),
    ('{"a": ' + "[" * 2_000 + "]" * 2_000 + "}", "nested too deeply"),
    ('{"a": ' + "9" * 5_000 + "}", "beyond all bounds"),
    ('{"a": 1e' + "9" * 30 + "}", "beyond all bounds"),
    ("[]", "expected object"),
    ("null", "expected object"),
    ('{"a": 1', "not valid JSON"),
]


def test_what_readers_may_understand_differently_is_refused() -> None:
    for text, reason in AMBIGUOUS:
        judged = OPEN.judge(text)
        assert judged.text is None, text[:40]
        assert reason in "\n".join(judged.problems), text[:40]


def test_numbers_are_judged_exactly_and_not_as_floats() -> None:
    tool = built(properties={"n": {"maximum": 9007199254740992}, "m": {"multipleOf": 0.01}, "i": {"type": "integer"}})
    assert tool.judge('{"n": 9007199254740993}').text is None
    assert tool.judge('{"n": 9007199254740992}').text is not None
    assert tool.judge('{"m": 0.07}').text is not None
    assert tool.judge('{"m": 0.071}').text is None
    assert tool.judge('{"i": 12345678901234567890123456789.0}').text is not None


@pytest.mark.requirement("A-044")
def test_problems_name_path_and_keyword_and_never_a_value() -> None:
    tool = built(
        type="object",
        properties={
            "mode": {"enum": ["read", "write"]},
            "list": {"items": {"type": "integer", "maximum": 10}},
            "name": {"pattern": "^[a-z]+$", "maxLength": 3},
            "other": {"oneOf": [{"type": "null"}, {"const": "x"}]},
        },
        required=["path"],
        additionalProperties=False,
    )
    secret = "hunter2-SECRET"
    arguments = {"mode": secret, "list": [1, secret, 99], "name": secret, "other": secret, secret: secret}
    judged = tool.judge(json.dumps(arguments))
    assert judged.text is None
    assert "hunter2" not in "".join(judged.problems)
    assert set(judged.problems) == {
        "/: the property path is missing (`required`)",
        "/: has a property that the schema does not allow (`additionalProperties`)",
        "/list/1: expected integer (`type`)",
        "/list/2: does not meet `maximum`",
        "/mode: does not meet `enum`",
        "/name: does not meet `maxLength`",
        "/name: does not meet `pattern`",
        "/other: does not meet `oneOf`",
    }


def test_a_thousand_problems_are_told_in_few_lines() -> None:
    tool = built(properties={"l": {"items": {"type": "string"}}})
    assert len(tool.judge(json.dumps({"l": [1] * 1_000})).problems) == 8
    assert all(
        len(line) < 300 for line in built(additionalProperties=False).judge(json.dumps({"l" * 9_999: 1})).problems
    )
    assert all(
        len(line) < 300
        for line in built(additionalProperties={"type": "null"}).judge(json.dumps({"l" * 9_999: 1})).problems
    )


@pytest.mark.requirement("A-044")
@pytest.mark.timeout(10)
def test_a_pattern_that_makes_other_engines_hang_is_judged_in_linear_time() -> None:
    tool = built(properties={"s": {"pattern": "^(a+)+$"}})
    assert tool.judge(json.dumps({"s": "a" * 200_000 + "!"})).text is None


UNDECLARED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"properties": {"l": {"items": [{"type": "string"}]}}}, {"l": [1]}),
    ({"properties": {"n": {"minimum": 0, "exclusiveMinimum": True}}}, {"n": 0}),
    ({"properties": {"n": {"required": True}}}, {}),
    ({"dependencies": {"a": ["b"]}}, {"a": 1}),
    ({"definitions": {"d": {"type": "null"}}, "properties": {"a": {"$ref": "#/definitions/d"}}}, {"a": 1}),
    ({"properties": {"l": {"prefixItems": [{"type": "string"}]}}}, {"l": [1]}),
    ({"unevaluatedProperties": False, "allOf": [{"properties": {"a": True}}]}, {"b": 1}),
]


@pytest.mark.requirement("A-044")
def test_a_schema_without_a_declared_draft_loses_no_constraint() -> None:
    for parameters, invalid in UNDECLARED:
        assert built(**parameters).judge(json.dumps(invalid)).text is None, parameters


@pytest.mark.requirement("A-044")
def test_a_schema_that_mixes_drafts_is_refused_rather_than_read_in_half() -> None:
    from antigravity_acp.contract import LlmError

    with pytest.raises(LlmError, match="mixes keywords of several drafts"):
        built(properties={"l": {"items": [{}]}}, unevaluatedProperties=False)
