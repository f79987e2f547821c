"""Archives that are on this machine already: the finished one of an earlier call, and a file that the user has.

Owns: reading whole files in pieces; everything blocks. A file is believed only after its size and its hash were
computed from the bytes that are used.
"""

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

from . import _publish
from ._asset import Asset
from ._http import AttemptError
from ._part import PIECE, create_own, remove_file


class Finished:
    """The archive that an earlier call left, if it is there. Sync, in pieces."""

    def __init__(self, asset: Asset, folder: Path) -> None:
        self._asset = asset
        self.path = folder / f"{asset.sha256}.zip"
        self._fd = -1
        self._hash = hashlib.sha256()
        self.done = 0

    def open(self) -> bool:
        """Whether there is one of the right size; what else has its name is removed."""
        try:
            status = os.lstat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not stat.S_ISREG(status.st_mode) or status.st_size != self._asset.size:
            remove_file(self.path)
            return False
        self._fd = os.open(self.path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
        return True

    def step(self) -> bool:
        """Hash the next piece; false at the end."""
        data = os.read(self._fd, PIECE)
        self._hash.update(data)
        self.done += len(data)
        return bool(data)

    def judge(self) -> bool:
        """Whether it is the archive; a wrong one is removed."""
        self.close()
        right = self.done == self._asset.size and self._hash.hexdigest() == self._asset.sha256
        if not right:
            remove_file(self.path)
        return right

    def close(self) -> None:
        if self._fd >= 0:
            descriptor, self._fd = self._fd, -1
            os.close(descriptor)


class Copy:
    """A file of the user on its way into the folder. Sync, in pieces."""

    def __init__(self, asset: Asset, source: Path, folder: Path) -> None:
        self._asset, self._source = asset, source
        self._finished = folder / f"{asset.sha256}.zip"
        self._path = folder / f"{asset.sha256}.copy"
        self._from = self._to = -1
        self._hash = hashlib.sha256()
        self.done = 0

    def open(self) -> None:
        # Without waiting: somebody may name a pipe.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        self._from = os.open(self._source, flags)
        status = os.fstat(self._from)
        if not stat.S_ISREG(status.st_mode):
            raise AttemptError("content", f"{self._source} is not a file. Name the archive itself.")
        if status.st_size != self._asset.size:
            raise self._other("size", f"{status.st_size} bytes instead of {self._asset.size}")
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._to = create_own(self._path)

    def step(self) -> bool:
        data = os.read(self._from, PIECE)
        self.done += len(data)
        if self.done > self._asset.size:
            raise self._other("size", "it grows")
        self._hash.update(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._to, view) :]
        return bool(data)

    def finish(self) -> Path:
        if self.done != self._asset.size or self._hash.hexdigest() != self._asset.sha256:
            raise self._other("hash", "another SHA-256")
        os.fsync(self._to)
        os.close(self._to)
        self._to = -1
        # A name that is taken by a folder is refused here, not replaced.
        remove_file(self._finished)
        _publish.move(self._path, self._finished)
        for rest in (".part", ".json"):
            with suppress(OSError):
                self._finished.with_suffix(rest).unlink(missing_ok=True)
        _publish.sync_folder(self._finished.parent)
        return self._finished

    def close(self) -> None:
        made = self._to >= 0
        for descriptor in (self._from, self._to):
            if descriptor >= 0:
                os.close(descriptor)
        self._from = self._to = -1
        if made:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)

    def _other(self, reason: str, what: str) -> AttemptError:
        return AttemptError(
            "size" if reason == "size" else "hash",
            f"{self._source} is not the archive of release {self._asset.version} for {self._asset.platform} ({what}). "
            f"Fetch exactly {self._asset.url}.",
        )
