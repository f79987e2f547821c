"""Permission requests: what is ours is allowed once, what is not is refused.

Owns: reading ``session/request_permission`` without trusting its shape, :func:`judge` and :func:`is_ours`. Identity
comes from the **first** report of a ``toolCallId`` or, where the agent asks before it announces, from the request
itself. A title alone proves nothing. Only an option of kind ``allow_once`` is ever chosen, so no agent is put into a
mode that asks no more. Questions to the user are recognised and never answered for them.
Never: looks at the call's arguments; those are judged in the MCP handler, which is the last gate.
"""

from collections.abc import Collection
from typing import Any, Final, TypeAlias

import msgspec

from .profiles import AgentProfile
from .updates import NOBODY, AgentToolCall, UpdateReader, bounded_id, mcp_identity

#: ACP tool kinds of what does something; a question does nothing, whatever its id says.
ACTING_KINDS: Final = frozenset({"read", "edit", "delete", "move", "search", "execute", "fetch"})


class PermissionRequest(msgspec.Struct, frozen=True):
    """What an agent asks. Fields that were missing or of another type are empty.

    :param server: MCP server and ``tool`` that the call is for, as its first report says; ``None`` when none was named
        or when the request contradicts the first report.
    :param options: pairs of option id and kind, in the agent's order. :param announced: an update came before it.
    """

    call_id: str
    server: str | None
    tool: str | None
    title: str
    kind: str | None
    options: tuple[tuple[str, str], ...]
    is_question: bool
    announced: bool
    has_locations: bool


class Allow(msgspec.Struct, frozen=True):
    """Choose this option."""

    option_id: str


class Reject(msgspec.Struct, frozen=True):
    """Choose this option, which refuses the one call and lets the turn go on."""

    option_id: str


class Cancelled(msgspec.Struct, frozen=True):
    """Answer that nobody decides."""


PermissionAnswer: TypeAlias = Allow | Reject | Cancelled


class Ours(msgspec.Struct, frozen=True):
    """The request is for an exported tool of our server; ``option_id`` allows it once."""

    option_id: str


class Question(msgspec.Struct, frozen=True):
    """The agent asks the user something; it is not a permission."""


class Foreign(msgspec.Struct, frozen=True):
    """Anything else. ``reject_option`` refuses just this call, ``None`` when the agent offers no such option."""

    reject_option: str | None


Verdict: TypeAlias = Ours | Question | Foreign


def read_request(profile: AgentProfile, params: dict[str, Any], calls: UpdateReader) -> PermissionRequest:
    """Read raw parameters; whatever is malformed leaves an empty field, and so ends as foreign."""
    raw = params.get("toolCall")
    call: dict[str, Any] = raw if isinstance(raw, dict) else {}
    call_id = bounded_id(call.get("toolCallId"))
    claimed = mcp_identity(call)
    if claimed == NOBODY:
        claimed = mcp_identity(params)
    first = calls.identity(call_id)
    # A request may leave out what the first report said; it may not say something else.
    identity = claimed if first is None else first if claimed in (NOBODY, first) else NOBODY
    if call_id:
        calls.remember(call_id, identity)
    locations = call.get("locations")
    return PermissionRequest(
        call_id=call_id,
        server=identity.server,
        tool=identity.tool,
        title=call["title"] if isinstance(call.get("title"), str) else "",
        kind=call["kind"] if isinstance(call.get("kind"), str) else None,
        options=_options(params.get("options")),
        is_question=bool(call_id) and call_id.startswith(profile.question_prefix),
        announced=first is not None,
        has_locations=bool(locations),
    )


def judge(profile: AgentProfile, request: PermissionRequest, *, server_name: str, exported: Collection[str]) -> Verdict:
    """Decide whose request this is.

    :param server_name: name of the endpoint of this turn, ``""`` when it has none.
    :param exported: exported tool names of that endpoint.
    """
    if request.is_question:
        return Question()
    if server_name and _names_ours(profile, request, server_name, exported):
        option = _allow_option(profile, request)
        if option is not None:
            return Ours(option)
    return Foreign(next((key for key, kind in request.options if kind == "reject_once"), None))


def is_ours(profile: AgentProfile, event: AgentToolCall, *, server_name: str, exported: Collection[str]) -> bool | None:
    """Whether a reported tool call is for our endpoint.

    :returns: ``None`` when it cannot be told: a report about a call that was never announced and names nothing.
    """
    if event.call_id.startswith(profile.question_prefix) and event.kind not in ACTING_KINDS:
        return None
    if event.server is not None:
        return bool(server_name) and event.server == server_name and event.tool in exported
    if profile.name_rule is not None:
        return (
            bool(server_name)
            and _id_tool(profile.name_rule.id_prefix, event.call_id, server_name, exported) is not None
        )
    return False if event.announced else None


def outcome_of(answer: PermissionAnswer) -> dict[str, Any]:
    """The response to ``session/request_permission``."""
    if isinstance(answer, Cancelled):
        return {"outcome": {"outcome": "cancelled"}}
    return {"outcome": {"outcome": "selected", "optionId": answer.option_id}}


def _names_ours(profile: AgentProfile, request: PermissionRequest, server_name: str, exported: Collection[str]) -> bool:
    rule = profile.name_rule
    if rule is None:
        return request.server == server_name and request.tool in exported
    tool = _id_tool(rule.id_prefix, request.call_id, server_name, exported)
    return (
        tool is not None
        and not request.announced
        and not request.has_locations
        and request.kind == rule.kind
        and (request.server, request.tool) in ((None, None), (server_name, tool))
    )


def _id_tool(prefix: str, call_id: str, server_name: str, exported: Collection[str]) -> str | None:
    # Exported names hold no "__", so at most one of them fits before it.
    return next((tool for tool in exported if call_id.startswith(prefix.format(server=server_name, tool=tool))), None)


def _allow_option(profile: AgentProfile, request: PermissionRequest) -> str | None:
    once = [key for key, kind in request.options if kind == "allow_once"]
    if len(once) != 1 or sum(key == once[0] for key, _ in request.options) != 1:
        return None
    return once[0] if profile.allow_option in (None, once[0]) else None


def _options(value: object) -> tuple[tuple[str, str], ...]:
    return tuple(
        (item["optionId"], item["kind"])
        for item in (value if isinstance(value, list) else ())
        if isinstance(item, dict) and isinstance(item.get("optionId"), str) and isinstance(item.get("kind"), str)
    )
