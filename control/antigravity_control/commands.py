"""May a command line run?

Owns: :class:`LineJudge`. The line is read as bash would run it; every command in it needs an allow, one that is denied
denies the line. Deny and ask are tested on everything that is seen, also in what cannot be read; an allow by first
words needs a line that is understood and literal. Otherwise only a rule that is the whole line, a pattern over the
whole of a single command, or ``*`` may allow it. Redirections, and what options do beside the command, need their own
permission. What is not understood is asked about.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from .actions import ActionName
from .files import UNTRUSTED, VERBS, FileJudge
from .finding import Finding, strongest
from .floor import check
from .grammar import Rule
from .modes import Mode
from .options import walks
from .remote import RemoteJudge
from .ruleset import RuleSet
from .scopes import Kind
from .shell import Line, Redirection, Unit, Word, suspected
from .shell.touches import MAYBE
from .suggest import rules_for, runs_others

#: Files that hold nothing: opening them needs nobody's word, though a rule may still deny it.
_NEUTRAL: Final = frozenset({"/dev/null", "/dev/zero", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/random",
                             "/dev/urandom", "/dev/full"})  # fmt: skip
#: Commands whose operands are text.
_SPEAKING: Final = frozenset(
    {"echo", "printf", "true", "false", ":", "test", "[", "exit", "sleep", "kill", "export", "cd"}
)
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_NETWORK: Final = re.compile(r"/dev/(?:tcp|udp)/(?P<host>[^/]+)")
#: Rules of one line that its reason names.
_NAMED: Final = 4
#: How a command is a part of another one's words, and not one of the line's own.
_WITHIN: Final = "substitution"
_MANY: Final = frozenset({"busybox", "toybox"})
#: A command by the name of the file that its path leads to.
_LINKED: Final = "link"


class LineJudge:
    """:param layers: the compiled rules; all are in force. :param home: the home folder, for the floor."""

    def __init__(
        self, layers: Sequence[RuleSet], files: FileJudge, remote: RemoteJudge, mode: Mode, home: str | None
    ) -> None:
        self._layers = layers
        self._files = files
        self._remote = remote
        self._mode = mode
        self._home = home
        self._held_writes = (
            files.holds_back("deny", "write_file") or files.holds_back("ask", "write_file") or files.keeps_own
        )
        self._held_files = files.holds_back("deny") or files.holds_back("ask") or files.keeps_own

    def judge(self, action: ActionName, line: Line) -> Finding:
        """The finding for ``line``; ``action`` is ``command`` or ``unsandboxed``."""
        line = self._by_their_files(line)
        hit = check(line, home=self._home)
        if hit is not None:
            return Finding("deny", hit.reason, "floor", segment=hit.segment, floor=hit.entry)
        exact = self._exact(action, line) if self._mode.trusted else None
        # A person who wrote this very line down has seen what may come of it; what surely is denied stays denied.
        held = strongest(each for each in self._held(action, line) if exact is None or not each.firm)
        if held is not None and (held.outcome == "deny" or held.firm):
            return held
        if exact is None and not line.understood and any(layer.speaks("deny", action) for layer in self._layers):
            why = f"The line is not understood ({_reasons(line)}), and rules deny some commands."
            return Finding("ask", why, "default", firm=True, remedies=rules_for(action, line.text))
        if held is not None:
            return held
        found = [self._commands(action, line, exact), *self._needs(line)]
        return strongest(found) or found[0]

    def _by_their_files(self, line: Line) -> Line:
        """The line, with what its commands are when they are named by a path that is a link: for the floor, deny and
        ask only."""
        found: list[Unit] = []
        for unit in line.units:
            first = unit.argv[0] if unit.argv else None
            if first is None or "/" not in first.text or not first.known or (unit.cwd is None and first.text[0] != "/"):
                continue
            spelled = self._files.spell(first.text, unit.cwd, home=first.home)
            written = first.text.rsplit("/", 1)[-1]
            names = sorted({place.parts[-1] for place in spelled.resolved if place.parts} - {written})
            words = [(Word.of(name), *unit.argv[1:]) for name in names]
            found += [
                replace(unit, argv=argv, name=argv[0].text, via=(_LINKED, written), role="guess") for argv in words
            ]
        return replace(line, units=(*line.units, *found)) if found else line

    # -- deny and ask -------------------------------------------------------------------------------------------

    def _held(self, action: ActionName, line: Line) -> Iterator[Finding]:
        """Everything that deny and ask rules say about the line."""
        kinds: tuple[Kind, Kind] = ("deny", "ask")
        suspects: tuple[Unit, ...] | None = None
        for kind in kinds:
            for layer in self._layers:
                index = layer.lines(kind, action)
                if index is None:
                    continue
                if suspects is None:
                    suspects = tuple(suspected(line)) if line.hints else ()
                whole = index.restricts_line(line)
                if whole is not None:
                    yield _by_rule(kind, whole[1], None)
                for unit in (*line.units, *line.salvaged):
                    hit = index.restricts(unit)
                    if hit is not None and hit[0] == "yes":
                        yield _by_rule(kind, hit[1], unit)
                    elif hit is not None:
                        yield _maybe(kind, hit[1], unit)
                for unit in suspects:
                    hit = index.restricts(unit)
                    if hit is not None:
                        yield _maybe(kind, hit[1], unit)
        for unit in _wherever((*line.units, *line.salvaged)):
            yield from self._touched(unit)

    def _touched(self, unit: Unit) -> Iterator[Finding]:
        """What rules say about the files and addresses that a command names."""
        recursive = walks(unit.guess, (word.text for word in unit.argv[1:]))
        named: list[tuple[str, str, bool, bool]] = []
        named.extend(
            (need.action, need.target, True, need.reason == MAYBE)
            for need in (*unit.extra, *unit.touches)
            if need.target and need.action != "command"
        )
        for redirection in unit.redirections:
            named.extend((action, target, False, False) for action, target in _opened(redirection) if target)
        if recursive:
            named.append(("read_file", ".", False, False))
        seen: set[tuple[str, str]] = set()
        doubted: set[tuple[str, str]] = set()
        for action, target, loose, maybe in named:
            if maybe and not self._held_writes:
                action = "read_file"
            if (action, target) in seen or (maybe and (action, target) in doubted):
                continue
            (doubted if maybe else seen).add((action, target))
            held: Finding | None = None
            if action == "read_url" or _URL.match(target):
                held = self._remote.restricts_url("read_url", target, unit.text)
            elif self._held_files:
                held = self._file(action, target, unit, recursive=recursive, loose=loose)
            if held is not None:
                yield _softened(held) if maybe else held
        yield from self._unknown(unit)

    def _unknown(self, unit: Unit) -> Iterator[Finding]:
        """A word that nobody knows may name a file that rules deny."""
        if unit.guess in _SPEAKING or all(word.known or word.literal for word in unit.argv[1:]):
            return
        writes = any(need.action == "write_file" for need in unit.touches)
        if self._files.holds_back("deny", "read_file") or (writes and self._files.holds_back("deny", "write_file")):
            reason = "A word of this command is not known, and rules deny some files."
            yield Finding("ask", reason, "default", segment=unit.text, firm=True)

    def _file(self, action: str, target: str, unit: Unit, *, recursive: bool, loose: bool) -> Finding | None:
        name: ActionName = "write_file" if action == "write_file" else "read_file"
        if unit.cwd is None and not target.startswith(("/", "~")) and self._files.holds_back("deny"):
            reason = "Nobody can say in which folder the line would do this, and rules deny some files."
            return Finding("ask", reason, "default", segment=unit.text, firm=True)
        globbed = loose and any(char in target for char in "*?[")
        held = self._files.restricts(
            name, self._files.spell(target, unit.cwd), recursive=recursive, globbed=globbed, segment=unit.text
        )
        if name == "write_file" and recursive and held is None:
            # What is copied or moved is read as well.
            held = self._files.restricts(
                "read_file", self._files.spell(target, unit.cwd), recursive=True, globbed=globbed, segment=unit.text
            )
        return held

    # -- allow --------------------------------------------------------------------------------------------------

    def _commands(self, action: ActionName, line: Line, exact: Rule | None) -> Finding:
        """Whether every command of the line is allowed."""
        whole = exact or (self._pattern(action, line) if self._mode.trusted else None)
        if whole is not None:
            return Finding("allow", f"The rule `{whole.text}` allows this line.", "rule", whole)
        if not line.understood:
            reason = f"The line is not understood ({_reasons(line)}), so a person has to approve it."
            return Finding("ask", reason, "default", remedies=rules_for(action, line.text))
        open_door = self._hidden(action, line)
        star = self._star(action) if self._mode.trusted else None
        why = self._mode.opens(action)
        if open_door is not None and (star is not None or why is not None):
            return open_door
        if star is not None:
            return Finding("allow", f"The rule `{star.text}` allows every command.", "rule", star)
        uncovered, rules = self._uncovered(action, line)
        if uncovered is None and rules:
            return Finding("allow", _allowing(rules), "rule", rules[0])
        if why is not None:
            return Finding("allow", why, "mode")
        return self._unnamed(action, line, uncovered)

    def _unnamed(self, action: ActionName, line: Line, uncovered: Unit | None) -> Finding:
        if not line.literal:
            reason = f"First words cannot stand for this line ({_reasons(line)}), so a person has to approve it."
            return Finding("ask", reason, "default", remedies=rules_for(action, line.text))
        remedies = [
            rule
            for unit in line.units
            if unit.role == "command" and self._covering(action, unit) is None
            for rule in rules_for(action, unit.text if len(line.units) > 1 else line.text, unit, literal=True)
        ]
        reason = "No rule allows this command, so a person has to approve it." if self._mode.trusted else UNTRUSTED
        segment = uncovered.text if uncovered is not None else None
        return Finding("ask", reason, "default", segment=segment, remedies=tuple(dict.fromkeys(remedies)))

    def _exact(self, action: ActionName, line: Line) -> Rule | None:
        """The rule that is the whole line."""
        indexes = (layer.lines("allow", action) for layer in self._layers)
        found = (index.line(line.text) for index in indexes if index is not None)
        return next((rule for rule in found if rule is not None), None)

    def _pattern(self, action: ActionName, line: Line) -> Rule | None:
        """A pattern over the whole of a line for which first words cannot stand, and that holds one command of its
        own."""
        own = [unit for unit in line.units if not unit.via or not unit.via[0].startswith((_WITHIN, _LINKED))]
        if line.literal or not line.understood or len(own) != 1:
            return None
        indexes = (layer.lines("allow", action) for layer in self._layers)
        found = (index.pattern_over(line.text) for index in indexes if index is not None)
        return next((rule for rule in found if rule is not None), None)

    def _star(self, action: ActionName) -> Rule | None:
        indexes = (layer.lines("allow", action) for layer in self._layers)
        return next((index.star for index in indexes if index is not None and index.star is not None), None)

    def _uncovered(self, action: ActionName, line: Line) -> tuple[Unit | None, list[Rule]]:
        """The first command that no rule allows; when there is none, the rules that allow them."""
        rules: dict[str, Rule] = {}
        for unit in line.units:
            if unit.role != "command":
                continue
            covering = self._covering(action, unit) if line.literal and self._mode.trusted else None
            if covering is None:
                return unit, []
            rules.setdefault(covering.text, covering)
        return None, list(rules.values())

    def _covering(self, action: ActionName, unit: Unit) -> Rule | None:
        indexes = (layer.lines("allow", action) for layer in self._layers)
        found = (index.allows(unit) for index in indexes if index is not None)
        return next((rule for rule in found if rule is not None), None)

    def _hidden(self, action: ActionName, line: Line) -> Finding | None:
        """A program that the line starts and does not name, where rules hold some programs back."""
        kinds: tuple[Kind, Kind] = ("deny", "ask")
        held = [kind for kind in kinds if any(layer.speaks(kind, action) for layer in self._layers)]
        unit = next((unit for unit in line.units if _hides(unit)), None)
        if unit is None or not held:
            return None
        reason = "The line starts a program that it does not name, and rules hold some programs back."
        return Finding("ask", reason, "default", segment=unit.text, firm=held[0] == "deny")

    # -- what a line needs beside its commands ------------------------------------------------------------------

    def _needs(self, line: Line) -> Iterator[Finding]:
        for unit in _wherever(line.units):
            if unit.role == "guess":
                continue
            for redirection in unit.redirections:
                for action, target in _opened(redirection):
                    yield self._need(action, target, unit, quoted=_quoted(redirection))
            for need in unit.extra:
                if need.action != "command":
                    yield self._need(need.action, need.target, unit, quoted=False)

    def _need(self, action: ActionName, target: str | None, unit: Unit, *, quoted: bool) -> Finding:
        if target is None:
            why = self._anything(action)
            if why is not None:
                return why
            reason = "The line does something with a file or an address that it does not name."
            firm = action != "read_url" and self._files.holds_back("deny")
            return Finding("ask", reason, "default", segment=unit.text, firm=firm)
        if action == "read_url":
            return self._remote.url(action, target, unit.text)
        if target in _NEUTRAL:
            return Finding("allow", "Nothing is read or written there.", "default", segment=unit.text)
        if unit.cwd is None and not target.startswith(("/", "~")):
            reason = "Nobody can say in which folder the line would do this."
            return Finding("ask", reason, "default", segment=unit.text)
        return self._files.judge(action, self._files.spell(target, unit.cwd, home=not quoted), segment=unit.text)

    def _anything(self, action: ActionName) -> Finding | None:
        """Whether an unnamed file or address is allowed because every one is, and none is denied."""
        return self._files.anything(action) if action != "read_url" else None


def _wherever(units: Sequence[Unit]) -> Iterator[Unit]:
    """Every unit, once for each folder that it may run in."""
    for unit in units:
        yield unit
        for folder in unit.elsewhere:
            yield replace(unit, cwd=folder, elsewhere=())


def _opened(redirection: Redirection) -> tuple[tuple[ActionName, str | None], ...]:
    """What a redirection needs."""
    target = redirection.target
    if redirection.kind == "read":
        return (("read_file", target),)
    if redirection.kind in {"write", "append"}:
        return (("write_file", target),)
    if redirection.kind == "read_write":
        return (("read_file", target), ("write_file", target))
    if redirection.kind == "network":
        found = _NETWORK.match(target or "")
        return (("read_url", found.group("host") if found else None),)
    return ()


def _hides(unit: Unit) -> bool:
    """Whether a command runs another one that nobody has looked at."""
    if unit.via[:1] != (_LINKED,):
        return any(need.action == "command" for need in unit.extra)
    # The name it goes by is no interpreter's, so that nobody has read what it is given. Several tools in one file go by
    # the name they are called with.
    return unit.name not in _MANY and runs_others(unit.name) and not runs_others(unit.via[1])


def _quoted(redirection: Redirection) -> bool:
    """Whether a ``~`` at the beginning is only a letter."""
    return redirection.word is not None and not redirection.word.home


def _by_rule(kind: Kind, rule: Rule, unit: Unit | None) -> Finding:
    segment = unit.text if unit is not None else None
    return Finding(kind, f"The rule `{rule.text}` {VERBS[kind]} this command.", "rule", rule, segment)


def _allowing(rules: Sequence[Rule]) -> str:
    """Which rules allow a line together; many parts need many."""
    if len(rules) == 1:
        return f"The rule `{rules[0].text}` allows this command."
    named = [f"`{rule.text}`" for rule in rules[:_NAMED]]
    if len(rules) > _NAMED:
        named.append(f"{len(rules) - _NAMED} more")
    return f"The rules {', '.join(named[:-1])} and {named[-1]} allow this command."


def _maybe(kind: Kind, rule: Rule, unit: Unit) -> Finding:
    reason = f"The rule `{rule.text}` {VERBS[kind]} commands, and this may turn out to be one."
    return Finding("ask", reason, "rule", rule, unit.text, firm=kind == "deny")


def _softened(held: Finding) -> Finding:
    """A deny of what may be no file at all, or may only be read."""
    if held.outcome != "deny" or held.rule is None:
        return held
    reason = f"The rule `{held.rule.text}` denies some files, and this may be about one."
    return replace(held, outcome="ask", reason=reason, firm=True)


def _reasons(line: Line) -> str:
    return "; ".join(line.reasons[:3]) or "it holds no command"
