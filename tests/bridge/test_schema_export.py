"""What an agent is shown: one flat 2020-12 object schema that says what the host's schema says."""

from typing import Any

import jsonschema_rs

from antigravity_acp.bridge import Catalogue
from antigravity_acp.bridge.catalogue import Tool
from antigravity_acp.contract import ToolSchema

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def built(parameters: dict[str, Any], name: str = "tool") -> Tool:
    catalogue = Catalogue.build([ToolSchema(name, "", parameters)], name_budget=48)
    (exported,) = catalogue.exported_names
    tool = catalogue.find(exported)
    assert tool is not None
    return tool


def shown(parameters: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = built(parameters).definition["inputSchema"]
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    assert schema["type"] == "object"
    assert isinstance(schema["properties"], dict)
    return schema


SPELLINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"type": "object"}, {}),
    ({"type": ["object", "null"], "default": None, "x-note": None}, {}),
    (
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    ),
    (
        {"$ref": "#/$defs/args", "$defs": {"args": {"properties": {"a": {"type": "null"}}, "required": ["a"]}}},
        {"properties": {"a": {"type": "null"}}, "required": ["a"]},
    ),
    (
        {"$ref": "#/$defs/args", "required": ["b"], "$defs": {"args": {"required": ["a"]}}},
        {"allOf": [{"$ref": "#/$defs/args"}], "required": ["b"], "$defs": {"args": {"required": ["a"]}}},
    ),
    (
        {"$schema": DRAFT_4, "properties": {"n": {"minimum": 0, "exclusiveMinimum": True, "maximum": 9}}},
        {"properties": {"n": {"exclusiveMinimum": 0, "maximum": 9}}},
    ),
    (
        {"properties": {"n": {"maximum": 9, "exclusiveMaximum": False}}},
        {"properties": {"n": {"maximum": 9}}},
    ),
    (
        {"properties": {"l": {"items": [{"type": "string"}, {}], "additionalItems": False}}},
        {"properties": {"l": {"prefixItems": [{"type": "string"}, {}], "items": False}}},
    ),
    (
        {"properties": {"a": {"type": "string", "required": True}, "b": {"required": False}}, "required": ["c"]},
        {"properties": {"a": {"type": "string"}, "b": {}}, "required": ["c", "a"]},
    ),
    (
        {
            "$schema": DRAFT_7,
            "properties": {"a": {"$ref": "#/definitions/d", "description": "kept", "minLength": 3}},
            "definitions": {"d": {"type": "string"}, "unused": {}},
        },
        {
            "properties": {"a": {"$ref": "#/$defs/d", "description": "kept"}},
            "$defs": {"d": {"type": "string"}},
        },
    ),
    (
        {"$schema": DRAFT_7, "dependencies": {"a": ["b"], "b": {"minProperties": 2}}},
        {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"b": {"minProperties": 2}}},
    ),
    (
        {
            "$schema": DRAFT_4,
            "id": "http://example.invalid/tool.json",
            "properties": {"a": {"$ref": "tool.json#/definitions/d"}, "b": {"$ref": "#mark"}, "id": {}},
            "definitions": {"d": {"type": "null"}, "m": {"id": "#mark", "type": "string"}},
        },
        {
            "properties": {"a": {"$ref": "#/$defs/d"}, "b": {"$ref": "#/$defs/mark"}, "id": {}},
            "$defs": {"d": {"type": "null"}, "mark": {"type": "string"}},
        },
    ),
    (
        {"$schema": DRAFT_7, "properties": {"l": {"prefixItems": "unknown in draft 7"}}},
        {"properties": {"l": {}}},
    ),
    (
        {"properties": {"node": {"$ref": "#/$defs/node"}}, "$defs": {"node": {"items": {"$ref": "#/$defs/node"}}}},
        {"properties": {"node": {"$ref": "#/$defs/node"}}, "$defs": {"node": {"items": {"$ref": "#/$defs/node"}}}},
    ),
    (
        {"properties": {"again": {"$ref": "#"}}},
        {
            "properties": {"again": {"$ref": "#/$defs/root"}},
            "$defs": {"root": {"properties": {"again": {"$ref": "#/$defs/root"}}}},
        },
    ),
    (
        {"properties": {"a": {"$ref": "#/x-shared/Foo"}}, "x-shared": {"Foo": {"type": "null"}}},
        {
            "properties": {"a": {"$ref": "#/$defs/Foo"}},
            "x-shared": {"Foo": {"type": "null"}},
            "$defs": {"Foo": {"type": "null"}},
        },
    ),
    (
        {"properties": {"a": {"type": "string", "x-mcp-header": "Leak"}, "x-mcp-header": {}}},
        {"properties": {"a": {"type": "string"}, "x-mcp-header": {}}},
    ),
    (
        {"properties": {"a": {"enum": [{"$ref": "data", "definitions": 1}], "default": {"required": True}}}},
        {"properties": {"a": {"enum": [{"$ref": "data", "definitions": 1}], "default": {"required": True}}}},
    ),
    ({"properties": {"a": True, "b": {"default": None}}}, {"properties": {"a": True, "b": {"default": None}}}),
]


