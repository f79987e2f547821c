"""What a command line comes to: units, words, redirections. Data only.

Owns: the public shapes of the reading. Every instance is immutable; texts kept for messages are bounded.
Never: reads text itself (``text/``), resolves a word (``words.py``) or judges anything (``floor/``, the rules).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .names import fold_name

SEGMENT_LIMIT = 400
"""Characters of a segment that messages and records keep."""

Role = Literal["command", "wrapper", "guess"]
"""``command`` needs an allow of its own. ``wrapper`` hands over to another unit (``env``, ``nice``, ``timeout``,
``nohup``), ``guess`` may or may not run: both are tested against deny and ask only."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a word: ``text`` as it stands, ``glob`` a pattern character, ``home`` the home folder, ``unknown`` as
    written."""

    kind: Literal["text", "glob", "home", "unknown"]
    text: str


@dataclass(frozen=True, slots=True)
class Word:
    """One argument as the program would receive it.

    ``text`` is the value after quote removal; what cannot be known stands as it was written, the home folder as ``~``.
    ``literal`` says that ``text`` is exact; without it ``text`` is the best guess.
    """

    text: str
    literal: bool
    raw: str
    pieces: tuple[Piece, ...] = ()

    @property
    def home(self) -> bool:
        """Whether the value begins with the home folder: a quoted ``"~"`` does not."""
        return bool(self.pieces) and self.pieces[0].kind == "home"

    @property
    def known(self) -> bool:
        """Whether no part of it is unknown: then ``text`` is what bash would use unless the guess behind it fails."""
        return all(piece.kind != "unknown" for piece in self.pieces)

    @property
    def pipe(self) -> bool:
        """Whether it names the pipe of a process substitution, and no file."""
        return len(self.pieces) == 1 and self.pieces[0].kind == "unknown" and self.text.startswith(("<(", ">("))

    @classmethod
    def of(cls, text: str, *, literal: bool = True) -> "Word":
        return cls(text, literal, text, (Piece("text", text),))


def without(pieces: Sequence[Piece], count: int) -> tuple[Piece, ...]:
    """``pieces`` after their first ``count`` characters."""
    kept: list[Piece] = []
    for piece in pieces:
        text = piece.text[count:]
        count = max(0, count - len(piece.text))
        if text:
            kept.append(Piece(piece.kind, text))
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class Redirection:
    """``target`` is None where it is not literal. ``read_write`` needs both permissions; ``fd`` copies or closes a
    descriptor; ``network`` is ``/dev/tcp`` or ``/dev/udp``; ``heredoc`` brings its own text."""

    kind: Literal["read", "write", "append", "read_write", "network", "fd", "heredoc"]
    target: str | None
    word: Word | None = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something else that the unit does. ``target`` is None where the line does not say it literally."""

    action: Literal["command", "write_file", "read_file", "read_url"]
    target: str | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """One simple command that bash would run, wherever it stands in the line."""

    argv: tuple[Word, ...]
    name: str | None
    text: str
    via: tuple[str, ...] = ()
    assignments: tuple[str, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    extra: tuple[Requirement, ...] = ()
    """Side doors: what an option or operand does beside the command itself. Each needs its own permission."""
    touches: tuple[Requirement, ...] = ()
    """Files that the operands probably name: to be tested against deny and ask, no permission of their own."""
    role: Role = "command"
    cwd: str | None = None
    """The folder the unit runs in, when the line or the caller says it; ``~`` stands for home."""
    elsewhere: tuple[str, ...] = ()
    """Other folders that it may run in."""

    @property
    def guess(self) -> str | None:
        """The folded name even where it is not literal: for deny, ask and the floor, never for an allow."""
        return guessed_name(self.argv[0]) if self.argv else None


def guessed_name(word: Word) -> str | None:
    """The folded name of a command, as far as it is known: ``$PREFIX/bin/rm`` is most probably ``rm``."""
    if len(word.pieces) == 1 and word.pieces[0].kind != "unknown":
        return fold_name(word.pieces[0].text) or None
    known = "".join(piece.text for piece in word.pieces if piece.kind != "unknown")
    return fold_name(known) or None


@dataclass(frozen=True, slots=True)
class Line:
    """A whole command line as bash would run it."""

    text: str
    units: tuple[Unit, ...]
    literal: bool
    """Whether rules may match its units by prefix. False: an allow needs the exact line or a pattern over it."""
    understood: bool
    """False: something in it is not modelled, so that it must be asked about. Deny and ask rules still hold."""
    reasons: tuple[str, ...] = ()
    bombs: tuple[str, ...] = ()
    """Function definitions that multiply themselves."""
    dialect: Literal["bash", "cmd", "powershell"] = "bash"
    salvaged: tuple[Unit, ...] = ()
    """Commands seen in parts of a line that could not be read: for the floor, deny and ask only."""
    hints: tuple[tuple[Sequence[Word] | str, str | None], ...] = ()
    """What tools of the line may run, as words or text, with the folder where: see ``suspected``."""
