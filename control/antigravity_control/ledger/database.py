"""One file of the ledger as an SQLite database.

Owns: the schema, the settings of a connection that writes and of one that reads, and the reading of a file's end.
A file has one table and three triggers that refuse everything but a row with a higher number. The triggers stop
accidents and honest tools; who drops them is found by the chain, and the missing trigger is found, too.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from .chain import parse
from .errors import LedgerError, from_sqlite, from_system
from .folder import check_regular

#: "AGLG" in the file's header, so that `file` and a person can tell what it is; and the version of this schema.
_APPLICATION: Final = 0x41474C47
_SCHEMA_VERSION: Final = 1
_HEADER: Final = {"application_id": _APPLICATION, "user_version": _SCHEMA_VERSION}
#: What SQLite keeps beside a file while it is used, or left behind when it was killed.
HELPERS: Final = ("-wal", "-shm", "-journal")
#: Between two attempts to switch to WAL, for which SQLite does not wait by itself.
_RETRY_S: Final = 0.005

_REFUSE: Final = "SELECT RAISE(ABORT, 'the ledger is append-only'); END"
_LATER: Final = "EXISTS (SELECT 1 FROM rows WHERE seq >= NEW.seq)"
SCHEMA: Final = {
    "rows": "CREATE TABLE rows (seq INTEGER PRIMARY KEY, hash BLOB NOT NULL, body TEXT NOT NULL)",
    "rows_update": f"CREATE TRIGGER rows_update BEFORE UPDATE ON rows BEGIN {_REFUSE}",
    "rows_delete": f"CREATE TRIGGER rows_delete BEFORE DELETE ON rows BEGIN {_REFUSE}",
    # Also what `INSERT OR REPLACE` would replace, for which no other trigger is asked.
    "rows_insert": f"CREATE TRIGGER rows_insert BEFORE INSERT ON rows WHEN {_LATER} BEGIN {_REFUSE}",
}


class Tail(NamedTuple):
    """A file's last row. :param body: ``None`` when it is not one that this chain wrote."""

    seq: int
    hash: str
    body: dict[str, Any] | None

    @property
    def closes(self) -> bool:
        """Whether nothing may follow in this file."""
        return self.body is not None and self.body["kind"] == "end"


def open_writer(path: Path, *, wait_s: float) -> sqlite3.Connection:
    """A connection whose commits are on the disk when they return. For one thread at a time, whichever it is.

    :param wait_s: how long a statement waits for another process.
    :raises LedgerError: it cannot be opened or written, or its file system has no shared memory.
    """
    deadline = time.monotonic() + wait_s
    db: sqlite3.Connection | None = None
    try:
        # rw: the file is there, made by `folder.create` with the mode that it must have.
        db = sqlite3.connect(_uri(path, "rw"), uri=True, timeout=wait_s, isolation_level=None, check_same_thread=False)
        _switch_to_wal(db, path, deadline)
        db.execute("PRAGMA synchronous=FULL")
        # On macOS an ordinary sync stops at the drive's own cache; elsewhere these change nothing.
        db.execute("PRAGMA fullfsync=ON")
        db.execute("PRAGMA checkpoint_fullfsync=ON")
    except BaseException as error:
        if db is not None:
            db.close()
        if isinstance(error, sqlite3.Error):
            raise from_sqlite(error, path) from None
        raise
    return db


def _switch_to_wal(db: sqlite3.Connection, path: Path, deadline: float) -> None:
    while True:
        try:
            mode = db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            # Two processes that begin the same file at once: SQLite lets one of them fail instead of wait.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
            continue
        if mode != "wal":
            raise LedgerError("unwritable", path, "its file system cannot hold it; name a folder on a local disk")
        return


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that cannot change the file; SQLite may leave its two empty helpers beside it.

    :raises LedgerError: it is gone, cannot be read or is no database; also for what a statement in the block meets.
    """
    db: sqlite3.Connection | None = None
    try:
        for suffix in ("", *HELPERS):
            check_regular(path.with_name(path.name + suffix))
        if not path.exists():
            raise LedgerError("missing", path)
        db = _open_reader(path)
        yield db
    except sqlite3.Error as error:
        raise from_sqlite(error, path) from None
    except OSError as error:
        raise from_system(error, path) from None
    finally:
        if db is not None:
            db.close()


def _open_reader(path: Path) -> sqlite3.Connection:
    with suppress(OSError):
        wal = path.with_name(f"{path.name}-wal")
        if not wal.exists() or not wal.stat().st_size:
            # Readable also where nothing can be made beside it: on read-only media, in a folder of somebody else.
            db = _connect_reader(_uri(path, "ro"))
            try:
                db.execute("SELECT 1 FROM sqlite_master").fetchone()
            except sqlite3.OperationalError as error:
                db.close()
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN:
                    raise
                return _connect_reader(_uri(path, "ro") + "&immutable=1")
            return db
    return _connect_reader(_uri(path, "ro"))


def _connect_reader(uri: str) -> sqlite3.Connection:
    db = sqlite3.connect(uri, uri=True, timeout=5.0, isolation_level=None)
    # What was not text when it was written must reach the verification, not end it.
    db.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    return db


def has_schema(db: sqlite3.Connection) -> bool:
    """Whether the file was begun: a process that was killed may leave an empty one.

    :raises sqlite3.Error: it cannot be read.
    """
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'rows'").fetchone() is not None


def write_schema(db: sqlite3.Connection) -> None:
    """Within a transaction: make the table and its triggers. :raises sqlite3.Error: it cannot be written."""
    for statement in SCHEMA.values():
        db.execute(statement)
    for name, value in _HEADER.items():
        db.execute(f"PRAGMA {name}={value}")


def check_version(db: sqlite3.Connection, path: Path) -> None:
    """:raises LedgerError: ``newer``. :raises sqlite3.Error: it cannot be read."""
    if db.execute("PRAGMA user_version").fetchone()[0] > _SCHEMA_VERSION:
        raise LedgerError("newer", path)


def schema_faults(db: sqlite3.Connection) -> list[str]:
    """Names in the schema that are not there, are different or are not ours; what the header says is among them.

    :raises sqlite3.Error: unreadable.
    """
    found = dict(db.execute("SELECT name, sql FROM sqlite_master").fetchall())
    names = [name for name in found.keys() | SCHEMA.keys() if found.get(name) != SCHEMA.get(name)]
    # The names are two constants of this module.
    header = [name for name, value in _HEADER.items() if db.execute(f"PRAGMA {name}").fetchone()[0] != value]
    return sorted(names + header)


def tail_of(db: sqlite3.Connection, *, known: tuple[int, str] | None = None) -> Tail | None:
    """The last row; ``None`` for a file without any.

    :param known: number and hash of a row that does not close its file; its body is not read again.
    :raises sqlite3.Error: it cannot be read.
    """
    found = db.execute("SELECT seq, hash, body FROM rows ORDER BY seq DESC LIMIT 1").fetchone()
    if found is None:
        return None
    seq, digest, body = found
    text = digest.hex() if isinstance(digest, bytes) else ""
    return Tail(seq, text, None if (seq, text) == known else parse(body))


def hash_at(db: sqlite3.Connection, seq: int) -> str | None:
    """The hash of a row as it is written beside it. :raises sqlite3.Error: it cannot be read."""
    found = db.execute("SELECT hash FROM rows WHERE seq = ?", (seq,)).fetchone()
    return found[0].hex() if found is not None and isinstance(found[0], bytes) else None


def _uri(path: Path, mode: str) -> str:
    return f"{path.absolute().as_uri()}?mode={mode}"
