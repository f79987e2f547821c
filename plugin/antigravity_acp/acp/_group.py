"""The process group of an agent.

Owns: how a group is made and signalled. On POSIX the leader starts a session, so that ``killpg`` reaches every
descendant that has not made a session of its own. On Windows there are no groups: the leader alone is ended.
"""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any


def spawn_options() -> dict[str, Any]:
    """Arguments of ``subprocess`` that put a new process into a group of its own."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def terminate(transport: asyncio.SubprocessTransport) -> None:
    """Ask the group to end."""
    if sys.platform == "win32":
        with suppress(ProcessLookupError, PermissionError):
            transport.terminate()
    else:
        _signal(transport.get_pid(), signal.SIGTERM)


def kill(transport: asyncio.SubprocessTransport) -> None:
    """End the group."""
    if sys.platform == "win32":
        with suppress(ProcessLookupError, PermissionError):
            transport.kill()
    else:
        _signal(transport.get_pid(), signal.SIGKILL)


def _signal(group: int, number: int) -> None:
    # Gone, or (macOS) nothing but zombies is left in it.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
