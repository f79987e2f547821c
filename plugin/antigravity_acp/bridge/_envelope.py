"""JSON-RPC envelopes of MCP requests: cut apart without reading what is inside.

Owns: the decision what a body is (a request, a notification, a response, or nothing we answer) and the exact text of
its id and of a tool call's arguments, as slices of the body.
Never: accepts a batch, or an id that is not a string or an integer.
"""

import json
from typing import Any, Final

import msgspec

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602


class MalformedError(Exception):
    """A body that is no single JSON-RPC message; ``code`` and ``text`` are the JSON-RPC error to answer with.

    :ivar request_id: JSON text of the id when it could be read, else ``null``.
    :ivar tool_call: whether the message is a tool call whose arguments are what cannot be read.
    """

    def __init__(self, code: int, text: str, *, request_id: bytes = b"null", tool_call: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.request_id = request_id
        self.tool_call = tool_call


class Message(msgspec.Struct, frozen=True):
    """One message.

    :param method: ``None`` for a response, which we never asked for.
    :param request_id: the id exactly as it was written, or ``None`` for a notification.
    :param id_key: the id as canonical JSON, for comparing; empty for a notification.
    :param params: JSON text of the parameters.
    """

    method: str | None
    request_id: bytes | None
    id_key: str
    params: bytes


class ToolCall(msgspec.Struct, frozen=True):
    """Parameters of ``tools/call``: the exported name, the arguments as they were written, the protocol's own part."""

    name: str
    arguments: str
    meta: Any


class _Wire(msgspec.Struct):
    id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _WireCall(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    meta: Any = msgspec.field(name="_meta", default=None)


class _WireCancel(msgspec.Struct, rename="camel"):
    request_id: int | str


def read_message(body: bytes) -> Message:
    """Cut a body apart.

    :raises MalformedError: with the JSON-RPC error to answer.
    """
    try:
        body.decode("utf-8")
        wire = msgspec.json.decode(body, type=_Wire)
    except msgspec.ValidationError:
        raise MalformedError(INVALID_REQUEST, "The body must be one JSON-RPC request or notification") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _unreadable(body) from None
    method = None if wire.method is msgspec.UNSET else wire.method
    if method is None and wire.result is msgspec.UNSET and wire.error is msgspec.UNSET:
        raise MalformedError(INVALID_REQUEST, "The body must be one JSON-RPC request or notification")
    if wire.id is msgspec.UNSET:
        return Message(method, None, "", bytes(wire.params))
    raw = bytes(wire.id)
    if method is None:
        return Message(None, raw, "", b"{}")
    return Message(method, raw, _id_key(raw), bytes(wire.params))


def read_params(params: bytes) -> dict[str, Any]:
    """Parameters as an object.

    :raises MalformedError: when they are none.
    """
    try:
        value = json.loads(params)
    except (ValueError, RecursionError):
        raise MalformedError(INVALID_PARAMS, "Invalid request parameters") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedError(INVALID_PARAMS, "Invalid request parameters")
    return value


def read_tool_call(params: bytes) -> ToolCall:
    """Parameters of ``tools/call``; left-out or null arguments are an empty object.

    :raises MalformedError: when there is no name.
    """
    try:
        wire = msgspec.json.decode(params, type=_WireCall)
    except (msgspec.DecodeError, RecursionError):
        raise MalformedError(INVALID_PARAMS, "Invalid request parameters") from None
    arguments = bytes(wire.arguments).decode()
    return ToolCall(wire.name, "{}" if arguments == "null" else arguments, wire.meta)


def read_cancelled(params: bytes) -> str | None:
    """Canonical id of the request that ``notifications/cancelled`` names, ``None`` when it names none."""
    try:
        return msgspec.json.encode(msgspec.json.decode(params, type=_WireCancel).request_id).decode()
    except (msgspec.DecodeError, RecursionError):
        return None


def _id_key(raw: bytes) -> str:
    try:
        return msgspec.json.encode(msgspec.json.decode(raw, type=int | str)).decode()
    except msgspec.DecodeError:
        raise MalformedError(INVALID_REQUEST, "A request id must be a string or an integer") from None


def _unreadable(body: bytes) -> MalformedError:
    """Find out whether a lenient reader can still see a tool call, so that its model is told instead of its client.

    ``NaN``, ``Infinity`` and half a surrogate pair come from models; an HTTP error would hide them from it.
    """
    try:
        value = json.loads(body)
        request_id = json.dumps(value["id"]).encode()
        _id_key(request_id)
        if value["method"] == "tools/call" and isinstance(value["params"]["name"], str):
            return MalformedError(INVALID_PARAMS, "unreadable arguments", request_id=request_id, tool_call=True)
    except (ValueError, LookupError, TypeError, RecursionError, MalformedError):
        pass
    return MalformedError(PARSE_ERROR, "Parse error")
