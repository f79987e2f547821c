"""``ctx.tools``: the tools that a model may call.

Owns: the tools by name, and the validation of arguments against their schemas. Every argument object is valid before a
tool sees it, also when the call did not come through a bridge that checked it already.
Never: decides whether a call may run; that is the loop's and the approver's.
"""

import re
from collections.abc import Callable
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from antigravity_acp.contract import AbortSignal, LlmError, ToolSchema
from antigravity_acp.hooks.calls import ToolKind, ToolResult
from antigravity_acp.hooks.schema import Schema
from antigravity_acp.host._scope import Scope

from .workspace import Workspace

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool may use.

    :param workspace: the directory that file tools are confined to.
    :param signal: fires when the turn is cancelled; the tool's task is cancelled then, too.
    :param call_id: correlation id of the call.
    :param session_id: the conversation.
    """

    workspace: Workspace
    signal: AbortSignal
    call_id: str = ""
    session_id: str = ""


@runtime_checkable
class Tool(Protocol):
    """A tool. ``kind`` may be left out; it is ``other`` then.

    It may also have ``refusal(arguments, context)``: why it cannot do this, whoever allows it; ``None`` where it could.
    Such a call is denied with that reason, and nobody is asked about it. It must neither block nor change anything.
    """

    @property
    def name(self) -> str:
        """The host's name of the tool."""

    @property
    def description(self) -> str:
        """What it does, for the model."""

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the argument object."""

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Do it.

        :param arguments: valid against :attr:`parameters`.
        :raises ToolError: with a text for the model. Any other exception becomes an error result without its text.
        """


class RegisteredTool(msgspec.Struct, frozen=True):
    """A tool with its compiled schema."""

    tool: Tool
    schema: Schema
    kind: ToolKind

    def refusal(self, arguments: dict[str, Any], context: ToolContext) -> str | None:
        """Why the tool cannot do this, by its own word; ``None`` where it has none."""
        ask = getattr(self.tool, "refusal", None)
        said: object = ask(arguments, context) if callable(ask) else None
        return said if isinstance(said, str) and said else None


class ToolRegistry:
    """The service ``tools``."""

    def __init__(self) -> None:
        self._tools: dict[str, RegisteredTool] = {}
        self._scope: Scope | None = None

    def scoped(self, ctx: Scope) -> "ToolRegistry":
        """A view whose registrations end with ``ctx``."""
        view = ToolRegistry()
        view._tools = self._tools
        view._scope = ctx
        return view

    def register(self, tool: Tool) -> Callable[[], None]:
        """Offer a tool.

        :returns: a function that takes it back; calling it twice is harmless.
        :raises LlmError: ``ACP_TOOL_CATALOG_INVALID``; names the tool and what is wrong with it.
        """
        if not isinstance(tool, Tool) or not isinstance(tool.name, str) or not _NAME.fullmatch(tool.name):
            raise LlmError("ACP_TOOL_CATALOG_INVALID", "A tool needs name, description, parameters and run.")
        name = tool.name
        if name in self._tools:
            raise LlmError("ACP_TOOL_CATALOG_INVALID", f"A tool named `{name}` is already registered.")
        try:
            schema = Schema(tool.parameters)
        except ValueError as error:
            raise LlmError("ACP_TOOL_CATALOG_INVALID", f"The parameters of `{name}` are not usable: {error}.") from None
        entry = RegisteredTool(tool, schema, getattr(tool, "kind", "other"))

        def withdraw() -> None:
            if self._tools.get(name) is entry:
                del self._tools[name]

        if self._scope is not None:
            self._scope.effect(withdraw, f"tool {name}")
        self._tools[name] = entry
        return withdraw

    def get(self, name: str) -> RegisteredTool | None:
        """The tool of a name."""
        return self._tools.get(name)

    def schemas(self) -> tuple[ToolSchema, ...]:
        """All tools as the model sees them, in the order of registration."""
        return tuple(
            ToolSchema(entry.tool.name, entry.tool.description, entry.tool.parameters) for entry in self._tools.values()
        )
