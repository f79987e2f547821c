"""A command line as bash would run it: the one entry to the reading.

Never raises for any text; bounded in time and memory. What is not modelled leaves ``understood`` False.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

from . import windows
from .bombs import multiplying
from .inner import opens
from .site import Site
from .text.ast import Program
from .text.budget import SIZE_LIMIT, BrokenError, Budget, TooMuchError
from .text.grammar import Reader
from .text.second import disagreement, faulty
from .values.model import SEGMENT_LIMIT, Line, Unit, guessed_name
from .values.output import printer
from .values.words import State
from .walk import SUSPECT, Walker

_FRAGMENTS = re.compile(r"(\$\{[^{}\n]*\})|(?:[\n;&|(){}`]|\$\()+")
"""Where a text that does not read is cut; the first group is an expansion, which is kept whole."""
_LEADING = re.compile(r"(?:\s*(?:then|do|else|elif|if|while|until|time|!)(?=\s))+")
_FRAGMENT_LIMIT = 200
_SALVAGE_STEPS = 8_000
_SUSPECT_STEPS = 20_000
_NAMED = re.compile(r"\w{2}|\$'|\w['\"\\$]")
_UNREADABLE = re.compile(r"[\x00\ud800-\udfff]")
_HEAD = 2_048
_UNCLOSED = frozenset({"a quote is not closed", '" is missing'})
"""Faults with which bash runs nothing of the line, if the second reader finds one too: no part of it is salvaged."""
Dialect = Literal["bash", "cmd", "powershell"]


def read_line(text: str, *, cwd: str | None = None, dialect: Dialect | None = None) -> Line:
    """Reads ``text``. ``cwd`` is the folder it would run in, ``dialect`` the shell that would run it (None: bash,
    unless the text shows another one)."""
    spoken = dialect or windows.dialect_of(text) or "bash"
    budget = Budget.for_text(text)
    walker = Walker(budget)
    broken: list[str] = []
    if len(text) > SIZE_LIMIT:
        budget.ask("the line is longer than what is read")
        broken.extend((text[:_HEAD], text[-_HEAD:]))
    else:
        broken.extend(_read(text, walker, cwd))
    if spoken != "bash":
        budget.ask("a line of another shell than bash")
    if not any(unit.role == "command" for unit in walker.units):
        budget.exact("no command")
    salvaged = tuple(unit for piece in broken for unit in _salvage(piece, cwd, mended=piece != text))
    reasons = (*budget.unknown, *(reason for reason in budget.inexact if reason not in budget.unknown))
    return Line(
        text=text,
        units=tuple(walker.units),
        literal=not budget.unknown and not budget.inexact,
        understood=not budget.unknown,
        reasons=reasons[:16],
        bombs=multiplying(walker.functions),
        dialect=spoken,
        salvaged=salvaged,
        hints=tuple(walker.hints.found),
    )


def _read(text: str, walker: Walker, cwd: str | None) -> list[str]:
    """Fills ``walker``; returns the texts that did not read, for the salvage."""
    budget = walker.budget
    state = State(cwd=cwd, output=printer(budget))
    if _UNREADABLE.search(text):
        budget.ask("the line holds characters that no shell reads")
    broken: list[str] = []
    clean = False
    try:
        reader = Reader(text, budget)
        program = _program(reader, broken)
        clean = not broken
        walker.program(program, Site(state))
        if "\\\n" in text and not clean:
            broken.append(text.replace("\\\n", ""))
    except BrokenError as error:
        budget.ask(f"the line does not read: {error}")
        broken.append(text)
    except (TooMuchError, RecursionError) as error:
        budget.ask(str(error) if isinstance(error, TooMuchError) else "the line is nested too deeply")
        broken.append(text[:_HEAD])
        return broken
    if clean and not budget.unknown:
        _compare(text, walker)
    if budget.unknown and "\\\n" in text:
        broken.append(text.replace("\\\n", ""))
    return broken + walker.broken


def _program(reader: Reader, broken: list[str]) -> Program:
    """The program; of a text that does not read, what bash would run before it meets the fault."""
    try:
        program = reader.program(frozenset())
        if reader.done():
            if reader.pending:
                reader.budget.ask("a here-document is not closed")
            return program
        fault = "it does not end where it should"
    except BrokenError as error:
        fault = str(error)
    reader.budget.depth = 0
    reader.budget.ask(f"the line does not read: {fault}")
    if not (fault in _UNCLOSED and len(reader.text) <= _HEAD and faulty(reader.text)):
        broken.append(reader.text)
    return Program(reader.finished)


def _compare(text: str, walker: Walker) -> None:
    missing, fault = disagreement(text, walker.names)
    if missing:
        walker.budget.ask("two readers see different commands")
    if fault:
        walker.budget.exact("the grammar finds a fault")


def suspected(line: Line) -> Iterator[Unit]:
    """The commands that tools of the line may run for all that their words say: a deny or ask rule that meets one is
    asked about, and nothing else looks at them."""
    steps = _SUSPECT_STEPS
    for suspect, cwd in line.hints:
        if steps < 0:
            return
        if not isinstance(suspect, str) and not opens(guessed_name(suspect[0])):
            yield Unit(
                tuple(suspect), None, " ".join(word.raw for word in suspect)[:SEGMENT_LIMIT], (SUSPECT,), role="guess"
            )
            continue
        budget = Budget(steps)
        if isinstance(suspect, str):
            yield from _commands(suspect, budget, cwd)[0]
        else:
            inner = Walker(budget)
            with suppress(BrokenError, TooMuchError, RecursionError):
                inner.suspect(suspect, State(cwd=cwd, output=printer(budget)))
            yield from inner.units[:64]
        steps = budget.steps - 100


def _fragments(text: str) -> Iterator[str]:
    """Parts of ``text`` between operators."""
    start = count = 0
    for match in _FRAGMENTS.finditer(text):
        if match.group(1) is None and count < _FRAGMENT_LIMIT:
            yield text[start : match.start()]
            start = match.end()
            count += 1
    yield text[start:]


def _salvage(text: str, cwd: str | None, *, mended: bool) -> list[Unit]:
    """Commands of a text that did not read where it stood: of the whole of it, where joining lines has ``mended`` it,
    of its parts otherwise."""
    text = text[: 2 * _HEAD]
    units, whole = _commands(text, Budget(_SALVAGE_STEPS), cwd) if mended else ([], False)
    if whole:
        return units
    budget = Budget(_SALVAGE_STEPS)
    for fragment in _fragments(text):
        fragment = _LEADING.sub("", fragment[:_HEAD])
        if budget.steps < 0 or not _NAMED.search(fragment):
            continue
        budget = Budget(budget.steps - 100)
        units.extend(_commands(fragment, budget, cwd)[0])
    return units


def _commands(text: str, budget: Budget, cwd: str | None) -> tuple[list[Unit], bool]:
    """The commands of ``text`` as guesses, and whether all of it has been read."""
    walker = Walker(budget)
    broken: list[str] = []
    try:
        program = _program(Reader(text, budget), broken)
        walker.program(program, Site(State(cwd=cwd, output=printer(budget)), via=("fragment",), role="guess"))
    except (BrokenError, TooMuchError, RecursionError):
        return walker.units[:64], False
    return walker.units[:64], not broken
