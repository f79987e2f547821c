"""Unpacks a server's archive into a staging folder: all of it, or nothing.

The whole archive is judged before the first byte is written (``_entries``). Then every file is written once,
exclusively and never through a link, counted, hashed and checked against its CRC on the way, given its executable bit
and flushed to the disk. Whatever ends this early, a fault of the archive, a full disk, a cancellation or an exception
of a caller's callback, the folder is empty again. Other permission bits, owners and times are not taken over.

Blocks, and keeps a core busy: call it in a thread. Needs about a megabyte, whatever the archive's size.
"""

import errno
import hashlib
import os
import stat
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from ._entries import DEFLATED, Entry, inspect
from ._hashing import never
from ._records import refusal
from ._staging import Staging
from .errors import ProvisioningError
from .progress import Progress, Report, quiet

#: Packed bytes that are read at once, and unpacked ones that are handled at once: what fits the processor's cache.
READ: Final = 64 * 1024
PIECE: Final = 256 * 1024
#: Seconds between two reports.
REPORT_S: Final = 0.1


class FileEntry(NamedTuple):
    """A file that was unpacked.

    :param path: relative to the folder, with ``/``. :param size: bytes. :param sha256: lower-case hex.
    """

    path: str
    size: int
    sha256: str
    executable: bool


def unpack(
    archive: Path,
    destination: Path,
    *,
    required: Sequence[str] = (),
    report: Report = quiet,
    cancelled: Callable[[], bool] = never,
) -> list[FileEntry]:
    """Unpack ``archive`` into ``destination``, an empty folder that is there and that nobody else writes to.

    :param required: paths of programs that must be in it. They are executable too when the archive was made on a
        system that has no permission bits. :param report: gets ``unpack`` with the bytes that are written.
    :param cancelled: asked at least before every 256 KiB, from this thread.
    :return: every file, in the order of the archive; folders are made and not told.
    :raises ProvisioningError: stage ``archive``; reason ``archive`` (hostile or broken), ``incomplete`` (a required
        file is missing), ``cancelled``, ``disk-full`` or ``disk``. The folder is as empty as before.
    """
    try:
        with _opened(archive) as file:
            entries = inspect(file, os.fstat(file.fileno()).st_size, required)
            staging = Staging(destination)
            try:
                return _Unpacking(file, staging, entries, frozenset(required), report, cancelled).run()
            except BaseException:
                staging.clear()
                raise
            finally:
                staging.close()
    except OSError as error:
        raise _disk_error(error) from error


def _opened(archive: Path) -> BinaryIO:
    """The archive, which must be a file: opening a pipe would wait for its writer."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(archive, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise refusal("it is not a file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _disk_error(error: OSError) -> ProvisioningError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ProvisioningError(
            "archive",
            "disk-full",
            "The disk is full, so the archive was not unpacked. Free some space and install again.",
        )
    return ProvisioningError(
        "archive",
        "disk",
        f"The archive could not be read or unpacked ({os.strerror(error.errno or 0)}). Check that the disk and the "
        "cache folder can be written to and install again.",
    )


class _Unpacking:
    def __init__(
        self,
        file: BinaryIO,
        staging: Staging,
        entries: Sequence[Entry],
        required: frozenset[str],
        report: Report,
        cancelled: Callable[[], bool],
    ) -> None:
        self._file = file
        self._staging = staging
        self._entries = entries
        self._required = required
        self._report = report
        self._cancelled = cancelled
        self._total = sum(entry.unpacked for entry in entries)
        self._done = 0
        self._began = self._told = time.monotonic()

    def run(self) -> list[FileEntry]:
        self._report(Progress("unpack", 0, self._total))
        files = []
        for entry in self._entries:
            self._check_cancelled()
            if entry.folder:
                self._staging.folder(entry.path)
                for _ in self._pieces(entry):
                    pass
            else:
                files.append(self._write(entry))
        self._staging.sync()
        self._check_cancelled()
        self._report(Progress("unpack", self._total, self._total))
        return files

    def _check_cancelled(self) -> None:
        if self._cancelled():
            raise ProvisioningError("archive", "cancelled", "Unpacking was cancelled. Install again when you like.")

    def _write(self, entry: Entry) -> FileEntry:
        executable = entry.path in self._required if entry.mode is None else bool(entry.mode & 0o111)
        digest = hashlib.sha256()
        descriptor = self._staging.create(entry.path, executable=executable)
        try:
            for piece in self._pieces(entry):
                digest.update(piece)
                view = memoryview(piece)
                while view:
                    view = view[os.write(descriptor, view) :]
                self._tell(len(piece))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return FileEntry(entry.path, entry.unpacked, digest.hexdigest(), executable)

    def _tell(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._told >= REPORT_S:
            self._told = now
            self._report(Progress("unpack", self._done, self._total, self._done / (now - self._began)))

    def _pieces(self, entry: Entry) -> Iterator[bytes]:
        """The data of an entry; complete and right when this ends. :raises ProvisioningError: when it is not."""
        crc = produced = 0
        for piece in self._inflated(entry) if entry.method == DEFLATED else self._packed(entry, PIECE):
            self._check_cancelled()
            crc = zlib.crc32(piece, crc)
            produced += len(piece)
            if produced > entry.unpacked:
                raise refusal(f"entry {entry.number} is larger than it says")
            yield piece
        if produced != entry.unpacked:
            raise refusal(f"entry {entry.number} is smaller than it says")
        if crc != entry.crc:
            raise refusal(f"entry {entry.number} does not have the checksum that it says")

    def _packed(self, entry: Entry, most: int) -> Iterator[bytes]:
        self._file.seek(entry.start)
        left = entry.packed
        while left:
            piece = self._file.read(min(left, most))
            if not piece:
                raise refusal(f"entry {entry.number} ends too early")
            left -= len(piece)
            yield piece

    def _inflated(self, entry: Entry) -> Iterator[bytes]:
        stream = zlib.decompressobj(-zlib.MAX_WBITS)
        for packed in self._packed(entry, READ):
            self._check_cancelled()
            if stream.eof:
                raise refusal(f"entry {entry.number} has data behind its end")
            pending = packed
            # With its input used up the stream may still hold output that did not fit into the last piece.
            while not stream.eof:
                try:
                    piece = stream.decompress(pending, PIECE)
                except zlib.error:
                    raise refusal(f"entry {entry.number} has damaged data") from None
                pending = stream.unconsumed_tail
                if piece:
                    yield piece
                elif not pending:
                    break
            if stream.unused_data:
                raise refusal(f"entry {entry.number} has data behind its end")
        if not stream.eof:
            raise refusal(f"entry {entry.number} ends too early")
