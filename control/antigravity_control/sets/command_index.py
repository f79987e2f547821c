"""Rules about command lines, found by the words of a command.

Owns: :class:`CommandIndex`. Plain rules stand in trees of words, patterns are sorted by their first word: finding a
rule costs the length of the command, however many rules there are (patterns with an open first word are tried one by
one). Three answers: *allows* compares words as they stand and literal ones only; *restricts* (deny and ask) folds the
command's name and paths, takes guesses, and says ``maybe`` where an unknown word, or options in another spelling or
order, leave it open.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from ..language.grammar import Regex, Rule
from ..shell import Line, Unit, Word, matches_regex_tokens
from ..shell.values.names import plain
from .options import canonical, loose_words, options_of

_PLAIN_FIRST: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/")
Hit = tuple[Literal["yes", "maybe"], Rule]


class _Node:
    __slots__ = ("children", "loose", "rule", "some")

    def __init__(self, some: Rule) -> None:
        self.children: dict[str, _Node] = {}
        self.rule: Rule | None = None
        self.some = some
        self.loose: dict[frozenset[str], Rule] = {}
        """Rules of the loose tree that end here, by the options that they name."""


class CommandIndex:
    """The rules of one kind for one action."""

    def __init__(self) -> None:
        self.star: Rule | None = None
        self._lines: dict[str, Rule] = {}
        self._tree: dict[str, _Node] = {}
        self._folded: dict[str, _Node] = {}
        self._loose: dict[str, _Node] = {}
        self._patterns: dict[str, list[Rule]] = {}
        self._open_patterns: list[Rule] = []

    def __bool__(self) -> bool:
        return bool(self.star or self._lines or self._patterns or self._open_patterns)

    def add(self, rule: Rule) -> None:
        """Take in a rule of this kind and action."""
        if rule.parsed is None:
            self.star = self.star or rule
        elif isinstance(rule.parsed, Regex):
            first = rule.parsed.tokens[0].source
            if set(first) <= _PLAIN_FIRST:
                self._patterns.setdefault(first, []).append(rule)
            else:
                self._open_patterns.append(rule)
        elif isinstance(rule.parsed, tuple):
            self._lines.setdefault(rule.target.strip(), rule)
            _plant(self._tree, rule.parsed, rule)
            _plant(self._folded, [canonical(token) for token in rule.parsed], rule)
            words, options = loose_words(rule.parsed)
            if options or len(words) > 1:
                _plant(self._loose, words, rule, options)

    # -- allow --------------------------------------------------------------------------------------------------

    def line(self, text: str) -> Rule | None:
        """The rule that is the whole line, character by character."""
        return self._lines.get(text.strip())

    def pattern_over(self, text: str) -> Rule | None:
        """A pattern that matches the whole line as it is written."""
        first = text.split(maxsplit=1)[0] if text.strip() else ""
        for rule in (*self._patterns.get(first, []), *self._open_patterns):
            if isinstance(rule.parsed, Regex) and rule.parsed.covers(text.strip()):
                return rule
        return None

    def allows(self, unit: Unit) -> Rule | None:
        """The rule whose words are the first words of ``unit``, all literal and as they stand; ``*`` is not asked."""
        level: dict[str, _Node] = self._tree
        for word in unit.argv:
            node = level.get(word.text) if word.literal else None
            if node is None:
                break
            if node.rule is not None:
                return node.rule
            level = node.children
        for rule in self._candidates(unit.argv[:1]):
            if isinstance(rule.parsed, Regex) and matches_regex_tokens(unit, rule.parsed.tokens):
                return rule
        return None

    # -- deny and ask -------------------------------------------------------------------------------------------

    def restricts_line(self, line: Line) -> Hit | None:
        """``*``, a rule that is the whole line, or a pattern over it."""
        rule = self.star or self.line(line.text) or self.pattern_over(line.text)
        return ("yes", rule) if rule is not None else None

    def restricts(self, unit: Unit) -> Hit | None:
        """How the rules meet ``unit``: ``yes`` before ``maybe``."""
        best: Hit | None = None
        for hit in self._hits(unit):
            if hit[0] == "yes":
                return hit
            best = best or hit
        return best

    def _hits(self, unit: Unit) -> Iterator[Hit]:
        names = _names(unit)
        if not unit.argv:
            return
        for name in names:
            hit = _walk(self._folded, name, unit.argv)
            if hit is not None:
                yield hit
        for rule in self._candidates(unit.argv[:1], *names):
            hit = _pattern_hit(rule, unit)
            if hit is not None:
                yield hit
        for name in names:
            found = _loosely(self._loose.get(name), unit.argv[1:], name)
            if found is not None:
                yield "maybe", found

    def _candidates(self, first: Sequence[Word], *names: str) -> Iterable[Rule]:
        if not self._patterns:
            return self._open_patterns
        if any(_open(word) for word in first):
            # It may be any of the names: one of them speaks for all.
            return [*next(iter(self._patterns.values()))[:1], *self._open_patterns]
        wanted = dict.fromkeys((*(word.text for word in first), *names))
        return [*(rule for name in wanted for rule in self._patterns.get(name, ())), *self._open_patterns]


def _plant(tree: dict[str, _Node], words: Sequence[str], rule: Rule, options: frozenset[str] | None = None) -> None:
    node: _Node | None = None
    for word in words:
        level = tree if node is None else node.children
        node = level.get(word)
        if node is None:
            node = level[word] = _Node(rule)
    if node is None:
        return
    if options is None:
        node.rule = node.rule or rule
    else:
        node.loose.setdefault(options, rule)


def _names(unit: Unit) -> list[str]:
    """Every name that the command may go by."""
    if not unit.argv:
        return []
    text = unit.argv[0].text
    return list(dict.fromkeys(name for name in (unit.guess or "", text, plain(text), canonical(text)) if name))


def _open(word: Word) -> bool:
    """Whether the word may still become another one, or several."""
    return not word.literal and (not word.known or any(piece.kind == "glob" for piece in word.pieces))


def _walk(tree: dict[str, _Node], name: str, argv: Sequence[Word]) -> Hit | None:
    if _open(argv[0]):
        some = next(iter(tree.values()), None)
        return ("maybe", some.some) if some is not None else None
    node = tree.get(name)
    for word in (*argv[1:], None):
        if node is None:
            return None
        if node.rule is not None:
            return "yes", node.rule
        if word is None:
            # One of the words may stand for several.
            return ("maybe", node.some) if any(_open(each) for each in argv) else None
        if _open(word):
            return "maybe", node.some
        node = node.children.get(canonical(word.text))
    return None


def _pattern_hit(rule: Rule, unit: Unit) -> Hit | None:
    if not isinstance(rule.parsed, Regex):
        return None
    tokens = rule.parsed.tokens
    if matches_regex_tokens(unit, tokens, folded=True):
        return "yes", rule
    for place, pattern in enumerate(tokens):
        if place >= len(unit.argv):
            return ("maybe", rule) if any(_open(word) for word in unit.argv) else None
        word = unit.argv[place]
        if _open(word):
            return "maybe", rule
        spellings = {word.text, plain(word.text), *(_names(unit) if place == 0 else ())}
        if not any(pattern.fullmatch(each) for each in spellings):
            return None
    return None


def _loosely(node: _Node | None, words: Sequence[Word], name: str) -> Rule | None:
    """A rule whose words come in this order with only options between them, and whose options are all there."""
    if node is None:
        return None
    here = [node]
    has: frozenset[str] | None = None
    skips = False
    for word in (*words[:64], None):
        for each in here:
            if each.loose and has is None:
                has = options_of(name, [one.text for one in words])
            for wanted, rule in each.loose.items():
                if has is not None and wanted <= has:
                    return rule
        if word is None:
            return None
        if word.text.startswith("-"):
            skips = True
            continue
        following = [child for each in here if (child := each.children.get(canonical(word.text))) is not None]
        # The word after an option may be its value.
        here = [*following, *here] if skips else following
        skips = False
        if not here:
            return None
    return None
