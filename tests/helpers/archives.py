"""Makers of ZIP archives: one in the layout of the official server's, and hostile ones, byte for byte.

``zipfile`` refuses to write most of what a hostile archive holds, so ``build`` writes every record itself: what is not
given is right, and every field of every record can be given.
"""

import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SERVER = "agy_acp_server.par"
HARNESS = "localharness_external"


def official_layout(
    path: Path,
    server: bytes | str,
    *,
    harness: bytes | str = "#!/bin/sh\nexit 0\n",
    command: str = SERVER,
    sibling: str = HARNESS,
    method: int = zipfile.ZIP_DEFLATED,
) -> Path:
    """An archive like the official one at ``path``: the server and its sibling, side by side, both executable.

    :param server: contents of the server program, for example a script with its ``#!`` line. :return: ``path``.
    """
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, contents in ((command, server), (sibling, harness)):
            info = zipfile.ZipInfo(name, (2026, 10, 1, 12, 0, 0))
            info.create_system, info.external_attr, info.compress_type = 3, 0o100755 << 16, method
            archive.writestr(info, contents)
    return path


@dataclass
class Member:
    """One entry. ``local`` and ``central`` replace fields of the two headers; see ``LOCAL`` and ``CENTRAL``.

    :param descriptor: the form of the data descriptor (size of its sizes, with its signature), ``None`` for none.
    :param packed: what is stored for the data, when it is not the data compressed by ``method``.
    """

    name: str | bytes
    data: bytes = b"data\n"
    method: int = 8
    mode: int = 0o100644
    flags: int | None = None
    local: Mapping[str, int] = field(default_factory=dict)
    central: Mapping[str, int] = field(default_factory=dict)
    local_name: str | bytes | None = None
    local_extra: bytes = b""
    central_extra: bytes = b""
    comment: bytes = b""
    descriptor: tuple[int, bool] | None = None
    descriptor_values: tuple[int, int, int] | None = None
    packed: bytes | None = None
    before: bytes = b""
    after: bytes = b""


LOCAL = ("signature", "needed", "flags", "method", "time", "date", "crc", "packed", "unpacked", "name", "extra")
CENTRAL = (
    *("signature", "made", "needed", "flags", "method", "time", "date", "crc", "packed", "unpacked", "name", "extra"),
    *("comment", "disk", "internal", "attributes", "offset"),
)
END = ("signature", "disk", "directory_disk", "here", "total", "size", "offset", "comment")
END64 = ("signature", "length", "made", "needed", "disk", "directory_disk", "here", "total", "size", "offset")
LOCATOR = ("signature", "disk", "offset", "disks")
_LOCAL, _CENTRAL, _END = "<IHHHHHIIIHH", "<IHHHHHHIIIHHHHHII", "<IHHHHIIH"
_END64, _LOCATOR = "<IQHHIIQQQQ", "<IIQI"


def _bytes(name: str | bytes) -> bytes:
    return name.encode() if isinstance(name, str) else name


def _record(form: str, names: Sequence[str], values: Mapping[str, int], given: Mapping[str, int]) -> bytes:
    assert not set(given) - set(names), given
    merged = {**values, **given}
    return struct.pack(form, *(merged[name] for name in names))


def deflated(data: bytes, level: int = 6) -> bytes:
    """A raw deflate stream."""
    made = zlib.compressobj(level, zlib.DEFLATED, -15)
    return made.compress(data) + made.flush()


def extra(kind: int, contents: bytes) -> bytes:
    """One extra field."""
    return struct.pack("<HH", kind, len(contents)) + contents


def build(
    members: Sequence[Member],
    *,
    prefix: bytes = b"",
    shift: bool = True,
    between: bytes = b"",
    before_end: bytes = b"",
    comment: bytes = b"",
    end: Mapping[str, int] | None = None,
    end64: Mapping[str, int] | None = None,
    locator: Mapping[str, int] | None = None,
    suffix: bytes = b"",
    count: int | None = None,
) -> bytes:
    """The bytes of an archive.

    :param prefix: bytes before the first entry. :param shift: whether the offsets know of them.
    :param between: bytes before the directory. :param before_end: bytes behind the directory.
    :param end64: given (also empty): the records of ZIP64 are written. :param suffix: bytes behind the end.
    """
    body, rows = bytearray(prefix), bytearray()
    lost = 0 if shift else len(prefix)
    for member in members:
        body += member.before
        name = _bytes(member.name)
        packed = member.packed
        if packed is None:
            packed = deflated(member.data) if member.method == 8 else member.data
        flags = member.flags
        if flags is None:
            flags = (0 if name.isascii() else 0x800) | (8 if member.descriptor else 0)
        common = {
            "needed": 20,
            "flags": flags,
            "method": member.method,
            "time": 0,
            "date": 0x5A21,
            "crc": zlib.crc32(member.data),
            "packed": len(packed),
            "unpacked": len(member.data),
        }
        offset = len(body) - lost
        local_name = name if member.local_name is None else _bytes(member.local_name)
        hidden = {"crc": 0, "packed": 0, "unpacked": 0} if member.descriptor else {}
        own = {"signature": 0x04034B50, "name": len(local_name), "extra": len(member.local_extra)}
        body += _record(_LOCAL, LOCAL, {**common, **hidden, **own}, member.local) + local_name + member.local_extra
        body += packed
        if member.descriptor:
            width, signed = member.descriptor
            values = member.descriptor_values or (zlib.crc32(member.data), len(packed), len(member.data))
            body += (b"PK\x07\x08" if signed else b"") + struct.pack("<III" if width == 4 else "<IQQ", *values)
        body += member.after
        own = {
            "signature": 0x02014B50,
            "made": 0x0314,
            "name": len(name),
            "extra": len(member.central_extra),
            "comment": len(member.comment),
            "disk": 0,
            "internal": 0,
            "offset": offset,
            "attributes": (member.mode << 16) | (0x10 if name.endswith(b"/") else 0),
        }
        rows += _record(_CENTRAL, CENTRAL, {**common, **own}, member.central)
        rows += name + member.central_extra + member.comment
    body += between
    number = len(members) if count is None else count
    where = {"here": number, "total": number, "size": len(rows), "offset": len(body) - lost}
    body += rows + before_end
    if end64 is not None:
        values = {"signature": 0x06064B50, "length": 44, "made": 45, "needed": 45, "disk": 0, "directory_disk": 0}
        at = len(body) - lost
        body += _record(_END64, END64, {**values, **where}, end64)
        values = {"signature": 0x07064B50, "disk": 0, "offset": at, "disks": 1}
        body += _record(_LOCATOR, LOCATOR, values, locator or {})
        where = {"here": 0xFFFF, "total": 0xFFFF, "size": 0xFFFFFFFF, "offset": 0xFFFFFFFF}
    values = {"signature": 0x06054B50, "disk": 0, "directory_disk": 0, "comment": len(comment)}
    return bytes(body + _record(_END, END, {**values, **where}, end or {}) + comment + suffix)
