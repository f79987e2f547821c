"""Which program is the agent, and how it is started.

Owns: the choice between a configured command, the official server and the embedded engine. Reads the file system and
``PATH``, starts nothing, downloads nothing: an official server that is wanted and not there is told apart, for
:mod:`.installer`. A configured program that cannot be started is an error, never silently replaced by another one.
"""

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from antigravity_provisioning.locate import LocateError, OfficialServer, is_server_name, locate

from ..contract import LlmError
from ..settings import Settings
from ._interpreter import interpreter
from .profiles import environment_for

_ENGINE_MODULE: Final = "antigravity_engine"
_ENGINE_SCRIPT: Final = "antigravity-engine"
_ENGINE_SDK: Final = ("google", "google.antigravity")
_INSTALL_ENGINE: Final = "pip install 'dsh-antigravity-acp[engine]'"
#: What gives the engine a model: its flags, and what it reads from the environment (see the engine's README).
_MODEL_FLAGS: Final = ("--backend", "--gemini-base-url", "--openai-base-url", "--script")
_VERTEX: Final = "GOOGLE_GENAI_USE_VERTEXAI"


class AgentCommand(msgspec.Struct, frozen=True):
    """What to start.

    :param argv: program and arguments. :param env: additions to the agent's environment; may hold secrets.
    :param found: it was found as the official server and nobody named it, so it has to be that one.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    found: bool = False

    def __repr__(self) -> str:
        return f"AgentCommand({Path(self.argv[0]).name!r})"


class NotInstalled(NamedTuple):
    """The official server is wanted and not on this machine.

    :param error: what to say when it stays so. :param fallback: what to start instead, ``None`` without an alternative.
    """

    error: LlmError
    fallback: AgentCommand | None


def resolve_command(settings: Settings) -> AgentCommand:
    """Find the agent that the settings ask for, among what is on this machine.

    :raises LlmError: ``ACP_BINARY_MISSING``; says what was searched and what to do, not what was configured.
    """
    found = choose(settings)
    if isinstance(found, AgentCommand):
        return found
    if found.fallback is None:
        raise found.error
    return found.fallback


def choose(settings: Settings, *, proven: bool = False) -> AgentCommand | NotInstalled:
    """Find the agent that the settings ask for, or say that it would have to be installed.

    :param proven: a server that was installed and has not answered yet counts as one that is not there.
    :raises LlmError: ``ACP_BINARY_MISSING`` when an installation would not help.
    """
    if settings.command:
        return _command(_configured(settings), settings)
    if settings.engine == "embedded":
        return _command(_embedded(settings), settings)
    try:
        server = locate(proven=proven)
    except LocateError as error:
        # Somebody pointed at a server: using something else instead would hide their mistake.
        if error.explicit:
            raise LlmError("ACP_BINARY_MISSING", f"The official server cannot be started: {error}") from None
        return _not_installed(settings, error)
    return official_command(server, settings)


def official_command(server: OfficialServer, settings: Settings) -> AgentCommand:
    """How to start an official server that was found."""
    return _command((str(server.path), *server.args, *settings.args), settings, found=True)


def without_browser(command: AgentCommand) -> AgentCommand:
    """The same command where nothing may be opened on the person's screen, for looking at an agent."""
    # Python's `webbrowser`, which the official server uses, and `xdg-open` both ask BROWSER first.
    return msgspec.structs.replace(
        command, env={**command.env, "BROWSER": "true", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    )


def has_model(settings: Settings) -> bool:
    """Whether the embedded engine would have a model back end with these settings."""
    environment = {**os.environ, **settings.env}
    return (
        any(item.split("=")[0] in _MODEL_FLAGS for item in settings.args)
        or bool(environment.get("GEMINI_API_KEY"))
        or environment.get(_VERTEX, "").lower() in ("1", "true")
    )


def has_engine() -> bool:
    """Whether the engine can run here, without importing it (or Google's SDK, which takes seconds)."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in (_ENGINE_MODULE, *_ENGINE_SDK))
    except (ImportError, ValueError):
        return False


def _command(argv: tuple[str, ...], settings: Settings, *, found: bool = False) -> AgentCommand:
    # The host's own choice wins over what a profile knows.
    return AgentCommand(argv, {**environment_for(argv), **_python_path(argv), **settings.env}, found)


def _not_installed(settings: Settings, error: LocateError) -> NotInstalled:
    missing = f"The official server cannot be started: {error}"
    if settings.engine == "official":
        return NotInstalled(LlmError("ACP_BINARY_MISSING", missing), None)
    if has_engine() and has_model(settings):
        return NotInstalled(LlmError("ACP_BINARY_MISSING", missing), _command(_embedded(settings), settings))
    why = (
        "it has no model; set GEMINI_API_KEY, or give it one by `args` (--openai-base-url URL for a local one)"
        if has_engine()
        else f"not installed; run {_INSTALL_ENGINE}"
    )
    text = f"No agent was found. Official server: {error} Embedded engine: {why}. Or set `command` to any ACP agent."
    return NotInstalled(LlmError("ACP_BINARY_MISSING", text), None)


def _configured(settings: Settings) -> tuple[str, ...]:
    command = os.path.expanduser(settings.command)
    name = Path(command).name
    if is_server_name(name) or Path(name).stem.lower() == "agy":
        found = shutil.which(command) or command
        try:
            server = locate(explicit=found)
        except LocateError as error:
            raise LlmError("ACP_BINARY_MISSING", f"Setting `command`: {error}") from None
        return (str(server.path), *(settings.args or server.args))
    found_program = shutil.which(command)
    if found_program is None:
        where = "at that path" if os.path.dirname(command) else "on PATH"
        raise LlmError(
            "ACP_BINARY_MISSING",
            f"Setting `command` names a program that was not found {where}, or is not executable. Correct it, or clear "
            "it to use the engine that `engine` chooses.",
        )
    # The process starts in a directory of its own, where a relative path would lead elsewhere.
    return (os.path.abspath(found_program), *settings.args)


def _embedded(settings: Settings) -> tuple[str, ...]:
    if not has_engine():
        raise LlmError(
            "ACP_BINARY_MISSING",
            f"The embedded engine is not installed: this Python has no `google.antigravity`. Run {_INSTALL_ENGINE}, or "
            "set `engine` or `command` to another agent.",
        )
    return (*_engine_program(), *settings.args)


def _engine_program() -> tuple[str, ...]:
    python = interpreter()
    if python is not None:
        return (python, "-P", "-m", _ENGINE_MODULE)
    script = shutil.which(_ENGINE_SCRIPT)
    if script is None:
        raise LlmError(
            "ACP_BINARY_MISSING",
            f"This host is not run by a Python interpreter, and `{_ENGINE_SCRIPT}` is not on PATH. Install it in a "
            f"Python environment of its own ({_INSTALL_ENGINE}) and put it on PATH, or set `command`.",
        )
    return (script,)


def _python_path(argv: tuple[str, ...]) -> dict[str, str]:
    """A host that finds our packages by PYTHONPATH starts an engine that must find them too."""
    if argv[1:4] == ("-P", "-m", _ENGINE_MODULE) and (path := os.environ.get("PYTHONPATH")):
        return {"PYTHONPATH": path}
    return {}
