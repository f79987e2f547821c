"""A text without the sequences that only change how a terminal shows it.

Owns: :func:`visible` and the way back from places in what is left to places in the text. Searches and differences are
coloured by the word, and a colour's last letter would look like the beginning of a longer word. Sequences that are
written as text, as JSON and programs write them, are taken out as well. Never: changes a text that has none.
"""

import re
from bisect import bisect_right
from typing import Final

#: CSI sequences (ECMA-48), their first byte as it is or as JSON, Python, C and shells write it.
_SEQUENCE: Final = re.compile(r"(?:(?:\x1b|\\{1,4}(?:u001[bB]|x1[bB]|033|e))\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]")
_SIGNS: Final = ("\x1b[", "\x9b", "001b[", "001B[", "x1b[", "x1B[", "033[", "\\e[")


class Visible:
    """What is left. :param text: without the sequences. :param spaced: with blanks in their place, as many."""

    def __init__(self, text: str, spaced: str, starts: list[int], removed: list[int]) -> None:
        self.text = text
        self.spaced = spaced
        # From `starts[i]` on, `removed[i]` characters of the whole text are not in this one.
        self._starts = starts
        self._removed = removed

    def place(self, at: int) -> int:
        """Where the character at a place, or the end, is in the whole text."""
        return at + self._removed[bisect_right(self._starts, at) - 1]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a piece that is not empty begins and ends in the whole text; sequences within it are a part of it."""
        return self.place(start), self.place(end - 1) + 1


def visible(text: str) -> Visible:
    """Take the sequences out. Linear."""
    pieces: list[str] = []
    starts, removed = [0], [0]
    at = length = 0
    if any(sign in text for sign in _SIGNS):
        for match in _SEQUENCE.finditer(text):
            pieces.append(text[at : match.start()])
            length += match.start() - at
            at = match.end()
            starts.append(length)
            removed.append(at - length)
    if not pieces:
        return Visible(text, text, starts, removed)
    spaced = _SEQUENCE.sub(lambda match: " " * (match.end() - match.start()), text)
    return Visible("".join([*pieces, text[at:]]), spaced, starts, removed)
