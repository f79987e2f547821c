# google.antigravity ships no type information; nothing of it leaves this module but what plan.py describes.
# mypy: disable-error-code="import-untyped, untyped-decorator"
"""The edge to `google-antigravity` 0.1.22: how a conversation is configured and its harness started.

The only module that knows the SDK's private parts, which the exact pin of the dependency makes safe to know: the spawn
of the harness (ours has an explicit environment and can be killed while it starts) and the hook router (a late answer
to a hook of a cancelled turn kills the harness). Imported lazily: the SDK takes a second to import.

Sub-agents are off always. Measured: policies and hooks do not reach the calls of static and model-defined sub-agents,
so with them a tool would run that nobody was asked about.
"""

import asyncio
import os
import struct
import subprocess
from collections.abc import Callable
from typing import Any

from google.antigravity import types
from google.antigravity.connections.local import local_connection
from google.antigravity.connections.local.local_connection_config import LocalAgentConfig
from google.antigravity.connections.local.local_openai_connection_config import LocalOpenAIAgentConfig
from google.antigravity.conversation.conversation import Conversation
from google.antigravity.hooks import hook_runner, hooks, policy
from google.antigravity.models import GeminiAPIEndpoint, ModelEndpoint, ModelTarget, ModelType, VertexEndpoint
from google.antigravity.proto import localharness_pb2
from google.antigravity.tools import tool_runner

from antigravity_engine import limits
from antigravity_engine.backends import SECRET_VARIABLES, with_loopback
from antigravity_engine.plan import Gate, McpServer, Plan


class Link:
    """A started harness: the SDK's conversation, its process and its guard."""

    def __init__(self, plan: Plan, gate: Gate, on_process: Callable[[subprocess.Popen[bytes]], None]) -> None:
        self._plan = plan
        self._on_process = on_process
        config = _configure(plan, gate)
        self._strategy: Any = config.create_strategy(
            tool_runner=tool_runner.ToolRunner(tools=[]), hook_runner=hook_runner.HookRunner(hooks=config.hooks)
        )
        self._strategy._spawn_harness_and_connect_ws = self._spawn
        self.conversation: Conversation
        self.guard: HookGuard

    async def open(self) -> None:
        """Raises whatever the SDK raises; `classify` knows what to make of it."""
        await self._strategy.__aenter__()
        connection: Any = self._strategy.connect()
        self.conversation = Conversation(connection, history=connection._initial_history)
        self.guard = HookGuard(connection._processor._hook_router)

    async def close(self) -> None:
        """The SDK's own way down. It blocks its thread while the harness does not exit."""
        await self._strategy.__aexit__(None, None, None)

    async def send(self, parts: list[tuple[str, Any]]) -> None:
        """Gives the harness a prompt. Raises what the connection raises when it has gone."""
        await self.conversation.send(to_content(parts))

    @property
    def reader(self) -> "asyncio.Task[None]":
        """Done when the connection to the harness has ended, for whatever reason."""
        connection: Any = self.conversation.connection
        reader: asyncio.Task[None] = connection._reader_task
        return reader

    @property
    def connected(self) -> bool:
        return not self.reader.done()

    @property
    def stop_reason(self) -> types.StopReason:
        return self.conversation._last_turn_stop_reason

    def stderr_drained(self, seconds: float) -> bool:
        """Whether the SDK's reader of stderr has come to the end: it does not while a child of the harness holds the
        pipe, and then closing it would wait for that reader."""
        connection: Any = self.conversation.connection
        reader = connection._stderr_thread
        if reader is not None:
            reader.join(seconds)
        return reader is None or not reader.is_alive()

    def stderr_lines(self) -> list[str]:
        """The last lines the harness wrote to stderr. For recognising faults, never for logs or errors."""
        connection: Any = self.conversation.connection
        return list(connection._stderr_lines)

    async def _spawn(self, *, use_interactions_api: bool = False) -> tuple[subprocess.Popen[bytes], Any, str]:
        """Replaces the SDK's spawn: environment without secrets, and the process is known before it has answered.

        Wire: on stdin and stdout one message each, u32 little-endian length and protobuf; then a websocket.
        """
        additions = {"HOME": str(self._plan.home)}
        config = localharness_pb2.InputConfig(
            storage_directory=str(self._plan.save),
            client_info=localharness_pb2.ClientInfo(language="python", version=local_connection._get_sdk_version()),
            env=additions,
            use_interactions_api=use_interactions_api,
        )
        process = subprocess.Popen(  # noqa: ASYNC220 - this loop belongs to this harness alone
            [self._strategy._binary_path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**harness_environment(self._plan.environment), **additions},
            cwd=self._plan.workspace,
        )
        self._on_process(process)
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the harness has no pipes")
        message = config.SerializeToString()
        process.stdin.write(struct.pack("<I", len(message)) + message)
        process.stdin.flush()
        head = process.stdout.read(4)
        if len(head) < 4:
            raise RuntimeError("the harness ended before its handshake")
        answer = localharness_pb2.OutputConfig()
        answer.ParseFromString(process.stdout.read(struct.unpack("<I", head)[0]))
        socket, url = await self._strategy._connect_websocket(answer.port, answer.api_key, process)
        return process, socket, url


