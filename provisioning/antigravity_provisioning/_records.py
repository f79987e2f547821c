"""The records of a ZIP file, read by the letter (APPNOTE 6.3.10): its end, its directory, the headers of its entries.

Readers of ZIP differ in what they forgive, and hostile archives live on that: another end inside a comment, a header
that says something else than the directory, sizes hidden in a second field. So nothing is searched for, skipped or
repaired here: where a file can be read in two ways it is refused. ``zipfile`` forgives too much to be used.

Owns no file: reads from one that is open. Never reads an entry's data, and never more than ``DIRECTORY_BYTES`` at once.
"""

import struct
from typing import BinaryIO, Final, NamedTuple

from .errors import ProvisioningError, Reason

#: An archive's directory is read into memory; 4 096 entries of the official kind take a twentieth of this.
DIRECTORY_BYTES: Final = 8 * 1024 * 1024
MAX_ENTRIES: Final = 4096

_END: Final = struct.Struct("<4s4H2IH")
_END64: Final = struct.Struct("<4sQ2H2I4Q")
_LOCATOR: Final = struct.Struct("<4sIQI")
_ROW: Final = struct.Struct("<4s6H3I5H2I")
_LOCAL: Final = struct.Struct("<4s5H3I2H")
_FULL16: Final = 0xFFFF
_FULL32: Final = 0xFFFFFFFF
_ZIP64: Final = 0x0001
_UNICODE_PATH: Final = 0x7075


class Directory(NamedTuple):
    """Where the directory lies: bytes ``offset`` to ``offset + size``, ``rows`` rows."""

    offset: int
    size: int
    rows: int


class Header(NamedTuple):
    """What the directory or a local header says of an entry; sizes in bytes, ``name`` as it is stored.

    :param attributes: the external ones, 0 in a local header. :param offset: of the local header; in that header
        itself, where the entry's data begins.
    """

    flags: int
    method: int
    crc: int
    packed: int
    unpacked: int
    name: bytes
    attributes: int
    offset: int


def refusal(what: str, reason: Reason = "archive") -> ProvisioningError:
    """The error for an archive that is not unpacked. :param what: a clause with the fault, and no remote text."""
    return ProvisioningError(
        "archive",
        reason,
        f"The archive was refused because {what}. Nothing of it was kept. Get the archive anew and install again; "
        "if that does not help, the release itself is at fault: report it.",
    )


def read_at(file: BinaryIO, offset: int, count: int) -> bytes:
    """Exactly so many bytes. :raises ProvisioningError: when the file ends before."""
    file.seek(offset)
    data = file.read(count)
    if len(data) != count:
        raise refusal("it ends in the middle of a record")
    return data


def find_directory(file: BinaryIO, size: int) -> Directory:
    """The one directory of a file of ``size`` bytes. :raises ProvisioningError: when it has none, or more than one."""
    position, tail = _find_end(file, size)
    _, disk, directory_disk, here, total, length, offset, _ = _END.unpack_from(tail)
    end = position
    # Looked for even when nothing refers to it: some readers believe it whenever it is there.
    if (found := _find_end64(file, position, (disk, directory_disk, here, total, length, offset))) is not None:
        end, (disk, directory_disk, here, total, length, offset) = found
    if disk or directory_disk or here != total:
        raise refusal("it is one of several parts")
    if total > MAX_ENTRIES:
        raise refusal(f"it has more than {MAX_ENTRIES} entries")
    if length > DIRECTORY_BYTES:
        raise refusal("its directory is too large")
    if offset + length != end:
        raise refusal("its directory does not lie where its end says: something was put before or behind it")
    return Directory(offset, length, total)


def _find_end(file: BinaryIO, size: int) -> tuple[int, bytes]:
    reach = min(size, _END.size + _FULL16)
    tail = read_at(file, size - reach, reach)
    at = tail.find(b"PK\x05\x06")
    if at < 0:
        raise refusal("it has no end record: it was cut off, or it is not a ZIP file")
    # Data may hold the signature by chance, but not with a comment of just the length that is left.
    while len(tail) - at < _END.size or at + _END.size + _END.unpack_from(tail, at)[-1] != len(tail):
        at = tail.find(b"PK\x05\x06", at + 1)
        if at < 0:
            raise refusal("it does not end where its end record says: it was cut off or has something appended")
    if tail.find(b"PK\x05\x06", at + 1) >= 0:
        raise refusal("it has a second end record, so that it could be read in two ways")
    return size - reach + at, tail[at:]


