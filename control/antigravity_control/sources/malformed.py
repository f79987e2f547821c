"""Why a settings file is no JSON or no YAML, in words that help to mend it.

Owns: the wording: line and column, what was expected there, another encoding, and YAML where JSON is wanted.
Never: shows a part of the file.
"""

import json
import re
from typing import Any, Final

_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
#: A first line that YAML has and JSON has not.
_YAML: Final = re.compile(r"\s*(?:#[^\n]*\n\s*)*(?:---\s|[\w-]+:(?:\s|$))")


def why_no_json(raw: bytes, error: Exception) -> str:
    """The reason, as the end of "the file …".

    :param error: what decoding or parsing ``raw`` raised.
    """
    if isinstance(error, UnicodeDecodeError):
        if raw[:2] in _UTF_16:
            return "is not JSON: its text is UTF-16; save it as UTF-8"
        return f"is not JSON: its byte {error.start + 1} is no UTF-8"
    if isinstance(error, json.JSONDecodeError):
        if _YAML.match(error.doc):
            return "is not JSON: it looks like YAML"
        # The texts of the parser are fixed: they hold nothing of the document.
        what = error.msg[:1].lower() + error.msg[1:]
        return f"is not JSON: line {error.lineno}, column {error.colno}: {what}"
    if isinstance(error, RecursionError):
        return "is not JSON: it is nested too deep"
    return "is not JSON: it holds a number that is too long"


def why_no_yaml(error: Exception) -> str:
    """The same for YAML; ``error`` is what PyYAML raised."""
    mark: Any = getattr(error, "problem_mark", None)
    line, column = getattr(mark, "line", None), getattr(mark, "column", None)
    if isinstance(line, int) and isinstance(column, int):
        return f"is not YAML: line {line + 1}, column {column + 1}"
    return "is not YAML: it is nested too deep" if isinstance(error, RecursionError) else "is not YAML"
