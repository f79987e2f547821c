"""The text of one rule: ``action(target)``.

Owns: :func:`parse_rule`, the parsed :class:`Rule` and the :class:`RuleFault` that a malformed text becomes. The
parentheses are the first ``(`` and the last ``)``, so that a target may hold some itself. Never widens: what is not a
rule is a fault and matches nothing. Patterns are compiled by :mod:`antigravity_control.shell.patterns`: an automaton
in linear time, which refuses what would need backtracking (look-around, back references), long and large patterns.
"""

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from ..shell import Pattern, PatternError, compile_tokens
from .actions import ACTIONS, FILE_ACTIONS, LINE_ACTIONS, URL_ACTIONS, ActionName
from .hosts import Host, rule_host
from .scopes import SCOPES, Kind, Origin, Scope

TARGET_LIMIT: Final = 8_192
_WRITTEN: Final = re.compile(r"(?P<action>[^()]*)\((?P<target>.*)\)", re.DOTALL)
_REGEX: Final = "regex:"
_NAMES: Final = ", ".join(ACTIONS)
_INERT: Final = "inert"
_GLOB: Final = "glob"


@dataclass(frozen=True, slots=True)
class RuleFault:
    """A rule, or a setting around rules, that is not what it should be.

    :param reason: what is wrong and what was expected; never the text of the rule.
    :param effect: ``ignored``: as if it were not there; ``inert`` and ``glob``: it is in force, but cannot match what
        it seems to; ``repeated``: a key stands twice, the last one counts; ``unknown``: a key that nobody reads;
        ``unreadable``: a whole file could not be read, so that rules of it may be missing.
    :param loses: a deny or an ask is not in force because of it, or may be not.
    """

    file: str | None
    place: str
    reason: str
    scope: Scope = "global"
    effect: Literal["ignored", "inert", "glob", "repeated", "unknown", "unreadable"] = "ignored"
    loses: bool = False

    @property
    def opens(self) -> bool:
        """Whether rules that hold something back may be missing."""
        return self.loses or self.effect == "unreadable"

    @property
    def told(self) -> str:
        """The reason, and what comes of it."""
        return f"{self.reason}; until it is mended every call is asked about" if self.opens else self.reason

    def __str__(self) -> str:
        return f"{self.file or SCOPES[self.scope]}, {self.place}: {self.reason}"


@dataclass(frozen=True, slots=True)
class McpTarget:
    """:param tool: ``None`` for every tool of the server."""

    server: str
    tool: str | None


class Regex:
    """A pattern: ``tokens`` has one for each word.

    :raises PatternError: it cannot be used.
    """

    __slots__ = ("_source", "_whole", "tokens")

    def __init__(self, source: str) -> None:
        self.tokens: Final = compile_tokens(source)
        self._source = source
        self._whole: Pattern | None = None

    def covers(self, text: str) -> bool:
        """Whether the whole of ``text`` matches the pattern as it is written, blanks and all."""
        if self._whole is None:
            try:
                self._whole = Pattern(self._source)
            except PatternError:  # the words fit into the limits, all of them together do not
                return False
        return self._whole.fullmatch(text)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule in force.

    :param target: what stands between the parentheses.
    :param parsed: ``None`` for ``*``; words of a command line; patterns; a path as written; a host; a server's tool.
    """

    kind: Kind
    action: ActionName
    target: str
    origin: Origin
    parsed: tuple[str, ...] | Regex | str | Host | McpTarget | None = field(compare=False)

    @property
    def text(self) -> str:
        """The rule as it is written."""
        return f"{self.action}({self.target})"

    @property
    def order(self) -> tuple[str, str, str, str]:
        """A fixed order among rules, so that what is reported does not depend on how a file is sorted."""
        return (self.text, self.origin.scope, self.origin.file or "", self.origin.place)


def parse_rule(text: object, kind: Kind, origin: Origin) -> Rule | RuleFault:
    """The rule that ``text`` is, or what is wrong with it. Never raises."""
    if not isinstance(text, str):
        return _fault(origin, "a rule is a text such as `command(git status)`")
    if len(text) > TARGET_LIMIT:
        return _fault(origin, f"a rule has at most {TARGET_LIMIT} characters")
    written = _WRITTEN.fullmatch(text.strip())
    if written is None:
        return _fault(origin, "expected `action(target)`, as in `command(git status)`")
    name, target = written.group("action"), written.group("target")
    action = next((each for each in ACTIONS if each == name), None)
    if action is None:
        return _fault(origin, f"the action is not known; expected one of {_NAMES}")
    if not target.strip() or "\0" in target:
        return _fault(origin, "the target is empty; `*` stands for every target")
    if target.strip() == "*":
        return Rule(kind, action, "*", origin, None)
    try:
        return Rule(kind, action, target, origin, _target(action, target))
    except PatternError as error:
        return _fault(origin, f"the pattern cannot be used: {error}")
    except ValueError as error:
        return _fault(origin, str(error))


def notes(rule: Rule) -> RuleFault | None:
    """What is odd about a rule that is in force, ``None`` when nothing is."""
    odd: str | None = None
    effect: Literal["inert", "glob"] = _INERT
    if rule.action in LINE_ACTIONS and isinstance(rule.parsed, tuple) and _ends_in_glob(rule.parsed):
        odd, effect = "`*` is no wildcard here; without it the rule covers every command that begins so", _GLOB
    elif rule.action in FILE_ACTIONS and isinstance(rule.parsed, str) and re.search(r"[*?]", rule.parsed):
        odd = "paths take no wildcards, so it means this very name; a folder covers everything below it"
    elif isinstance(rule.parsed, McpTarget) and "*" in rule.parsed.server + (rule.parsed.tool or ""):
        odd = "names of servers and tools take no wildcards; `server/*` covers every tool of a server"
    if odd is None:
        return None
    return RuleFault(rule.origin.file, rule.origin.place, odd, rule.origin.scope, effect)


def _ends_in_glob(words: tuple[str, ...]) -> bool:
    return words[-1].endswith(":*") or (len(words) > 1 and words[-1] == "*")


def _fault(origin: Origin, reason: str) -> RuleFault:
    return RuleFault(origin.file, origin.place, reason, origin.scope)


def _target(action: ActionName, target: str) -> tuple[str, ...] | Regex | str | Host | McpTarget:
    if action in LINE_ACTIONS:
        return _line(target)
    if action in URL_ACTIONS:
        return rule_host(target.strip())
    return target.strip() if action in FILE_ACTIONS else _mcp(target.strip())


def _line(target: str) -> tuple[str, ...] | Regex:
    if not target.lstrip().startswith(_REGEX):
        return tuple(target.split())
    source = target.lstrip().removeprefix(_REGEX).strip()
    if not source:
        raise ValueError("the pattern after `regex:` is empty")
    return Regex(source)


def _mcp(target: str) -> McpTarget:
    server, slash, tool = target.rpartition("/") if target.endswith("/*") else target.partition("/")
    if not slash or not server or not tool:
        raise ValueError("expected `server/tool`, `server/*` or `*`")
    return McpTarget(server, None if tool == "*" else tool)
