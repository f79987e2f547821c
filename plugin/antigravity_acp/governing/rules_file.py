"""The file of rules that a person wrote with an answer: ``permissions.json`` in this user's configuration folder.

Owns: :func:`add_rules`. The file is replaced as a whole, only its owner can read it, its lists are sorted, and what
else it holds is kept. Processes that write at the same time wait for each other, within a bound.
Never: touches a file that it cannot read; whoever broke it has rules in it.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

#: Seconds for another process that writes rules.
_LOCK_S: Final = 5.0


class RulesFileError(Exception):
    """The rules were not written. The message says why and what to do."""


def add_rules(path: Path, rules: Iterable[str]) -> None:
    """Add allow rules; those that are there already are harmless. Blocks.

    :raises RulesFileError: nothing was changed.
    """
    from filelock import FileLock, Timeout

    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(path.with_name(f".{path.name}.lock"), timeout=_LOCK_S, mode=0o600):
            data = _read(path)
            allow = data.setdefault("permissions", {}).setdefault("allow", [])
            data["permissions"]["allow"] = sorted({*allow, *rules})
            _replace(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    except Timeout:
        raise RulesFileError("Another process holds the file of rules; answer again later.") from None
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else "it cannot be opened"
        raise RulesFileError(f"The file of rules {path} cannot be written: {reason}.") from None


def _read(path: Path) -> dict[str, Any]:
    from antigravity_control import read_file

    found = read_file(path, "plugin")
    data: dict[str, Any] = json.loads(json.dumps(dict(found.data)))
    permissions = data.get("permissions", {})
    allow = permissions.get("allow", []) if isinstance(permissions, dict) else None
    if found.faults or not isinstance(allow, list) or not all(isinstance(each, str) for each in allow):
        raise RulesFileError(f"The file of rules {path} is not what it should be; mend it or move it away.")
    return data


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.{token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    try:
        with os.fdopen(os.open(beside, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
