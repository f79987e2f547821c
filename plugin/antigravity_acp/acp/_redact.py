"""What may be shown of an agent's stderr, and of anything else that a person may pass on.

Owns: :class:`Tail`, the last bytes of a stream, :func:`redact` and :func:`hide_homes`. The text is for a person who
looks for a fault (`doctor`); it never goes into an error or a log.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

HIDDEN: Final = "[hidden]"
# Every repetition that may begin anywhere has a bound: the text is the agent's, and without one a tail of one letter
# takes half a minute.
_SECRETS: Final = (
    (re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.{0,16384}?(?:-----END|\Z)", re.DOTALL), HIDDEN),
    # the values of query parameters and fragments: sign-in links carry codes and states there
    (re.compile(r"(\b[a-z][a-z0-9+.-]{1,15}://[^\s?#\"'<>]{0,2048})[?#][^\s\"'<>]*", re.IGNORECASE), rf"\1?{HIDDEN}"),
    # a password may hold a slash or an @ although it should not
    (
        re.compile(r"(\b[a-z][a-z0-9+.-]{1,15}://)[^/\s:\"'<>]{0,256}:[^\s\"'<>]{0,1024}@", re.IGNORECASE),
        rf"\1{HIDDEN}@",
    ),
    (re.compile(r"(\b[a-z][a-z0-9+.-]{1,15}://)[^/\s\"'<>]{1,1024}@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}"), rf"\1 {HIDDEN}"),
    # whole headers: their schemes are many
    (
        re.compile(r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)([\"']?\s{0,8}[:=]\s{0,8})[^\r\n]+"),
        rf"\1\2{HIDDEN}",
    ),
    (
        re.compile(
            r"(?i)((?:token|secret|password|passwd|passphrase|api[_-]?key|apikey|[_-]key|credential)[\w.-]{0,64}"
            r"[\"']?\s{0,8}[:=]\s{0,8})(\"[^\"]*\"|'[^']*'|\S+)"
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?i)\b(code|state|nonce|code_verifier)(\s{0,4}[:=]\s{0,4})[^\s\"'&]{16,}"), rf"\1\2{HIDDEN}"),
    (
        re.compile(r"\b(?:AIza|ya29\.|sk-|gh[pousr]_|github_pat_|xox[abp]-|eyJ|GOCSPX-|AKIA|[14]//?0)[\w./+-]{8,}"),
        HIDDEN,
    ),
    (re.compile(r"[\w.+-]{1,64}(?:@|%40)[\w-]{1,64}\.[\w.-]{1,255}"), HIDDEN),
)
#: Anything long without a break is more likely a key than a word; paths have their breaks.
_GUESS: Final = re.compile(r"(?<![\w/\\.-])(?=[\w+=-]{0,256}\d)[\w+=-]{32,}")
#: Where systems keep the homes of people; what follows is a name.
_HOMES: Final = re.compile(r"(?:(?<![\w.])/(?:home|Users)/|\b[A-Za-z]:[\\/]{1,2}Users[\\/]{1,2})[^/\\\s\"'<>|:]{1,128}")


def redact(text: str, *, guess: bool = True) -> str:
    """Text with everything that looks like a secret, a sign-in link's code, an address or a home replaced.

    :param guess: also what is only long enough to be a secret; ids of models may be.
    """
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return hide_homes(_GUESS.sub(HIDDEN, text) if guess else text)


def hide_homes(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Text with the home directory of this user, and of any other, as ``~``: their paths hold names of people."""
    environment = os.environ if environ is None else environ
    own = {environment.get(name, "").rstrip("/\\") for name in ("HOME", "USERPROFILE")}
    for home in sorted(own, key=len, reverse=True):
        # "/" and "C:" are homes of services, and everything would lie in them.
        if len(Path(home).parts) > 1:
            for spelling in {home, home.replace("\\", "\\\\"), os.path.realpath(home)}:
                text = re.sub(rf"{re.escape(spelling)}(?![\w.-])", "~", text)
    return _HOMES.sub("~", text)


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
