"""Where a command stands, and what stands around it. Data only."""

from dataclasses import dataclass, replace

from .handed import NOTHING, Stdin
from .values.model import Redirection, Role
from .values.words import State


@dataclass(frozen=True, slots=True)
class Site:
    """Where a command stands."""

    state: State
    via: tuple[str, ...] = ()
    stdin: Stdin = NOTHING
    role: Role = "command"

    def inside(self, how: str, **changes: object) -> "Site":
        via = self.via if self.via[-1:] == (how,) else (*self.via, how)[-24:]
        return replace(self, via=via, **changes)  # type: ignore[arg-type]  # fields of this class


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around one command: belongs to the outermost of a chain of wrappers."""

    site: Site
    text: str
    assignments: tuple[str, ...] = ()
    redirections: tuple[Redirection, ...] = ()
