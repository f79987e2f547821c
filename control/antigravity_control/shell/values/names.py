"""Command names: lists of them, and folding them for comparison.

Owns: the one way a name is folded. Folding is for deny, ask and the floor; an allow compares the word as it stands.
"""

import unicodedata


def listed(*lines: str) -> frozenset[str]:
    """The words of some lines, for tables that are read by people."""
    return frozenset(word for line in lines for word in line.split())


_ENDINGS = (".exe", ".com", ".cmd", ".bat")


_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u17b4\u17b5")
"""Letters and signs that show nothing."""


def plain(text: str) -> str:
    """``text`` without characters that nobody sees (zero width, direction marks) and in the compatibility form."""
    if text.isascii():
        return text
    kept = "".join(char for char in text if unicodedata.category(char) not in {"Cf", "Mn"} and char not in _FILLERS)
    return unicodedata.normalize("NFKC", kept)


_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d"), "-")
_SLASHES = dict.fromkeys(map(ord, "\u2044\u2215\u29f8\uff0f"), "/")
_TILDES = dict.fromkeys(map(ord, "\uff5e\u223c\u02dc"), "~")
_WIDE = {code: chr(code - 0xFEE0) for code in range(0xFF10, 0xFF5B) if chr(code - 0xFEE0).isalnum()}


def visible(text: str) -> str:
    """``text`` as a person sees it: no invisible characters, one kind of blank, dash and slash, no wide letters.

    Quotes and operators stay what they are: a text must not become a command by looking like one.
    """
    if text.isascii():
        return text
    kept = (char for char in text if unicodedata.category(char) != "Cf" and char not in _FILLERS - {"\u2800"})
    spaced = "".join(" " if unicodedata.category(char)[0] == "Z" or char in "\x85\u2800" else char for char in kept)
    return spaced.translate(_DASHES | _SLASHES | _TILDES | _WIDE)


def fold_name(text: str) -> str:
    """The last component of a command name, without invisible characters and without a Windows ending."""
    if text.isascii() and "/" not in text and "." not in text:
        return text
    name = plain(text).rstrip("/").rsplit("/", 1)[-1]
    lowered = name.lower()
    for ending in _ENDINGS:
        if lowered.endswith(ending) and len(name) > len(ending):
            return lowered.removesuffix(ending)
    return name
