"""The catalogue: the host's tools of one turn, compiled and ready to be shown to an agent.

Owns: the bounds of a catalogue, the pairing of exported and original names, and the digest that tells two catalogues
apart. Immutable; needs no end.
Never: drops a tool or a constraint. One tool that cannot be exported makes the whole catalogue invalid, since an agent
would lose it in silence.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from antigravity_acp.contract import LlmError, ToolSchema
from antigravity_acp.limits import MAX_TOOL_BYTES, MAX_TOOLS

from ._json import NotStrictJsonError, read_strictly, rename_keys
from ._names import export_names
from .export import export
from .validation import ArgumentValidator, SchemaError, check_json


class Judged(NamedTuple):
    """Arguments of one call after judgement: the text for the host, or what is wrong with them (then no text)."""

    text: str | None
    problems: tuple[str, ...] = ()


class Tool:
    """One tool of a catalogue.

    ``name`` is the host's, ``exported`` the agent's; ``definition`` is the MCP tool as it is listed.
    """

    __slots__ = ("_aliases", "_validator", "definition", "exported", "name")

    def __init__(self, tool: ToolSchema, exported: str) -> None:
        self._validator = ArgumentValidator(tool.parameters)
        schema, self._aliases = export(self._validator.schema, self._validator.draft)
        self.name = tool.name
        self.exported = exported
        self.definition: dict[str, Any] = {
            "name": exported,
            "description": tool.description or f"The host's tool {tool.name}.",
            "inputSchema": schema,
        }

    def judge(self, text: str) -> Judged:
        """Judge a call's arguments, given as the text that came.

        :returns: the text for the host, with the original property names and every value as it was written.
        """
        try:
            arguments = read_strictly(text)
        except NotStrictJsonError as problem:
            return Judged(None, (f"the arguments cannot be read: {problem}",))
        if not isinstance(arguments, dict):
            return Judged(None, ("/: expected object (`type`)",))
        if renamed := [alias for alias in self._aliases if alias in arguments]:
            if any(self._aliases[alias] in arguments for alias in renamed):
                return Judged(None, ("/: a property is given twice, under its own and its exported name",))
            text = rename_keys(text, self._aliases)
            arguments = {self._aliases.get(key, key): value for key, value in arguments.items()}
        problems = self._validator.problems(arguments)
        return Judged(None, tuple(problems)) if problems else Judged(text)


class Catalogue:
    """The tools of one turn; made by :meth:`build`."""

    __slots__ = ("_by_exported", "digest", "exported_names", "names")

    def __init__(self, tools: Iterable[Tool], digest: str) -> None:
        self._by_exported = {tool.exported: tool for tool in tools}
        #: Equal catalogues, and only those, have equal digests, whatever the order of their tools.
        self.digest = digest
        #: The names under which the agent knows the tools.
        self.exported_names = frozenset(self._by_exported)
        #: The host's name of each tool to its exported one, in the host's order.
        self.names: Mapping[str, str] = MappingProxyType({tool.name: tool.exported for tool in tools})

    @classmethod
    def build(cls, tools: Sequence[ToolSchema], *, name_budget: int) -> "Catalogue":
        """Compile and adapt every tool.

        :param name_budget: characters left for an exported name once the agent's prefix is counted.
        :raises LlmError: ``ACP_TOOL_CATALOG_INVALID``; names the tool and the reason.
        :raises ValueError: when the budget is too small for any name.
        """
        if len(tools) > MAX_TOOLS:
            raise LlmError(
                "ACP_TOOL_CATALOG_INVALID", f"{len(tools)} tools are too many; a request may have {MAX_TOOLS}."
            )
        seen: set[str] = set()
        for index, tool in enumerate(tools):
            if not tool.name:
                raise LlmError("ACP_TOOL_CATALOG_INVALID", f"tools[{index}] has no name; give every tool one.")
            if tool.name in seen:
                raise _invalid(tool, "its name is used twice")
            seen.add(tool.name)
        exported = export_names(seen, name_budget)
        built = tuple(_build(tool, exported[tool.name]) for tool in tools)
        return cls(built, cls.digest_of(tools))

    @staticmethod
    def digest_of(tools: Sequence[ToolSchema]) -> str:
        """The digest that a catalogue of these tools has, without compiling them.

        :raises LlmError: ``ACP_TOOL_CATALOG_INVALID`` when a definition is not JSON.
        """
        texts = sorted(_definition(tool) for tool in tools)
        return hashlib.sha256(msgspec.json.encode([hashlib.sha256(text).hexdigest() for text in texts])).hexdigest()

    def definitions(self) -> list[dict[str, Any]]:
        """The tools as MCP lists them."""
        return [tool.definition for tool in self._by_exported.values()]

    def find(self, exported: str) -> Tool | None:
        """The tool with this exported name."""
        return self._by_exported.get(exported)


def _build(tool: ToolSchema, exported: str) -> Tool:
    if (size := len(_definition(tool))) > MAX_TOOL_BYTES:
        raise _invalid(tool, f"its definition has {size} bytes; {MAX_TOOL_BYTES} are allowed")
    try:
        return Tool(tool, exported)
    except SchemaError as problem:
        raise _invalid(tool, str(problem)) from None


def _definition(tool: ToolSchema) -> bytes:
    try:
        check_json([tool.name, tool.description, tool.parameters])
        value = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str).encode()
    except SchemaError as problem:
        raise _invalid(tool, str(problem)) from None


def _invalid(tool: ToolSchema, reason: str) -> LlmError:
    return LlmError("ACP_TOOL_CATALOG_INVALID", f"The tool {tool.name[:80]!r} cannot be exported: {reason}.")
