"""Halves of surrogate pairs, which JSON text and Python strings may hold and UTF-8 may not."""

from typing import Any


def mended(value: Any) -> Any:
    """The same JSON value with every text fit for UTF-8: pairs become the character they stand for, a half U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {mended(key): mended(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mended(item) for item in value]
    return value
