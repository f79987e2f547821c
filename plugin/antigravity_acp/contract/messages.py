"""Messages: one immutable representation for history and requests.

Owns: :class:`Message` with the five roles of the host (system, developer, user, assistant, tool), to and from its JSON.
A tool result is a message of role ``tool`` with ``tool_call_id`` and ``is_error`` (DeepSeek Harness 0.2.1). The older
shape, a user message that holds one ``tool-result`` block (0.1.1), is read as the same thing.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from .content import ContentBlock, TextBlock, ToolCallBlock, block_from_wire, block_to_wire, invalid
from .errors import LlmError

Role = Literal["system", "developer", "user", "assistant", "tool"]


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    role: Role
    content: list[Any] | str = []
    id: str | None = None
    source: dict[str, Any] | None = None
    tool_call_id: str | None = None
    is_error: bool = False


class Message(msgspec.Struct, frozen=True):
    """One message.

    :param role: who speaks.
    :param content: blocks in order.
    :param id: stable identity given by the host; hand-built messages may have none.
    :param source: the host's provenance, e.g. ``{"kind": "user"}``; carried, never interpreted.
    :param tool_call_id: for role ``tool``: the call that this answers.
    :param is_error: for role ``tool``: whether the result is an error or a denial.
    """

    role: Role
    content: tuple[ContentBlock, ...] = ()
    id: str | None = None
    source: dict[str, Any] | None = None
    tool_call_id: str | None = None
    is_error: bool = False

    @property
    def text(self) -> str:
        """All text blocks joined by a line break."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolCallBlock, ...]:
        """The tool calls among the blocks, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCallBlock))

    @classmethod
    def from_wire(cls, value: object, where: str = "message") -> "Message":
        """Read a message from the host's JSON.

        :raises LlmError: ``INVALID_REQUEST``; the message names the place, never the content.
        """
        try:
            envelope = msgspec.convert(value, _Envelope)
        except msgspec.ValidationError as error:
            raise invalid(where, error) from None
        raw = [{"type": "text", "text": envelope.content}] if isinstance(envelope.content, str) else envelope.content
        if len(raw) == 1 and isinstance(raw[0], Mapping) and raw[0].get("type") == "tool-result":
            return _from_result_block(raw[0], envelope, where)
        if envelope.role == "tool" and not envelope.tool_call_id:
            raise LlmError("INVALID_REQUEST", f"{where} has the role `tool` and no `toolCallId`.")
        return cls(
            role=envelope.role,
            content=_blocks(raw, where),
            id=envelope.id,
            source=envelope.source,
            tool_call_id=envelope.tool_call_id,
            is_error=envelope.is_error,
        )

    def to_wire(self) -> dict[str, Any]:
        """Write the message as the host's JSON."""
        wire: dict[str, Any] = {"role": self.role, "content": [block_to_wire(block) for block in self.content]}
        if self.id is not None:
            wire["id"] = self.id
        if self.source is not None:
            wire["source"] = self.source
        if self.role == "tool":
            wire |= {"toolCallId": self.tool_call_id, "isError": self.is_error}
        return wire


def _blocks(raw: list[Any], where: str) -> tuple[ContentBlock, ...]:
    return tuple(block_from_wire(item, f"{where}.content[{index}]") for index, item in enumerate(raw))


def _from_result_block(block: Mapping[str, Any], envelope: _Envelope, where: str) -> Message:
    call, content, is_error = block.get("toolCallId"), block.get("content", []), block.get("isError", False)
    if not isinstance(call, str) or not isinstance(content, list) or not isinstance(is_error, bool):
        raise LlmError("INVALID_REQUEST", f"{where}.content[0] is not a tool result.")
    return Message(
        role="tool",
        content=_blocks(content, f"{where}.content[0]"),
        id=envelope.id,
        source=envelope.source,
        tool_call_id=call,
        is_error=is_error,
    )


def user(text: str) -> Message:
    """A hand-built user message of one text block."""
    return Message(role="user", content=(TextBlock(text),))


def tool_result(call_id: str, text: str, *, is_error: bool = False) -> Message:
    """A tool result of one text block."""
    return Message(role="tool", content=(TextBlock(text),), tool_call_id=call_id, is_error=is_error)
