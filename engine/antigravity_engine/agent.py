"""The agent's face: which ACP methods there are, and what they answer.

Owns the sessions of the process. Protocol facts: ACP v1 (schema 1.19). Unknown methods answer -32601, unknown
notifications are ignored.
"""

import asyncio
import contextlib
import logging
import os
import re
import threading
import uuid
from typing import Any

from antigravity_engine import __version__, errors, limits
from antigravity_engine.backends import AUTH_METHODS, Backend, Services, auth_required
from antigravity_engine.content import prompt_parts
from antigravity_engine.errors import EngineError, invalid_params
from antigravity_engine.loading import load_sdk
from antigravity_engine.options import Options
from antigravity_engine.plan import McpServer
from antigravity_engine.session import Session, Surroundings
from antigravity_engine.state import State
from antigravity_engine.wire import Wire

log = logging.getLogger("antigravity_engine.agent")

PROTOCOL_VERSION = 1
AGENT_NAME = "antigravity-engine"
#: Key of what the adapter wants to know of an agent and ACP has no field for.
CLIENT_KEY = "antigravity-acp"
_SERVER_NAME = re.compile(r"[a-zA-Z0-9_-]{1,40}")


class Agent:
    """One process, one client. `backend` is None while nothing is configured."""

    def __init__(self, options: Options, backend: Backend | None, state: State) -> None:
        self._options = options
        self._services = Services(backend, options) if backend else None
        self._state = state
        self._sessions: dict[str, Session] = {}
        self._starts = asyncio.Semaphore(limits.MAX_CONCURRENT_STARTS)
        self._methods = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new_session,
            "session/set_config_option": self._set_config_option,
            "session/prompt": self._prompt,
            "session/cancel": self._cancel,
            "session/close": self._close_session,
        }
        self.wire: Wire  # set by `serve`

    async def handle(self, method: str, params: dict[str, Any]) -> Any:
        """Answers one request or notification. Raises `EngineError`."""
        handler = self._methods.get(method)
        if handler is None:
            raise EngineError("method_not_found", "this agent does not have that method", code=errors.METHOD_NOT_FOUND)
        return await handler(params)

    async def aclose(self) -> None:
        """Closes all sessions and what the back end needed. Bounded."""
        sessions, self._sessions = list(self._sessions.values()), {}
        if sessions:
            await asyncio.wait(
                {asyncio.ensure_future(session.aclose()) for session in sessions}, timeout=limits.SHUTDOWN_S
            )
        if self._services is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._services.aclose(), limits.SHUTDOWN_S)

    # ---- methods -----------------------------------------------------------------------------------------------------
    async def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(params.get("protocolVersion"), int):
            raise invalid_params("`protocolVersion` must be a number")
        if self._services is not None:
            warm_up()
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": AGENT_NAME, "title": "Antigravity engine", "version": __version__},
            "agentCapabilities": {
                "loadSession": False,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "mcpCapabilities": {"http": True, "sse": False},
                "sessionCapabilities": {"close": {}},
                "_meta": {CLIENT_KEY: {"mcpCallLimitSeconds": self._mcp_call_limit}},
            },
            "authMethods": self._auth_methods(),
        }

    @property
    def _mcp_call_limit(self) -> int:
        """Seconds after which the harness gives up on a tool call, for a client whose tools may take longer."""
        return self._options.mcp_timeout_s or limits.HARNESS_MCP_TIMEOUT_S

    def _auth_methods(self) -> list[dict[str, str]]:
        """All that would help while nothing is configured; afterwards the one that is in use, if it is one."""
        if self._services is None:
            return list(AUTH_METHODS)
        return [method for method in AUTH_METHODS if method["id"] == self._services.backend.auth_method]

    async def _authenticate(self, params: dict[str, Any]) -> dict[str, Any]:
        method = params.get("methodId")
        if method not in {entry["id"] for entry in AUTH_METHODS}:
            raise invalid_params("`methodId` is none of the agent's auth methods")
        if self._services is None:
            # Credentials come with the environment of the process; a running one cannot be given any.
            raise auth_required()
        if method != self._services.backend.auth_method:
            raise invalid_params("the engine was started with another back end than this method stands for")
        return {}

    async def _new_session(self, params: dict[str, Any]) -> dict[str, Any]:
        cwd = params.get("cwd")
        if not isinstance(cwd, str) or not _is_directory(cwd):
            raise invalid_params("`cwd` must be the absolute path of a directory")
        servers = _servers(params.get("mcpServers", []))
        if self._services is None:
            raise auth_required()
        if len(self._sessions) >= limits.MAX_SESSIONS:
            raise EngineError("session_limit", f"this process has {limits.MAX_SESSIONS} sessions; close some")
        models = await self._services.models()
        shared = Surroundings(self.wire, self._options, self._services, self._state, self._starts)
        session = Session(uuid.uuid4().hex, cwd, servers, models, shared)
        self._sessions[session.id] = session
        session.prepare()
        self._release_idle(but=session)
        return {"sessionId": session.id, "configOptions": _config_options(session)}

    async def _set_config_option(self, params: dict[str, Any]) -> dict[str, Any]:
        session = self._session(params)
        if params.get("configId") != "model":
            raise invalid_params("`configId` must be `model`")
        session.select_model(params.get("value"))
        return {"configOptions": _config_options(session)}

    async def _prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        session = self._session(params)
        parts = prompt_parts(params.get("prompt"))
        try:
            return await session.prompt(parts)
        finally:
            self._release_idle()

    async def _cancel(self, params: dict[str, Any]) -> None:
        session = self._sessions.get(str(params.get("sessionId")))
        if session is not None:
            session.cancel()

    async def _close_session(self, params: dict[str, Any]) -> dict[str, Any]:
        session = self._session(params)
        self._sessions.pop(session.id, None)
        await session.aclose()
        return {}

    # ---- helpers -----------------------------------------------------------------------------------------------------
    def _session(self, params: dict[str, Any]) -> Session:
        session = self._sessions.get(str(params.get("sessionId")))
        if session is None:
            raise invalid_params("there is no session with this id", kind="session_not_found")
        return session

    def _release_idle(self, *, but: Session | None = None) -> None:
        """Keeps few unused harnesses: the ones that were used last."""
        idle = [(since, session) for session in self._sessions.values() if (since := session.idle_since) is not None]
        idle = sorted(idle, key=lambda entry: entry[0], reverse=True)
        for _, session in idle[limits.MAX_IDLE_HARNESSES :]:
            if session is not but:
                session.release()


