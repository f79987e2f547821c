"""Rules, compiled once.

Owns: :class:`RuleSet`, the indexes of all rules by kind and action, and how rules about paths are placed: deny and ask
on the path as written and on the one it leads to, an allow on the latter alone. An allow that a link inside the
workspace would carry out of it is left out and reported: whoever can write there could turn the link.
Immutable after :meth:`RuleSet.compile`; the order of the rules does not matter.
"""

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ..language.actions import FILE_ACTIONS, LINE_ACTIONS, URL_ACTIONS, ActionName
from ..language.grammar import Rule, RuleFault
from ..language.paths import Links, Paths, Place, Spellings, is_windows
from ..language.scopes import Kind
from .command_index import CommandIndex
from .lookups import HostIndex, McpIndex
from .path_index import PathIndex

_WALK_LIMIT: Final = 20_000


@dataclass(frozen=True, slots=True)
class Roots:
    """The workspace folders, as written and as they resolve."""

    lexical: tuple[Place, ...]
    resolved: tuple[Place, ...]
    paths: tuple[Paths, ...]

    @classmethod
    def of(cls, folders: Sequence[str], home: str | None, folds: Callable[[str], bool] | None, links: Links) -> "Roots":
        """:raises ValueError: a folder is not an absolute path."""
        lexical: list[Place] = []
        resolved: list[Place] = []
        readers: list[Paths] = []
        for folder in folders:
            if not folder.startswith("/") and not is_windows(folder):
                raise ValueError("the workspace has to be an absolute path")
            reader = Paths(folder, home, folds)
            spelled = reader.read(folder, home=False, links=links)
            if not spelled.lexical:
                raise ValueError("the workspace is no path")
            lexical.extend(spelled.lexical)
            resolved.extend(spelled.resolved)
            readers.append(reader)
        return cls(tuple(lexical), tuple(resolved), tuple(readers))

    def holds(self, place: Place, *, folded: bool = False) -> bool:
        """Whether a resolved place lies in the workspace."""
        return any(place.within(root, folded=folded) for root in self.resolved)


class _PathRules:
    __slots__ = ("exact", "files", "folded", "star")

    def __init__(self) -> None:
        self.star: Rule | None = None
        self.exact = PathIndex()
        self.folded = PathIndex(folded=True)
        self.files: dict[Place, Rule] = {}

    def add(self, place: Place, rule: Rule) -> None:
        self.exact.add(place, rule)
        self.folded.add(place, rule)
        self.files.setdefault(place, rule)

    def of(self, spellings: Spellings) -> PathIndex:
        return self.folded if spellings.folded else self.exact