class HookGuard:
    """Keeps answers to hooks of a cancelled turn from the harness, which dies of them.

    Answers to policy questions may come late without harm; only hook answers are held back.
    """

    def __init__(self, router: Any) -> None:
        self._open: set[str] = set()
        self._dead: set[str] = set()
        self._closed = False
        self._send_on, self._handle_on = router._send, router.handle
        router._send, router.handle = self._send, self._handle

    def cut(self) -> None:
        """From now on no hook is answered any more. The harness of a cancelled turn is not used again."""
        self._closed = True
        self._dead |= self._open

    async def _handle(self, request: Any) -> None:
        if self._closed:
            return
        self._open.add(request.request_id)
        try:
            await self._handle_on(request)
        finally:
            self._open.discard(request.request_id)

    async def _send(self, event: Any) -> None:
        if event.call_hook_response.request_id not in self._dead:
            await self._send_on(event)


def harness_environment(environment: dict[str, str]) -> dict[str, str]:
    """The environment of the harness and of what it starts: ours without API keys, loopback never through a proxy."""
    clean = {name: value for name, value in environment.items() if name not in SECRET_VARIABLES}
    with_loopback(clean)
    if "GOOGLE_APPLICATION_CREDENTIALS" not in clean:
        # The harness has a home directory of its own, where the well-known file is not.
        config = clean.get("CLOUDSDK_CONFIG") or os.path.join(clean.get("HOME", ""), ".config", "gcloud")
        known = os.path.join(config, "application_default_credentials.json")
        if os.path.isfile(known):
            clean["GOOGLE_APPLICATION_CREDENTIALS"] = known
    return clean


def to_content(parts: list[tuple[str, Any]]) -> list[Any]:
    """`content.prompt_parts` as the SDK's content."""
    return [value if kind == "text" else types.Image(data=value[1], mime_type=value[0]) for kind, value in parts]


def _configure(plan: Plan, gate: Gate) -> LocalAgentConfig | LocalOpenAIAgentConfig:
    servers = [_mcp_server(server, plan) for server in plan.servers]

    # The SDK wants plain functions: it looks at their signatures, and decorators take nothing else.
    async def ask(call: types.ToolCall, reason: str = "") -> bool:
        return await gate.ask(call)

    @hooks.pre_tool_call_decide
    async def before(call: types.ToolCall) -> types.HookResult:
        if await gate.before(call):
            return types.HookResult(allow=True)
        return types.HookResult(allow=False, message="This function is not available here.")

    @hooks.post_tool_call
    async def after(result: types.ToolResult) -> None:
        await gate.after(result)

    @hooks.on_tool_error
    async def failed(error: Exception) -> None:
        if isinstance(error, types.ToolExecutionError):
            await gate.failed(error)

    refused = "The call was refused. Do not repeat it; go on without it or say what is missing."
    policies: list[policy.Policy] = []
    if plan.native_tools:
        policies.append(policy.ask_user("*", handler=ask, reason=refused))
    else:
        policies.append(policy.deny_all())
        for server in servers:
            policies.extend(policy.ask_user(server, handler=ask, reason=refused))
    common: dict[str, Any] = {
        "system_instructions": types.CustomSystemInstructions(text=plan.system_text),
        "capabilities": types.CapabilitiesConfig(
            enabled_tools=None if plan.native_tools else [],
            enable_subagents=False,
            mcp_max_output_bytes=limits.MCP_MAX_OUTPUT_BYTES,
        ),
        "policies": policies,
        "hooks": [before, after, failed],
        "mcp_servers": servers,
        "workspaces": [plan.workspace],
        "env": {"HOME": str(plan.home)},
        "conversation_id": plan.conversation_id,
        "session_continuation_mode": types.SessionContinuationMode.CREATE_OR_RESUME,
        "save_dir": str(plan.save),
        "app_data_dir": str(plan.app),
        "retry_config": types.RetryConfig(api_retry=types.ModelAPIRetryConfig(max_retries=plan.model_retries)),
    }
    if plan.max_model_calls:
        common["budget_config"] = types.BudgetConfig(
            max_model_calls=plan.max_model_calls, scope=types.BudgetScope.FORWARD_LOOKING
        )
    backend = plan.backend
    if backend.kind == "openai":
        return LocalOpenAIAgentConfig(model=plan.model, base_url=backend.base_url, **common)
    endpoint: ModelEndpoint
    if backend.kind == "vertex":
        endpoint = VertexEndpoint(project=backend.project, location=backend.location, api_key=backend.api_key)
    else:
        # A compatible end point may need no key, but the SDK's own checks do.
        endpoint = GeminiAPIEndpoint(base_url=backend.base_url, api_key=backend.api_key or "none")
    # Both types: otherwise the SDK adds an image model of its own at Google's address.
    target = ModelTarget(name=plan.model, types=[ModelType.TEXT, ModelType.IMAGE], endpoint=endpoint)
    return LocalAgentConfig(models=[target], vertex=backend.kind == "vertex", **common)


def _mcp_server(server: McpServer, plan: Plan) -> types.McpStreamableHttpServer | types.McpStdioServer:
    common: dict[str, Any] = {
        "name": server.name,
        "timeout_seconds": plan.mcp_timeout_s or None,
        "force_all_tools_eager": True,
        "disabled_tools": sorted(plan.disabled_tools) or None,
    }
    if server.url is not None:
        return types.McpStreamableHttpServer(url=server.url, headers=dict(server.headers), **common)
    # The server is the user's program: it gets the user's home, not the harness's.
    home = {"HOME": plan.environment["HOME"]} if "HOME" in plan.environment else {}
    return types.McpStdioServer(
        command=server.command, args=list(server.args), env={**home, **dict(server.env)}, **common
    )
