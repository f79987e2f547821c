"""``$'…'``: the escapes of ANSI-C quoting as bash decodes them.

Owns: the table and the decoder. Raises ``BrokenError`` when the closing quote is missing.
"""

import re

from .budget import BrokenError

_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
}
_DIGITS = {
    "x": re.compile(r"[0-9A-Fa-f]{1,2}"),
    "u": re.compile(r"[0-9A-Fa-f]{1,4}"),
    "U": re.compile(r"[0-9A-Fa-f]{1,8}"),
}
_BRACED = re.compile(r"\{([0-9A-Fa-f]*)\}")
_OCTAL = re.compile(r"[0-7]{1,3}")
_RUN = re.compile(r"[^\\']+")


def decode(text: str, start: int) -> tuple[str, int]:
    """The value of the quotation whose first character is at ``start``, and the place after its closing quote.

    A zero character ends the value, as in bash. Bytes above 127 are read as Latin-1: such a value is never ASCII.
    """
    value: list[str] = []
    ended = False
    i = start
    while i < len(text):
        run = _RUN.match(text, i)
        if run:
            piece, i = run.group(), run.end()
        elif text[i] == "'":
            return "".join(value), i + 1
        else:
            piece, i = _escape(text, i + 1)
        ended = ended or piece == "\0"
        if not ended:
            value.append(piece)
    raise BrokenError("a quote is not closed")


def _escape(text: str, i: int) -> tuple[str, int]:
    char = text[i : i + 1]
    if char in _SIMPLE:
        return _SIMPLE[char], i + 1
    if char in _DIGITS:
        return _coded(text, i, char)
    octal = _OCTAL.match(text, i)
    if octal:
        return chr(int(octal.group(), 8) & 0xFF), octal.end()
    if char == "c" and i + 1 < len(text):
        return chr(ord(text[i + 1].upper()) & 0x1F), i + 2
    return "\\" + char, i + 1


def _coded(text: str, i: int, char: str) -> tuple[str, int]:
    braced = _BRACED.match(text, i + 1) if char == "x" else None
    digits = _DIGITS[char].match(text, i + 1)
    if braced and braced.group(1):
        return chr(int(braced.group(1)[-2:], 16)), braced.end()
    if not digits:
        return "\\" + char, i + 1
    code = int(digits.group(), 16)
    return (chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"), digits.end()
