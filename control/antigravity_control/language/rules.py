"""Rules by tool name: which calls are allowed, asked about or denied.

Owns: :class:`Rules` and its one-line notation, as in ``read_file,list_dir,?write_file,!run_command``:

========== =============================================
``name``   allow the tool of that name
``?name``  ask about it
``!name``  deny it
``*``      stands for every name: ``*``, ``?*``, ``!*``
========== =============================================

Deny beats ask beats allow, whatever the order and however specific: ``*,!run_command`` is all but one.
What no rule names is asked about. A malformed rule is an error and never widens anything.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

#: Everything that hosts and the Model Context Protocol accept as a tool name.
_NAME: Final = re.compile(r"[A-Za-z0-9_./:-]{1,128}|\*")
_PREFIXES: Final = {"!": "deny", "?": "ask"}


def is_name(text: object) -> bool:
    """Whether an entry of a list is a tool name or ``*``, without the prefix that lists do not have."""
    return isinstance(text, str) and _NAME.fullmatch(text.strip()) is not None


class RulesError(ValueError):
    """A rule is malformed.

    :param position: which rule of the list, counted from 1.
    :param expected: what a rule looks like.
    """

    def __init__(self, position: int, expected: str) -> None:
        self.position = position
        self.expected = expected
        super().__init__(f"rule {position} is not valid: expected {expected}")

    def __reduce__(self) -> tuple[type["RulesError"], tuple[int, str]]:
        return type(self), (self.position, self.expected)


@dataclass(frozen=True, slots=True)
class Rules:
    """Three sets of tool names; ``*`` in a set stands for every name."""

    allow: frozenset[str] = frozenset()
    ask: frozenset[str] = frozenset()
    deny: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "Rules":
        """Read the one-line notation; an empty text has no rules.

        :raises RulesError: names the position and what was expected.
        """
        sets: dict[str, set[str]] = {"allow": set(), "ask": set(), "deny": set()}
        if not text.strip():
            return cls()
        for position, item in enumerate(text.split(","), start=1):
            rule = item.strip()
            kind = _PREFIXES.get(rule[:1], "allow")
            name = rule if kind == "allow" else rule[1:]
            if not _NAME.fullmatch(name):
                raise RulesError(position, "a tool name or `*`, with `!` before it to deny or `?` to ask")
            sets[kind].add(name)
        return cls(*(frozenset(sets[kind]) for kind in ("allow", "ask", "deny")))

    def __bool__(self) -> bool:
        return bool(self.allow or self.ask or self.deny)

    def __or__(self, other: "Rules") -> "Rules":
        return Rules(self.allow | other.allow, self.ask | other.ask, self.deny | other.deny)

    @property
    def names(self) -> frozenset[str]:
        """Every tool that is named, without ``*``."""
        return (self.allow | self.ask | self.deny) - {"*"}

    @classmethod
    def split(cls, lists: Mapping[str, Sequence[str]]) -> tuple["Rules", dict[str, list[str]]]:
        """Lists ``allow``, ``ask`` and ``deny`` that hold tool names and ``action(target)`` rules side by side, taken
        apart: the names as rules, the rest as it is, for :class:`~antigravity_control.engine.Policy`.

        :raises RulesError: an entry without parentheses is no tool name; the position counts within its list.
        """
        names: dict[str, frozenset[str]] = {}
        rest: dict[str, list[str]] = {}
        for kind in ("allow", "ask", "deny"):
            rest[kind] = [entry for entry in lists.get(kind, ()) if "(" in entry]
            found = []
            for position, entry in enumerate(lists.get(kind, ()), start=1):
                if "(" in entry:
                    continue
                if not _NAME.fullmatch(entry.strip()):
                    raise RulesError(position, "a tool name, `*` or `action(target)`")
                found.append(entry.strip())
            names[kind] = frozenset(found)
        return cls(**names), rest

    def match(self, name: str) -> tuple[str, str] | None:
        """The kind of rule that decides about a tool and the rule as written; ``None`` when no rule names it."""
        for kind, names, prefix in (("deny", self.deny, "!"), ("ask", self.ask, "?"), ("allow", self.allow, "")):
            for written in (name, "*"):
                if written in names:
                    return kind, prefix + written
        return None
