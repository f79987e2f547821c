"""Google's real harness with an exported catalogue of hard definitions.

It loses a definition that it cannot take without a word, and dies one turn later, so each turn here calls another of
them, and the session must live through all of them.
"""

from pathlib import Path

import pytest
from helpers.bridge import answer, gathered, opened
from helpers.engine_peer import engine

from antigravity_acp.contract import ToolSchema

TOOLS = [
    ToolSchema("plain", "Takes anything.", {}),
    ToolSchema(
        "old_draft",
        "Written for draft 4.",
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "id": "http://example.invalid/old.json",
            "properties": {
                "n": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
                "l": {"items": [{"$ref": "#/definitions/text"}], "additionalItems": False},
            },
            "required": ["n"],
            "definitions": {"text": {"type": "string"}},
        },
    ),
    ToolSchema("draft_three_habit", "", {"properties": {"path": {"type": "string", "required": True}}}),
    ToolSchema(
        "own_words",
        "Has properties that the harness takes for its own.",
        {
            "type": "object",
            "properties": {"toolAction": {"type": "string"}, "toolSummary": {"type": "number"}},
            "required": ["toolAction", "toolSummary"],
            "additionalProperties": False,
        },
    ),
    ToolSchema("any_root", "", {"type": ["object", "null"], "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
    ToolSchema(
        "tree",
        "Recursive.",
        {"$ref": "#/$defs/node", "$defs": {"node": {"properties": {"below": {"$ref": "#/$defs/node"}}}}},
    ),
    ToolSchema("with a very long name " * 9, "", {"properties": {"t": True, "n": {"default": None}}, "x-null": None}),
]
SCRIPT = """
rules:
  - when: {user: plain, round: 0}
    calls: [{name: plain, arguments: {a: [1, null, "ü"]}}]
  - when: {user: wrong, round: 0}
    calls: [{name: old_draft, arguments: {n: 0}}]
  - when: {user: old, round: 0}
    calls: [{name: old_draft, arguments: {n: 0.5, l: [x]}}]
  - when: {user: habit, round: 0}
    calls: [{name: draft_three_habit, arguments: {path: p}}]
  - when: {user: own, round: 0}
    calls: [{name: own_words, arguments: {toolAction_: mine, toolSummary_: 2, toolAction: its, toolSummary: its}}]
  - when: {user: root, round: 0}
    calls: [{name: any_root, arguments: {b: 1}}]
  - when: {user: tree, round: 0}
    calls: [{name: tree, arguments: {below: {below: {}}}}]
  - text: "Result: {{result}}"
"""
#: Prompt, the tool that the host is asked for, and its arguments.
TURNS = [
    ("plain", "plain", '{"a":[1,null,"ü"]}'),
    ("old", "old_draft", '{"l":["x"],"n":0.5}'),
    ("habit", "draft_three_habit", '{"path":"p"}'),
    ("own", "own_words", '{"toolAction":"mine","toolSummary":2}'),
    ("root", "any_root", '{"b":1}'),
    ("tree", "tree", '{"below":{"below":{}}}'),
]


@pytest.mark.requirement("A-009", "A-042", "A-043", "A-044")
async def test_a_session_of_the_real_harness_lives_through_every_hard_definition(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    async with opened(*TOOLS) as (bridge, endpoint), engine(tmp_path, script=SCRIPT, env=env) as peer:
        await peer.initialize()
        headers = [{"name": name, "value": value} for name, value in endpoint.headers]
        server = {"type": "http", "name": endpoint.server_name, "url": endpoint.url, "headers": headers}
        session = await peer.new_session(server)
        for prompt, name, arguments in TURNS:
            turn = peer.prompt_soon(session, prompt)
            (call,) = await gathered(endpoint, 1)
            assert (call.name, call.arguments) == (name, arguments)
            assert answer(call, f"done {prompt}")
            assert (await turn)["stopReason"] == "end_turn"
            assert f"done {prompt}" in peer.text()
        assert endpoint.contacted

        assert (await peer.prompt(session, "wrong"))["stopReason"] == "end_turn"
        assert "/n: does not meet `exclusiveMinimum`" in peer.text()
        assert bridge.counters["calls"] == len(TURNS)

        prefix = f"mcp_{endpoint.server_name}_"
        declared = {tool["name"] for tool in peer.seen()[-1]["body"]["tools"][0]["functionDeclarations"]}
        assert {prefix + name for name in endpoint.exported_names} <= declared
