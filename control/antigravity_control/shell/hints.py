"""What a walk finds that may run later: collected here, read by ``reading.py`` after the line itself.

Owns: the bound of these findings, and what the line writes into files that it runs afterwards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from .programs.suspects import Suspect, may_run, suspects
from .values import assignments as variables
from .values.model import Redirection, Word

_LIMIT = 48
_WRITTEN = 4_096
"""Characters of a file that are kept."""
_PARTS = 8
"""Commands that fill one file."""
_FOLDERS = ("PATH", "HOME", "PWD", "TMPDIR")
"""Ends of names whose values are folders."""
_PLACES = 4
"""Words of a command that may name a file that it runs."""


@dataclass(slots=True)
class Hints:
    """``found`` holds what may run, each with the folder where."""

    found: list[tuple[Suspect, str | None]] = field(default_factory=list)
    _written: dict[str, list[Callable[[], str | None]]] = field(default_factory=dict)

    def variable(self, name: str, value: str, cwd: str | None) -> None:
        """The value of a variable that some program takes as a command: ``LESSOPEN='|x'``."""
        if value and variables.decides(name) and not name.endswith(_FOLDERS) and len(self.found) < _LIMIT:
            self.found.append((value.lstrip("|-!"), cwd))

    def file(self, redirection: Redirection, text: Callable[[], str | None]) -> None:
        """A file that the line itself fills. ``text`` tells with what, and is asked when the file is run."""
        if redirection.word is not None and redirection.word.known:
            self._written.setdefault(redirection.word.text.rpartition("/")[2], []).append(text)

    def _filled(self, name: str) -> str:
        texts = [text() or "" for text in self._written.get(name, [])[-_PARTS:]]
        return "\n".join(texts)[-_WRITTEN:]

    def command(self, name: str, argv: Sequence[Word], given: Word | None, cwd: str | None) -> None:
        """What one command may run beside itself."""
        if len(self.found) >= _LIMIT:
            return
        if self._written:
            names = [word.text.rpartition("/")[2] for word in argv[:_PLACES]]
            self.found.extend((text, cwd) for each in names if (text := self._filled(each)))
        if may_run(name):
            self.found.extend((each, cwd) for each in islice(suspects(name, argv, given), _LIMIT))
