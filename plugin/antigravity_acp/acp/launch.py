"""Which program is the agent, and how it is started.

Owns: the choice between a configured command, the official server and the embedded engine. Reads the file system and
``PATH``, starts nothing. A configured program that cannot be started is an error, never silently replaced by another
one.
"""

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import Final

import msgspec

from antigravity_provisioning.locate import LocateError, OfficialServer, is_server_name, locate

from ..contract import LlmError
from ..settings import Settings
from .profiles import environment_for

_ENGINE_MODULE: Final = "antigravity_engine"
_ENGINE_SCRIPT: Final = "antigravity-engine"
_ENGINE_SDK: Final = ("google", "google.antigravity")
_INSTALL_ENGINE: Final = "pip install 'dsh-antigravity-acp[engine]'"


class AgentCommand(msgspec.Struct, frozen=True):
    """What to start.

    :param argv: program and arguments. :param env: additions to the agent's environment; may hold secrets.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"AgentCommand({Path(self.argv[0]).name!r})"


def resolve_command(settings: Settings) -> AgentCommand:
    """Find the agent that the settings ask for.

    :raises LlmError: ``ACP_BINARY_MISSING``; says what was searched and what to do, not what was configured.
    """
    if settings.command:
        argv = _configured(settings)
    elif settings.engine == "official":
        argv = _official(settings)
    elif settings.engine == "embedded":
        argv = _embedded(settings)
    else:
        argv = _either(settings)
    # The host's own choice wins over what a profile knows.
    return AgentCommand(argv, {**environment_for(argv), **_python_path(argv), **settings.env})


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


def _official(settings: Settings) -> tuple[str, ...]:
    try:
        server = locate()
    except LocateError as error:
        raise LlmError("ACP_BINARY_MISSING", f"The official server cannot be started: {error}") from None
    return _server_argv(server, settings)


def _server_argv(server: OfficialServer, settings: Settings) -> tuple[str, ...]:
    return (str(server.path), *server.args, *settings.args)


def _embedded(settings: Settings) -> tuple[str, ...]:
    if not _has_engine():
        raise LlmError(
            "ACP_BINARY_MISSING",
            f"The embedded engine is not installed: this Python has no `google.antigravity`. Run {_INSTALL_ENGINE}, or "
            "set `engine` or `command` to another agent.",
        )
    return (*_engine_program(), *settings.args)


def _either(settings: Settings) -> tuple[str, ...]:
    try:
        return _server_argv(locate(), settings)
    except LocateError as error:
        # Somebody pointed at a server: using something else instead would hide their mistake.
        if error.explicit:
            raise LlmError("ACP_BINARY_MISSING", f"The official server cannot be started: {error}") from None
        if _has_engine():
            return (*_engine_program(), *settings.args)
        raise LlmError(
            "ACP_BINARY_MISSING",
            f"No agent was found. Official server: {error} Embedded engine: not installed; run {_INSTALL_ENGINE}. "
            "Or set `command` to any ACP agent.",
        ) from None


def _has_engine() -> bool:
    """Whether the engine can run here, without importing it (or Google's SDK, which takes seconds)."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in (_ENGINE_MODULE, *_ENGINE_SDK))
    except (ImportError, ValueError):
        return False


def _engine_program() -> tuple[str, ...]:
    # In a host that was compiled into one file, sys.executable is the host: starting it would start the host again.
    if (
        sys.executable
        and not getattr(sys, "frozen", False)
        and Path(sys.executable).stem.lower().startswith(("python", "pypy"))
    ):
        return (sys.executable, "-P", "-m", _ENGINE_MODULE)
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
