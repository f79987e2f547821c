"""The protocol core: JSON-RPC messages in, JSON-RPC answers out, through the official ``mcp`` server.

Owns: one low-level :class:`mcp.server.lowlevel.Server` for all endpoints and the choice of the protocol era. Each
request is driven on its own (``serve_one``): we keep no MCP session.
Eras: a body with the per-request ``_meta`` envelope is 2026-07-28; ``initialize`` and everything else is of the
handshake era, 2024-11-05 to 2025-11-25, in whatever version the header names. Google's harness goes on sending the
header 2026-07-28 after it negotiated down, so a newer header on an older body counts as the newest handshake version.
Importing this module imports ``mcp``, about 0.8 s: the bridge does it in a thread, when its first endpoint opens.
Never: sends anything to a client unasked, traces (the server's OpenTelemetry middleware is taken out), or logs what a
request holds.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, cast

import anyio
import msgspec
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_one
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS, InboundLadderRejection, classify_inbound_request
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PROTOCOL_VERSION_META_KEY,
    CallToolRequestParams,
    ListToolsResult,
    PaginatedRequestParams,
    ProgressToken,
    RequestId,
    Tool,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

from antigravity_acp.manifest import manifest

from .results import CallResult

log = logging.getLogger("antigravity_acp.bridge")

#: What the JSON-RPC error of a cancelled request carries; its client no longer listens.
CANCELLED: Final = -32800

_VERSION: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


class Subject(Protocol):
    """What a request is about: the endpoint's tools, and the one call if it is one."""

    def list_tools(self) -> list[dict[str, Any]]: ...

    async def call_tool(self) -> CallResult | None: ...


class Reply(NamedTuple):
    """An answer: HTTP status for the case that no stream has begun, and the JSON-RPC response."""

    status: int
    body: bytes


class Core:
    """Answers requests; holds no state between them."""

    def __init__(self) -> None:
        self._server: Server[dict[str, Any]] = Server(
            "antigravity-acp", version=manifest().version, on_list_tools=_list_tools, on_call_tool=_call_tool
        )
        self._server.middleware.clear()

    async def answer(
        self, subject: Subject, request_id: bytes, method: str, params: dict[str, Any], headers: Mapping[str, str]
    ) -> Reply:
        """Answer one request.

        :param request_id: JSON text of the id, put into the answer as it came.
        :param params: parameters; a tool call's arguments are left out, its subject has them.
        """
        meta = params.get("_meta")
        modern = method != "initialize" and isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta
        try:
            connection = _modern(method, params, headers) if modern else _handshake(headers)
            context = _Context(TransportContext(kind="streamable-http", can_send_request=False), subject)
            result = await serve_one(self._server, context, method, params, connection=connection, lifespan_state={})
            return Reply(200, b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, msgspec.json.encode(result)))
        except MCPError as error:
            return error_reply(request_id, error.error.code, error.error.message, error.error.data, modern=modern)
        except ValidationError:
            return error_reply(request_id, INVALID_PARAMS, "Invalid request parameters", modern=modern)
        except Exception as error:  # noqa: BLE001 - the boundary to the client; what failed must not reach it
            log.error("a request of the agent's MCP client failed inside the bridge: %s", type(error).__name__)
            return error_reply(request_id, INTERNAL_ERROR, "Internal error", modern=modern)


def error_reply(request_id: bytes, code: int, message: str, data: Any = None, *, modern: bool = True) -> Reply:
    """A JSON-RPC error; the handshake era sends it with status 200, the modern one with the status of its code."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    body = b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (request_id, msgspec.json.encode(error))
    return Reply(ERROR_CODE_HTTP_STATUS.get(code, 200) if modern else 200, body)


def result_reply(request_id: bytes, result: CallResult) -> Reply:
    """A JSON-RPC result that did not come from the server."""
    complete = {**result, "resultType": "complete"}
    return Reply(200, b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, msgspec.json.encode(complete)))


def _modern(method: str, params: dict[str, Any], headers: Mapping[str, str]) -> Connection:
    route = classify_inbound_request({"method": method, "params": params}, headers=headers)
    if isinstance(route, InboundLadderRejection):
        raise MCPError(code=route.code, message=route.message, data=route.data)
    return Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)


def _handshake(headers: Mapping[str, str]) -> Connection:
    version = headers.get("mcp-protocol-version", LATEST_HANDSHAKE_VERSION)
    if version not in HANDSHAKE_PROTOCOL_VERSIONS:
        if not _VERSION.fullmatch(version) or version < LATEST_HANDSHAKE_VERSION:
            raise MCPError(code=INVALID_REQUEST, message="Unsupported protocol version in the header")
        version = LATEST_HANDSHAKE_VERSION
    return Connection.from_envelope(version, None, None)


async def _list_tools(
    context: ServerRequestContext[dict[str, Any]], params: PaginatedRequestParams | None
) -> ListToolsResult:
    subject = cast("Subject", context.request)
    return ListToolsResult(tools=[Tool.model_validate(definition) for definition in subject.list_tools()])


async def _call_tool(context: ServerRequestContext[dict[str, Any]], params: CallToolRequestParams) -> Any:
    subject = cast("Subject", context.request)
    result = await subject.call_tool()
    if result is None:
        raise MCPError(code=CANCELLED, message="Request cancelled")
    return {**result, "resultType": "complete"}


@dataclass
class _Context:
    """The dispatch context of one HTTP exchange: there is no way back to the client but the answer."""

    transport: TransportContext
    subject: Subject
    request_id: RequestId | None = 0
    progress_token: ProgressToken | None = None
    can_send_request: bool = field(default=False, init=False)
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    @property
    def message_metadata(self) -> ServerMessageMetadata:
        return ServerMessageMetadata(request_context=self.subject)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Nothing is ever sent beside the answer."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Progress is not reported: Google's harness neither shows it nor extends its limit for it."""
