"""Why the ledger could not take or show a row, and what to do about it.

Owns: :class:`LedgerError` and how SQLite's and the system's failures become one. The caller decides whether a call may
run without its row. Never: repeats the text of a foreign error.
"""

import errno
import os
import sqlite3
from pathlib import Path
from typing import Final, Literal

ErrorKind = Literal["busy", "full", "unwritable", "unsafe", "damaged", "missing", "newer", "unfinished", "io", "closed"]

_ADVICE: Final[dict[ErrorKind, str]] = {
    "busy": "another process holds it for too long; try again, or end that process",
    "full": "the disk or the quota is full; free space, or lower the ledger's limits",
    "unwritable": "it cannot be opened or written; give it a local folder that this user may use",
    "unsafe": "it is not safe to use",
    "damaged": "it is damaged; run `antigravity-acp control verify`, keep the folder and name another one",
    "missing": "there is none; nothing was recorded here yet, or the path is another one",
    "newer": "it was made by a newer version; update this one",
    "unfinished": "a process ended while it began this file; the next row mends it",
    "io": "the disk reported an error; check the disk",
    "closed": "it is closed",
}

_SQLITE: Final[dict[int, ErrorKind]] = {
    sqlite3.SQLITE_BUSY: "busy",
    sqlite3.SQLITE_LOCKED: "busy",
    sqlite3.SQLITE_PROTOCOL: "busy",
    sqlite3.SQLITE_FULL: "full",
    sqlite3.SQLITE_READONLY: "unwritable",
    sqlite3.SQLITE_PERM: "unwritable",
    sqlite3.SQLITE_CANTOPEN: "unwritable",
    sqlite3.SQLITE_AUTH: "unwritable",
    sqlite3.SQLITE_CORRUPT: "damaged",
    sqlite3.SQLITE_NOTADB: "damaged",
    sqlite3.SQLITE_CONSTRAINT: "damaged",
    sqlite3.SQLITE_ERROR: "damaged",
}

_SYSTEM: Final[dict[int, ErrorKind]] = {
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
    errno.EFBIG: "full",
    errno.EACCES: "unwritable",
    errno.EPERM: "unwritable",
    errno.EROFS: "unwritable",
    errno.EEXIST: "unwritable",
    errno.ENOTDIR: "unwritable",
    errno.EISDIR: "unwritable",
    errno.ELOOP: "unsafe",
    errno.ENOENT: "missing",
}


class LedgerError(Exception):
    """The ledger did not do what was asked; a row that was to be written counts as not written.

    :param kind: a stable word. :param path: the folder or file. :param detail: replaces the usual advice.
    """

    def __init__(self, kind: ErrorKind, path: Path, detail: str | None = None) -> None:
        self.kind: ErrorKind = kind
        self.path = path
        super().__init__(f"The ledger {path} was not used: {detail or _ADVICE[kind]}.")


def from_sqlite(error: sqlite3.Error, path: Path) -> LedgerError:
    """SQLite's failure as ours, by its primary result code; what has none is misuse and means ``damaged``."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if code == sqlite3.SQLITE_READONLY_ROLLBACK:
        # Only before its first row is a file not yet in WAL mode, where a reader must not repair it.
        return LedgerError("unfinished", path)
    # The extended code's low byte is the primary one.
    return LedgerError(_SQLITE.get(code & 0xFF, "io"), path)


def from_system(error: OSError, path: Path) -> LedgerError:
    """The system's failure as ours."""
    kind = _SYSTEM.get(error.errno or 0, "io")
    reason = os.strerror(error.errno).lower() if error.errno and kind == "io" else None
    return LedgerError(kind, path, reason)
