"""``env -S``: its own way to cut a text into words, which is not the shell's.

Owns: quotes, escapes and ``${NAME}`` of that option (documented in the manual of GNU coreutils).
"""

import re

_ESCAPES = {"_": " ", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_VARIABLE = re.compile(r"\$\{[A-Za-z_]\w*\}")
_BLANK = " \t\n\v\f\r"


def split(text: str) -> list[tuple[str, bool]]:
    """The words, and of each whether its value is exact: one with a variable is not."""
    words: list[tuple[str, bool]] = []
    current, exact, inside = "", True, False
    quote = ""
    i = 0
    while i < len(text):
        char = text[i]
        if char in "'\"" and quote in {"", char}:
            quote, inside = ("" if quote else char), True
            i += 1
        elif char == "\\" and i + 1 < len(text):
            piece, ends = _escape(text[i + 1], quote)
            i += 2
            if ends == "stop":
                break
            if ends == "word" and inside:
                words.append((current, exact))
                current, exact, inside = "", True, False
            elif ends != "word":
                current, inside = current + piece, True
        elif char in _BLANK and not quote:
            if inside:
                words.append((current, exact))
            current, exact, inside = "", True, False
            i += 1
        elif char == "#" and not quote and not inside:
            break
        else:
            variable = _VARIABLE.match(text, i) if char == "$" and quote != "'" else None
            piece = variable.group() if variable else char
            exact = exact and variable is None
            current, inside = current + piece, True
            i += len(piece)
    if inside:
        words.append((current, exact))
    return words


def _escape(char: str, quote: str) -> tuple[str, str]:
    """The value of an escape and whether it ends the word or the whole text."""
    if quote == "'":
        return (char if char in "'\\" else "\\" + char), ""
    if char == "c" and not quote:
        return "", "stop"
    if char == "_" and not quote:
        return "", "word"
    return _ESCAPES.get(char, char), ""