def _is_directory(path: str) -> bool:
    return os.path.isabs(path) and os.path.isdir(path)


def warm_up() -> None:
    """Imports the SDK in the background: it takes a second, which passes while the client makes up its mind."""

    def load() -> None:
        with contextlib.suppress(Exception):  # the session that needs it reports
            load_sdk()

    threading.Thread(target=load, name="warm-up", daemon=True).start()


def _config_options(session: Session) -> list[dict[str, Any]]:
    options = [{"value": model, "name": model} for model in session.models]
    return [
        {
            "type": "select",
            "id": "model",
            "name": "Model",
            "category": "model",
            "currentValue": session.model,
            "options": options,
        }
    ]


def _servers(entries: Any) -> tuple[McpServer, ...]:
    if not isinstance(entries, list):
        raise invalid_params("`mcpServers` must be a list")
    servers = tuple(_server(index, entry) for index, entry in enumerate(entries))
    if len({server.name for server in servers}) < len(servers):
        raise invalid_params("`mcpServers`: names must be unique")
    return servers


def _server(index: int, entry: Any) -> McpServer:
    where = f"`mcpServers[{index}]`"
    if not isinstance(entry, dict):
        raise invalid_params(f"{where} must be an object")
    name = entry.get("name")
    if not isinstance(name, str) or not _SERVER_NAME.fullmatch(name):
        raise invalid_params(f"{where}: `name` must be 1 to 40 of letters, digits, `_` and `-`")
    if entry.get("type") == "http":
        url = entry.get("url")
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise invalid_params(f"{where}: `url` must be an http or https URL")
        return McpServer(name, url=url, headers=_pairs(where, "headers", entry.get("headers", [])))
    if "type" in entry and entry["type"] != "stdio":
        raise invalid_params(f"{where}: the transports are http and stdio")
    command, args = entry.get("command"), entry.get("args", [])
    if not isinstance(command, str) or not command:
        raise invalid_params(f"{where}: `command` must be given")
    if not isinstance(args, list) or not all(isinstance(value, str) for value in args):
        raise invalid_params(f"{where}: `args` must be a list of text")
    return McpServer(name, command=command, args=tuple(args), env=_pairs(where, "env", entry.get("env", [])))


def _pairs(where: str, field: str, entries: Any) -> tuple[tuple[str, str], ...]:
    pairs = []
    for entry in entries if isinstance(entries, list) else [None]:
        name, value = (entry.get("name"), entry.get("value")) if isinstance(entry, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(value, str):
            raise invalid_params(f"{where}: `{field}` must be a list of objects with `name` and `value`")
        pairs.append((name, value))
    return tuple(pairs)


async def serve(options: Options, backend: Backend | None, stdin: int, stdout: int) -> None:
    """Serves one client until it closes stdin or the process is asked to end; then nothing is left. Bounded."""
    import signal

    state = State(options.state, options.environment)
    try:
        agent = Agent(options, backend, state)
        agent.wire = wire = Wire(stdin, stdout, agent.handle)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows
                loop.add_signal_handler(number, wire.end)
        try:
            await wire.run()
        finally:
            await wire.aclose()
            await agent.aclose()
    finally:
        state.close()
