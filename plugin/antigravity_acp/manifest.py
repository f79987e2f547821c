"""The plugin's manifest: id, route, default model and the JSON Schema of its settings.

Owns: finding and reading ``manifest.json``. The file stands at the root of the repository; the wheel carries it inside
the package. Everything that names the plugin (entry point, host, DSH bundle, docs) reads it from here.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """What the manifest says. ``settings`` is a draft-07 JSON Schema with a title and a description for every field."""

    id: str
    name: str
    version: str
    description: str
    entry_point: str
    provider: str
    default_model: str
    hosts: list[dict[str, str]]
    settings: dict[str, Any]


@cache
def manifest() -> Manifest:
    """The manifest of this installation.

    :raises FileNotFoundError: when the installation is incomplete.
    """
    here = Path(__file__).resolve().parent
    for path in (here / "manifest.json", here.parents[1] / "manifest.json"):
        if path.is_file():
            return msgspec.convert(json.loads(path.read_text(encoding="utf-8")), Manifest)
    raise FileNotFoundError("manifest.json is missing from this installation of dsh-antigravity-acp; install it again.")
