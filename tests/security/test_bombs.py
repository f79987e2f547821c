"""Small inputs with huge consequences: schemas that grow when they are written out, patterns that compile for ever."""

import asyncio
import json
import time
from itertools import islice, product
from pathlib import Path

import pytest

from antigravity_acp.bridge import Catalogue
from antigravity_acp.contract import AbortController, LlmError, ToolSchema
from antigravity_acp.host import ToolContext, Workspace
from antigravity_acp.host.tools.search import Search


def spellings(name: str, count: int) -> list[str]:
    """References to one definition, each written in another way."""
    choices = product(*((char, f"%{ord(char):02X}") for char in name))
    return ["#/$defs/" + "".join(chosen) for chosen in islice(choices, count)]


SHARED = {
    "many schemas": {"properties": {f"p{index}": {"type": "string"} for index in range(1_200)}},
    "much data": {"enum": [f"{index:040d}" for index in range(1_000)]},
}


@pytest.mark.parametrize("shared", SHARED.values(), ids=SHARED)
def test_a_schema_that_grows_when_it_is_written_out_is_refused_at_once(shared: dict[str, object]) -> None:
    references = {f"q{index}": {"$ref": one} for index, one in enumerate(spellings("abcdefghijkl", 1_000))}
    schema = {"type": "object", "properties": references, "$defs": {"abcdefghijkl": shared}}
    assert len(json.dumps(schema)) < 120_000
    began = time.monotonic()
    with pytest.raises(LlmError, match="cannot be written out"):
        Catalogue.build([ToolSchema("bomb", "", schema)], name_budget=40)
    assert time.monotonic() - began < 10  # it took 25 s and 3 GB


async def test_a_pattern_that_compiles_for_seconds_does_not_stop_the_host(tmp_path: Path) -> None:
    context = ToolContext(workspace=Workspace(tmp_path), signal=AbortController().signal)
    began = time.monotonic()
    search = asyncio.create_task(Search().run({"pattern": "a|" * 500_000}, context))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert time.monotonic() - began < 2  # compiled here it took 7 s
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
