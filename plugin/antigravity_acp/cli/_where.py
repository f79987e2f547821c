"""Where the agent is: `where`.

Owns: one line on stdout. Never: starts, downloads or writes anything.
"""

import os
import sys
from typing import Final

from antigravity_acp.acp.launch import AgentCommand, choose
from antigravity_acp.contract import LlmError
from antigravity_acp.settings import Settings
from antigravity_provisioning.locate import OfficialServer

from ._setup import find_official, is_embedded_command
from .failures import CliError, explain
from .options import AgentFlags
from .output import JsonLines

#: How a server was found, in words, by ``OfficialServer.source``.
FOUND_BY: Final = {
    "explicit": "named by the setting `command`",
    "environment": "named by AGY_ACP_BIN",
    "path": "found on PATH",
    "folder": "found in a folder where installers put it",
    "cache": "installed by `antigravity-acp install`",
}


def run_where(flags: AgentFlags, *, as_json: bool) -> int:
    """Print the path.

    :raises CliError: ``ACP_BINARY_MISSING`` when there is none, or the one that was named cannot be used.
    """
    try:
        path, source, how = _look(Settings.from_mapping(flags.settings()))
    except (CliError, LlmError) as error:
        failure = explain(error)
        if as_json:
            JsonLines().show({"event": "error", "code": failure.code, "message": failure.message})
        raise failure from None
    if as_json:
        JsonLines().show({"event": "server", "path": path, "source": source})
        return 0
    _print_path(path)
    print(how, file=sys.stderr)
    return 0


def _print_path(path: str) -> None:
    """The path as the system has it: scripts use it, and names are bytes on POSIX, whatever the terminal can show."""
    if os.name == "nt":
        print(path)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(os.fsencode(path) + b"\n")
    sys.stdout.buffer.flush()


def _look(settings: Settings) -> tuple[str, str, str]:
    found = choose(settings)
    if not isinstance(found, AgentCommand):
        raise CliError(found.error.code, found.error.message)
    if is_embedded_command(found) and not settings.command:
        raise CliError(
            "ACP_BINARY_MISSING", "These settings start the embedded engine, a part of this installation; no server."
        )
    server: OfficialServer | None = find_official(settings, found)
    source = server.source if server is not None else "explicit"
    return (str(server.path) if server is not None else found.argv[0], source, FOUND_BY.get(source, "found"))