def _find_end64(
    file: BinaryIO, position: int, fields: tuple[int, ...]
) -> tuple[int, tuple[int, int, int, int, int, int]] | None:
    """Where the end of a ZIP64 file lies and its fields; ``None`` when there is no such end before ``position``."""
    if position < _LOCATOR.size + _END64.size:
        return None
    signature, disk, start, disks = _LOCATOR.unpack(read_at(file, position - _LOCATOR.size, _LOCATOR.size))
    if signature != b"PK\x06\x07":
        return None
    if disk or disks > 1:
        raise refusal("it is one of several parts")
    if start != position - _LOCATOR.size - _END64.size:
        raise refusal("its ZIP64 end record is not where it should be")
    signature, length, _, _, *values = _END64.unpack(read_at(file, start, _END64.size))
    if signature != b"PK\x06\x06" or length != _END64.size - 12:
        raise refusal("its ZIP64 end record is damaged")
    wide = (values[0], values[1], values[2], values[3], values[4], values[5])
    full = (_FULL16, _FULL16, _FULL16, _FULL16, _FULL32, _FULL32)
    if any(short not in (most, long) for short, most, long in zip(fields, full, wide, strict=True)):
        raise refusal("its two end records contradict each other")
    return start, wide


def read_rows(file: BinaryIO, directory: Directory) -> list[Header]:
    """Every row of the directory, in its order. :raises ProvisioningError: when one cannot be read by the letter."""
    data = read_at(file, directory.offset, directory.size)
    rows: list[Header] = []
    at = 0
    for number in range(1, directory.rows + 1):
        if len(data) - at < _ROW.size or data[at : at + 4] != b"PK\x01\x02":
            raise refusal(f"its directory is damaged at entry {number}")
        _, _, needed, flags, method, _, _, *sizes, disk, _, attributes, offset = _ROW.unpack_from(data, at)
        crc, packed, unpacked, name_length, extra_length, comment_length = sizes
        at += _ROW.size
        name, extra = data[at : at + name_length], data[at + name_length : at + name_length + extra_length]
        at += name_length + extra_length + comment_length
        if at > len(data):
            raise refusal(f"its directory is damaged at entry {number}")
        if needed & 0xFF > 45:
            raise refusal(f"entry {number} needs features that are not supported")
        fields = _fields(extra, name, number)
        wide = [unpacked, packed, offset]
        _widen(wide, fields.get(_ZIP64, b""), number)
        if disk:
            raise refusal("it is one of several parts")
        rows.append(Header(flags, method, crc, wide[1], wide[0], name, attributes, wide[2]))
    if at != len(data):
        raise refusal("its directory holds more than it says")
    return rows


def read_local(file: BinaryIO, offset: int, limit: int, number: int) -> Header:
    """The header in front of an entry's data. :param limit: where entries end. :param number: of the entry, from 1."""
    if offset + _LOCAL.size > limit:
        raise refusal(f"entry {number} lies outside of the archive")
    signature, _, flags, method, _, _, crc, packed, unpacked, name_length, extra_length = _LOCAL.unpack(
        read_at(file, offset, _LOCAL.size)
    )
    start = offset + _LOCAL.size + name_length + extra_length
    if signature != b"PK\x03\x04":
        raise refusal(f"entry {number} has no header where the directory says")
    if start > limit:
        raise refusal(f"entry {number} lies outside of the archive")
    rest = read_at(file, offset + _LOCAL.size, name_length + extra_length)
    name = rest[:name_length]
    wide = [unpacked, packed]
    _widen(wide, _fields(rest[name_length:], name, number).get(_ZIP64, b""), number)
    return Header(flags, method, crc, wide[1], wide[0], name, 0, start)


def _fields(extra: bytes, name: bytes, number: int) -> dict[int, bytes]:
    """The extra fields by kind."""
    fields: dict[int, bytes] = {}
    at = 0
    while at < len(extra):
        kind, length = struct.unpack_from("<HH", extra, at) if len(extra) - at >= 4 else (0, _FULL16)
        at += 4 + length
        if at > len(extra) or kind in fields:
            raise refusal(f"entry {number} has damaged extra fields")
        fields[kind] = extra[at - length : at]
    # A second name, which some readers prefer to the first.
    if fields.get(_UNICODE_PATH, b"\x01\0\0\0\0" + name)[5:] != name:
        raise refusal(f"entry {number} has two names")
    return fields


def _widen(values: list[int], wide: bytes, number: int) -> None:
    """Replace those 32-bit values that say "see the ZIP64 field"; the field holds these, in order, and nothing else."""
    missing = [index for index, value in enumerate(values) if value == _FULL32]
    if not missing:
        return
    if len(wide) != 8 * len(missing):
        raise refusal(f"entry {number} has a damaged ZIP64 field")
    for index, (value,) in zip(missing, struct.iter_unpack("<Q", wide), strict=True):
        values[index] = value
