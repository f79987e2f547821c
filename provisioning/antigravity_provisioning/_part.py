"""A download that is not finished, on disk: ``<sha256>.part`` and, beside it, ``<sha256>.json``.

Owns: both files, the running hash over what the part holds, and the step that makes it the finished archive. The hash
always covers exactly ``offset`` bytes, and the file is never longer than that once something was written, so a fault at
any byte leaves a part that the next call can go on with. What is on disk is only believed after it was hashed again.

Safe against a folder that others write into: links, pipes and files with a second name are never written through, they
are replaced. Everything blocks and raises ``OSError``; one thread at a time. The caller holds the lock of the store;
where the system can, the part is locked as well, so a second writer ends with `PartInUseError` and no mixed file.
"""

import errno
import hashlib
import json
import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from . import _publish

#: Bytes that are read and hashed at once. A cancellation waits for no more than one such piece.
PIECE: Final = 1 << 20
_NOTE_LIMIT: Final = 4096
# Visible ASCII alone: a validator goes back into a request header.
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?")


class PartInUseError(Exception):
    """Another process writes the same part, although only one should hold the lock."""


class Validator(NamedTuple):
    """How a server names the version that it sends: a strong ETag or, where it has none, a date."""

    kind: str
    value: str


def validator_of(etag: str | None, last_modified: str | None) -> Validator | None:
    """The validator for ``If-Range`` (RFC 9110 §13.1.5: a weak ETag must not be used), ``None`` when there is none."""
    if etag and etag.startswith('"') and etag.endswith('"') and _HEADER_VALUE.fullmatch(etag):
        return Validator("etag", etag)
    if last_modified and _HEADER_VALUE.fullmatch(last_modified):
        return Validator("last-modified", last_modified)
    return None


class Part:
    """The part of one archive. Nothing is touched before `open`; `close` is always safe."""

    def __init__(self, folder: Path, sha256: str, url: str, size: int) -> None:
        self.path = folder / f"{sha256}.part"
        self.finished = folder / f"{sha256}.zip"
        self._note = folder / f"{sha256}.json"
        self._sha256, self._url, self._size = sha256, url, size
        self._fd = -1
        self._hash = hashlib.sha256()
        #: Bytes that are in the file and in the hash.
        self.offset = 0
        #: Bytes that lay on disk when it was opened; they count after `absorb` has read them.
        self.kept = 0
        #: Which version of the archive the bytes belong to. Without one they cannot be continued.
        self.validator: Validator | None = None
        #: Whether the bytes came in more than one answer.
        self.mended = False

    def open(self) -> None:
        """:raises PartInUseError: another process has it open. :raises OSError: it cannot be opened."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fd = _open_own(self.path)
        kept = os.fstat(self._fd).st_size
        self.validator = self._read_note() if kept else None
        # Complete bytes need no validator: the hash says what they are.
        if kept > self._size or (kept < self._size and self.validator is None):
            kept = 0
        if kept:
            self.kept = kept
        else:
            self.restart(None)

    def absorb(self) -> bool:
        """Hash the next piece of what was kept; whether there is more to hash."""
        data = os.read(self._fd, min(PIECE, self.kept - self.offset))
        self._hash.update(data)
        self.offset += len(data)
        self.mended = True
        if not data and self.offset < self.kept:
            # It got shorter under our hands: what was read stays.
            self.kept = self.offset
        return self.offset < self.kept

    def restart(self, validator: Validator | None) -> None:
        """Forget all bytes; the next ones belong to this version."""
        # The order matters: bytes of one version must never lie beside the note of another.
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        self._hash = hashlib.sha256()
        self.offset = self.kept = 0
        self.mended = False
        self.validator = validator
        if validator is None:
            self._note.unlink(missing_ok=True)
        else:
            self._write_note(validator)

    def write(self, data: bytes | bytearray) -> None:
        """Append. After an ``OSError`` (a full disk) the file is as long as the hash, as before."""
        view = memoryview(data)
        try:
            written = 0
            while written < len(view):
                written += os.write(self._fd, view[written:])
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self.offset)
                os.lseek(self._fd, self.offset, os.SEEK_SET)
            raise
        self._hash.update(view)
        self.offset += len(view)

    def is_right(self) -> bool:
        """Whether all bytes are there and have the pinned hash."""
        return self.offset == self._size and self._hash.hexdigest() == self._sha256

    def finish(self) -> Path:
        """Make it the finished archive: on disk first, then under its name."""
        os.fsync(self._fd)
        remove_file(self.finished)
        # Windows renames no file that is open. Elsewhere it stays locked until it has its name.
        if sys.platform == "win32":
            self._shut()
        _publish.move(self.path, self.finished)
        self._shut()
        self._note.unlink(missing_ok=True)
        _publish.sync_folder(self.path.parent)
        return self.finished

    def close(self) -> None:
        """Leave what the next call can continue, remove the rest."""
        if self._fd < 0:
            return
        filled = max(self.offset, self.kept)
        useless = filled == 0 or (filled < self._size and self.validator is None)
        self._shut()
        if useless:
            for path in (self.path, self._note):
                with suppress(OSError):
                    path.unlink(missing_ok=True)

    def _shut(self) -> None:
        if self._fd >= 0:
            descriptor, self._fd = self._fd, -1
            os.close(descriptor)

    def _read_note(self) -> Validator | None:
        try:
            descriptor = os.open(self._note, os.O_RDONLY | _NO_FOLLOW | _NO_WAIT)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return None
                note = json.loads(file.read(_NOTE_LIMIT))
            if note["url"] != self._url or note["size"] != self._size:
                return None
            etag, last_modified = note.get("etag"), note.get("last-modified")
            return validator_of(
                etag if isinstance(etag, str) else None, last_modified if isinstance(last_modified, str) else None
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def _write_note(self, validator: Validator) -> None:
        note = {"url": self._url, "size": self._size, validator.kind: validator.value}
        scratch = self._note.with_suffix(".json.new")
        remove_file(scratch)
        _publish.replace_file(self._note, json.dumps(note).encode(), scratch=scratch)


_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
#: A pipe without a writer would block the open.
_NO_WAIT: Final = getattr(os, "O_NONBLOCK", 0)


def create_own(path: Path) -> int:
    """A new file of ours under this name; what has the name is removed, never written through."""
    remove_file(path)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600)


def _open_own(path: Path) -> int:
    """The file under this name when it is a plain one of ours with no second name, else a new one; locked."""
    for _ in range(8):
        descriptor = -1
        if _is_plain(path):
            with suppress(FileNotFoundError):
                try:
                    descriptor = os.open(path, os.O_RDWR | _NO_FOLLOW | _NO_WAIT)
                except PermissionError:
                    descriptor = create_own(path)
        else:
            with suppress(FileExistsError):
                descriptor = create_own(path)
        if descriptor < 0:
            continue
        try:
            _lock(descriptor)
            # Between open and lock its owner may have published it: then the name means another file, or none.
            named, opened = os.lstat(path), os.fstat(descriptor)
            if os.path.samestat(named, opened) and stat.S_ISREG(opened.st_mode) and opened.st_nlink == 1:
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise PartInUseError


def _is_plain(path: Path) -> bool:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return False
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_nlink == 1
        and (sys.platform == "win32" or status.st_uid == os.geteuid())
    )


def remove_file(path: Path) -> None:
    """:raises IsADirectoryError: a folder has the name of a file."""
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        os.unlink(path)
    except FileNotFoundError:
        pass


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PartInUseError from None
    except OSError as error:
        # Some network file systems have no locks; the store's lock is there.
        if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EINVAL):
            raise
