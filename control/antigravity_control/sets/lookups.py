"""Rules about hosts and about tools of MCP servers.

Owns: :class:`HostIndex`, a tree of labels from the top level down, and :class:`McpIndex`, dictionaries of names.
Looking one up costs the length of the name, however many rules there are.
"""

from ..language.grammar import McpTarget, Rule
from ..language.hosts import Host


class _Node:
    __slots__ = ("children", "rule")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.rule: Rule | None = None


class HostIndex:
    """A rule covers its host and every host below it; an address covers itself."""

    def __init__(self) -> None:
        self.star: Rule | None = None
        self._root = _Node()
        self._addresses: dict[str, Rule] = {}

    def add(self, rule: Rule) -> None:
        if rule.parsed is None:
            self.star = self.star or rule
        elif isinstance(rule.parsed, Host) and rule.parsed.address:
            self._addresses.setdefault(rule.parsed.labels[0], rule)
        elif isinstance(rule.parsed, Host):
            node = self._root
            for label in rule.parsed.labels:
                node = node.children.setdefault(label, _Node())
            node.rule = node.rule or rule

    def find(self, host: Host) -> Rule | None:
        """The rule that covers ``host``, without ``*``."""
        if host.address:
            return self._addresses.get(host.labels[0])
        node: _Node | None = self._root
        for label in host.labels:
            node = node.children.get(label) if node is not None else None
            if node is not None and node.rule is not None:
                return node.rule
        return None


class McpIndex:
    """Names match as a whole, letter by letter."""

    def __init__(self) -> None:
        self.star: Rule | None = None
        self._tools: dict[str, Rule] = {}
        self._servers: dict[str, Rule] = {}

    def add(self, rule: Rule) -> None:
        if rule.parsed is None:
            self.star = self.star or rule
        elif isinstance(rule.parsed, McpTarget) and rule.parsed.tool is None:
            self._servers.setdefault(rule.parsed.server, rule)
        elif isinstance(rule.parsed, McpTarget):
            self._tools.setdefault(f"{rule.parsed.server}/{rule.parsed.tool}", rule)

    def find(self, target: str, *, certain: bool) -> Rule | None:
        """The rule that covers ``server/tool``.

        :param certain: for an allow: where several slashes leave open what the server is, only the whole name counts.
        """
        found = self.star or self._tools.get(target)
        if found is not None or (certain and target.count("/") != 1):
            return found
        place = target.find("/")
        while place >= 0 and found is None:
            found = self._servers.get(target[:place])
            place = target.find("/", place + 1)
        return found
