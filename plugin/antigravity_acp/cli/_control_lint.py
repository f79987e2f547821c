"""`control lint`: rules that do not do what they say.

Owns: :func:`lint`, which looks, and what the command shows. Everything that is looked at is in force together, as in
the engine: which file a rule stands in makes no difference. Reads files, and looks up where paths lead.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from os.path import abspath
from typing import Final, Literal

from antigravity_control import Policy, Rule, RuleFault, Source
from antigravity_control.floor import check
from antigravity_control.judging.suggest import READERS, RUNNERS, WRITERS
from antigravity_control.language.actions import FILE_ACTIONS, LINE_ACTIONS
from antigravity_control.language.grammar import Regex, notes
from antigravity_control.language.hosts import Host
from antigravity_control.language.paths import Paths
from antigravity_control.language.rules import is_name
from antigravity_control.language.scopes import KINDS
from antigravity_control.shell.programs.wrappers import ALIASES, WRAPPERS
from antigravity_control.shell.values.names import fold_name
from antigravity_control.sources.settings import names_of, rules_of
from antigravity_control.tools import TOOLS

from ._control import guarded, one_line
from ._control_files import home_folder, read_from, sources
from ._control_reach import ANY, Reach, plain_first
from .failures import FAILED
from .output import JsonLines, count

#: Relative paths start from here where no workspace is given; no real path lies below it.
_NOWHERE: Final = "/.workspace-not-given"
#: Of a rule that is a whole line; its words are no first words.
_QUOTED: Final = re.compile(r"['\"`]|\$[\w({]")
_PATTERN: Final = re.compile(
    r"[\w./)-]\s*\([^()\s]*\|[^()]*\)|^\([^()]*\|[^()]*\)\s*\w|\.[*+]|\[[^\]]*\][*+]|\\[dDsSwWbB]|^\^|\$$"
)
_PLAIN_WORD: Final = re.compile(r"[\w./:@%+,=-]+\Z")
_WORDS: Final = {"deny": "denies", "ask": "asks about", "allow": "allows"}
#: Programs that run what they are given.
_KNOWN: Final = RUNNERS | frozenset(WRAPPERS) | frozenset(ALIASES)
_RUNNERS: Final = sorted(_KNOWN)
_VERSION: Final = re.compile(r"[\d.]+\Z")
_NAMED_HOSTS: Final = frozenset({"localhost"})

Level = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing to mend.

    :param kind: ``unreadable``, ``malformed``, ``misplaced``, ``unknown``, ``repeated``, ``inert``, ``old-style``,
        ``glob``, ``dead``, ``duplicate``, ``shadowed``, ``relative``, ``floor``, ``wide-open`` or ``unknown-tool``.
    :param place: as in ``permissions.allow[2]``. :param rule: as it is written, when it could be read.
    """

    level: Level
    kind: str
    file: str | None
    place: str
    rule: str | None
    text: str


def run_lint(files: Sequence[str], workspace: str | None, plugin: str | None, *, strict: bool, as_json: bool) -> int:
    """Look and show. :returns: 1 when there is an error, or with ``strict`` any flaw.

    :raises CliError: ``INVALID_SETTINGS``: a file that was named is not there.
    """
    found = guarded(lambda: sources(files, workspace, plugin), as_json=as_json)
    flaws = lint(found, workspace=workspace, home=home_folder())
    errors = sum(flaw.level == "error" for flaw in flaws)
    read = read_from(found)
    rules = sum(len(rules_of(source)[0]) + len(_entries(source)) for source in found)
    good = not errors and not (strict and flaws)
    if as_json:
        for flaw in flaws:
            JsonLines().show({"event": "flaw", **asdict(flaw)})
        warnings = len(flaws) - errors
        JsonLines().show(
            {"event": "end", "ok": good, "errors": errors, "warnings": warnings, "rules": rules, "files": read}
        )
    else:
        for flaw in flaws:
            rule = f" `{flaw.rule}`" if flaw.rule is not None else ""
            print(one_line(f"{flaw.level} {flaw.kind}: {flaw.file or '-'}, {flaw.place}{rule}: {flaw.text}"))
        where = ", ".join(read) or "no file: none is where the host looks"
        faults = f"{count(errors, 'error')}, {count(len(flaws) - errors, 'warning')}"
        print(one_line(f"{faults}; {count(rules, 'rule')} in {where}"))
    return 0 if good else FAILED


