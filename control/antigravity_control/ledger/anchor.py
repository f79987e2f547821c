"""The anchor: what the chain's end was, kept outside the chain.

Owns: the file ``head`` beside the ledger's files. A chain alone cannot show that its last rows are gone: what is left
is a whole, shorter chain. After every commit, and before the write is acknowledged, the newest row's number and hash go
into this file, so whoever cuts rows off has to know about it and to forge it. It is no witness against somebody who
rewrites chain *and* anchor; only a hash that was noted elsewhere is (``verify --expect``).

Form: 64 slots of 128 bytes; row ``n`` goes into slot ``n mod 64``, the newest valid slot counts. A slot is written in
place and not synced: a power cut may leave an older head, which claims less, or a torn slot, which its checksum
rejects. Several processes write without a lock: each after its own commit, so a late one only fills a slot that is no
longer the newest.
"""

import os
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from .folder import OPEN_FLAGS, check_regular, sync_folder

ANCHOR_FILE: Final = "head"
_SLOTS: Final = 64
_SLOT_BYTES: Final = 128
_EMPTY: Final = b" " * (_SLOT_BYTES - 1) + b"\n"


class Head(NamedTuple):
    """A row's number and its hash in hex."""

    seq: int
    hash: str


class Anchor:
    """The anchor of a ledger that is written to. Not safe for several threads at once.

    :raises OSError: it cannot be opened or is a link.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / ANCHOR_FILE
        flags = os.O_RDWR | OPEN_FLAGS
        try:
            self._descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            self._descriptor = os.open(path, flags)
            return
        # All of it now: a full disk later on must not stop a slot that is only replaced. Only by who made the file:
        # nobody else can tell a slot that is still empty from one that is being written.
        os.write(self._descriptor, _EMPTY * _SLOTS)
        os.fsync(self._descriptor)
        sync_folder(folder)

    def heads(self) -> list[Head]:
        """The rows that the anchor knows, the newest first."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return _heads(os.read(self._descriptor, _SLOTS * _SLOT_BYTES))

    def advance(self, head: Head) -> None:
        """Remember a committed row."""
        index = head.seq % _SLOTS
        known = _read_slot(self._raw(index))
        if known is None or known.seq < head.seq:
            self._put(index, _write_slot(head))

    def restart(self, head: Head) -> None:
        """Forget everything else: a new chain, or a loss that was written into this one. Synced: from its first row on
        a chain has an anchor, so one that has none lost it."""
        for index in range(_SLOTS):
            self._put(index, _EMPTY)
        self._put(head.seq % _SLOTS, _write_slot(head))
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Release the file; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _raw(self, index: int) -> bytes:
        os.lseek(self._descriptor, index * _SLOT_BYTES, os.SEEK_SET)
        return os.read(self._descriptor, _SLOT_BYTES)

    def _put(self, index: int, slot: bytes) -> None:
        os.lseek(self._descriptor, index * _SLOT_BYTES, os.SEEK_SET)
        os.write(self._descriptor, slot)


def read_heads(folder: Path) -> list[Head]:
    """The rows that a ledger's anchor knows, the newest first; empty when there is no anchor, or none of it is whole.

    :raises LedgerError: ``unsafe``: it is no file of its own. :raises OSError: it is there and cannot be read.
    """
    path = folder / ANCHOR_FILE
    check_regular(path)
    try:
        descriptor = os.open(path, os.O_RDONLY | OPEN_FLAGS)
    except FileNotFoundError:
        return []
    try:
        return _heads(os.read(descriptor, _SLOTS * _SLOT_BYTES))
    finally:
        os.close(descriptor)


def _heads(data: bytes) -> list[Head]:
    slots = (data[start : start + _SLOT_BYTES] for start in range(0, len(data), _SLOT_BYTES))
    return sorted((head for slot in slots if (head := _read_slot(slot)) is not None), reverse=True)


def _write_slot(head: Head) -> bytes:
    text = f"{head.seq:020d} {head.hash}"
    return f"{text} {_checksum(text)}".ljust(_SLOT_BYTES - 1).encode("ascii") + b"\n"


def _read_slot(slot: bytes) -> Head | None:
    parts = slot.decode("ascii", "replace").split()
    if len(parts) != 3 or parts[2] != _checksum(f"{parts[0]} {parts[1]}") or not parts[0].isdigit():
        return None
    return Head(int(parts[0]), parts[1])


def _checksum(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
