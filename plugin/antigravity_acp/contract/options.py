"""A single model request, fully assembled.

Owns: :class:`GenerateOptions` and :class:`ToolSchema`, to and from the host's JSON (DeepSeek Harness 0.2.1).
The signal is never on the wire; a host in another process gives it beside the options.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from .content import invalid
from .errors import LlmError
from .messages import Message
from .signal import AbortSignal


class ToolSchema(msgspec.Struct, frozen=True):
    """A tool as the model sees it.

    :param name: the host's own name.
    :param description: what it does.
    :param parameters: JSON Schema of the argument object, in any draft; never changed by this project.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    provider: str
    model: str
    messages: list[Any]
    system: str | None = None
    tools: list[ToolSchema] | None = None
    tool_history: dict[str, Any] | None = None
    session_id: str | None = None
    purpose: str | None = None
    reasoning_effort: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    stop: list[str] | None = None


class GenerateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a host asks for in one generation.

    :param provider: registered route, e.g. ``antigravity-acp``.
    :param model: model id, e.g. ``server-default``.
    :param messages: the complete history in order; a loop call carries its system prompt as the first message.
    :param system: the system prompt of a hand-built call.
    :param tools: the tools of this call, empty for none.
    :param tool_history: the host's record of tool changes; carried, never interpreted.
    :param session_id: identity of the conversation; a continuation is looked up by it.
    :param purpose: set for auxiliary calls (``session-title``, ``compaction``).
    :param reasoning_effort: explicit effort; not expressible over ACP.
    :param max_tokens: output cap in tokens; not expressible over ACP.
    :param temperature: sampling control; not expressible over ACP.
    :param stop: stop sequences; not expressible over ACP.
    :param signal: cancellation; outlives this one call.
    """

    provider: str
    model: str
    messages: tuple[Message, ...]
    system: str | None = None
    tools: tuple[ToolSchema, ...] = ()
    tool_history: dict[str, Any] | None = None
    session_id: str | None = None
    purpose: str | None = None
    reasoning_effort: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    signal: AbortSignal | None = None

    @classmethod
    def from_wire(cls, value: Mapping[str, Any], *, signal: AbortSignal | None = None) -> "GenerateOptions":
        """Read the host's JSON; fields that this version does not know are left out.

        :raises LlmError: ``INVALID_REQUEST`` with the path of the field and what was expected, never its value.
        """
        try:
            wire = msgspec.convert(value, _Wire)
        except msgspec.ValidationError as error:
            raise invalid("options", error) from None
        if not wire.messages:
            raise LlmError("INVALID_REQUEST", "options.messages is empty; at least one message is needed.")
        return cls(
            provider=wire.provider,
            model=wire.model,
            messages=tuple(Message.from_wire(item, f"messages[{index}]") for index, item in enumerate(wire.messages)),
            system=wire.system,
            tools=tuple(wire.tools or ()),
            tool_history=wire.tool_history,
            session_id=wire.session_id,
            purpose=wire.purpose,
            reasoning_effort=wire.reasoning_effort,
            max_tokens=wire.max_tokens,
            temperature=wire.temperature,
            stop=tuple(wire.stop or ()),
            signal=signal,
        )

    def to_wire(self) -> dict[str, Any]:
        """Write the request as the host's JSON, without the signal and without fields that are not set."""
        wire: dict[str, Any] = {
            "provider": self.provider,
            "model": self.model,
            "messages": [message.to_wire() for message in self.messages],
            "system": self.system,
            "tools": [msgspec.to_builtins(tool) for tool in self.tools] or None,
            "toolHistory": self.tool_history,
            "sessionId": self.session_id,
            "purpose": self.purpose,
            "reasoningEffort": self.reasoning_effort,
            "maxTokens": self.max_tokens,
            "temperature": self.temperature,
            "stop": list(self.stop) or None,
        }
        return {key: item for key, item in wire.items() if item is not None}