def lint(found: Sequence[Source], *, workspace: str | None = None, home: str | None = None) -> list[Flaw]:
    """Everything that is wrong with the rules of ``found``, errors first, else in the order of the files.

    :param workspace: where relative paths of rules start. :param home: what ``~`` stands for.
    """
    given = abspath(workspace) if workspace is not None else _NOWHERE
    ruled = Policy.compile(found, workspace=given, home=home)
    rules = [rule for source in found for rule in rules_of(source)[0]]
    placed = {(rule.origin.file, rule.origin.place): rule for rule in rules}
    flaws = [_of_fault(fault, placed) for fault in ruled.faults]
    flaws.extend(flaw for source in found for flaw in _names(source))
    odd = {(flaw.file, flaw.place) for flaw in flaws}
    for rule in rules:
        mine = list(_alone(rule, workspace=workspace, home=home))
        flaws.extend(mine)
        if any(flaw.level == "error" for flaw in mine):
            odd.add((rule.origin.file, rule.origin.place))
    # What a rule covers that means something else than it says is of no use to anybody.
    sane = [rule for rule in rules if (rule.origin.file, rule.origin.place) not in odd]
    flaws.extend(_together(sane, Paths(given, home)))
    return sorted(flaws, key=lambda flaw: flaw.level != "error")


def _of_fault(fault: RuleFault, rules: Mapping[tuple[str | None, str], Rule]) -> Flaw:
    kind: str = "malformed" if fault.effect == "ignored" else fault.effect
    if fault.effect == "ignored" and fault.place in KINDS:
        kind = "misplaced"
    rule = rules.get((fault.file, fault.place))
    return Flaw("error", kind, fault.file, fault.place, rule.text if rule is not None else None, fault.told)


def _entries(source: Source) -> list[tuple[str, str, str]]:
    """The plain tool names of a source: list, place and name of each."""
    table = source.data.get("permissions") if names_of(source) else None
    return [
        (kind, f"permissions.{kind}[{number}]", text.strip())
        for kind in KINDS
        for number, text in enumerate((isinstance(table, Mapping) and table.get(kind)) or ())
        if is_name(text)
    ]


def _names(source: Source) -> Iterator[Flaw]:
    """Rules by tool name that do nothing, or everything."""
    for kind, place, name in _entries(source):
        if name == "*" and kind == "allow":
            reason = "every tool is allowed that no rule speaks about"
            yield Flaw("warning", "wide-open", source.file, place, name, reason)
        elif name != "*" and name not in TOOLS and not name.startswith(("browser_", "mcp__")):
            reason = f"no tool that is known here has this name; a rule about a command is `command({name})`"
            yield Flaw("warning", "unknown-tool", source.file, place, name, reason)


def _alone(rule: Rule, *, workspace: str | None, home: str | None) -> Iterator[Flaw]:
    """What can be said of a rule by itself."""
    if rule.action in LINE_ACTIONS and isinstance(rule.parsed, tuple):
        yield from _line(rule, rule.parsed)
    if rule.action in FILE_ACTIONS and isinstance(rule.parsed, str) and workspace is None:
        spelled = rule.parsed
        if not spelled.startswith(("/", "~", "\\")) and not re.match(r"[A-Za-z]:", spelled):
            reason = "the path is relative, so it is another one in each workspace"
            if rule.kind != "allow":
                reason += f"; it is about `{spelled}` at its top, neither one in a folder below nor longer names"
            if rule.origin.scope != "project":
                yield _flaw("warning", "relative", rule, reason)
    if rule.kind == "allow" and rule.action in LINE_ACTIONS and isinstance(rule.parsed, tuple):
        hit = check(rule.target, home=home)
        if hit is not None:
            yield _flaw("warning", "floor", rule, f"the floor denies this whatever rules say ({hit.entry})")
    if rule.kind == "allow":
        wide = _wide(rule, home)
        if wide is not None:
            yield _flaw("warning", "wide-open", rule, wide)


def _line(rule: Rule, words: tuple[str, ...]) -> Iterator[Flaw]:
    target = rule.target.strip()
    if notes(rule) is not None or _QUOTED.search(target):
        return
    if _PATTERN.search(target):
        reason = f"this is the old notation; `{rule.action}(regex:{target})` is a pattern for each word"
        yield _flaw("error", "old-style", rule, reason)
    elif "**" in words[-1] or "*" in words[0]:
        yield _flaw("error", "glob", rule, "words take no wildcards; `regex:` makes a pattern of each word")
    elif "*" in target:
        reason = "words take no wildcards; the rule means this very line"
        yield _flaw("warning", "glob", rule, reason)


