"""A tool call and its result, as hooks, approvals and tools see them.

Owns: :class:`ToolCall` and :class:`ToolResult`, both immutable: a hook judges a call, it does not change it; and
:class:`ToolError`, how a tool says what went wrong.
"""

from typing import Any, Literal

import msgspec

from antigravity_acp.contract import ContentBlock, TextBlock
from antigravity_acp.governing import GovernedCall

#: What a tool does to the world; decides how an approval may be widened. ``execute`` is never granted for a whole turn.
ToolKind = Literal["read", "edit", "execute", "other"]


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that wants to run.

    :param id: correlation id of the call.
    :param name: the host's name of the tool.
    :param arguments: the argument object, parsed and valid against the tool's schema.
    :param kind: what the tool does to the world.
    :param session_id: the conversation.
    :param turn_id: the turn; a grant "for this turn" ends with it.
    :param workspace: absolute path of the workspace directory.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    kind: ToolKind = "other"
    session_id: str = ""
    turn_id: str = ""
    workspace: str = ""

    def __repr__(self) -> str:
        # Arguments may hold secrets and reprs end up in logs.
        return f"ToolCall(id={self.id!r}, name={self.name!r})"


class ToolResult(msgspec.Struct, frozen=True):
    """How a call ended.

    :param content: blocks for the model.
    :param is_error: the call failed or was denied.
    """

    content: tuple[ContentBlock, ...] = ()
    is_error: bool = False

    @classmethod
    def of(cls, text: str, *, is_error: bool = False) -> "ToolResult":
        """A result of one text block."""
        return cls((TextBlock(text),), is_error)

    @property
    def text(self) -> str:
        """All text blocks joined by a line break."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))

    def __repr__(self) -> str:
        return f"ToolResult(blocks={len(self.content)}, is_error={self.is_error})"


class ToolError(Exception):
    """A tool cannot do what was asked. The text goes to the model as an error result; it is never logged."""


def governed(call: ToolCall) -> GovernedCall:
    """A call of the Python host as the governor takes it."""
    return GovernedCall(
        id=call.id,
        name=call.name,
        arguments=call.arguments,
        workspace=call.workspace,
        session=call.session_id,
        turn=call.turn_id,
    )
