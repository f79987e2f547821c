"""What may be shown of an agent's stderr.

Owns: :class:`Tail`, the last bytes of a stream, and :func:`redact`. The text is for a person who looks for a fault
(`doctor`); it never goes into an error or a log.
"""

import re
from typing import Final

_HIDDEN: Final = "[hidden]"
# Every repetition that may begin anywhere has a bound: the text is the agent's, and without one a tail of one letter
# takes half a minute.
_SECRETS: Final = (
    # the values of query parameters and fragments: sign-in links carry codes and states there
    (re.compile(r"(\bhttps?://[^\s?#\"'<>]{0,2048})[?#][^\s\"'<>]*"), rf"\1?{_HIDDEN}"),
    (re.compile(r"(\bhttps?://)[^/\s@\"'<>]+@"), rf"\1{_HIDDEN}@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}"), rf"\1 {_HIDDEN}"),
    (
        re.compile(
            r"(?i)((?:token|secret|password|passwd|api[_-]?key|apikey|authorization|cookie|credential)[\w.-]{0,64}"
            r"[\"']?\s{0,8}[:=]\s{0,8})(\"[^\"]*\"|'[^']*'|\S+)"
        ),
        rf"\1{_HIDDEN}",
    ),
    (re.compile(r"\b(?:AIza|ya29\.|sk-|gh[pousr]_|xox[abp]-|eyJ)[\w.-]{8,}"), _HIDDEN),
    (re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,255}"), _HIDDEN),
    # anything long without a break is more likely a key than a word; paths have their breaks
    (re.compile(r"(?<![\w/\\.-])(?=[\w+=-]{0,256}\d)[\w+=-]{32,}"), _HIDDEN),
)


def redact(text: str) -> str:
    """Text with everything that looks like a secret, a sign-in link's code or an address replaced."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


class Tail:
    """The last ``limit`` bytes of a stream; the rest is dropped as it comes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self._cut = False

    def add(self, data: bytes) -> None:
        """Take more of the stream."""
        self._data += data[-self._limit :]
        if len(self._data) > self._limit:
            del self._data[: len(self._data) - self._limit]
            self._cut = True
        self._cut = self._cut or len(data) > self._limit

    def text(self) -> str:
        """What is kept, redacted. A line that lost its beginning is left out: half a secret looks like none."""
        data = bytes(self._data)
        if self._cut:
            data = data.partition(b"\n")[2]
        return redact(data.decode("utf-8", "replace"))
