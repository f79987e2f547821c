"""The page, the schema and the program say the same."""

import json
import re
from importlib import resources
from pathlib import Path

import pytest
from helpers.sidecar import check

from antigravity_acp.limits import MAX_FRAME_BYTES, SIDECAR_REQUESTS, SIDECAR_UNREAD_NOTICES, SIDECAR_WINDOW
from antigravity_acp.sidecar.frames import PROTOCOL, schema
from antigravity_acp.sidecar.server import Sidecar

PAGE = (Path(__file__).parents[2] / "docs" / "sidecar.md").read_text(encoding="utf-8")
EXAMPLES = [
    (side, line)
    for side, body in re.findall(r"^```json (\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line in body.splitlines()
]


def methods(side: str) -> set[str]:
    frames = schema()["definitions"][side]["anyOf"]
    return {frame["properties"]["method"]["const"] for frame in frames if "method" in frame["properties"]}


@pytest.mark.parametrize(("side", "line"), EXAMPLES)
def test_an_example_is_a_valid_frame(side: str, line: str) -> None:
    frame = json.loads(line)
    check(side, frame)
    asked = {one.get("id"): one["method"] for _, text in EXAMPLES if "method" in (one := json.loads(text))}
    if "result" in frame:
        check(f"{asked[frame['id']].replace('/', '.')}.result", frame["result"])


def test_every_method_has_an_example() -> None:
    shown = {(side, json.loads(line).get("method")) for side, line in EXAMPLES}
    assert {("host", name) for name in methods("host")} | {("sidecar", name) for name in methods("sidecar")} <= shown


async def test_the_schema_and_the_program_know_the_same_methods() -> None:
    one = Sidecar()
    assert {*one._requests, *one._notifications, "shutdown"} == methods("host")


def test_numbers_on_the_page_are_those_of_the_program() -> None:
    assert f"`protocol` is {PROTOCOL}." in PAGE
    assert f"at most {MAX_FRAME_BYTES // 2**20} MiB" in PAGE
    assert f"at most {SIDECAR_WINDOW} chunks" in PAGE
    assert f"more than {SIDECAR_REQUESTS} requests" in PAGE
    assert f"beyond\n{SIDECAR_UNREAD_NOTICES} are dropped" in PAGE


def test_the_schema_lies_in_the_package() -> None:
    found = resources.files("antigravity_acp.sidecar").joinpath("frames.json")
    assert json.loads(found.read_text(encoding="utf-8")) == schema()
