"""A stand-in for the official server, in the archive's real layout: same names, a real program that speaks ACP.

The program is a shell script that becomes the loopback agent under the official one's name and version, so prompts
direct it as ``agents/loopback.py`` says. What it does is chosen when the archive is made, or, with ``switch``, by a
file that is read at every start.
"""

import json
import random
import shlex
import sys
from pathlib import Path
from typing import Any

from .archives import HARNESS, SERVER, official_layout
from .loopback import AGENT

NAME = "antigravity-acp"
VERSION = "1.3.0"
METHODS = ["oauth-personal", "oauth-business", "gemini-api-key", "agent-platform"]


def server_program(*, switch: Path | None = None, shell: str = "", **options: Any) -> bytes:
    """The server's file.

    :param switch: a file with the agent's options as JSON; while it is there, it replaces ``options``.
    :param shell: lines of shell that run first; one that ends with ``exit`` makes a dead server.
    :param options: of the loopback agent; ``auth_needed=True`` is one that nobody has signed in to.
    """
    usual = json.dumps({"name": NAME, "version": VERSION, "auth": METHODS, **options})
    other = shlex.quote(str(switch)) if switch else "/nonexistent"
    return (
        f"#!/bin/sh\n{shell}\n"
        f"options={shlex.quote(usual)}\n"
        f"if [ -f {other} ]; then options=$(cat {other}); fi\n"
        f'exec {shlex.quote(sys.executable)} -I -S {shlex.quote(str(AGENT))} "$options"\n'
    ).encode()


def harness_program() -> bytes:
    """The sibling's file; a stand-in never starts it."""
    return b"#!/bin/sh\nexit 0\n"


def official_archive(path: Path, program: bytes | None = None, *, padding: int = 0) -> Path:
    """The archive as it is published, at ``path``.

    :param padding: bytes that compression cannot shrink, in the harness, for a download that takes a moment.
    """
    harness = harness_program() + random.Random(padding).randbytes(padding)
    return official_layout(path, program if program is not None else server_program(), harness=harness)


def official_folder(folder: Path, program: bytes | None = None, *, without: str = "") -> Path:
    """An unpacked archive. :returns: path of the server, which is missing when it was left out."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in ((SERVER, program if program is not None else server_program()), (HARNESS, harness_program())):
        if name != without:
            (folder / name).write_bytes(data)
            (folder / name).chmod(0o755)
    return folder / SERVER
