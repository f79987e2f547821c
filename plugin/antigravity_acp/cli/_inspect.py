"""Looking at an agent without giving it work: `models` and `probe`.

Owns: one agent process for as long as the command runs; it is ended, with its scratch directory, before the command is.
Never: sends a prompt. `probe` never starts a sign-in either.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import click
import msgspec

from antigravity_acp.acp import AgentClient
from antigravity_acp.acp.launch import resolve_command, without_browser
from antigravity_acp.adapter import AntigravityAdapter
from antigravity_acp.contract import LlmError, ModelInfo, Notice
from antigravity_acp.manifest import manifest
from antigravity_acp.settings import Settings

from ._setup import advise
from .failures import explain
from .options import AgentFlags
from .output import JsonLines, plain


async def run_models(flags: AgentFlags, *, as_json: bool) -> int:
    """List the live catalogue.

    :raises CliError: when the agent cannot be asked.
    """
    settings = Settings.from_mapping(flags.settings())
    adapter = AntigravityAdapter(settings, notify=_notice)
    try:
        models = await adapter.list_models(manifest().provider)
    except LlmError as error:
        raise advise(explain(error), settings) from None
    finally:
        await adapter.dispose()
    default = manifest().default_model
    if as_json:
        for model in models:
            wire = msgspec.to_builtins(model)
            JsonLines().show({"event": "model", "default": model.id == default, **wire})
    else:
        _print_models(models)
    return 0


def _notice(notice: Notice) -> None:
    click.echo(notice.message, err=True)


def _print_models(models: Sequence[ModelInfo]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for heading in ("model", "name", "what it is"):
        table.add_column(heading, header_style="bold", overflow="fold")
    for model in models:
        table.add_row(*(Text(plain(text)) for text in (model.id, model.name, model.description or "")))
    Console(highlight=False).print(table)


async def run_probe(flags: AgentFlags, *, as_json: bool) -> int:
    """Start an agent, look at it, end it.

    :raises LlmError: when it cannot be started or does not speak ACP v1.
    """
    settings = Settings.from_mapping(flags.settings())
    show = _show_json if as_json else _show_text
    clock = _Clock(show)
    client = await AgentClient.start(settings, without_browser(resolve_command(settings)))
    try:
        clock.stage("initialize")
        show(
            {
                "event": "agent",
                "name": client.agent_name,
                "version": client.agent_version,
                "protocol": 1,
                "profile": client.profile.id,
                "mcpHttp": client.mcp_http,
                "images": client.images,
                "authMethods": list(client.auth_methods),
            }
        )
        await _probe_session(client, clock, show)
    finally:
        clock.reset()
        await client.aclose()
    clock.stage("exit")
    return 0


async def _probe_session(client: AgentClient, clock: "_Clock", show: Callable[[Mapping[str, Any]], None]) -> None:
    clock.reset()
    try:
        session = await client.new_session(sign_in=False)
    except LlmError as error:
        if error.code != "ACP_AUTH_REQUIRED":
            raise
        clock.stage("session/new")
        show({"event": "session", "signInNeeded": True, "currentModel": None, "models": []})
        return
    clock.stage("session/new")
    show(
        {
            "event": "session",
            "signInNeeded": False,
            "currentModel": session.current_model,
            "models": [choice.id for choice in session.models],
        }
    )


class _Clock:
    """Times of the stages, in seconds."""

    def __init__(self, show: Callable[[Mapping[str, Any]], None]) -> None:
        self._show = show
        self.reset()

    def reset(self) -> None:
        self._began = time.monotonic()

    def stage(self, name: str) -> None:
        self._show({"event": "stage", "name": name, "seconds": round(time.monotonic() - self._began, 3)})
        self.reset()


def _show_json(event: Mapping[str, Any]) -> None:
    JsonLines().show(event)


def _show_text(event: Mapping[str, Any]) -> None:
    for label, value in _LINES[event["event"]](event):
        print(f"{label:16}{plain(value)}", flush=True)


def _agent_lines(event: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("agent", f"{event['name'] or '(no name)'} {event['version']}".rstrip()),
        ("protocol", f"ACP v{event['protocol']}"),
        ("profile", f"{event['profile']}" + (" (strict default)" if event["profile"] == "unknown" else "")),
        ("MCP over HTTP", "yes" if event["mcpHttp"] else "no: it cannot be lent the host's tools"),
        ("images", "yes" if event["images"] else "no"),
        ("sign-in methods", ", ".join(event["authMethods"]) or "none announced"),
    ]


def _session_lines(event: Mapping[str, Any]) -> list[tuple[str, str]]:
    if event["signInNeeded"]:
        return [("models", "not shown: the agent wants a sign-in or a key first")]
    return [
        ("models", ", ".join(event["models"]) or "none announced"),
        ("model now", event["currentModel"] or "not said"),
    ]


_LINES: Final[dict[str, Callable[[Mapping[str, Any]], list[tuple[str, str]]]]] = {
    "stage": lambda event: [(f"  {event['name']}", f"{event['seconds']:.2f} s")],
    "agent": _agent_lines,
    "session": _session_lines,
}