def _wide(rule: Rule, home: str | None) -> str | None:
    """Why an allow is open to more than anybody wants."""
    parsed = rule.parsed
    if parsed is None:
        return f"every {'tool of every server' if rule.action == 'mcp' else rule.action} is allowed"
    if isinstance(parsed, Regex):
        tokens = parsed.tokens
        if all(token.source in ANY for token in tokens):
            return "the pattern matches every command"
        plain = plain_first(parsed)
        first = next((name for name in ([plain] if plain else _RUNNERS) if tokens[0].fullmatch(name)), None)
        first = None if plain and not _is_runner(plain) else first
        rest = all(token.source in ANY or token.source.startswith("-") for token in tokens[1:])
        return _runs(first) if first is not None and rest else None
    if isinstance(parsed, tuple):
        bare = all(word.startswith("-") for word in parsed[1:])
        if bare and _is_runner(parsed[0]):
            return _runs(parsed[0])
        return _reaches(fold_name(parsed[0])) if bare else None
    if isinstance(parsed, Host):
        single = not parsed.address and len(parsed.labels) == 1 and parsed.labels[0] not in _NAMED_HOSTS
        return "this is a top level domain, with every host below it" if single else None
    if isinstance(parsed, str) and parsed.rstrip("/") in {"", "~", (home or "").rstrip("/")}:
        return "everything below this folder is allowed"
    return None


def _is_runner(word: str) -> bool:
    name = fold_name(word)
    return name in _KNOWN or _VERSION.sub("", name) in _KNOWN


def _runs(name: str) -> str:
    return f"`{name}` runs whatever it is given; allow the exact line instead"


def _reaches(name: str) -> str | None:
    """Of programs that do their work with whatever files they are given."""
    if name not in READERS | WRITERS:
        return None
    does = "writes or deletes" if name in WRITERS else "reads"
    return f"`{name}` {does} any file it is given, outside the workspace too; only deny and ask look at its operands"


def _together(rules: Sequence[Rule], paths: Paths) -> Iterator[Flaw]:
    """Rules that others make useless."""
    reaches: dict[tuple[str, str], Reach] = {}
    firsts: dict[tuple[str, ...], Rule] = {}
    for rule in rules:
        reach = reaches.setdefault((rule.kind, rule.action), Reach(paths, loose=rule.kind != "allow"))
        reach.add(rule)
    for rule in rules:
        # Said twice it is said twice, whatever wider rule there is.
        first = firsts.setdefault((rule.kind, rule.action, *rule.target.split()), rule)
        again = first is not rule
        twice = _flaw("warning", "duplicate", rule, f"the same is said at {first.origin}") if again else None
        flaw = _beaten(rule, reaches) or twice or _shadowed(rule, reaches)
        if flaw is not None:
            yield flaw


def _beaten(rule: Rule, reaches: Mapping[tuple[str, str], Reach]) -> Flaw | None:
    """A rule that a stricter one of the same or wider reach always beats."""
    stricter = KINDS[: KINDS.index(rule.kind)]
    for kind in stricter:
        # A file that must not be read must not be written either.
        for action in ("read_file", "write_file") if (rule.action, kind) == ("write_file", "deny") else (rule.action,):
            reach = reaches.get((kind, action))
            other = reach.covering(rule) if reach is not None else None
            if other is None:
                continue
            reason = f"`{other.text}` {_WORDS[other.kind]} all of it ({other.origin}), and {other.kind} is stronger"
            if rule.action == action == "write_file" and rule.kind == "allow":
                reason += "; all it still does is to allow reads, which `read_file` says better"
            return _flaw("error", "dead", rule, reason)
    return None


def _shadowed(rule: Rule, reaches: Mapping[tuple[str, str], Reach]) -> Flaw | None:
    """A rule that another one of its kind makes needless."""
    for action in (rule.action, *_implying(rule)):
        reach = reaches.get((rule.kind, action))
        other = reach.covering(rule) if reach is not None else None
        if other is None or not _replaces(other, rule):
            continue
        if other.action == rule.action and other.target.split() == rule.target.split():
            return _flaw("warning", "duplicate", rule, f"the same is said at {other.origin}")
        return _flaw("warning", "shadowed", rule, f"`{other.text}` covers it ({other.origin})")
    return None


def _replaces(other: Rule, rule: Rule) -> bool:
    """Whether an allow can go when the wider one stays: a rule may also be a whole line, or a pattern over one, of
    which first words say nothing."""
    if rule.kind != "allow" or rule.action not in LINE_ACTIONS or other.target.split() == rule.target.split():
        return True
    if isinstance(rule.parsed, tuple):
        return all(_PLAIN_WORD.match(word) for word in rule.parsed)
    return other.parsed is None


def _implying(rule: Rule) -> tuple[str, ...]:
    """Actions whose rules speak for this one as well."""
    if (rule.action, rule.kind) == ("read_file", "allow"):
        return ("write_file",)
    return ("read_file",) if (rule.action, rule.kind) == ("write_file", "deny") else ()


def _flaw(level: Level, kind: str, rule: Rule, text: str) -> Flaw:
    return Flaw(level, kind, rule.origin.file, rule.origin.place, rule.text, text)