def test_every_spelling_becomes_one_flat_object_schema() -> None:
    for parameters, expected in SPELLINGS:
        assert shown(parameters) == {"type": "object", "properties": {}, **expected}


def test_adapting_what_is_shown_changes_nothing_of_what_is_judged() -> None:
    tool = built({"$schema": DRAFT_4, "properties": {"n": {"minimum": 0, "exclusiveMinimum": True}}, "required": ["n"]})
    assert tool.judge('{"n": 0.1}').text == '{"n": 0.1}'
    assert tool.judge('{"n": 0}').problems == ("/n: does not meet `exclusiveMinimum`",)
    assert tool.judge("{}").text is None


def test_a_definition_is_shown_with_name_description_and_schema_only() -> None:
    tool = built({}, "do.it")
    assert tool.definition == {
        "name": tool.exported,
        "description": "The host's tool do.it.",
        "inputSchema": {"type": "object", "properties": {}},
    }


def test_properties_that_the_harness_would_strip_travel_under_another_name_and_come_back() -> None:
    tool = built(
        {
            "type": "object",
            "properties": {"toolAction": {"type": "string"}, "toolSummary": {"type": "number"}, "toolAction_": {}},
            "required": ["toolAction"],
            "additionalProperties": False,
        }
    )
    schema = tool.definition["inputSchema"]
    assert set(schema["properties"]) == {"toolAction__", "toolSummary_", "toolAction_"}
    assert schema["required"] == ["toolAction__"]
    judged = tool.judge(
        '{ "toolSummary_": 1.10000000000000000000000000001, "toolAction__": "\\u0041", "toolAction_": 1 }'
    )
    assert judged.text == '{"toolSummary":1.10000000000000000000000000001,"toolAction":"\\u0041","toolAction_":1}'
    assert tool.judge('{"toolAction": "sent by an agent that strips nothing"}').text is not None
    assert tool.judge('{"toolAction": "a", "toolAction__": "b"}').text is None
    assert tool.judge('{"toolAction_": 1}').problems == ("/: the property toolAction is missing (`required`)",)


def test_renaming_follows_the_argument_object_and_leaves_others_alone() -> None:
    schema = shown(
        {
            "allOf": [{"$ref": "#/$defs/base"}],
            "if": {"required": ["toolAction"]},
            "dependentRequired": {"toolAction": ["x"]},
            "$defs": {"base": {"properties": {"toolAction": {"$ref": "#/$defs/base"}}, "required": ["toolAction"]}},
        }
    )
    assert schema["allOf"] == [{"$ref": "#/$defs/base_arguments"}]
    assert schema["if"] == {"required": ["toolAction_"]}
    assert schema["dependentRequired"] == {"toolAction_": ["x"]}
    assert schema["$defs"]["base_arguments"]["properties"] == {"toolAction_": {"$ref": "#/$defs/base"}}
    assert schema["$defs"]["base"]["properties"] == {"toolAction": {"$ref": "#/$defs/base"}}
