"""Rules against units: token prefixes and patterns.

Three questions with three answers: an allow needs certainty, a deny or ask takes the folded name and the best guess,
and what cannot be known may match. Pure.
"""

from collections.abc import Sequence

from .patterns import Pattern
from .programs.doors import SUBCOMMANDS
from .values.model import Unit, Word
from .values.names import plain


def matches_prefix(unit: Unit, tokens: Sequence[str], *, folded: bool = False) -> bool:
    """Whether ``tokens`` are the first words of ``unit``.

    For an allow every word has to be literal and equal as it stands, so that ``/tmp/cat`` is not ``cat``. ``folded``
    is for deny and ask: the command's name counts by its last component, and guesses count as well.
    """
    if not tokens or len(tokens) > len(unit.argv):
        return False
    if not folded:
        return all(word.literal and word.text == token for token, word in zip(tokens, unit.argv, strict=False))
    if not _first_matches(unit, tokens[0]):
        return False
    return any(_equal(tokens[1:], words) for words in (unit.argv[1:], _subcommand(unit)))


def may_match_prefix(unit: Unit, tokens: Sequence[str]) -> bool:
    """Whether ``unit`` could turn out to begin with ``tokens`` once its unknown words are known: a deny or ask rule
    that may match is asked about."""
    if not tokens or not unit.argv:
        return False
    for place, token in enumerate(tokens):
        if place >= len(unit.argv):
            return any(_open(word) for word in unit.argv)
        word = unit.argv[place]
        if _open(word):
            return True
        if not (_first_matches(unit, token) if place == 0 else plain(word.text) == token):
            return False
    return True


def matches_regex_tokens(unit: Unit, patterns: Sequence[Pattern], *, folded: bool = False) -> bool:
    """Whether each pattern matches the word at its place, all of it. Linear in the size of pattern and word."""
    if not patterns or len(patterns) > len(unit.argv):
        return False
    for place, (pattern, word) in enumerate(zip(patterns, unit.argv, strict=False)):
        if not folded:
            if not (word.literal and pattern.fullmatch(word.text)):
                return False
            continue
        names = {word.text, plain(word.text)} | ({unit.guess or ""} if place == 0 else set())
        if not any(pattern.fullmatch(name) for name in names):
            return False
    return True


def _equal(tokens: Sequence[str], words: Sequence[Word]) -> bool:
    return len(tokens) <= len(words) and all(
        word.known and plain(word.text) == token for token, word in zip(tokens, words, strict=False)
    )


def _subcommand(unit: Unit) -> Sequence[Word]:
    """The words from the subcommand on: ``git -C folder push`` is a ``git push`` to whoever denies that."""
    takes = SUBCOMMANDS.get(unit.guess or "")
    if takes is None:
        return ()
    place = 1
    while place < len(unit.argv) and unit.argv[place].text.startswith(("-", "+")):
        place += 2 if unit.argv[place].text in takes else 1
    return unit.argv[place:]


def _first_matches(unit: Unit, token: str) -> bool:
    return token in {unit.guess, unit.argv[0].text, plain(unit.argv[0].text)}


def _open(word: Word) -> bool:
    """Whether the word may still become another one, or several."""
    return not word.literal and (not word.known or any(piece.kind == "glob" for piece in word.pieces))
