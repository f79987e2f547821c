"""When a file of the ledger is full, what the next one begins with, and which old ones go.

Owns: :class:`Limits`, the fields of ``file`` and ``end`` rows, and the removal of old files. A full file gets an
``end`` row and nothing after it; the next file's first row is a ``file`` row that refers to it like any row to the one
before. Both are steps that a killed process may leave undone and any other one takes up: a file that ends without a
successor gets one, an empty successor is begun. The newest ``file`` row names the oldest file that is kept, so a file
that rotation removed can be told from one that somebody else did.
"""

import secrets
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .chain import parse
from .database import Tail, has_schema, reading, tail_of
from .errors import LedgerError
from .folder import LedgerFile, file_at

_SUFFIXES: Final = ("-wal", "-shm", "")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a ledger: about ``max_bytes * keep_files`` on the disk, half a gibibyte by default.

    :param max_rows: rows of one file. :param max_bytes: bytes of one file. A file may exceed either by one batch.
    :param keep_files: files that are kept, the one that is written to included; at least 2.
    :param wait_s: seconds that a row waits for other processes until it fails as ``busy``.
    :raises ValueError: a bound that cannot hold.
    """

    max_rows: int = 100_000
    max_bytes: int = 32 * 1024 * 1024
    keep_files: int = 16
    wait_s: float = 10.0

    def __post_init__(self) -> None:
        if self.max_rows < 4 or self.max_bytes < 65_536 or self.keep_files < 2 or self.wait_s <= 0:
            raise ValueError("max_rows >= 4, max_bytes >= 65536, keep_files >= 2 and wait_s > 0 are needed")


class Capacity:
    """How much of a file is left; what does not change while it is open is asked once.

    :raises sqlite3.Error: it cannot be read.
    """

    def __init__(self, db: sqlite3.Connection, limits: Limits) -> None:
        self._db = db
        first: int = db.execute("SELECT min(seq) FROM rows").fetchone()[0]
        # One place is the `end` row's.
        self._last = first + limits.max_rows - 2
        self._pages = limits.max_bytes // db.execute("PRAGMA page_size").fetchone()[0]

    def used_up(self, tail: Tail) -> bool:
        """Whether the next row belongs into the next file. :raises sqlite3.Error: it cannot be read."""
        return tail.seq >= self._last or bool(self._db.execute("PRAGMA page_count").fetchone()[0] >= self._pages)


def end_fields(db: sqlite3.Connection, index: int) -> dict[str, Any]:
    """What a file's last row says beside its kind: what its first one said, for the next file to go on with.

    :raises sqlite3.Error: it cannot be read.
    """
    first = parse(db.execute("SELECT body FROM rows ORDER BY seq LIMIT 1").fetchone()[0]) or {}
    return {"index": index, "oldest": first.get("oldest", index), "ledger": first.get("ledger", "")}


def begin_fields(previous: Tail | None, index: int, limits: Limits) -> dict[str, Any]:
    """What a file's first row says: which file it is, of which ledger, and which one is the oldest that is kept.

    :param previous: the last row of the file before; ``None`` when there is none.
    """
    before = previous.body if previous is not None and previous.body is not None else {}
    oldest = before.get("oldest")
    return {
        "index": index,
        # Not the oldest that happens to be there: a file that somebody removed has to be missed.
        "oldest": max(index - limits.keep_files + 1, oldest if type(oldest) is int else index),
        "ledger": before.get("ledger") or secrets.token_hex(8),
    }


def previous_tail(folder: Path, index: int) -> Tail | None:
    """The last row of the file before, which has ended; ``None`` when there is no such file or nothing to read in it.

    A damaged predecessor must not stop the ledger: verification finds that the chain begins anew.
    """
    try:
        with reading(file_at(folder, index - 1).path) as db:
            return tail_of(db) if has_schema(db) else None
    except LedgerError:
        return None


def retire(files: Sequence[LedgerFile], oldest: int) -> None:
    """Remove the files that are no longer kept. What cannot be removed now is removed with the next file."""
    for file in files:
        if file.number >= oldest:
            continue
        # The database goes last: until then it says where it belongs.
        for suffix in _SUFFIXES:
            try:
                file.path.with_name(file.path.name + suffix).unlink(missing_ok=True)
            except OSError:
                break
