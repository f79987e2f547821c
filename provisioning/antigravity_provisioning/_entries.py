"""Judges a whole archive before anything of it is written.

Every entry's name, type, method and sizes are looked at, the directory is compared with the header in front of the
data, and every byte of the file must belong to exactly one record: entries that overlap, that share data or that leave
room for something hidden are refused. What is left is a list of files and folders that can only land where they should.

Messages name an entry by its position in the directory: its name is remote text.
"""

import stat
import struct
from collections.abc import Sequence
from typing import BinaryIO, Final, NamedTuple

from ._names import Tree, fault_of_path
from ._records import Header, find_directory, read_at, read_local, read_rows, refusal

#: Bytes that an archive may unpack to, in all.
MAX_UNPACKED: Final = 2 * 1024**3
#: How many times its size an entry, and the archive, may unpack to; official ones have 3 to 4. Below ``SMALL`` bytes
#: nobody is harmed and text and zeros reach more.
MAX_RATIO: Final = 100
SMALL: Final = 16 * 1024**2

STORED: Final = 0
DEFLATED: Final = 8

_ENCRYPTED: Final = 1 << 0 | 1 << 6 | 1 << 13
_DESCRIPTOR: Final = 1 << 3
_PATCH: Final = 1 << 5
_UTF8: Final = 1 << 11
#: How hard a compressor tried; says nothing about the data.
_LEVEL: Final = 1 << 1 | 1 << 2
_DOS_LABEL: Final = 0x08
_DOS_FOLDER: Final = 0x10


class Entry(NamedTuple):
    """A file or folder that may be unpacked.

    :param number: position in the directory, from 1. :param path: relative, with ``/``. :param mode: permission bits
        of the archive, ``None`` when it was made on a system without. :param start: where the packed data begins.
    """

    number: int
    path: str
    folder: bool
    mode: int | None
    method: int
    crc: int
    start: int
    packed: int
    unpacked: int


def inspect(file: BinaryIO, size: int, required: Sequence[str] = ()) -> list[Entry]:
    """Everything that is to be unpacked, in the order of the directory.

    :param size: bytes of the file. :param required: paths of files that must be there.
    :raises ProvisioningError: ``archive`` at the first thing that is not as it must be, ``incomplete``.
    """
    if size > MAX_UNPACKED:
        raise refusal(f"it is larger than {MAX_UNPACKED // 1024**3} GiB")
    directory = find_directory(file, size)
    rows = read_rows(file, directory)
    tree = Tree()
    entries: list[Entry] = []
    spans: list[tuple[int, int, int]] = []
    for number, row in enumerate(rows, 1):
        path, folder, mode = _identity(row, number)
        if clash := tree.add(path, folder=folder):
            raise refusal(f"entry {number} {clash}")
        _check_kind(row, number, folder=folder)
        local = read_local(file, row.offset, directory.offset, number)
        _compare(row, local, number)
        spans.append((row.offset, local.offset + row.packed, number))
        entries.append(Entry(number, path, folder, mode, row.method, row.crc, local.offset, row.packed, row.unpacked))
    _check_sizes(entries, size)
    _check_layout(file, rows, spans, directory.offset)
    files = {entry.path for entry in entries if not entry.folder}
    if missing := [name for name in required if name not in files]:
        names = ", ".join(f"`{name}`" for name in missing)
        raise refusal(f"it lacks {names}, so it is not the complete server", "incomplete")
    if not files:
        raise refusal("it holds no files", "incomplete")
    return entries


def _identity(row: Header, number: int) -> tuple[str, bool, int | None]:
    """Path, whether it is a folder, and permission bits."""
    if not row.name.isascii() and not row.flags & _UTF8:
        raise refusal(f"entry {number} has a name in an encoding that it does not tell")
    try:
        name = row.name.decode()
    except UnicodeDecodeError:
        raise refusal(f"entry {number} has a name that is not UTF-8") from None
    folder = name.endswith("/")
    # Some programs begin every path with `./`; it says nothing.
    path = name.removeprefix("./").removesuffix("/")
    if fault := fault_of_path(path):
        raise refusal(f"entry {number} {fault}")
    # The upper half holds a Unix mode whatever system the entry claims to come from: some readers believe it always.
    mode = row.attributes >> 16
    kind = stat.S_IFMT(mode)
    if kind not in (0, stat.S_IFDIR if folder else stat.S_IFREG):
        what = {
            stat.S_IFLNK: "is a symbolic link",
            stat.S_IFCHR: "is a device",
            stat.S_IFBLK: "is a device",
            stat.S_IFIFO: "is a pipe",
            stat.S_IFSOCK: "is a socket",
        }.get(kind, "is a file and a folder at once" if kind in (stat.S_IFDIR, stat.S_IFREG) else "has no known type")
        raise refusal(f"entry {number} {what}")
    if row.attributes & _DOS_LABEL or (row.attributes & _DOS_FOLDER and not folder):
        raise refusal(f"entry {number} is a file and a folder or label at once")
    return path, folder, mode or None


