"""Files that a running process appends lines to, read while it writes."""

import json
from pathlib import Path
from typing import Any


def finished_lines(path: Path) -> list[str]:
    """The lines that are whole; the one that is being written has no end yet and is left out. ``[]`` without a file."""
    if not path.exists():
        return []
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def json_lines(path: Path) -> list[Any]:
    """The whole lines, each a JSON value."""
    return [json.loads(line) for line in finished_lines(path)]
