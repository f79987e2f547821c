"""What a harness is started with, and what it asks and tells: plain data between `session`, `harness` and `sdk`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antigravity_engine.backends import Backend


@dataclass(frozen=True, slots=True)
class McpServer:
    """One MCP server of a session: a URL with headers, or a command with arguments and environment."""

    name: str
    url: str | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a harness is started with. The conversation is created, or resumed when it is already on disk."""

    conversation_id: str
    backend: Backend
    model: str
    system_text: str
    workspace: str
    servers: tuple[McpServer, ...]
    disabled_tools: frozenset[str]
    native_tools: bool
    app: Path
    save: Path
    home: Path
    mcp_timeout_s: int
    model_retries: int
    max_model_calls: int
    environment: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Gate:
    """What the SDK asks and tells during a turn, as coroutine functions that run in the harness's own loop.

    before(call): False refuses the call without asking. ask(call): whether it may run. after(result), failed(error):
    how it ended.
    """

    before: Callable[[Any], Awaitable[bool]]
    ask: Callable[[Any], Awaitable[bool]]
    after: Callable[[Any], Awaitable[None]]
    failed: Callable[[Any], Awaitable[None]]
