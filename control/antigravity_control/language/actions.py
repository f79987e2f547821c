"""The seven actions that rules speak about, and what wants to be done.

Owns: :data:`ACTIONS`, :class:`Action` (what a rule is written for) and :class:`Request` (what a decision is asked for).
Data only. Reprs hide targets and arguments: they may hold secrets and reprs end up in logs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

ActionName = Literal["read_file", "write_file", "read_url", "execute_url", "command", "mcp", "unsandboxed"]

ACTIONS: Final[tuple[ActionName, ...]] = get_args(ActionName)
FILE_ACTIONS: Final[frozenset[ActionName]] = frozenset({"read_file", "write_file"})
URL_ACTIONS: Final[frozenset[ActionName]] = frozenset({"read_url", "execute_url"})
LINE_ACTIONS: Final[frozenset[ActionName]] = frozenset({"command", "unsandboxed"})


@dataclass(frozen=True, slots=True)
class Action:
    """An action on a target, as rules write it."""

    name: ActionName
    target: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.name}({self.target})"


@dataclass(frozen=True, slots=True)
class Request:
    """Something that wants to be done.

    :param action: one of :data:`ACTIONS`.
    :param target: a path, a URL or host, ``server/tool``, or a command line. Empty: the call does not say it.
    :param native_name: the host's own name of the tool.
    :param arguments: the arguments of the call, for records; no decision looks at them.
    :param cwd: the folder that a relative path or a command line starts from; the workspace when it is ``None``.
    :param recursive: a read that goes through everything below the target.
    """

    action: ActionName
    target: str = field(repr=False)
    native_name: str | None = None
    arguments: Mapping[str, Any] | None = field(default=None, repr=False)
    cwd: str | None = field(default=None, repr=False)
    recursive: bool = False
