"""Secrets in base64, as clusters, mail and configuration files keep texts.

Owns: :func:`encoded`. A run of base64 that decodes to plain text is looked at like any other text; when it holds a
secret, the whole run is one. Once only: what is encoded twice is not found. Images and hashes do not begin with text,
so they cost next to nothing.
"""

import base64
import re
from collections.abc import Callable, Iterator
from typing import Final

from .spans import Finding

#: In lines, as `base64` and mail break it, the last one shorter; or in one.
_RUN: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])(?:"
    r"(?P<lines>(?:(?:[A-Za-z0-9+/]{76}|[A-Za-z0-9+/]{64})\r?\n){1,512}+)(?P<last>[A-Za-z0-9+/]{1,76}+={0,2})?"
    r"|(?P<one>[A-Za-z0-9+/_-]{24,65536}+={0,2}))"
)
#: Characters that are decoded first; more only when they are a text. A multiple of four.
_PROBE: Final = 24
_BINARY: Final = re.compile(rb"[^\t\n\r\x20-\x7e]")
_STANDARD: Final = str.maketrans("-_", "+/", "\r\n=")


def encoded(text: str, find: Callable[[str], list[Finding]]) -> Iterator[Finding]:
    """The runs that hold a secret. :param find: looks at a decoded text."""
    for run in _RUN.finditer(text):
        if _BINARY.search(_decoded(text[run.start() : run.start() + _PROBE])):
            continue
        group = "one" if run["one"] is not None else "lines"
        content, end = _decoded(run[group]), run.end(group)
        if run["last"] and not _BINARY.search(last := _decoded(run["last"])):
            # Else it is another word.
            content, end = content + last, run.end()
        if found := find(content.decode("utf-8", "replace")):
            yield Finding(found[0].kind, run.start(), end)


def _decoded(letters: str) -> bytes:
    letters = letters.translate(_STANDARD)
    # A last single character carries nothing.
    letters = letters[: len(letters) - (len(letters) % 4 == 1)]
    return base64.b64decode(letters + "=" * (-len(letters) % 4))
