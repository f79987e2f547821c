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

from ..floor import check
from ..language.actions import ActionName
from ..language.grammar import Rule
from ..language.modes import Mode
from ..language.scopes import Kind
from ..sets.options import walks
from ..sets.ruleset import RuleSet
from ..shell import Line, Unit, Word, suspected
from ..shell.programs.fetchers import MAYBE
from .files import UNTRUSTED, VERBS, FileJudge
from .finding import Finding, strongest
from .line_needs import NeedJudge, opened, wherever
from .remote import RemoteJudge
from .suggest import rules_for, runs_others

#: Commands whose operands are text.
_SPEAKING: Final = frozenset(
    {"echo", "printf", "true", "false", ":", "test", "[", "exit", "sleep", "kill", "export", "cd"}
)
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
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
        self._needs = NeedJudge(files, remote)
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
        every = [each for each in self._held(action, line) if exact is None or not each.firm]
        held = strongest(every)
        if held is not None and held.outcome == "deny":
            return held
        if held is not None and held.firm:
            return replace(held, remedies=self._by_line(action, line) if all(each.firm for each in every) else ())
        if exact is None and not line.understood and any(layer.speaks("deny", action) for layer in self._layers):
            why = f"The line is not understood ({_reasons(line)}), and rules deny some commands."
            return Finding("ask", why, "default", firm=True, remedies=self._by_line(action, line))
        if held is not None:
            return held
        needs = list(self._needs.findings(action, line, whole=exact is not None))
        own = self._commands(action, line, exact)
        found = strongest([own, *needs]) or own
        if found.outcome != "ask":
            return found
        asking = [each for each in (own, *needs) if each.outcome == "ask"]
        stuck = next((each for each in asking if not each.remedies), None)
        if stuck is not None:
            return replace(found if found.firm else stuck, remedies=())
        if any(each.remedies == rules_for(action, line.text) for each in asking):
            # That rule speaks for the commands as well.
            return replace(found, remedies=self._by_line(action, line))
        return found

    def _by_line(self, action: ActionName, line: Line) -> tuple[str, ...]:
        """What allows a line that a deny may be about, or that first words cannot stand for: the rule that is this very
        line, and those for what it needs beside it."""
        needs = [each for each in self._needs.findings(action, line, whole=True) if each.outcome == "ask"]
        rules = rules_for(action, line.text) if all(each.remedies for each in needs) else ()
        return tuple(dict.fromkeys((*rules, *(rule for each in needs for rule in each.remedies)))) if rules else ()

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
        asked: set[tuple[object, ...]] = set()
        for unit in wherever((*line.units, *line.salvaged)):
            yield from self._touched(unit, asked)

    def _touched(self, unit: Unit, asked: set[tuple[object, ...]]) -> Iterator[Finding]:
        """What rules say about the files and addresses that a command names. ``asked``: what was, for other ones."""
        recursive = walks(unit.guess, (word.text for word in unit.argv[1:]))
        named: list[tuple[str, str, bool, bool]] = []
        named.extend(
            (need.action, need.target, True, need.reason == MAYBE)
            for need in (*unit.extra, *unit.touches)
            if need.target and need.action != "command"
        )
        for redirection in unit.redirections:
            named.extend((action, target, False, False) for action, target in opened(redirection) if target)
        if recursive:
            named.append(("read_file", ".", False, False))
        seen: set[tuple[str, str]] = set()
        doubted: set[tuple[str, str]] = set()
        for action, target, loose, maybe in named:
            if maybe and action == "write_file" and not self._held_writes:
                action = "read_file"
            if (action, target) in seen or (maybe and (action, target) in doubted):
                continue
            (doubted if maybe else seen).add((action, target))
            once = (action, target, loose, maybe, recursive, unit.cwd)
            if once in asked:
                continue
            asked.add(once)
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
        if any(need.action == "read_url" and need.target is None for need in unit.touches) and any(
            layer.hosts("deny", "read_url") for layer in self._layers
        ):
            reason = "An address that this command reads is not known, and rules deny some."
            yield Finding("ask", reason, "default", segment=unit.text, firm=True)
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
        remedies = self._offered(action, line)
        reason = "No rule allows this command, so a person has to approve it." if self._mode.trusted else UNTRUSTED
        segment = uncovered.text if uncovered is not None else None
        return Finding("ask", reason, "default", segment=segment, remedies=remedies)

    def _offered(self, action: ActionName, line: Line) -> tuple[str, ...]:
        """A rule for each command that none covers; the line itself where its parts cannot be written as rules."""
        whole = rules_for(action, line.text)
        found: dict[str, None] = {}
        for unit in line.units:
            if unit.role != "command" or self._covering(action, unit) is not None:
                continue
            rules = rules_for(action, unit.text, unit, literal=True) if len(line.units) > 1 else ()
            rules = rules or rules_for(action, line.text, unit, literal=True)
            if rules != whole and not all(_begins(unit, rule[len(action) + 1 : -1]) for rule in rules):
                return whole
            found.update(dict.fromkeys(rules))
        return tuple(found)

    def _exact(self, action: ActionName, line: Line) -> Rule | None:
        """The rule that is the whole line."""
        indexes = (layer.lines("allow", action) for layer in self._layers)
        found = (index.line(line.text) for index in indexes if index is not None)
        return next((rule for rule in found if rule is not None), None)

    def _pattern(self, action: ActionName, line: Line) -> Rule | None:
        """A pattern over the whole of a line for which first words cannot stand, and that holds one command of its
        own."""
        own = [
            unit for unit in line.units if unit.role != "guess" and not (unit.via and unit.via[0].startswith(_WITHIN))
        ]
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


def _hides(unit: Unit) -> bool:
    """Whether a command runs another one that nobody has looked at."""
    if unit.via[:1] != (_LINKED,):
        return any(need.action == "command" for need in unit.extra)
    # The name it goes by is no interpreter's, so that nobody has read what it is given. Several tools in one file go by
    # the name they are called with.
    return unit.name not in _MANY and runs_others(unit.name) and not runs_others(unit.via[1])


def _begins(unit: Unit, target: str) -> bool:
    """Whether the words of a rule are the first words of ``unit`` as they stand."""
    words = target.split()
    return [word.text for word in unit.argv[: len(words)] if word.literal] == words


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
    """A deny of what may be no file or address at all, or may only be read."""
    if held.outcome != "deny" or held.rule is None:
        return held
    what = "addresses" if held.rule.action == "read_url" else "files"
    reason = f"The rule `{held.rule.text}` denies some {what}, and this may be about one."
    return replace(held, outcome="ask", reason=reason, firm=True)


def _reasons(line: Line) -> str:
    return "; ".join(line.reasons[:3]) or "it holds no command"
