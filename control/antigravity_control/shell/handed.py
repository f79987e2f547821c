"""What one command hands over to others, and what stands at its input. Data only."""

from dataclasses import dataclass, field

from .text.ast import Compound, Simple
from .values.model import Piece, Role, Word

_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Stdin:
    """What stands at a command's input: a text that the line gives (perhaps as a guess), or a pipe nobody can see."""

    text: Word | None = None
    piped: bool = False

    def known(self) -> str | None:
        """The text, where all of it is known."""
        return self.text.text if self.text is not None and self.text.known else None

    def rounds(self, node: Compound) -> "list[Stdin]":
        """The input of each round of a loop: line by line where ``read`` decides on the next one."""
        reads = node.kind == "while" and any(
            isinstance(stage, Simple) and stage.words and stage.words[0].unquoted() == "read"
            for pipeline in node.bodies[0].pipelines
            for stage in pipeline.stages
        )
        lines = (self.known() or "").splitlines()[:_ROUNDS] if reads else []
        return [Stdin(Word.of(line, literal=False), self.piped) for line in lines] or [self]


NOTHING = Stdin()


@dataclass(frozen=True, slots=True)
class Script:
    text: Word
    via: str
    arguments: tuple[Word, ...] = ()
    """What ``$1`` and the following hold in it."""
    zero: Word | None = None
    """What ``$0`` holds in it."""
    role: Role = "command"
    bash: bool = True


@dataclass(slots=True)
class Opened:
    commands: list[tuple[list[Word], str, Role]] = field(default_factory=list)
    scripts: list[Script] = field(default_factory=list)
    ask: list[str] = field(default_factory=list)
    exact: list[str] = field(default_factory=list)
    assignments: list[str] = field(default_factory=list)
    values: dict[str, tuple[Piece, ...] | None] = field(default_factory=dict)
    """What these assignments give to whatever runs inside."""
    cwd: str | None = None
    transparent: bool = False
