"""Options that several commands share, and what they mean as settings.

Owns: one place for flags, so that a flag means the same in every command. Precedence: flag, then the file given by
``--settings``, then the default in ``manifest.json``. No environment variable of ours is read.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import click

from .failures import CliError

#: A settings file is written by hand; what is larger is something else.
MAX_SETTINGS_BYTES = 1024 * 1024

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class AgentFlags:
    """Which agent, as the command line says it."""

    engine: str | None
    command: str | None
    args: tuple[str, ...]
    script: str | None
    settings_file: str | None

    def settings(self) -> dict[str, Any]:
        """The plugin's settings as a mapping, not validated yet.

        :raises CliError: ``USAGE`` for flags that contradict each other, ``INVALID_SETTINGS`` for a file that is no
            JSON object or holds no settings; it names the file.
        """
        values = _checked(self.settings_file) if self.settings_file else {}
        if self.script and (self.command or self.engine not in (None, "embedded")):
            raise CliError("USAGE", "--script runs on the embedded engine; leave out --command and --engine.")
        if self.engine or self.script:
            # A flag wins over the file, and a `command` in the file would win over any engine.
            values["command"] = ""
            values["engine"] = "embedded" if self.script else self.engine
        if self.command:
            values |= {"command": self.command, "args": []}
        if self.args:
            values["args"] = list(self.args)
        if self.script:
            if not os.path.isfile(self.script):
                raise CliError("USAGE", f"--script: there is no file {self.script}.")
            # Absolute: the agent runs in a directory of its own.
            values["args"] = [*values.get("args", []), "--script", os.path.abspath(self.script)]
        return values


def _checked(path: str) -> dict[str, Any]:
    """The file's settings. What is wrong with them is said with the file's name; flags are looked at later."""
    from antigravity_acp.contract import LlmError
    from antigravity_acp.settings import Settings

    values = _read(path)
    try:
        Settings.from_mapping(values)
    except LlmError as error:
        raise CliError(error.code, f"{path}: {error.message}") from None
    return values


def _read(path: str) -> dict[str, Any]:
    import json

    try:
        if os.path.getsize(path) > MAX_SETTINGS_BYTES:
            raise CliError("INVALID_SETTINGS", f"{path} is too large to be a settings file.")
        raw = Path(path).read_bytes()
        values = json.loads(raw.decode("utf-8-sig"))
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else "it cannot be opened"
        raise CliError("INVALID_SETTINGS", f"The settings file {path} cannot be read: {reason}.") from None
    except (ValueError, RecursionError) as error:
        from antigravity_control.sources.malformed import why_no_json

        raise CliError("INVALID_SETTINGS", f"The settings file {path} {why_no_json(raw, error)}.") from None
    if not isinstance(values, dict):
        raise CliError("INVALID_SETTINGS", f"The settings file {path} must hold one JSON object.")
    return values


_AGENT = (
    click.option(
        "--engine",
        type=click.Choice(["auto", "embedded", "official"]),
        help="Which agent answers; `auto` takes the official server when it is there, else the embedded engine.",
    ),
    click.option("--command", metavar="CMD", help="An ACP agent to start instead."),
    click.option(
        "--arg",
        "args",
        multiple=True,
        metavar="ARG",
        help="An argument for the agent; may be repeated. Paths in it must be absolute.",
    ),
    click.option("--script", metavar="FILE", help="Run the embedded engine on a scripted model, offline."),
    click.option(
        "--settings",
        "settings_file",
        metavar="FILE",
        help="The plugin's settings as a JSON object; flags win over it.",
    ),
)


def agent_options(function: F) -> F:
    """The flags of :class:`AgentFlags`; the function gets them as one argument ``agent``."""
    names = [field.name for field in fields(AgentFlags)]

    def call(**given: Any) -> Any:
        agent = AgentFlags(**{name: given.pop(name) for name in names})
        return function(agent=agent, **given)

    call.__doc__ = function.__doc__
    # Options that the function declared itself travel along.
    call.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]  # click's own slot
    wrapped: Any = call
    for option in reversed(_AGENT):
        wrapped = option(wrapped)
    decorated: F = wrapped
    return decorated


def json_option(function: F) -> F:
    """``--json``: one JSON object a line on stdout."""
    option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line for each event.")
    decorated: F = option(function)
    return decorated
