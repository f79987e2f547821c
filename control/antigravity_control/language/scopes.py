"""Where a rule comes from.

Owns: the five scopes and :class:`Origin`, which every rule and every fault carries. All scopes are in force together,
as one union; the one that matched is recorded. No scope outranks another: only deny, ask and allow do.
"""

from dataclasses import dataclass
from typing import Final, Literal

Scope = Literal["project", "shared", "global", "plugin", "turn"]
Kind = Literal["deny", "ask", "allow"]

KINDS: Final[tuple[Kind, ...]] = ("deny", "ask", "allow")
SCOPES: Final[dict[Scope, str]] = {
    "project": "the project's own grants",
    "shared": "the settings that all surfaces share",
    "global": "the settings of the command line",
    "plugin": "this plugin's settings",
    "turn": "granted for this turn",
}


@dataclass(frozen=True, slots=True)
class Origin:
    """:param place: as in ``permissions.allow[2]``.
    :param file: path of the file, ``None`` when the caller gave the data."""

    scope: Scope
    place: str
    file: str | None = None

    def __str__(self) -> str:
        return f"{self.file or SCOPES[self.scope]}, {self.place}"
