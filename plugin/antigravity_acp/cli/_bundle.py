"""The report that a person may pass on: one JSON file.

Owns: what is in it and how it is written. One plain file rather than an archive: it can be read before it is sent, and
a tracker shows it. For its owner alone (0600), complete or not there, and never over another file unless told so.
Never: holds a value of ``env``, an argument that looks like a secret, an address of a person or a home directory.
"""

import importlib.metadata
import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from antigravity_acp.acp import HIDDEN
from antigravity_acp.manifest import manifest
from antigravity_acp.settings import Settings
from antigravity_provisioning import machine

from ._report import Curtain, Report, secret_arguments
from .failures import CliError
from .output import plain

FORMAT: Final = 1
DISTRIBUTION: Final = "dsh-antigravity-acp"
#: A word, a number, a flag, a path: what an argument may be to be shown.
_PLAIN_ARGUMENT: Final = re.compile(r"[\w./\\:+,~ -]{1,200}")


def check_target(given: str, *, force: bool) -> Path:
    """Refuse at once what would be refused in the end. :raises CliError: ``USAGE``."""
    path = Path(given)
    if os.path.isdir(path) or not os.path.isdir(path.parent):
        raise CliError("USAGE", f"--bundle: {given} cannot be a file: choose one in a folder that is there.")
    if os.path.lexists(path) and not force:
        raise CliError("USAGE", f"--bundle: {given} is there already. Choose another name, or add --force.")
    return path


def contents(report: Report, settings: Settings, curtain: Curtain, tail: str) -> dict[str, Any]:
    """The report as data. :param tail: of the agent's stderr."""
    shown = msgspec.to_builtins(settings)
    shown["env"] = {curtain.hide(name): HIDDEN for name in settings.env}
    shown["args"] = arguments(settings.args, curtain)
    return {
        "format": FORMAT,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "status": report.status,
        "rows": [msgspec.to_builtins(row) for row in report.rows],
        "versions": versions(),
        "platform": machine.describe(),
        "settings": _hidden(shown, curtain),
        "stderr": plain(curtain.hide(tail, guess=True)).splitlines(),
    }


def arguments(given: Sequence[str], curtain: Curtain) -> list[str]:
    """Arguments without those that look like secrets: by what they are, or by the flag that they belong to."""
    secret = set(secret_arguments(given))
    shown = []
    for argument in given:
        flag, equals, value = argument.partition("=")
        if argument in secret:
            shown.append(HIDDEN)
        elif argument.startswith("-") and equals:
            shown.append(f"{curtain.hide(flag)}={HIDDEN if value in secret else _argument(value, curtain)}")
        else:
            shown.append(_argument(argument, curtain))
    return shown


def _argument(value: str, curtain: Curtain) -> str:
    hidden = curtain.hide(value, guess=True)
    return plain(hidden) if HIDDEN in hidden or _PLAIN_ARGUMENT.fullmatch(hidden) else HIDDEN


def versions() -> dict[str, str]:
    """Our distribution, what it needs, and Python."""
    import platform

    found = {"python": platform.python_version(), DISTRIBUTION: manifest().version}
    try:
        needed = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return found  # run from a checkout
    for requirement in needed:
        match = re.match(r"[A-Za-z0-9._-]+", requirement)
        if match is not None and "extra == 'dev'" not in requirement.replace('"', "'"):
            with suppress(importlib.metadata.PackageNotFoundError):
                found[match[0]] = importlib.metadata.version(match[0])
    return dict(sorted(found.items()))


def _hidden(value: Any, curtain: Curtain) -> Any:
    """Every text of a tree behind the curtain."""
    if isinstance(value, str):
        return plain(curtain.hide(value))
    if isinstance(value, Mapping):
        return {key: _hidden(item, curtain) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(item, curtain) for item in value]
    return value


def write(path: Path, content: Mapping[str, Any], *, force: bool) -> None:
    """Write the file in one step.

    :raises CliError: ``USAGE`` when the file appeared meanwhile; ``BUNDLE_FAILED`` when it cannot be written.
    """
    data = json.dumps(content, indent=2, ensure_ascii=True).encode("ascii") + b"\n"
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(scratch, flags, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _place(scratch, path, force=force)
    except FileExistsError:
        raise CliError("USAGE", f"--bundle: {path} is there already. Choose another name, or add --force.") from None
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else "an error of the disk"
        raise CliError("BUNDLE_FAILED", f"The report could not be written to {path}: {reason}.") from None
    finally:
        with suppress(OSError):
            scratch.unlink()


def _place(scratch: Path, path: Path, *, force: bool) -> None:
    """:raises FileExistsError: without ``force``, when something is there, even if it came this moment."""
    if force:
        os.replace(scratch, path)
        return
    try:
        # Unlike a rename, a link never takes the place of a file.
        os.link(scratch, path)
    except FileExistsError:
        raise
    except OSError:
        # Some file systems have no links; there this is as near as it gets.
        if os.path.lexists(path):
            raise FileExistsError from None
        os.rename(scratch, path)
