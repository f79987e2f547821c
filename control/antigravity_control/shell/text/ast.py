"""The tree that the grammar builds and the walker reads. Data only, private to the wing."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Text:
    value: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Param:
    """``$name`` or ``${name op operand}``; ``op`` is empty for the plain forms."""

    name: str
    op: str
    operand: "tuple[Part, ...]"
    quoted: bool
    raw: str


@dataclass(frozen=True, slots=True)
class Sub:
    """A substitution: what it runs, for arithmetic also the programs inside it."""

    kind: Literal["command", "process", "arithmetic"]
    programs: "tuple[Program, ...]"
    quoted: bool
    raw: str


Part = Text | Param | Sub


@dataclass(frozen=True, slots=True)
class RawWord:
    parts: tuple[Part, ...]
    raw: str

    def leading(self) -> str:
        """The unquoted text at its beginning: what reserved words and assignments are recognised by."""
        text = ""
        for part in self.parts:
            if not isinstance(part, Text) or part.quoted:
                break
            text += part.value
        return text

    def unquoted(self) -> str | None:
        """Its whole text when nothing of it is quoted or expanded."""
        if all(isinstance(part, Text) and not part.quoted for part in self.parts):
            return self.leading()
        return None


@dataclass(slots=True)
class Redirect:
    op: str
    fd: str | None
    target: RawWord
    body: RawWord | None = None
    """The text of a here-document, read when its line has ended."""
    quoted_body: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    name: str
    value: RawWord
    """Its value; for an array only the first element."""
    elements: tuple[RawWord, ...] = ()
    """All elements of an array."""
    plain: bool = True
    """Whether it sets the whole variable: no ``+=``, no subscript, no array."""
    add: bool = False
    """Whether it is a ``+=``."""


@dataclass(slots=True)
class Simple:
    assignments: list[Assignment] = field(default_factory=list)
    words: list[RawWord] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    raw: str = ""


@dataclass(slots=True)
class Compound:
    kind: str
    """``group``, ``subshell``, ``if``, ``while``, ``for``, ``case``, ``function``, ``test``, ``arithmetic``."""
    name: str = ""
    given: bool = True
    """False for a ``for`` without ``in``: it goes through ``$@``."""
    words: list[RawWord] = field(default_factory=list)
    bodies: "list[Program]" = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    raw: str = ""


Node = Simple | Compound


@dataclass(slots=True)
class Pipeline:
    stages: list[Node] = field(default_factory=list)
    background: bool = False
    then: bool = False
    """Whether the next one runs only when this one succeeds."""


@dataclass(slots=True)
class Program:
    pipelines: list[Pipeline] = field(default_factory=list)


def programs_of(parts: tuple[Part, ...]) -> tuple[Program, ...]:
    """Every program that expanding these parts runs."""
    found: list[Program] = []
    for part in parts:
        if isinstance(part, Sub):
            found.extend(part.programs)
        elif isinstance(part, Param):
            found.extend(programs_of(part.operand))
    return tuple(found)
