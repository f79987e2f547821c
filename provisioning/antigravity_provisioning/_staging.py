"""A folder that is filled from nothing, and is empty again when that fails.

Owns a handle of the folder and what it made there; ``clear`` removes exactly that. Where the system can open relative
to a folder's handle (POSIX) every step of a path is opened so, without following links, so that neither a link inside
nor a folder that is swapped meanwhile leads outside. Elsewhere (Windows) paths are used: the folder is private, and
creating is still exclusive. Never replaces a file.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_BY_HANDLE: Final = {os.open, os.mkdir, os.unlink, os.rmdir} <= os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
_FOLDER: Final = (
    os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
)
_NEW: Final = (
    os.O_WRONLY
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NOINHERIT", 0)
)


class Staging:
    """An empty folder to be filled.

    :raises OSError: when it is not there, not a folder (a link to one is none), or not empty.
    """

    def __init__(self, folder: Path) -> None:
        self._root = folder
        self._made: list[tuple[str, bool]] = []
        self._folders: set[str] = {""}
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise NotADirectoryError(f"{folder} is not a folder")
        self._handle = os.open(folder, _FOLDER) if _BY_HANDLE else -1
        try:
            if os.listdir(self._handle if _BY_HANDLE else folder):
                raise FileExistsError(f"{folder} is not empty")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the handle back; what was made stays."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def folder(self, path: str) -> None:
        """Make a folder and those above it; one that this made before is fine. :raises OSError: as the system does."""
        components = path.split("/") if path else []
        for depth in range(1, len(components) + 1):
            part = "/".join(components[:depth])
            if part in self._folders:
                continue
            with self._above(part) as (handle, name):
                os.mkdir(name, 0o755, dir_fd=handle)
            self._made.append((part, True))
            self._folders.add(part)

    def create(self, path: str, *, executable: bool) -> int:
        """A descriptor for a new file, with mode 0755 or 0644 whatever the umask; the caller closes it."""
        self.folder(path.rpartition("/")[0])
        with self._above(path) as (handle, name):
            descriptor = os.open(name, _NEW, 0o600, dir_fd=handle)
        self._made.append((path, False))
        try:
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, 0o755 if executable else 0o644)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def sync(self) -> None:
        """Make the names last through a crash of the machine; where folders cannot be flushed the system does it."""
        if not _BY_HANDLE:
            return
        for path, is_folder in self._made:
            if is_folder:
                with self._above(f"{path}/.") as (handle, _):
                    os.fsync(self._handle if handle is None else handle)
        os.fsync(self._handle)

    def clear(self) -> None:
        """Remove what was made, the last first. :raises OSError: when something cannot be removed; the rest is."""
        failed: OSError | None = None
        while self._made:
            path, is_folder = self._made.pop()
            try:
                with self._above(path) as (handle, name):
                    (os.rmdir if is_folder else os.unlink)(name, dir_fd=handle)
            except FileNotFoundError:
                continue
            except OSError as error:
                failed = failed or error
        self._folders = {""}
        if failed is not None:
            raise failed

    @contextlib.contextmanager
    def _above(self, path: str) -> Iterator[tuple[int | None, str]]:
        """The handle of the folder that a path lies in, and what to call the path there."""
        if not _BY_HANDLE:
            yield None, str(self._root / path)
            return
        *folders, name = path.split("/")
        handle, owned = self._handle, False
        try:
            for folder in folders:
                below = os.open(folder, _FOLDER, dir_fd=handle)
                if owned:
                    os.close(handle)
                handle, owned = below, True
            yield handle, name
        finally:
            if owned:
                os.close(handle)
