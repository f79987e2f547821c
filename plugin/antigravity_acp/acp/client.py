"""One agent: a process, one ACP connection and its sessions.

Owns: starting an agent and speaking to it, from ``initialize`` to the end of its process. Ends with
:meth:`AgentClient.aclose`, or by itself when the process or its output ends; :meth:`AgentClient.closed` tells at
once, also while nothing is asked.
Never: signs in unless the agent refuses a session for want of it or :meth:`AgentClient.authenticate` is called; reads,
keeps or copies a credential.
"""

import asyncio
import importlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..contract import LlmError, Notify
from ..contract.notices import ignore
from ..settings import Settings
from ._authenticating import authenticate, telling_links
from ._finish import finish, wait_for
from .errors import AgentError, describe_exit, disconnected, timed_out
from .launch import AgentCommand, resolve_command
from .models import read_menu
from .permissions import Cancelled, outcome_of
from .process import AgentProcess
from .profiles import OFFICIAL, STRICT, AgentProfile, profile_for
from .session import AgentSession
from .transport import AgentTransport
from .updates import Counters

if TYPE_CHECKING:
    from .connection import AgentConnection

_log = logging.getLogger("antigravity_acp.acp")

#: Seconds that the exit status of a process is waited for after its output has ended, so that the error can name it.
_STATUS_S: Final = 0.3
#: Seconds for the SDK to end its tasks.
_CLOSE_S: Final = 2.0
_MAX_LABEL: Final = 128


class McpEndpoint(msgspec.Struct, frozen=True):
    """The private MCP endpoint of one turn, as ``session/new`` describes it. ``headers`` carry the bearer."""

    name: str
    url: str
    headers: tuple[tuple[str, str], ...]

    def __repr__(self) -> str:
        return f"McpEndpoint(name={self.name!r})"


