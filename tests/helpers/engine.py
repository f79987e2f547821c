"""An adapter on the embedded engine: Google's real harness, driven by a scripted model."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from antigravity_acp.adapter import AntigravityAdapter
from antigravity_acp.settings import Settings

from .conversation import running


def engine_settings(
    folder: Path, rules: list[dict[str, Any]], *, arguments: Sequence[str] = (), **overrides: Any
) -> Settings:
    """Settings for the embedded engine with a script of these rules; what the model received goes to `model.jsonl`.

    :param arguments: further ones of the engine.
    """
    script = folder / "script.yaml"
    script.write_text(yaml.safe_dump({"models": ["scripted", "scripted-2"], "rules": rules}), encoding="utf-8")
    args = ["--script", str(script), "--script-log", str(folder / "model.jsonl"), *arguments]
    return Settings.from_mapping({"engine": "embedded", "args": args, **overrides})


@asynccontextmanager
async def engine(folder: Path, rules: list[dict[str, Any]], **overrides: Any) -> AsyncIterator[AntigravityAdapter]:
    """A running adapter on the engine."""
    async with running(engine_settings(folder, rules, **overrides)) as adapter:
        yield adapter
