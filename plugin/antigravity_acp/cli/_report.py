"""The doctor's report: rows, what may be said in them, and the three forms of it.

Owns: :class:`Row`, the :class:`Report` that every row passes through on its way out, its two shapes on stdout, and the
:class:`Curtain` that takes out of every text what must not leave this machine: values of settings and variables that
are or look like secrets, addresses of people, home directories.
Never: asks anything itself.
"""

import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal
from urllib.parse import unquote

import msgspec

from antigravity_acp.acp import HIDDEN, redact
from antigravity_acp.settings import Settings

from .failures import FAILED
from .output import JsonLines, plain

State = Literal["ok", "warn", "fail", "skip"]

#: Characters of one row; a row is a line or two, and an agent may call itself anything.
_MAX_TEXT: Final = 600
#: Shorter values are words like `true`, which would be cut out of everything.
_MIN_SECRET: Final = 6
SECRET_NAME: Final = re.compile(r"key|token|secret|passw|passphrase|credential|cookie|authorization", re.I)
_NAME_WIDTH: Final = 13


class Row(msgspec.Struct, frozen=True):
    """One line of the report.

    :param name: what was looked at; a stable word. :param state: ``skip``: not asked, or nothing that could be wrong.
    :param text: what was found. :param advice: what to do, where something is to be done.
    """

    name: str
    state: State
    text: str
    advice: str = ""


class Curtain:
    """What takes secrets out of a text.

    :param settings: their ``env`` values are secrets whatever they look like, and so are arguments by their flag.
    :param environ: values of variables whose names speak of secrets are, too, and what proxies are told about a user.
    """

    def __init__(self, settings: Settings | None = None, environ: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environ is None else environ
        values = {*settings.env.values(), *secret_arguments(settings.args)} if settings is not None else set[str]()
        for name, value in environment.items():
            if SECRET_NAME.search(name):
                values.add(value)
            if name.lower().endswith("_proxy") and "@" in value:
                user = value.rpartition("@")[0].rpartition("//")[2]
                values |= {part for text in (user, unquote(user)) for part in (text, *text.split(":"))}
        # The longest first: one may be a part of another.
        kept = sorted((value for value in values if len(value) >= _MIN_SECRET), key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, kept))) if kept else None

    def hide(self, text: str, *, guess: bool = False) -> str:
        """The text without them. :param guess: also without whatever is merely as long as a secret."""
        if self._values is not None:
            text = self._values.sub(HIDDEN, text)
        return redact(text, guess=guess)


def secret_arguments(given: Sequence[str]) -> Iterator[str]:
    """The values of flags whose names speak of secrets: ``--token X`` and ``--token=X``."""
    for before, argument in zip(("", *given), given, strict=False):
        flag, equals, value = argument.partition("=")
        if equals and flag.startswith("-") and SECRET_NAME.search(flag):
            yield value
        elif before.startswith("-") and "=" not in before and SECRET_NAME.search(before) and argument[:1] != "-":
            yield argument


class Report:
    """Rows in the order in which they were found; each is shown when it is added.

    :param show: receives every row, already behind the curtain.
    """

    def __init__(self, curtain: Curtain, show: Callable[[Row], None]) -> None:
        self._curtain = curtain
        self._show = show
        self.rows: list[Row] = []

    def add(self, row: Row) -> Row:
        """Take a row; returns it as it was shown."""
        clean = Row(row.name, row.state, self._clean(row.text), self._clean(row.advice))
        self.rows.append(clean)
        self._show(clean)
        return clean

    def _clean(self, text: str) -> str:
        line = " ".join(plain(self._curtain.hide(text)).split())
        return line if len(line) <= _MAX_TEXT else f"{line[:_MAX_TEXT]}…"

    @property
    def status(self) -> int:
        """The exit code: warnings are allowed."""
        return FAILED if any(row.state == "fail" for row in self.rows) else 0


def one_word(text: str, limit: int = 64) -> str:
    """A name, version or id of an agent, short and in one line."""
    line = " ".join(plain(text).split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def as_json(row: Row) -> None:
    """One row as an event on stdout."""
    JsonLines().show({"event": "check", **msgspec.to_builtins(row)})


class Table:
    """The table on stdout: a row is printed as soon as it is known, since an agent may take a minute to start."""

    _STYLES: Final = {"ok": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(file=sys.stdout, highlight=False, emoji=False, soft_wrap=True)

    def __call__(self, row: Row) -> None:
        """Print one row; on a terminal it is wrapped under its own column."""
        from rich.text import Text

        mark = "-" if row.state == "skip" else row.state
        indent = " " * (6 + _NAME_WIDTH + 1)
        line = Text(f"{mark:<6}", style=self._STYLES[row.state])
        line.append(f"{row.name:<{_NAME_WIDTH}} ", style="bold")
        line.append(self._wrap(row.text, indent), style="dim" if row.state == "skip" else "default")
        if row.advice:
            line.append(f"\n{indent}{self._wrap(f'→ {row.advice}', indent + '  ')}", style="default")
        self._console.print(line)
        sys.stdout.flush()

    def _wrap(self, text: str, indent: str) -> str:
        # A log or a pipe gets one line for each text, so that a search finds it.
        if not self._console.is_terminal:
            return text
        width = max(30, self._console.width - len(indent))
        return f"\n{indent}".join(textwrap.wrap(text, width, break_on_hyphens=False) or [""])
