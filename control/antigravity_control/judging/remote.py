"""May a URL be read or acted on, may a tool of an MCP server be called?

Owns: :class:`RemoteJudge`. Every host that a URL may mean is tested against deny and ask; an allow needs the one host
that every reading finds.
"""

import os
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote_to_bytes

from ..language.actions import ActionName
from ..language.grammar import Rule
from ..language.hosts import Target, read_target
from ..language.modes import Mode
from ..language.paths import is_windows
from ..language.scopes import Kind
from ..sets.ruleset import RuleSet
from ..shell.values.names import plain
from .files import VERBS, FileJudge
from .finding import Finding, strongest
from .suggest import rules_for

#: Hosts of a `file:` URL that say nothing.
_THIS_MACHINE: Final = frozenset({"", "localhost", "127.0.0.1", "[::1]"})


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
        why = self._mode.opens(action)
        if rule is None and why is None:
            doing = "acted on" if action == "execute_url" else "read"
            reason = f"No rule allows this address to be {doing}, so a person has to approve it."
            return Finding("ask", reason, "default", segment=segment, remedies=rules_for(action, target))
        if read.scheme == "file":
            return self._file(read.url, segment)
        if rule is None:
            return Finding("allow", why or "", "mode", segment=segment)
        return Finding("allow", f"The rule `{rule.text}` allows this address.", "rule", rule, segment)

    def restricts_url(self, action: ActionName, target: str, segment: str | None = None) -> Finding | None:
        """What deny and ask rules say, ``None`` when they are silent."""
        read = read_target(target)
        if read.scheme == "file":
            held = self._held_file(read.url, segment)
            if held is not None:
                return held
        kinds: tuple[Kind, Kind] = ("deny", "ask")
        for kind in kinds:
            for layer in self._layers:
                index = layer.hosts(kind, action)
                if index is None:
                    continue
                rule = index.star or next((found for host in read.every if (found := index.find(host))), None)
                if rule is not None:
                    return _by_rule(kind, rule, "address", segment)
            if kind == "deny" and not read.certain and any(layer.hosts(kind, action) for layer in self._layers):
                reason = "Nobody can say which host this address means, and rules deny some."
                return Finding("ask", reason, "default", segment=segment, firm=True)
        return None

    def _file(self, url: str, segment: str | None) -> Finding:
        """The finding for a file that a URL names, in every reading of its path."""
        found = [self._files.judge("read_file", self._files.spell(path, home=False), segment=segment)
                 for path in files_of(url)]  # fmt: skip
        reason = "Nobody can say which file this address means, so a person has to approve it."
        return strongest(found) or Finding("ask", reason, "default", segment=segment)

    def _held_file(self, url: str, segment: str | None) -> Finding | None:
        paths = files_of(url)
        found = [self._files.restricts("read_file", self._files.spell(path, home=False), segment=segment)
                 for path in paths]  # fmt: skip
        if not paths and self._files.holds_back("deny", "read_file"):
            reason = "Nobody can say which file this address means, and rules deny some."
            return Finding("ask", reason, "default", segment=segment, firm=True)
        return strongest(each for each in found if each is not None)

    def mcp(self, target: str) -> Finding:
        """The finding for ``server/tool``."""
        kinds: tuple[Kind, Kind, Kind] = ("deny", "ask", "allow")
        for kind in kinds:
            if kind == "allow" and not self._mode.trusted:
                continue
            for layer in self._layers:
                index = layer.mcp(kind)
                if index is None:
                    continue
                rule = index.find(target, certain=kind == "allow")
                if rule is None and kind != "allow":
                    rule = index.find(_tidy(target), certain=False)
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


def files_of(url: str) -> tuple[str, ...]:
    """The paths that a URL which begins with `file:` may mean, as it is written and decoded; none when it names another
    machine or no whole path."""
    rest = url[5:].replace("\\", "/")
    host, slash, tail = (rest[2:] if rest.startswith("//") else rest).partition("/")
    if not slash or host.lower() not in _THIS_MACHINE:
        return ()
    path = "/" + tail.split("?")[0].split("#")[0]
    decoded = os.fsdecode(unquote_to_bytes(path.encode("utf-8", "surrogatepass")))
    found = (each[1:] if is_windows(each[1:]) else each for each in (path, decoded))
    return tuple(dict.fromkeys(found))


def _tidy(name: str) -> str:
    """``server/tool`` as a deny compares it: without what nobody sees, and without blanks around the names."""
    return "/".join("".join(char for char in part if char.isprintable()).strip() for part in plain(name).split("/"))


def _by_rule(kind: Kind, rule: Rule, what: str, segment: str | None) -> Finding:
    return Finding(kind, f"The rule `{rule.text}` {VERBS[kind]} this {what}.", "rule", rule, segment)
