"""What an installation says about itself: the receipt of its files, and the proof that the server answered.

Owns: the two formats, on paper only. A receipt lists what was unpacked from which archive, with sizes and hashes that
were computed here; it tells a complete folder from a damaged one. It says nothing about who made the files. A proof
belongs to exactly one receipt: it holds that receipt's digest.

Both are read as if somebody had tampered with them: bounded in size, every type and path checked. Whatever does not
fit is :class:`UnreadableError`, never another exception.
"""

import hashlib
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, Final, NamedTuple

from ._names import fault_of_path, folded

FORMAT: Final = 1
#: As many files as an archive may have.
MAX_FILES: Final = 4_096
#: Bytes of a receipt: as many files with the longest paths fit.
MAX_RECEIPT: Final = 8 * 1024 * 1024
MAX_PROOF: Final = 16 * 1024
RECEIPT_NAME: Final = "receipt.json"

_SHA256: Final = re.compile(r"[0-9a-f]{64}\Z")
#: What may stand in a folder's name, and so what a version and a platform may be.
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


class UnreadableError(ValueError):
    """Missing, too large, or not what such a file may hold. The text says which, in words for a person."""


class ReceiptFile(NamedTuple):
    """One file of an installation.

    :param path: relative to the folder, with ``/``. :param size: bytes. :param sha256: lower-case hex.
    :param mode: permission bits that it was given.
    """

    path: str
    size: int
    sha256: str
    mode: int


class Receipt(NamedTuple):
    """Everything that a folder must hold.

    :param archive_sha256: of the archive that the files came from. :param archive_size: bytes.
    """

    version: str
    platform: str
    archive_sha256: str
    archive_size: int
    files: tuple[ReceiptFile, ...]


class Proof(NamedTuple):
    """That a server answered ``initialize`` as the one it should be.

    :param receipt: SHA-256 of the receipt of the files that answered. :param time: ISO 8601, UTC.
    """

    receipt: str
    agent: str
    agent_version: str
    time: str


def digest(receipt: bytes) -> str:
    """What a proof calls a receipt by."""
    return hashlib.sha256(receipt).hexdigest()


def read_bounded(path: Path, limit: int) -> bytes:
    """The whole of a small regular file.

    :raises UnreadableError: it is missing, longer than ``limit`` bytes, a link, or no file at all.
    """
    # Without O_NONBLOCK a pipe that somebody put there would hold the caller for ever.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError:
        raise UnreadableError(f"{path.name} is missing or cannot be read") from None
    with os.fdopen(descriptor, "rb", closefd=True) as file:
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UnreadableError(f"{path.name} is not a file")
            data = file.read(limit + 1)
        except OSError:
            raise UnreadableError(f"{path.name} cannot be read") from None
    if len(data) > limit:
        raise UnreadableError(f"{path.name} is larger than it can be")
    return data


def encode_receipt(receipt: Receipt) -> bytes:
    """The receipt as bytes; equal installations have equal ones."""
    return _encode(
        {
            "format": FORMAT,
            "version": receipt.version,
            "platform": receipt.platform,
            "archive": {"sha256": receipt.archive_sha256, "size": receipt.archive_size},
            "files": [
                {"path": file.path, "size": file.size, "sha256": file.sha256, "mode": f"{file.mode:04o}"}
                for file in sorted(receipt.files)
            ],
        }
    )


def decode_receipt(data: bytes) -> Receipt:
    """:raises UnreadableError: it is not a receipt."""
    value = _object(_json(data, RECEIPT_NAME), RECEIPT_NAME, {"format", "version", "platform", "archive", "files"})
    if value["format"] != FORMAT or value["format"] is True:
        raise UnreadableError(f"{RECEIPT_NAME} has a format that this version does not know")
    archive = _object(value["archive"], RECEIPT_NAME, {"sha256", "size"})
    listed = value["files"]
    if not isinstance(listed, list) or not 0 < len(listed) <= MAX_FILES:
        raise UnreadableError(f"{RECEIPT_NAME} lists no files, or too many")
    files = tuple(_file(item) for item in listed)
    if len({file.path for file in files}) != len(files):
        raise UnreadableError(f"{RECEIPT_NAME} lists a file twice")
    return Receipt(
        _matching(value["version"], NAME),
        _matching(value["platform"], NAME),
        _matching(archive["sha256"], _SHA256),
        _count(archive["size"]),
        files,
    )


def encode_proof(proof: Proof) -> bytes:
    """The proof as bytes."""
    return _encode(
        {
            "format": FORMAT,
            "receipt": proof.receipt,
            "agent": {"name": proof.agent, "version": proof.agent_version},
            "time": proof.time,
        }
    )


def decode_proof(data: bytes) -> Proof:
    """:raises UnreadableError: it is not a proof."""
    what = "The proof"
    value = _object(_json(data, what), what, {"format", "receipt", "agent", "time"})
    agent = _object(value["agent"], what, {"name", "version"})
    if value["format"] != FORMAT or value["format"] is True:
        raise UnreadableError(f"{what} has a format that this version does not know")
    return Proof(
        _matching(value["receipt"], _SHA256), _text(agent["name"]), _text(agent["version"]), _text(value["time"])
    )


def is_plain_path(path: str) -> bool:
    """Whether a file of an installation may have this path: what may be unpacked, and not the receipt's own."""
    return not fault_of_path(path) and folded(path) != RECEIPT_NAME


def _encode(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"


def _json(data: bytes, what: str) -> object:
    try:
        return json.loads(data)
    # Deep nesting ends in a RecursionError, a number of thousands of digits in a ValueError.
    except (ValueError, RecursionError):
        raise UnreadableError(f"{what} is not JSON") from None


def _object(value: object, what: str, keys: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != keys:
        raise UnreadableError(f"{what} lacks an entry, or has one that does not belong there")
    return value


def _file(value: object) -> ReceiptFile:
    item = _object(value, RECEIPT_NAME, {"path", "size", "sha256", "mode"})
    path, mode = item["path"], item["mode"]
    if not isinstance(path, str) or not is_plain_path(path):
        raise UnreadableError(f"{RECEIPT_NAME} lists a path that leads elsewhere")
    if not isinstance(mode, str) or not re.match(r"0[0-7]{3}\Z", mode):
        raise UnreadableError(f"{RECEIPT_NAME} lists permissions that are none")
    return ReceiptFile(path, _count(item["size"]), _matching(item["sha256"], _SHA256), int(mode, 8))


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 48:
        raise UnreadableError(f"{RECEIPT_NAME} holds a size that is none")
    return value


def _matching(value: object, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.match(value):
        raise UnreadableError(f"{RECEIPT_NAME} holds a value that cannot be")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > 256 or not value.isprintable():
        raise UnreadableError("The proof holds a text that cannot be")
    return value
