"""A small policy over the reading of command lines, for tests of the reading alone: prefixes, patterns and ``*``.

The real rule engine knows files, hosts and scopes too; this one asks whenever a line needs more than its commands.
"""

import posixpath
from typing import Any

from antigravity_control.floor import check
from antigravity_control.shell import (
    Line,
    Pattern,
    Unit,
    compile_tokens,
    matches_prefix,
    matches_regex_tokens,
    may_match_prefix,
    read_line,
)


def targets(permissions: dict[str, list[str]], kind: str, action: str = "command") -> list[str]:
    return [
        rule[len(action) + 1 : -1]
        for rule in permissions.get(kind, [])
        if rule.startswith(action + "(") and rule.endswith(")")
    ]


def restricts(unit: Unit, target: str) -> str:
    """How a deny or ask rule meets a unit: ``yes``, ``no`` or ``maybe``."""
    if target == "*":
        return "yes"
    if target.startswith("regex:"):
        return "yes" if matches_regex_tokens(unit, compile_tokens(target[6:]), folded=True) else "no"
    tokens = target.split()
    if matches_prefix(unit, tokens, folded=True):
        return "yes"
    return "maybe" if may_match_prefix(unit, tokens) else "no"


def allows(line: Line, unit: Unit, target: str) -> bool:
    if target == "*":
        return line.understood
    if target.startswith("regex:"):
        return line.literal and matches_regex_tokens(unit, compile_tokens(target[6:]))
    return line.literal and matches_prefix(unit, target.split())


def whole(line: Line, target: str) -> bool:
    if target.startswith("regex:"):
        return Pattern(target[6:]).fullmatch(line.text)
    return target == line.text


def touched(unit: Unit, folders: set[str]) -> bool:
    """Whether an operand or a redirection of ``unit`` lies in one of ``folders``."""
    named = [one.target for one in (*unit.touches, *unit.extra, *unit.redirections) if one.target]
    paths = [posixpath.normpath(posixpath.join(unit.cwd or "/", name)) for name in named]
    return any(path == folder or path.startswith(folder + "/") for path in paths for folder in folders)


def decide(text: str, permissions: dict[str, list[str]], **options: Any) -> str:
    line = read_line(text, **options)
    if check(line):
        return "deny"
    everything = (*line.units, *line.salvaged)
    files = {rule for action in ("read_file", "write_file") for rule in targets(permissions, "deny", action)}
    if any(touched(unit, files) for unit in everything):
        return "deny"
    met = {restricts(unit, rule) for unit in everything for rule in targets(permissions, "deny")}
    if "yes" in met or "*" in targets(permissions, "deny"):
        return "deny"
    asked = {restricts(unit, rule) for unit in everything for rule in targets(permissions, "ask")}
    if "maybe" in met or asked & {"yes", "maybe"} or "*" in targets(permissions, "ask"):
        return "ask"
    wanted = targets(permissions, "allow")
    if any(whole(line, rule) for rule in wanted):
        return "allow"
    needs_more = any(
        unit.extra or any(one.kind not in {"read", "heredoc"} for one in unit.redirections) for unit in line.units
    )
    commands = [unit for unit in line.units if unit.role == "command"]
    if not line.understood or needs_more or not commands:
        return "ask"
    return "allow" if all(any(allows(line, unit, rule) for rule in wanted) for unit in commands) else "ask"
