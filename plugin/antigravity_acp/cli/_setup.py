"""What is missing before an agent can answer, in words that help on the command line.

Owns: :func:`advise`, the text for an engine without a model and for a script that does not fit, and the question what
kind of agent a command is. The adapter's messages fit every host; here the flags are known, so the line can name them.
"""

import shutil
from pathlib import Path
from typing import Final

from antigravity_acp.acp.launch import AgentCommand, resolve_command
from antigravity_acp.contract import LlmError
from antigravity_acp.settings import Settings
from antigravity_provisioning.locate import LocateError, OfficialServer, is_server_name, locate

from .failures import CliError

NO_MODEL: Final = (
    "The embedded engine has no model. Set GEMINI_API_KEY; or use a local one, as in "
    "--arg=--openai-base-url --arg=http://127.0.0.1:11434/v1 for Ollama; or try it offline with --script FILE."
)
SCRIPTED: Final = (
    "Most likely no rule of the script fits this request, or it calls a tool that is not there; "
    "--arg=--script-log --arg=FILE writes down what the scripted model was asked, with its tools."
)
_SIGN_IN_CODES: Final = frozenset({"ACP_AUTH_REQUIRED", "ACP_AUTH_UNSUPPORTED"})


def advise(failure: CliError, settings: Settings) -> CliError:
    """The same failure with the way out that this command line has."""
    if failure.code in _SIGN_IN_CODES and is_embedded(settings):
        return CliError(failure.code, NO_MODEL, status=failure.status)
    if failure.code == "ACP_RPC_ERROR" and "--script" in settings.args and is_embedded(settings):
        return CliError(failure.code, f"{failure.message.partition('. ')[0]}. {SCRIPTED}", status=failure.status)
    return failure


def is_embedded(settings: Settings) -> bool:
    """Whether these settings start our own engine."""
    try:
        return is_embedded_command(resolve_command(settings))
    except LlmError:
        return False


def is_embedded_command(command: AgentCommand) -> bool:
    """Whether a command is our own engine."""
    return "antigravity_engine" in command.argv or Path(command.argv[0]).stem == "antigravity-engine"


def find_official(settings: Settings, command: AgentCommand) -> OfficialServer | None:
    """The official server that a command starts, with how it was found; ``None`` when it is another agent."""
    if not command.found and not is_server_name(Path(command.argv[0]).name):
        return None
    try:
        return locate(_explicit(settings))
    except LocateError:
        return None  # it was there a moment ago


def find_half(settings: Settings) -> bool:
    """Whether there is an official server that cannot be used for want of its other half."""
    if settings.engine == "embedded" or (settings.command and not is_server_name(Path(settings.command).name)):
        return False
    try:
        locate(_explicit(settings))
    except LocateError as error:
        return error.halves > 0
    return False


def _explicit(settings: Settings) -> str:
    return (shutil.which(settings.command) or settings.command) if settings.command else ""
