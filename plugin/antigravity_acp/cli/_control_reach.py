"""What a rule reaches, so that one rule can be seen to cover another.

Owns: :class:`Reach`. The target of a rule is a sequence of parts, and a rule covers every target that begins with its
own: words of a command, components of a path, labels of a host from the top level down, a server and its tool; ``*``
is the empty sequence. Patterns are compared word by word, and only as far as that is sure: *covers* is never said of
rules of which one might be used without the other. Finding a cover costs the length of a target, however many rules
there are, and one step for each pattern with the same first word.
"""

import re
from collections.abc import Iterator
from typing import Final

from antigravity_control import Rule
from antigravity_control.language.grammar import McpTarget, Regex
from antigravity_control.language.hosts import Host
from antigravity_control.language.paths import Paths
from antigravity_control.sets.options import canonical
from antigravity_control.shell.values.names import fold_name

Key = tuple[str, ...]

#: Words of a pattern that every word matches.
ANY: Final = frozenset({".*", ".+", r"\S+", r"\S*", "(.*)", "(.+)"})
_PLAIN: Final = re.compile(r"[A-Za-z0-9_/-]+\Z")


class Reach:
    """The rules of one kind and action.

    :param paths: how paths of rules are read.
    :param loose: compare as deny and ask rules do: names of commands by their last component, tidied paths.
    """

    def __init__(self, paths: Paths, *, loose: bool) -> None:
        self._paths = paths
        self._loose = loose
        self._rules: dict[Key, Rule] = {}
        self._patterns: dict[str, list[Rule]] = {}

    def add(self, rule: Rule) -> None:
        """Take a rule in; of rules with the same reach the first stays."""
        if isinstance(rule.parsed, Regex) and len(_plain_words(rule.parsed)) < len(rule.parsed.tokens):
            self._patterns.setdefault(plain_first(rule.parsed), []).append(rule)
        else:
            self._rules.setdefault(self._key(rule), rule)

    def covering(self, rule: Rule) -> Rule | None:
        """A rule in here, not ``rule``, whose reach holds all of ``rule``'s, the widest first. Of two with the same
        reach the earlier one covers the later."""
        for key in self._keys(rule):
            for length in range(len(key) + 1):
                found = self._rules.get(key[:length])
                if found is rule:
                    break
                if found is not None:
                    return found
        return self._covering_pattern(rule)

    def _covering_pattern(self, rule: Rule) -> Rule | None:
        if not self._patterns:
            return None
        firsts = {key[0] for key in self._keys(rule) if key}
        for first in (*sorted(firsts), ""):
            later = False
            for pattern in self._patterns.get(first, ()):
                if pattern is rule:
                    later = True
                elif _pattern_covers(pattern, rule) and not (later and _pattern_covers(rule, pattern)):
                    return pattern
        return None

    def _keys(self, rule: Rule) -> Iterator[Key]:
        key = self._key(rule)
        yield key
        if self._loose and key and isinstance(rule.parsed, (tuple, Regex)):
            yield (fold_name(key[0]), *key[1:])

    def _key(self, rule: Rule) -> Key:
        parsed = rule.parsed
        if isinstance(parsed, Host):
            return (f"[{parsed.labels[0]}]",) if parsed.address else parsed.labels
        if isinstance(parsed, McpTarget):
            return (parsed.server,) if parsed.tool is None else (parsed.server, parsed.tool)
        if isinstance(parsed, str):
            places = self._paths.folder(parsed).lexical
            # No components at all would be `*`; an empty one stands for a missing drive.
            return (places[0].drive or "", *places[0].parts) if places else ("\0", parsed)
        words = _plain_words(parsed) if isinstance(parsed, Regex) else parsed or ()
        return tuple(canonical(word) for word in words) if self._loose else words


def plain_first(pattern: Regex) -> str:
    """The first word of a pattern when it is a word, else an empty text."""
    source = pattern.tokens[0].source
    return source if _PLAIN.match(source) else ""


def _plain_words(pattern: Regex) -> Key:
    """The words of a pattern before the first one that is more than a word."""
    words: list[str] = []
    for token in pattern.tokens:
        if not _PLAIN.match(token.source):
            break
        words.append(token.source)
    return tuple(words)


def _pattern_covers(pattern: Rule, rule: Rule) -> bool:
    wide = pattern.parsed.tokens if isinstance(pattern.parsed, Regex) else ()
    if isinstance(rule.parsed, Regex):
        mine = [token.source for token in rule.parsed.tokens]
        return len(wide) <= len(mine) and all(
            each.source in ANY or each.source == source for each, source in zip(wide, mine, strict=False)
        )
    words = rule.parsed if isinstance(rule.parsed, tuple) else ()
    return 0 < len(wide) <= len(words) and all(each.fullmatch(word) for each, word in zip(wide, words, strict=False))
