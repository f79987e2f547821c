"""What is missing before an agent can answer, in words that help on the command line.

Owns: :func:`advise`. The adapter's messages fit every host; here the flags are known, so the line can name them.
"""

from typing import Final

from antigravity_acp.acp.launch import resolve_command
from antigravity_acp.contract import LlmError
from antigravity_acp.settings import Settings

from .failures import CliError

_NO_MODEL: Final = (
    "The embedded engine has no model. Set GEMINI_API_KEY; or use a local one, as in "
    "--arg=--openai-base-url --arg=http://127.0.0.1:11434/v1 for Ollama; or try it offline with --script FILE."
)
_SIGN_IN_CODES: Final = frozenset({"ACP_AUTH_REQUIRED", "ACP_AUTH_UNSUPPORTED"})


def advise(failure: CliError, settings: Settings) -> CliError:
    """The same failure with the way out that this command line has."""
    if failure.code in _SIGN_IN_CODES and is_embedded(settings):
        return CliError(failure.code, _NO_MODEL, status=failure.status)
    return failure


def is_embedded(settings: Settings) -> bool:
    """Whether these settings start our own engine."""
    try:
        argv = resolve_command(settings).argv
    except LlmError:
        return False
    return "antigravity_engine" in argv or "antigravity-engine" in argv[0]
