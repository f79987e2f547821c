"""A catalogue that an agent could not take is refused before anything is started, with the tool's name."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from antigravity_acp.bridge import Catalogue
from antigravity_acp.contract import LlmError, ToolSchema
from antigravity_acp.limits import MAX_TOOL_BYTES, MAX_TOOLS

BUDGET = 48


def tool(name: str = "broken", **parameters: Any) -> ToolSchema:
    return ToolSchema(name, "", parameters)


def refusal(*tools: ToolSchema) -> str:
    with pytest.raises(LlmError) as caught:
        Catalogue.build(tools, name_budget=BUDGET)
    assert caught.value.code == "ACP_TOOL_CATALOG_INVALID"
    return caught.value.message


@pytest.mark.requirement("A-042")
def test_one_tool_more_than_allowed_is_refused() -> None:
    tools = [tool(f"tool_{index}") for index in range(MAX_TOOLS + 1)]
    assert len(Catalogue.build(tools[:-1], name_budget=BUDGET).exported_names) == MAX_TOOLS == 256
    assert "257 tools" in refusal(*tools)


@pytest.mark.requirement("A-042")
def test_a_definition_over_128_kib_is_refused_and_one_of_exactly_that_size_is_not() -> None:
    frame = len(json.dumps({"description": "", "name": "big", "parameters": {}}, separators=(",", ":")))
    largest = "x" * (MAX_TOOL_BYTES - frame)
    Catalogue.build([ToolSchema("big", largest, {})], name_budget=BUDGET)
    message = refusal(tool("fine"), ToolSchema("big", largest + "x", {}))
    assert "'big'" in message
    assert "131073 bytes" in message


def test_a_definition_is_measured_in_bytes_and_with_its_parameters() -> None:
    assert "bytes" in refusal(tool("umlauts", description="ü" * (MAX_TOOL_BYTES // 2)))


@pytest.mark.requirement("A-042")
def test_a_name_that_is_used_twice_is_refused() -> None:
    assert "'twin' cannot be exported: its name is used twice" in refusal(tool("twin"), tool("other"), tool("twin"))
    assert "no name" in refusal(tool(""))


@pytest.fixture
def contacted() -> Iterator[tuple[int, list[bytes]]]:
    """A local HTTP port that records every connection."""
    seen: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    ended = threading.Event()

    def accept() -> None:
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                seen.append(connection.recv(1000))
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")

    thread = threading.Thread(target=accept)
    thread.start()
    yield listener.getsockname()[1], seen
    ended.set()
    thread.join()
    listener.close()


PLACES: list[Any] = [
    lambda ref: {"properties": {"a": {"$ref": ref}}},
    lambda ref: {"$ref": ref},
    lambda ref: {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"$ref": ref}}},
    lambda ref: {"$schema": ref},
    lambda ref: {"$id": ref, "properties": {"a": {"$ref": "other.json"}}},
    lambda ref: {"$defs": {"unused": {"$ref": ref}}},
    lambda ref: {"properties": {"a": {"$dynamicRef": ref}}},
]


@pytest.mark.requirement("A-044")
def test_a_remote_reference_is_refused_and_nothing_is_fetched(contacted: tuple[int, list[bytes]]) -> None:
    port, seen = contacted
    for place in PLACES:
        parameters = place(f"http://127.0.0.1:{port}/schema.json")
        reason = refusal(tool("remote", **parameters))
        assert "'remote'" in reason, parameters
        assert str(port) not in reason
    with socket.create_connection(("127.0.0.1", port)) as probe:
        probe.sendall(b"probe")
        probe.recv(1000)
    assert seen == [b"probe"]


@pytest.mark.requirement("A-044")
def test_a_file_reference_is_refused_and_its_content_stays_out_of_the_message(tmp_path: Path) -> None:
    secret = tmp_path / "schema.json"
    secret.write_text('{"const": "top-secret"}', encoding="utf-8")
    for reference in (secret.as_uri(), str(secret), "//" + str(secret)):
        message = refusal(tool(properties={"a": {"$ref": reference}}))
        assert "top-secret" not in message
        assert str(tmp_path) not in message


UNUSABLE: list[tuple[dict[Any, Any], str]] = [
    ({"properties": {"a": {"type": "any"}}}, "/properties/a/type"),
    ({"properties": {"a": {"pattern": "("}}}, "/properties/a/pattern"),
    ({"properties": {"a": {"pattern": "^(?!x)"}}}, "no look-around"),
    ({"properties": {"a": {"pattern": r"(a)\1"}}}, "no back-reference"),
    ({"properties": {"a": {"$ref": "#/$defs/nowhere"}}}, "leads outside the schema or to nothing"),
    ({"$ref": "#"}, "refers only to itself"),
    ({"type": "string"}, "do not describe an object"),
    ({"type": "array", "items": {}}, "do not describe an object"),
    ({"$ref": "#/$defs/n", "$defs": {"n": False}}, "allow no arguments"),
    ({"$schema": "http://json-schema.org/draft-03/schema#"}, "`$schema` is not one of"),
    ({"$schema": 7}, "`$schema` is not one of"),
    ({"enum": [float("nan")]}, "NaN"),
    ({"enum": [10**6000]}, "beyond all bounds"),
    ({"enum": ["\ud800"]}, "surrogate"),
    ({"enum": [object()]}, "not JSON"),
    ({"properties": {1: {}}}, "a key that is not a text"),
]


@pytest.mark.requirement("A-044")
def test_a_schema_that_cannot_be_used_is_named_with_its_reason() -> None:
    for parameters, reason in UNUSABLE:
        message = refusal(tool("fine"), ToolSchema("culprit", "", parameters))
        assert "'culprit'" in message
        assert reason in message


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


def doubling(levels: int) -> dict[str, Any]:
    chain = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(levels)}
    return {"$defs": {**chain, f"d{levels}": {"type": "object"}}, "allOf": [{"$ref": "#/$defs/d0"}]}


def chained(links: int) -> dict[str, Any]:
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(links)}
    return {"$defs": {**chain, f"d{links}": {"type": "object"}}, "$ref": "#/$defs/d0"}


@pytest.mark.requirement("A-044")
@pytest.mark.timeout(10)
def test_schemas_made_to_exhaust_a_validator_are_refused_at_once() -> None:
    Catalogue.build([ToolSchema("deep", "", nested(90))], name_budget=BUDGET)
    assert "levels deep" in refusal(ToolSchema("deep", "", nested(5_000)))
    Catalogue.build([ToolSchema("double", "", doubling(10))], name_budget=BUDGET)
    assert "would not end" in refusal(ToolSchema("double", "", doubling(100)))
    assert "too often" in refusal(ToolSchema("chain", "", chained(3_500)))


def test_equal_catalogues_and_only_those_have_equal_digests() -> None:
    one = tool("one", type="object", properties={"a": {"type": "string"}, "b": {}})
    same = tool("one", properties={"b": {}, "a": {"type": "string"}}, type="object")
    two = tool("two")
    build = lambda *tools: Catalogue.build(tools, name_budget=BUDGET).digest  # noqa: E731 - three uses below
    assert build(one, two) == build(two, same) == Catalogue.digest_of([same, two])
    others = [
        (one,),
        (one, two, tool("three")),
        (ToolSchema("one", "x", one.parameters), two),
        (tool("one", type="object", properties={"a": {"type": "number"}, "b": {}}), two),
        (tool("one", properties={"a": {"type": "string"}, "b": {}}), two),
    ]
    assert len({build(one, two), *(build(*other) for other in others)}) == len(others) + 1


def test_building_leaves_the_hosts_definitions_as_they_are() -> None:
    parameters = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {"a": {"required": True, "minimum": 1, "exclusiveMinimum": True}, "toolAction": {}},
        "definitions": {"x": {"id": "#x"}},
    }
    before = json.dumps(parameters)
    catalogue = Catalogue.build([ToolSchema("kept", "", parameters)], name_budget=BUDGET)
    catalogue.definitions()[0]["inputSchema"]["properties"].clear()
    assert json.dumps(parameters) == before