class RuleSet:
    """Every rule in force. ``faults`` holds what could not be put in force after it was read."""

    def __init__(self) -> None:
        self.rules: tuple[Rule, ...] = ()
        self.faults: tuple[RuleFault, ...] = ()
        self._lines: dict[tuple[Kind, ActionName], CommandIndex] = {}
        self._paths: dict[tuple[Kind, ActionName], _PathRules] = {}
        self._hosts: dict[tuple[Kind, ActionName], HostIndex] = {}
        self._mcp: dict[Kind, McpIndex] = {}

    @classmethod
    def compile(cls, rules: Iterable[Rule], roots: Roots, links: Links | None = None) -> "RuleSet":
        """Index ``rules``. Looks up where the paths of rules lead.

        :param links: remembers what was looked up.
        """
        made = cls()
        links = links if links is not None else Links()
        made.rules = tuple(sorted(rules, key=lambda rule: rule.order))
        faults: list[RuleFault] = []
        for rule in made.rules:
            key = (rule.kind, rule.action)
            if rule.action in LINE_ACTIONS:
                made._lines.setdefault(key, CommandIndex()).add(rule)
            elif rule.action in URL_ACTIONS:
                made._hosts.setdefault(key, HostIndex()).add(rule)
            elif rule.action in FILE_ACTIONS:
                fault = _place(made._paths.setdefault(key, _PathRules()), rule, roots, links)
                faults.extend([fault] if fault is not None else [])
            else:
                made._mcp.setdefault(rule.kind, McpIndex()).add(rule)
        made.faults = tuple(faults)
        return made

    def lines(self, kind: Kind, action: ActionName) -> CommandIndex | None:
        """The index of rules about command lines."""
        return self._lines.get((kind, action))

    def hosts(self, kind: Kind, action: ActionName) -> HostIndex | None:
        """The index of rules about hosts."""
        return self._hosts.get((kind, action))

    def mcp(self, kind: Kind) -> McpIndex | None:
        """The index of rules about tools of MCP servers."""
        return self._mcp.get(kind)

    def restricts_path(self, kind: Kind, action: ActionName, spellings: Spellings) -> Rule | None:
        """The deny or ask rule that covers the path in any of its spellings."""
        rules = self._paths.get((kind, action))
        if rules is None:
            return None
        index = rules.of(spellings)
        found = (index.find(place, any_drive=True) for place in spellings.every)
        return rules.star or next((rule for rule in found if rule is not None), None)

    def may_restrict_path(
        self, kind: Kind, action: ActionName, spellings: Spellings, *, recursive: bool, globbed: bool
    ) -> tuple[Rule, str] | None:
        """A deny or ask rule that may turn out to cover it, and why: a pattern, or a folder that is gone through."""
        rules = self._paths.get((kind, action))
        if rules is None or not rules.files:
            return None
        index = rules.of(spellings)
        for place in spellings.every:
            if globbed and (rule := index.globbed(place)) is not None:
                return rule, "the pattern may stand for a path"
            if recursive and (rule := index.below(place)) is not None:
                return rule, "it may go through a folder"
        return None

    def same_file(self, kind: Kind, action: ActionName, spellings: Spellings) -> tuple[Rule, bool] | None:
        """A rule about the same file by another name, and whether that is sure. Looks only where a file has several."""
        rules = self._paths.get((kind, action))
        if rules is None or spellings.identity is None:
            return None
        return _same_file(rules.files, spellings.identity)

    def allows_path(self, action: ActionName, spellings: Spellings) -> tuple[Rule | None, ...]:
        """For each place where the path may lead, the allow rule that covers it."""
        rules = self._paths.get(("allow", action))
        if rules is None:
            return tuple(None for _ in spellings.resolved)
        index = rules.of(spellings)
        return tuple(rules.star or index.find(place, any_drive=False) for place in spellings.resolved)

    def every_path(self, action: ActionName) -> Rule | None:
        """The rule that allows every path."""
        found = self._paths.get(("allow", action))
        written = self._paths.get(("allow", "write_file"))
        return (found and found.star) or (written and written.star) or None

    def speaks(self, kind: Kind, action: ActionName) -> bool:
        """Whether there is any rule of this kind about this action."""
        key = (kind, action)
        found = key in self._lines or key in self._paths or key in self._hosts
        return found or (action == "mcp" and kind in self._mcp)


def _place(rules: _PathRules, rule: Rule, roots: Roots, links: Links) -> RuleFault | None:
    if rule.parsed is None:
        rules.star = rules.star or rule
        return None
    text = rule.parsed if isinstance(rule.parsed, str) else ""
    fault = None
    around = (*roots.lexical, *roots.resolved)
    for reader in roots.paths:
        spelled = reader.folder(text, links)
        if rule.kind != "allow":
            for place in spelled.every:
                rules.add(place, rule)
            continue
        for place in spelled.resolved:
            inside = any(lexical.within(each) for lexical in spelled.lexical for each in around)
            if spelled.opaque or (inside and not roots.holds(place)):
                reason = "a link leads out of the workspace, or nobody can say where; the rule allows nothing there"
                fault = RuleFault(rule.origin.file, rule.origin.place, reason, rule.origin.scope, "inert")
            else:
                rules.add(place, rule)
    return fault


def _same_file(files: dict[Place, Rule], identity: tuple[int, int]) -> tuple[Rule, bool] | None:
    """A rule about a file that is the same one by another name, or about a folder that holds it; not sure when there
    is more below the folders than is looked through."""
    budget = _WALK_LIMIT
    for place, rule in files.items():
        waiting = [place.posix]
        while waiting:
            path = waiting.pop()
            try:
                found = os.lstat(path)
                if (found.st_dev, found.st_ino) == identity:
                    return rule, True
                if found.st_dev != identity[0] or not stat.S_ISDIR(found.st_mode):
                    continue
                with os.scandir(path) as entries:
                    for entry in entries:
                        budget -= 1
                        if entry.inode() == identity[1]:
                            return rule, True
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        if budget <= 0:
                            return rule, False
            except OSError:
                continue  # not there, or not for us
    return None
