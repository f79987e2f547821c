"""Rules about folders, found by the components of a path.

Owns: :class:`PathIndex`, a tree of components. A rule covers its path and everything below it, on component
boundaries. Looking a path up costs its depth, however many rules there are.
"""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from ..language.grammar import Rule
from ..language.paths import Parts, Place, fold

_GLOB_LIMIT: Final = 4_096


class _Node:
    __slots__ = ("children", "rules", "some")

    def __init__(self, some: Rule) -> None:
        self.children: dict[str, _Node] = {}
        self.rules: dict[str | None, Rule] = {}
        self.some = some
        """One of the rules that end here or below."""


class PathIndex:
    """:param folded: compare without case."""

    def __init__(self, *, folded: bool = False) -> None:
        self._folded = folded
        self._root: _Node | None = None

    def __bool__(self) -> bool:
        return self._root is not None

    def add(self, place: Place, rule: Rule) -> None:
        """Let ``rule`` cover ``place``. The first rule of a path stays the one that is named."""
        node = self._root = self._root or _Node(rule)
        for part in self._parts(place.parts):
            node = node.children.setdefault(part, _Node(rule))
        node.rules.setdefault(place.drive, rule)

    def find(self, place: Place, *, any_drive: bool) -> Rule | None:
        """The rule that covers ``place``.

        :param any_drive: the drive does not matter; else a drive that rule and path both name has to be the same.
        """
        node = self._root
        for part in (*self._parts(place.parts), None):
            if node is None:
                return None
            rule = _on_drive(node, place.drive, any_drive=any_drive)
            if rule is not None:
                return rule
            node = node.children.get(part) if part is not None else None
        return None

    def below(self, place: Place) -> Rule | None:
        """A rule about something below ``place``, ``None`` when there is none."""
        node = self._root
        for part in self._parts(place.parts):
            node = node.children.get(part) if node is not None else None
        return next((child.some for child in node.children.values()), None) if node is not None else None

    def globbed(self, place: Place) -> Rule | None:
        """A rule that covers something that a path with pattern characters may stand for."""
        nodes = [self._root] if self._root is not None else []
        for part in self._parts(place.parts):
            found = next((rule for node in nodes for rule in node.rules.values()), None)
            if found is not None:
                return found
            nodes = [child for node in nodes for child in _matching(node, part)][:_GLOB_LIMIT]
        return next((rule for node in nodes for rule in node.rules.values()), None)

    def _parts(self, parts: Parts) -> Parts:
        return fold(parts) if self._folded else parts


def _on_drive(node: _Node, drive: str | None, *, any_drive: bool) -> Rule | None:
    if not node.rules:
        return None
    if any_drive or drive is None:
        return next(iter(node.rules.values()))
    return node.rules.get(drive) or node.rules.get(None)


def matched(place: Place, pattern: Place, *, folded: bool) -> bool:
    """Whether a path with pattern characters may stand for ``place``, for a folder above it, or for something below."""
    names, parts = (fold(each.parts) if folded else each.parts for each in (place, pattern))
    return all(_fits(name, part) for name, part in zip(names, parts, strict=False))


def _fits(name: str, pattern: str) -> bool:
    if name == pattern:
        return True
    # A dot at the beginning is matched by a dot only.
    return (
        any(char in pattern for char in "*?[")
        and (not name.startswith(".") or pattern.startswith("."))
        and fnmatchcase(name, pattern)
    )


def _matching(node: _Node, pattern: str) -> Iterator[_Node]:
    exact = node.children.get(pattern)
    if exact is not None:
        yield exact
    if any(char in pattern for char in "*?["):
        for name, child in node.children.items():
            if child is not exact and _fits(name, pattern):
                yield child
