"""What an agent reports while it works: from raw ``session/update`` objects to a small closed set of events.

Owns: :data:`AgentEvent` and :class:`UpdateReader`, which reads one turn's updates in order and remembers the identity
of each tool call from its first report. Updates do not go through the SDK's models: an unknown kind is
counted, never fatal (OpenCode, Gemini CLI and the official server all send kinds that the schema does not list).
Never: executes anything; a reported tool call is an announcement, only an MCP request is a call.
"""

import hashlib
from collections import OrderedDict
from typing import Any, Final, TypeAlias

import msgspec

#: Tool calls of one turn whose identity is remembered; beyond it the oldest is forgotten, and a later report of it
#: counts as a first one.
MAX_TRACKED_CALLS: Final = 4_096

#: Characters of an id or name that is remembered. Real ones have fewer than 200; without a bound every tracked call
#: could hold a whole frame.
MAX_ID: Final = 1_024

#: Kinds that say nothing to a host of ours: the context's occupancy is not a bill, the rest is the agent's own
#: interface.
SILENT_KINDS: Final = frozenset(
    {
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "plan",
        "plan_update",
        "plan_removed",
        "session_info_update",
        "usage_update",
        "user_message_chunk",
    }
)


class AgentText(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="text"):
    """More of the agent's answer. Always a pure delta.

    Shaped like ACP's text content, so that the transport decodes a frame straight into the event.
    """

    text: str


class AgentThought(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="text"):
    """More of the agent's thinking. Always a pure delta."""

    text: str


class AgentToolCall(msgspec.Struct, frozen=True):
    """A report about a tool call of the agent.

    :param call_id: the agent's own id; opaque, and not the id under which the host sees a call.
    :param first: the first report of this id in this turn (agents repeat ``tool_call`` word for word).
    :param announced: it came as ``tool_call``; false for an update of a call that was never announced.
    :param server: MCP server and ``tool`` from the **first** report's ``_meta.mcp``; later reports never change them.
    :param title: text of the agent, for people; never proof of anything.
    :param kind: ACP tool kind, ``""`` when not given. :param status: ACP status or ``None``.
    """

    call_id: str
    first: bool
    announced: bool
    server: str | None
    tool: str | None
    title: str
    kind: str
    status: str | None


AgentEvent: TypeAlias = AgentText | AgentThought | AgentToolCall


class Counters(msgspec.Struct):
    """What a connection dropped or tolerated, by kind; numbers only, for diagnostics."""

    noise_lines: int = 0
    repaired_frames: int = 0
    malformed_frames: int = 0
    unmatched_responses: int = 0
    unknown_requests: int = 0
    unknown_notifications: int = 0
    unknown_updates: int = 0
    unsupported_content: int = 0
    silent_updates: int = 0
    foreign_updates: int = 0
    late_updates: int = 0
    overflowed_updates: int = 0


class Identity(msgspec.Struct, frozen=True):
    """Which MCP tool a call is for, as its first report says; both ``None`` when it names none."""

    server: str | None
    tool: str | None


NOBODY: Final = Identity(None, None)


class UpdateReader:
    """Reads the updates of one session in order. Owns the identities of its tool calls."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._calls: OrderedDict[str, Identity] = OrderedDict()

    def identity(self, call_id: str) -> Identity | None:
        """What the first report of ``call_id`` said, ``None`` when there was none."""
        return self._calls.get(call_id)

    def remember(self, call_id: str, identity: Identity) -> None:
        """Note a first report that came another way than as an update (some agents ask before they announce)."""
        if call_id not in self._calls:
            self._calls[call_id] = identity
            if len(self._calls) > MAX_TRACKED_CALLS:
                self._calls.popitem(last=False)

    def read(self, update: dict[str, Any]) -> AgentEvent | None:
        """One raw update as an event; ``None`` for what is counted and left out."""
        kind = update.get("sessionUpdate")
        if kind in ("agent_message_chunk", "agent_thought_chunk"):
            return self._chunk(update, thought=kind == "agent_thought_chunk")
        if kind in ("tool_call", "tool_call_update"):
            return self._tool_call(update, announced=kind == "tool_call")
        if kind in SILENT_KINDS:
            self._counters.silent_updates += 1
        else:
            self._counters.unknown_updates += 1
        return None

    def _chunk(self, update: dict[str, Any], *, thought: bool) -> AgentEvent | None:
        content = update.get("content")
        text = content.get("text") if isinstance(content, dict) and content.get("type") == "text" else None
        if not isinstance(text, str):
            self._counters.unsupported_content += 1
            return None
        return AgentThought(text) if thought else AgentText(text)

    def _tool_call(self, update: dict[str, Any], *, announced: bool) -> AgentEvent | None:
        call_id = bounded_id(update.get("toolCallId"))
        if not call_id and not announced:
            self._counters.unsupported_content += 1
            return None
        known = self._calls.get(call_id)
        identity = known if known is not None else mcp_identity(update)
        self.remember(call_id, identity)
        return AgentToolCall(
            call_id=call_id,
            first=known is None,
            announced=announced,
            server=identity.server,
            tool=identity.tool,
            title=_text(update.get("title")),
            kind=_text(update.get("kind")),
            status=_text(update.get("status")) or None,
        )


def mcp_identity(holder: dict[str, Any]) -> Identity:
    """``_meta.mcp = {server, tool}`` of an object; :data:`NOBODY` unless both are there and are strings."""
    meta = holder.get("_meta")
    mcp = meta.get("mcp") if isinstance(meta, dict) else None
    if isinstance(mcp, dict) and isinstance(mcp.get("server"), str) and isinstance(mcp.get("tool"), str):
        return Identity(bounded_id(mcp["server"]), bounded_id(mcp["tool"]))
    return NOBODY


def bounded_id(value: object) -> str:
    """An id or name of bounded length that is equal exactly when the given one is; ``""`` for what is no text."""
    if not isinstance(value, str):
        return ""
    if len(value) <= MAX_ID:
        return value
    return f"{value[:MAX_ID]}…{hashlib.sha256(value.encode('utf-8', 'replace')).hexdigest()}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
