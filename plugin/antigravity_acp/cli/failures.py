"""How a command ends when it does not succeed: one line on stderr and an exit code.

Owns: the exit codes, and which error codes mean that something has to be set up first.
Never: shows what a foreign exception says; its text may hold settings or remote output.
"""

from typing import Final

#: It happened, and it went wrong.
FAILED: Final = 1
#: It could not begin: wrong usage, or an engine, model, key or setting is missing. The line says what to do.
SETUP: Final = 2
#: `control check`: a person would be asked.
ASKED: Final = 10
#: `control check`: it is denied.
DENIED: Final = 11
#: Ended by Ctrl-C; 128 + SIGINT, as shells have it.
INTERRUPTED: Final = 130
#: Ended by SIGTERM.
TERMINATED: Final = 143

#: Error codes that a person mends by setting something up, not by trying again.
_SETUP_CODES: Final = frozenset(
    {
        "ACP_AUTH_REQUIRED",
        "ACP_AUTH_UNSUPPORTED",
        "ACP_BINARY_MISSING",
        "ACP_INSTALL_FAILED",
        "ACP_INVALID_MODEL",
        "ACP_MCP_UNSUPPORTED",
        "ACP_PLATFORM_UNSUPPORTED",
        "ACP_VERSION_MISMATCH",
        "INVALID_SETTINGS",
        "NO_ADAPTER",
        "USAGE",
    }
)


class CliError(Exception):
    """A command ends here.

    :param code: an error code of the plugin, or one of this room: ``USAGE``, ``DEMO_FAILED``, ``INTERRUPTED``.
    :param message: what happened and what to do; one line.
    :param status: the exit code, derived from ``code`` when left out.
    """

    def __init__(self, code: str, message: str, *, status: int | None = None) -> None:
        self.code = code
        self.message = " ".join(message.split())
        self.status = status_of(code) if status is None else status
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def status_of(code: str) -> int:
    """The exit code that an error code stands for."""
    if code in ("ABORTED", "INTERRUPTED"):
        return INTERRUPTED
    return SETUP if code in _SETUP_CODES else FAILED


def explain(error: BaseException) -> CliError:
    """Any exception as the line that a person may see."""
    # Late: a failure is the only case in which `--help` would need the vocabulary.
    from antigravity_acp.contract import LlmError

    if isinstance(error, CliError):
        return error
    if isinstance(error, LlmError):
        return CliError(error.code, error.message)
    if isinstance(error, FileNotFoundError) and "manifest.json" in str(error):
        return CliError("INVALID_SETTINGS", "This installation is incomplete: install dsh-antigravity-acp again.")
    return CliError("UNKNOWN", f"Something failed that has no code of its own ({type(error).__name__}).")
