"""What the governor is asked about, and what it offers to a person who is asked.

Owns: :class:`GovernedCall` and :class:`Offers`. Data only.
"""

from collections.abc import Mapping
from typing import Any

import msgspec


class GovernedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of any host.

    :param id: the host's id of the call. :param name: the host's name of the tool.
    :param workspace: absolute path of the folder that its relative paths start from; the governor's own when empty.
    :param session: the conversation. :param turn: the turn; grants for a turn end with it.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] = {}
    workspace: str = ""
    session: str = ""
    turn: str = ""

    def __repr__(self) -> str:
        # Arguments may hold secrets and reprs end up in logs.
        return f"GovernedCall(id={self.id!r}, name={self.name!r})"


class Offers(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that would let a call run, as they would be written; each list is empty where none would.

    :param turn: for this turn, exactly what the call says. :param folder: the folder of its file, for this turn.
    :param always: for the file of rules. :param confined: the host can run it in the sandbox or without: whether it
        would now; ``None`` where there is no choice.
    """

    turn: tuple[str, ...] = ()
    folder: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    confined: bool | None = None
