"""``echo`` and ``printf``: the text that their arguments come to.

Owns: their flags, escapes and conversions. Pure.
"""

import re

from ..text.ansi_c import decode
from ..text.budget import BrokenError

_LIMIT = 8_192
_ECHO_FLAGS = re.compile(r"-[neE]+")
_FORMAT = re.compile(r"%(?:%|[-+ 0#]*\d*[sbq])")


def echoed(texts: list[str]) -> str:
    """What ``echo`` prints."""
    flags = ""
    while texts and _ECHO_FLAGS.fullmatch(texts[0]):
        flags += texts[0]
        texts = texts[1:]
    text = " ".join(texts)
    return (_escaped(text) if "e" in flags else text) + ("" if "n" in flags else "\n")


def formatted(texts: list[str]) -> str | None:
    """What ``printf`` prints, None for a format that is not modelled."""
    if texts[:1] == ["--"]:
        texts = texts[1:]
    if not texts or texts[0].startswith("-"):
        return None
    form, arguments = _escaped(texts[0]), texts[1:]
    places = [match for match in _FORMAT.finditer(form) if match.group() != "%%"]
    if "%" in _FORMAT.sub("", form):
        return None
    rounds = max(1, -(-len(arguments) // len(places))) if places else 1
    values = iter(arguments)
    result = "".join(
        _FORMAT.sub(lambda match: "%" if match.group() == "%%" else next(values, ""), form)
        for _ in range(min(rounds, 64))
    )
    return result if len(result) <= _LIMIT else None


def _escaped(text: str) -> str:
    try:
        return decode(text.replace("'", "\\'") + "'", 0)[0]
    except BrokenError:
        return text
