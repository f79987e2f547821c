"""What an installation's files must be like, without reading them: kind, size, permissions, owner.

Owns: the rules only; the store asks them, about folders that it knows. Follows no link.
"""

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ._receipt import Receipt, ReceiptFile, is_plain_path
from .errors import ProvisioningError

if TYPE_CHECKING:  # `locate` loads this module when a plugin starts
    from ._asset import Asset
    from .archive import FileEntry


def take_stock(asset: "Asset", staging: Path, entries: Sequence["FileEntry"]) -> Receipt:
    """The receipt of what was unpacked; programs get their executable bit where the archive did not have it."""
    programs = {server_path(asset), *sibling_paths(asset)}
    if missing := programs - {entry.path for entry in entries}:
        raise ProvisioningError(
            "archive", "incomplete", f"The archive lacks {', '.join(sorted(missing))}. It is not the server's."
        )
    files = []
    for entry in entries:
        if not is_plain_path(entry.path):
            raise ProvisioningError("archive", "archive", "The archive holds a file whose name cannot be used.")
        path = staging / entry.path
        mode = stat.S_IMODE(path.lstat().st_mode) & 0o777
        wanted = mode & 0o755 | (0o700 if entry.path in programs or entry.executable else 0o600)
        if wanted != mode and sys.platform != "win32":
            path.chmod(wanted)
        files.append(ReceiptFile(entry.path, entry.size, entry.sha256, wanted))
    return Receipt(asset.version, asset.platform, asset.sha256, asset.size, tuple(files))


def cheap_faults(folder: Path, receipt: Receipt) -> list[str]:
    faults = []
    sound: set[PurePosixPath] = set()
    for file in receipt.files:
        parents = [parent for parent in PurePosixPath(file.path).parents if parent.name and parent not in sound]
        if not all(is_folder(folder / parent) for parent in parents):
            faults.append(f"{file.path} is not where it should be.")
            continue
        sound.update(parents)
        if fault := _cheap_fault(folder / file.path, file):
            faults.append(f"{file.path} {fault}.")
    return faults


def _cheap_fault(path: Path, file: ReceiptFile) -> str:
    try:
        status = path.lstat()
    except OSError:
        return "is missing"
    if not stat.S_ISREG(status.st_mode):
        return "is not a file"
    if status.st_size != file.size:
        return f"has {status.st_size} bytes instead of {file.size}"
    if sys.platform != "win32" and file.mode & 0o100 and not status.st_mode & 0o100:
        return "is not executable any more"
    if fault := foreign(status):
        return fault
    return ""


def foreign(status: os.stat_result) -> str:
    """Whether somebody who is neither this user nor the administrator could have written there."""
    if sys.platform == "win32":
        return ""  # the user's own profile folder is protected by its access list
    if status.st_uid not in (os.geteuid(), 0):
        return "belongs to another user"
    if status.st_mode & stat.S_IWOTH:
        return "can be written by every user"
    # Nothing that is made here is open to a group, whoever belongs to it.
    return "can be written by other users of its group" if status.st_mode & stat.S_IWGRP else ""


def is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def server_path(asset: "Asset") -> str:
    return PurePosixPath(asset.command).as_posix()


def sibling_paths(asset: "Asset") -> tuple[str, ...]:
    beside = PurePosixPath(asset.command).parent
    return tuple((beside / sibling).as_posix() for sibling in asset.siblings)


def names_in(folder: Path) -> list[str]:
    """Entries of a folder that is one itself, not a link to one."""
    if not is_folder(folder):
        return []
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def files_below(folder: Path) -> list[str]:
    """Everything below a folder that is no folder, as relative paths with ``/``; links are listed, not followed."""
    found = []
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        found += [Path(parent, name).relative_to(folder).as_posix() for name in (*names, *links)]
    return sorted(found)
