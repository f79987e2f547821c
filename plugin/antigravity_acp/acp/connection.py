"""Requests to an agent through the official SDK.

Owns: one ``Connection`` of ``agent-client-protocol`` over our transport, the parameters of every request (built from
the SDK's own types), and the translation of its failures into :class:`~antigravity_acp.contract.errors.LlmError`.
Ends with :meth:`AgentConnection.close`. Answers are returned as plain objects and read leniently by whoever asked,
since the SDK's models refuse what agents really send.

Importing this module imports the SDK, which takes most of a second; :mod:`antigravity_acp.acp.client` does it while
the agent process is starting.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from acp.connection import Connection
from acp.exceptions import RequestError
from acp.meta import PROTOCOL_VERSION
from acp.schema import (
    AcpMcpServer,
    AuthenticateRequest,
    ClientCapabilities,
    FileSystemCapabilities,
    HttpHeader,
    HttpMcpServer,
    Implementation,
    InitializeRequest,
    McpServerStdio,
    NewSessionRequest,
    SetSessionConfigOptionSelectRequest,
    SseMcpServer,
)
from pydantic import BaseModel

from ..contract import LlmError
from ..manifest import manifest
from .errors import classify, timed_out
from .transport import AgentTransport

#: The one version that this plugin speaks.
VERSION = PROTOCOL_VERSION


class AgentConnection:
    """The requests of one agent.

    :param permission: answers ``session/request_permission``: raw parameters in, the response's result out.
    :param lost: the error to raise when the wire ends during a request.
    """

    def __init__(
        self,
        transport: AgentTransport,
        *,
        permission: Callable[[dict[str, Any]], dict[str, Any]],
        lost: Callable[[str], Awaitable[LlmError]],
    ) -> None:
        self._permission = permission
        self._lost = lost
        self._sdk = Connection(self._handle, transport)

    async def request(
        self, method: str, params: dict[str, Any], *, timeout_ms: int | None, setting: str = "requestTimeoutMs"
    ) -> dict[str, Any]:
        """Send a request and wait for its answer; an answer that is not an object is an empty one.

        :param timeout_ms: milliseconds, ``None`` when the caller bounds it. :param setting: the setting to raise.
        :raises LlmError: ``ACP_TIMEOUT``, ``ACP_DISCONNECTED``, ``ACP_PROTOCOL_ERROR``, and for an error answer an
            :class:`~antigravity_acp.acp.errors.AgentError`.
        """
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                result = await self._sdk.send_request(method, params)
        except TimeoutError:
            raise timed_out(method, timeout_ms or 0, setting) from None
        except RequestError as error:
            raise classify(method, error.code, str(error), error.data) from None
        except ConnectionError:
            raise await self._lost(method) from None
        return result if isinstance(result, dict) else {}

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification; an agent that is gone needs none."""
        try:
            await self._sdk.send_notification(method, params)
        except ConnectionError:
            return

    async def close(self) -> None:
        """Stop the SDK's tasks. The process is ended by its owner."""
        await self._sdk.close()

    async def _handle(self, method: str, params: Any, is_notification: bool) -> dict[str, Any]:
        # The transport lets nothing but permission requests through, and the answer never raises: the SDK would log it.
        return self._permission(params)


def initialize_params() -> dict[str, Any]:
    """No file system and no terminal, said in so many words: the agent has to use the host's tools."""
    return _wire(
        InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(
                fs=FileSystemCapabilities(read_text_file=False, write_text_file=False), terminal=False
            ),
            client_info=Implementation(name=manifest().id, title=manifest().name, version=manifest().version),
        )
    )


def new_session_params(cwd: str, server: tuple[str, str, tuple[tuple[str, str], ...]] | None) -> dict[str, Any]:
    """``session/new`` with at most one MCP server, given as name, URL and headers."""
    servers: list[HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio] = []
    if server is not None:
        name, url, headers = server
        listed = [HttpHeader(name=key, value=value) for key, value in headers]
        servers.append(HttpMcpServer(type="http", name=name, url=url, headers=listed))
    return _wire(NewSessionRequest(cwd=cwd, mcp_servers=servers))


def authenticate_params(method_id: str) -> dict[str, Any]:
    """``authenticate`` with one of the announced methods."""
    return _wire(AuthenticateRequest(method_id=method_id))


def config_params(session_id: str, config_id: str, value: str) -> dict[str, Any]:
    """``session/set_config_option`` for a select option."""
    return _wire(SetSessionConfigOptionSelectRequest(session_id=session_id, config_id=config_id, value=value))


def _wire(model: BaseModel) -> dict[str, Any]:
    # What is set is sent, also where it equals a default: `fs: false` must be on the wire.
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
