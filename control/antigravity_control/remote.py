"""May a URL be read or acted on, may a tool of an MCP server be called?

Owns: :class:`RemoteJudge`. Every host that a URL may mean is tested against deny and ask; an allow needs the one host
that every reading finds.
"""

from collections.abc import Sequence

from .actions import ActionName
from .files import VERBS, FileJudge
from .finding import Finding
from .grammar import Rule
from .hosts import Target, read_target
from .modes import Mode
from .ruleset import RuleSet
from .scopes import Kind
from .suggest import rules_for


class RemoteJudge:
    """:param files: judges `file:` URLs."""

    def __init__(self, layers: Sequence[RuleSet], files: FileJudge, mode: Mode) -> None:
        self._layers = layers
        self._files = files
        self._mode = mode

    def url(self, action: ActionName, target: str, segment: str | None = None) -> Finding:
        """The finding for a URL or a host."""
        read = read_target(target)
        held = self.restricts_url(action, target, segment)
        if held is not None:
            return held
        rule = self._allows(action, read) if self._mode.trusted else None
        if rule is None:
            why = self._mode.opens(action)
            if why is not None and read.scheme != "file":
                return Finding("allow", why, "mode", segment=segment)
            doing = "acted on" if action == "execute_url" else "read"
            reason = f"No rule allows this address to be {doing}, so a person has to approve it."
            return Finding("ask", reason, "default", segment=segment, remedies=rules_for(action, target))
        if read.scheme == "file":
            return self._files.judge("read_file", self._files.spell(_file_of(target), home=False), segment=segment)
        return Finding("allow", f"The rule `{rule.text}` allows this address.", "rule", rule, segment)

    def restricts_url(self, action: ActionName, target: str, segment: str | None = None) -> Finding | None:
        """What deny and ask rules say, ``None`` when they are silent."""
        read = read_target(target)
        if read.scheme == "file":
            held = self._files.restricts("read_file", self._files.spell(_file_of(target), home=False), segment=segment)
            if held is not None:
                return held
        kinds: tuple[Kind, Kind] = ("deny", "ask")
        for kind in kinds:
            for layer in self._layers:
                index = layer.hosts(kind, action)
                if index is None:
                    continue
                rule = index.star or next((found for host in read.hosts if (found := index.find(host))), None)
                if rule is not None:
                    return _by_rule(kind, rule, "address", segment)
            if kind == "deny" and not read.certain and any(layer.hosts(kind, action) for layer in self._layers):
                reason = "Nobody can say which host this address means, and rules deny some."
                return Finding("ask", reason, "default", segment=segment, firm=True)
        return None

    def mcp(self, target: str) -> Finding:
        """The finding for ``server/tool``."""
        kinds: tuple[Kind, Kind, Kind] = ("deny", "ask", "allow")
        for kind in kinds:
            if kind == "allow" and not self._mode.trusted:
                continue
            for layer in self._layers:
                index = layer.mcp(kind)
                rule = index.find(target, certain=kind == "allow") if index is not None else None
                if rule is not None:
                    return _by_rule(kind, rule, "tool", None)
        why = self._mode.opens("mcp")
        if why is not None:
            return Finding("allow", why, "mode")
        reason = "No rule names this tool, so a person has to approve it."
        return Finding("ask", reason, "default", remedies=rules_for("mcp", target))

    def _allows(self, action: ActionName, read: Target) -> Rule | None:
        for layer in self._layers:
            index = layer.hosts("allow", action)
            if index is None:
                continue
            rule = index.star or (index.find(read.hosts[0]) if read.certain else None)
            if rule is not None:
                return rule
        return None


def _file_of(url: str) -> str:
    """The path of a ``file:`` URL; empty when it names another machine or hides its path."""
    rest = url.strip()[5:].replace("\\", "/")
    path = rest[2:] if rest.startswith("//") else rest
    host, slash, tail = path.partition("/")
    if not slash or host not in {"", "localhost"} or "%" in path:
        return ""
    return "/" + tail.split("?")[0].split("#")[0]


def _by_rule(kind: Kind, rule: Rule, what: str, segment: str | None) -> Finding:
    return Finding(kind, f"The rule `{rule.text}` {VERBS[kind]} this {what}.", "rule", rule, segment)