class AgentClient:
    """A started agent. Made by :meth:`start`; checked out by one turn at a time."""

    def __init__(self, settings: Settings, process: AgentProcess, notify: Notify = ignore) -> None:
        self._settings = settings
        self._notify = notify
        self._process = process
        self._sessions: dict[str, AgentSession] = {}
        #: Sessions asked for so far.
        self.sessions = 0
        self._closed = asyncio.Event()
        self._wire_over = False
        self._ending: asyncio.Task[None] | None = None
        self.counters = Counters()
        self._transport = AgentTransport(process, self.counters, on_end=self._wire_ended)
        self._connection: AgentConnection | None = None
        self.profile: AgentProfile = STRICT
        #: What the agent calls itself; text of the agent, for diagnostics.
        self.agent_name = ""
        self.agent_version = ""
        #: Whether it can use an MCP server over HTTP, and whether prompts may hold images.
        self.mcp_http = False
        self.images = False
        #: Ids of the sign-in methods it announces.
        self.auth_methods: tuple[str, ...] = ()
        #: Whether it announces ACP's own `logout` (``agentCapabilities.auth.logout``).
        self.can_log_out = False
        #: Called once each when the connection ends, by whatever cause; must not raise.
        self.on_closed: list[Callable[[], None]] = []

    # ---- start ------------------------------------------------------------------------------------------------------
    @classmethod
    async def start(
        cls,
        settings: Settings,
        command: AgentCommand | None = None,
        *,
        watch: Callable[[AgentProcess], None] = lambda _: None,
        notify: Notify = ignore,
    ) -> "AgentClient":
        """Start an agent and agree on the protocol.

        :param command: what to start; what the settings ask for, of what is on the machine, when left out.
        :param watch: gets the process once it runs; what it says of its end and of its stderr stays readable when the
            start fails.
        :param notify: gets the link of a sign-in that a session waits for.
        :raises LlmError: ``ACP_BINARY_MISSING``, ``ACP_STARTUP_TIMEOUT``, ``ACP_VERSION_MISMATCH``,
            ``ACP_DISCONNECTED``, ``ACP_PROTOCOL_ERROR``, ``ACP_RPC_ERROR``. Nothing is left running then.
        """
        command = command or resolve_command(settings)
        process = await AgentProcess.start(command, dispose_grace_ms=settings.dispose_grace_ms)
        client = cls(settings, process, notify)
        watch(process)
        try:
            async with asyncio.timeout(settings.startup_timeout_ms / 1000):
                await client._initialize(must_be_official=command.found)
        except TimeoutError:
            await client.aclose()
            raise LlmError(
                "ACP_STARTUP_TIMEOUT",
                f"The agent did not answer `initialize` within {settings.startup_timeout_ms} ms. "
                "Check that it is an ACP agent, or raise `startupTimeoutMs`.",
            ) from None
        except BaseException:
            await client.aclose()
            raise
        return client

    async def _initialize(self, *, must_be_official: bool) -> None:
        # The SDK takes most of a second to import and the agent at least as long to start: both at once, off the loop.
        module = await asyncio.to_thread(importlib.import_module, "antigravity_acp.acp.connection")
        # Also when nobody reads on: a consumer that has stopped must not hide the agent's end.
        self._process.on_gone(self._set_closed)
        self._connection = module.AgentConnection(self._transport, permission=self._permission, lost=self._lost)
        result = await self._require().request("initialize", module.initialize_params(), timeout_ms=None)
        version = result.get("protocolVersion")
        if type(version) is not int or version != module.VERSION:
            raise LlmError("ACP_VERSION_MISMATCH")
        info = _object(result.get("agentInfo"))
        capabilities = _object(result.get("agentCapabilities"))
        self.agent_name = _label(info.get("name"))
        self.agent_version = _label(info.get("version"))
        self.profile = profile_for(self.agent_name, capabilities)
        if must_be_official and self.profile.id != OFFICIAL:
            raise LlmError(
                "ACP_VERSION_MISMATCH",
                "The program that was found as the official server calls itself something else. Replace it, or name "
                "it with `command` if it is the agent that you want.",
            )
        self.mcp_http = _object(capabilities.get("mcpCapabilities")).get("http") is True
        self.images = _object(capabilities.get("promptCapabilities")).get("image") is True
        self.can_log_out = isinstance(_object(capabilities.get("auth")).get("logout"), dict)
        methods = result.get("authMethods")
        self.auth_methods = tuple(
            item["id"]
            for item in (methods if isinstance(methods, list) else ())
            if isinstance(item, dict) and isinstance(item.get("id"), str)
        )

    # ---- sessions ---------------------------------------------------------------------------------------------------
    async def new_session(self, endpoint: McpEndpoint | None = None, *, sign_in: bool = True) -> AgentSession:
        """Open a fresh session in the process's scratch directory, with our endpoint as its only MCP server.

        Without being asked for it no sign-in is started: a stored choice of another method must not be overwritten.
        The official server begins one by itself where its own settings name a method and the stored sign-in has gone
        (1.3.0, from its sources): its link is told, and the session waits as long as a sign-in may take.

        :param sign_in: whether a session that the agent refuses for want of a sign-in starts one; without it
            ``ACP_AUTH_REQUIRED`` is raised, also as soon as the agent begins one by itself.
        :raises LlmError: ``ACP_MCP_UNSUPPORTED``, ``ACP_AUTH_REQUIRED``, ``ACP_AUTH_UNSUPPORTED``, ``ACP_TIMEOUT``,
            ``ACP_QUOTA``, ``ACP_RPC_ERROR``, ``ACP_DISCONNECTED``, ``ACP_PROTOCOL_ERROR``.
        """
        if endpoint is not None and not self.mcp_http:
            raise LlmError("ACP_MCP_UNSUPPORTED")
        self.sessions += 1
        with self._transport.expecting_session():
            try:
                result = await self._open_session(endpoint, sign_in=sign_in)
            except AgentError as error:
                if error.code != "ACP_AUTH_REQUIRED" or not sign_in:
                    raise
                with telling_links(self, self._notify):
                    await self.authenticate()
                result = await self._open_session(endpoint, sign_in=sign_in)
            session_id = result.get("sessionId")
            if not isinstance(session_id, str) or not session_id or session_id in self._sessions:
                raise LlmError("ACP_PROTOCOL_ERROR", "The agent answered `session/new` without a fresh session id.")
            session = AgentSession(
                session_id,
                self._require(),
                self.profile,
                self.counters,
                read_menu(result),
                request_timeout_ms=self._settings.request_timeout_ms,
                on_idle=self._settle,
            )
            self._sessions[session_id] = session
            for update in self._transport.register(session_id, session):
                # Only a change of the models matters before a prompt.
                self.counters.late_updates += session.read(update) is not None
        return session

    async def _open_session(self, endpoint: McpEndpoint | None, *, sign_in: bool) -> dict[str, Any]:
        from .connection import new_session_params

        server = None if endpoint is None else (endpoint.name, endpoint.url, endpoint.headers)
        params = new_session_params(str(self._process.cwd), server)
        limit_ms, waits = self._settings.request_timeout_ms, False
        try:
            async with asyncio.timeout(limit_ms / 1000) as deadline:

                def begun() -> None:
                    nonlocal waits
                    waits = True
                    patience = self._settings.auth_timeout_ms / 1000 if sign_in else 0.0
                    deadline.reschedule(asyncio.get_running_loop().time() + patience)

                with telling_links(self, self._notify if sign_in else ignore, begun):
                    return await self._require().request("session/new", params, timeout_ms=None)
        except TimeoutError:
            if waits:
                raise LlmError(
                    "ACP_AUTH_REQUIRED",
                    "The agent began a sign-in by itself, which nobody finished. Run `antigravity-acp login`.",
                ) from None
            raise timed_out("session/new", limit_ms, "requestTimeoutMs") from None

    # ---- sign-in ----------------------------------------------------------------------------------------------------
    async def authenticate(self) -> None:
        """Sign in with the configured method, else with the one that this agent usually takes. Bounded by
        ``authTimeoutMs``. That the agent agrees is no proof: a session that opens afterwards is one.

        :raises LlmError: ``ACP_AUTH_REQUIRED`` when it did not succeed or no method is chosen,
            ``ACP_AUTH_UNSUPPORTED``, ``ACP_TIMEOUT``, ``ACP_QUOTA``, ``ACP_DISCONNECTED``, ``ACP_PROTOCOL_ERROR``.
        """
        await authenticate(self._require(), self._settings, self.profile, self.auth_methods)

    async def log_out(self) -> None:
        """ACP's own ``logout``; only for an agent that announces it (:attr:`can_log_out`).

        :raises LlmError: ``ACP_TIMEOUT``, ``ACP_RPC_ERROR``, ``ACP_AUTH_REQUIRED`` when it is not signed in,
            ``ACP_DISCONNECTED``, ``ACP_PROTOCOL_ERROR``.
        """
        await self._require().request("logout", {}, timeout_ms=self._settings.request_timeout_ms)

    @contextmanager
    def hearing_stderr(self, listener: Callable[[bytes], None]) -> Iterator[None]:
        """Within the block ``listener`` gets the agent's stderr as it comes, in pieces of any size; must not raise.

        For what is made for a person there, the link of a sign-in; never for an error or a log.
        """
        with self._process.hearing_stderr(listener):
            yield

    def _permission(self, params: dict[str, Any]) -> dict[str, Any]:
        session = self._sessions.get(params.get("sessionId", "")) if isinstance(params.get("sessionId"), str) else None
        return outcome_of(Cancelled()) if session is None else session.permission(params)

    # ---- state ------------------------------------------------------------------------------------------------------
    @property
    def alive(self) -> bool:
        """Whether requests can still be sent."""
        return not self._wire_over and not self._closed.is_set() and self._process.returncode is None

    @property
    def pid(self) -> int:
        """Process id of the agent, which is its group's id too."""
        return self._process.pid

    async def closed(self) -> None:
        """Return when the connection has ended, by whatever cause."""
        await self._closed.wait()

    def failure(self) -> LlmError:
        """Why the connection has ended, as the error for whoever depended on it."""
        return self._transport.failure or disconnected(self._process.returncode)

    def exit_description(self) -> str:
        """How the process ended, in words; for diagnostics."""
        return describe_exit(self._process.returncode)

    def stderr_tail(self) -> str:
        """The last of the agent's stderr, redacted; for a person, never for an error or a log."""
        return self._process.stderr_tail()

    # ---- end --------------------------------------------------------------------------------------------------------
    async def aclose(self) -> None:
        """End the connection and the process group. Bounded, idempotent, finished even under cancellation.

        :raises LlmError: ``ACP_TEARDOWN_FAILED``.
        """
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end(), name="antigravity-acp.end-client")
        await finish(self._ending)

    async def _end(self) -> None:
        self._set_closed()
        try:
            if self._connection is not None:
                closing = asyncio.get_running_loop().create_task(self._connection.close())
                done = asyncio.Event()
                closing.add_done_callback(lambda _: done.set())
                if not await wait_for(done, _CLOSE_S):
                    closing.cancel()
                elif not closing.cancelled() and closing.exception() is not None:
                    _log.warning("closing an agent's connection failed: %s", type(closing.exception()).__name__)
        finally:
            await self._process.aclose()

    def _wire_ended(self) -> None:
        self._wire_over = True
        self._settle()

    def _settle(self) -> None:
        # An agent may answer a prompt and end in the same breath: the prompt must hear of its answer first.
        if self._wire_over and not any(session.busy for session in self._sessions.values()):
            self._set_closed()

    def _set_closed(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            for callback in self.on_closed:
                callback()

    async def _lost(self, method: str) -> LlmError:
        if self._transport.failure is not None:
            return self._transport.failure
        if self._process.returncode is None and self._ending is None:
            # The pipe is often a moment ahead of the exit status.
            try:
                async with asyncio.timeout(_STATUS_S):
                    await self._process.wait()
            except TimeoutError:
                pass
        return disconnected(self._process.returncode, during=method)

    def _require(self) -> "AgentConnection":
        if self._connection is None:
            raise LlmError("ACP_DISCONNECTED")
        return self._connection


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _label(value: object) -> str:
    return value[:_MAX_LABEL] if isinstance(value, str) else ""