def _check_kind(row: Header, number: int, *, folder: bool) -> None:
    """Whether the data can be read at all."""
    if row.flags & _ENCRYPTED:
        raise refusal(f"entry {number} is encrypted")
    if row.flags & _PATCH or row.method not in (STORED, DEFLATED):
        raise refusal(f"entry {number} is compressed in a way that is not supported")
    if row.method == STORED and row.packed != row.unpacked:
        raise refusal(f"entry {number} is stored as it is and yet has two sizes")
    if folder and row.unpacked:
        raise refusal(f"entry {number} is a folder with contents")


def _compare(row: Header, local: Header, number: int) -> None:
    """Whether the directory and the header in front of the data say the same."""
    if local.name != row.name:
        raise refusal(f"entry {number} has another name in its header than in the directory")
    if (local.flags ^ row.flags) & ~_LEVEL or local.method != row.method:
        raise refusal(f"entry {number} has another kind in its header than in the directory")
    # With a descriptor behind the data, the header may leave these to it.
    allowed = (0,) if row.flags & _DESCRIPTOR else ()
    if (
        local.crc not in (row.crc, *allowed)
        or local.packed not in (row.packed, *allowed)
        or local.unpacked not in (row.unpacked, *allowed)
    ):
        raise refusal(f"entry {number} has another size or checksum in its header than in the directory")


def _check_sizes(entries: Sequence[Entry], size: int) -> None:
    total = sum(entry.unpacked for entry in entries)
    if total > MAX_UNPACKED:
        raise refusal(f"it unpacks to more than {MAX_UNPACKED // 1024**3} GiB")
    for entry in entries:
        if _is_bomb(entry.unpacked, entry.packed):
            raise refusal(f"entry {entry.number} unpacks to more than {MAX_RATIO} times its size")
    if _is_bomb(total, size):
        raise refusal(f"it unpacks to more than {MAX_RATIO} times its size")


def _is_bomb(unpacked: int, packed: int) -> bool:
    return unpacked > SMALL and unpacked > MAX_RATIO * packed


def _check_layout(file: BinaryIO, rows: Sequence[Header], spans: Sequence[tuple[int, int, int]], limit: int) -> None:
    """Whether entries and their descriptors fill the file up to the directory, each byte once."""
    ordered = sorted(spans)
    at = 0
    for index, (start, end, number) in enumerate(ordered):
        following = ordered[index + 1][0] if index + 1 < len(ordered) else limit
        if start > at:
            raise refusal(f"it holds bytes before entry {number} that belong to no entry")
        if end > following:
            raise refusal(f"entry {number} overlaps another entry or the directory")
        row = rows[number - 1]
        at = _end_of_descriptor(file, row, end, following, number) if row.flags & _DESCRIPTOR else end
    if at != limit:
        raise refusal("it holds bytes before its directory that belong to no entry")


def _end_of_descriptor(file: BinaryIO, row: Header, start: int, following: int, number: int) -> int:
    """Where the descriptor ends that fills the bytes from ``start`` to ``following`` in one of its four forms."""
    values = {12: "<III", 16: "<III", 20: "<IQQ", 24: "<IQQ"}
    form = values.get(following - start)
    if form is None:
        raise refusal(f"entry {number} has no proper data descriptor")
    data = read_at(file, start, following - start)
    signature = b"PK\x07\x08" if len(data) in (16, 24) else b""
    if data != signature + struct.pack(form, row.crc, row.packed, row.unpacked):
        raise refusal(f"entry {number} has another size or checksum behind its data than in the directory")
    return following
