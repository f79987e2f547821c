"""The ledger that is written to.

Owns: :class:`Ledger`: one connection, the queue of rows and the anchor of one folder. A row is on the disk when the
call that wrote it returns; a call that raises wrote nothing that counts. Any number of processes append to one chain:
each takes SQLite's write lock, reads the last row, and writes after it. Threads of one process share a connection and
a commit: who gets the lock writes what the others have queued by then, so that ten rows at once cost one sync.
Ended by :meth:`Ledger.close`. Never: changes or removes a row, waits without a bound, or decides what a failure means.
"""

import sqlite3
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from . import folder as files
from .anchor import Anchor, Head
from .chain import GENESIS, body_of, hash_of
from .database import Tail, check_version, has_schema, hash_at, open_writer, tail_of, write_schema
from .digest import Digests, Redactor, canonical, shown
from .errors import LedgerError, from_sqlite, from_system
from .forks import watch
from .record import DecisionRow, OutcomeRow, kind_of, to_fields
from .rotate import Capacity, Limits, begin_fields, end_fields, previous_tail, retire

#: Rows of one commit.
_BATCH: Final = 256
#: Files that one commit may have to pass: other processes fill them meanwhile, but not that many.
_MOST_STEPS: Final = 32


@dataclass(slots=True, eq=False)
class _Pending:
    """A row on its way. :param seq: its number once it is on the disk."""

    kind: str
    fields: Mapping[str, Any]
    seq: int = 0
    error: BaseException | None = None
    abandoned: bool = False

    @property
    def settled(self) -> bool:
        return self.seq > 0 or self.error is not None


class Ledger:
    """One ledger; safe for several threads, across forks, and beside other processes. Blocks: call it from a thread.

    Use :meth:`open`.
    """

    def __init__(self, path: Path, limits: Limits, redact: Redactor | None) -> None:
        self.path = path
        self.limits = limits
        self._redact = redact
        self._digests = Digests(path)
        self._lock = threading.Lock()
        self._queue: deque[_Pending] = deque()
        self._db: sqlite3.Connection | None = None
        self._file = files.file_at(path, 1)
        self._identity = (0, 0)
        self._log = (0, 0)
        self._compared = False
        self._capacity: Capacity | None = None
        self._anchor: Anchor | None = None
        self._head: Head | None = None
        self._closed = False
        watch(self)

    @classmethod
    def open(
        cls, path: Path | str | None = None, *, limits: Limits | None = None, redact: Redactor | None = None
    ) -> Self:
        """Open a ledger, or begin one.

        :param path: its folder, the user's own when left out. :param limits: its bounds.
        :param redact: keep arguments, too: as canonical JSON, after this function took the secrets out, cut to 2048
            characters. Without it a row has only their keyed digest.
        :raises LedgerError: the folder is not safe, cannot be written, or holds what is no ledger.
        """
        folder = files.default_path() if path is None else Path(path)
        files.prepare(folder)
        ledger = cls(folder, limits or Limits(), redact)
        with ledger._lock:
            try:
                # What is wrong is found here and not with the first call that is to run.
                ledger._connect()
            except BaseException:
                ledger._let_go()
                raise
        return ledger

    def decided(self, row: DecisionRow) -> int:
        """Write a decision.

        :returns: the row's number, when it is on the disk.
        :raises LedgerError: it is not; whether the call may run all the same is the caller's to say.
        """
        fields: dict[str, Any] = to_fields(row)
        if row.arguments is not None:
            text = canonical(row.arguments)
            fields["arguments_digest"] = self._digests.of(text)
            if self._redact is not None:
                fields["arguments"] = shown(text, self._redact)
        return self._append(kind_of(row), fields)

    def ended(self, row: OutcomeRow) -> int:
        """Write how a call ended. Returns and raises as :meth:`decided` does."""
        return self._append(kind_of(row), to_fields(row))

    def digest(self, arguments: Mapping[str, Any]) -> str:
        """The digest that a row of these arguments has: to look for a call whose arguments are known."""
        return self._digests.of(canonical(arguments))

    @property
    def head(self) -> Head | None:
        """Number and hash of the last row that this object wrote; worth noting outside of this machine."""
        return self._head

    def close(self) -> None:
        """Release everything; rows that are being written are finished. Idempotent."""
        with self._lock:
            self._closed = True
            self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def before_fork(self) -> None:
        """See ``forks.py``."""
        # Held by somebody for one commit at most, which has a bound.
        self._lock.acquire()
        self._let_go()

    def after_fork(self, *, child: bool) -> None:
        """See ``forks.py``."""
        if child:
            # Rows of threads that do not exist here; the parent writes them.
            self._queue.clear()
        self._lock.release()

    def _append(self, kind: str, fields: Mapping[str, Any]) -> int:
        pending = _Pending(kind, fields)
        self._queue.append(pending)
        if not self._lock.acquire(timeout=self.limits.wait_s):
            pending.abandoned = True
            raise LedgerError("busy", self.path)
        try:
            if not pending.settled:
                self._write_queued()
        finally:
            self._lock.release()
        if pending.error is not None:
            raise pending.error
        if not pending.seq:
            # Ctrl-C reached the thread that had taken this row to write it.
            raise LedgerError("io", self.path, "the write was interrupted")
        return pending.seq

    def _write_queued(self) -> None:
        """Write what is queued, this thread's own row among it, up to the end of the queue as it is now."""
        waiting = len(self._queue)
        while waiting > 0:
            batch = [self._queue.popleft() for _ in range(min(waiting, _BATCH))]
            waiting -= len(batch)
            batch = [each for each in batch if not each.abandoned]
            try:
                if self._closed:
                    raise LedgerError("closed", self.path)
                self._write(batch)
            except Exception as error:  # noqa: BLE001 - every row of the batch has a caller that has to know
                self._let_go()
                failure = self._explain(error)
                for each in batch:
                    each.error = failure
            except BaseException:
                self._let_go()
                for each in batch:
                    each.error = LedgerError("io", self.path, "the write was interrupted")
                raise

    def _explain(self, error: Exception) -> Exception:
        if isinstance(error, sqlite3.Error):
            return from_sqlite(error, self.path)
        if isinstance(error, OSError):
            return from_system(error, self.path)
        if isinstance(error, LedgerError):
            return error
        # Whoever waits for a row has to know of one kind of failure only. A number that is too large is a tampered one.
        if isinstance(error, OverflowError):
            return LedgerError("damaged", self.path)
        return LedgerError("io", self.path, f"writing failed with {type(error).__name__}, a fault of this program")

    def _write(self, batch: Sequence[_Pending]) -> None:
        if not batch:
            return
        for _ in range(_MOST_STEPS):
            db = self._connect()
            db.execute("BEGIN IMMEDIATE")
            written = self._write_here(db, batch)
            if written is None:
                db.execute("ROLLBACK")
                self._next_file()
                continue
            db.execute("COMMIT")
            self._note(written)
            if written.full:
                self._next_file()
                continue
            for each, seq in zip(batch, range(written.first, written.head.seq + 1), strict=True):
                each.seq = seq
            return
        raise LedgerError("busy", self.path)

    def _write_here(self, db: sqlite3.Connection, batch: Sequence[_Pending]) -> "_Written | None":
        """Within a transaction: the rows after the last one of this file; ``None`` when it has ended."""
        # A connection that has written knows that the file is begun.
        begun = not self._compared and not has_schema(db)
        if begun:
            write_schema(db)
        tail = None if begun else tail_of(db, known=self._head)
        if tail is not None and tail.closes:
            return None
        rows = _Rows(db, tail)
        if tail is None:
            before = previous_tail(self.path, self._file.number)
            rows.follow(before)
            rows.add("file", begin_fields(before, self._file.number, self.limits))
        lost = self._compare(db, rows, anew=begun and rows.head.seq == 1)
        if lost:
            rows.add("notice", lost)
        elif tail is not None and self._is_full(db, tail):
            rows.add("end", end_fields(db, self._file.number))
            return _Written(rows.head, rows.head.seq, full=True)
        first = rows.head.seq + 1
        for each in batch:
            rows.add(each.kind, each.fields)
        return _Written(rows.head, first, restart=bool(lost), begun=begun)

    def _is_full(self, db: sqlite3.Connection, tail: Tail) -> bool:
        if self._capacity is None:
            self._capacity = Capacity(db, self.limits)
        return self._capacity.used_up(tail)

    def _compare(self, db: sqlite3.Connection, rows: "_Rows", *, anew: bool) -> dict[str, Any]:
        """What the anchor and this object know and the file does not have; empty when all is well.

        Whoever cut rows off would have the next row cover it up, since the anchor follows; so the next row says it.
        Asked with the first row of a connection, and with every row that does not follow our own last one: another
        process wrote, or somebody took rows away while we were at it.
        """
        before = self._head
        if self._compared and before == rows.head:
            return {}
        anchor = self._anchor_of()
        heads = anchor.heads()
        if not heads and anew:
            anchor.restart(Head(0, GENESIS))
            return {}
        newest = heads[0] if heads else Head(0, "")
        if not heads or newest.seq > rows.head.seq:
            return {"lost": max(0, newest.seq - rows.head.seq), "known_seq": newest.seq, "known_hash": newest.hash}
        # What was compared once cannot be changed unnoticed: each row after it refers to it.
        for head in filter(None, (before, newest)) if self._compared else heads:
            found = hash_at(db, head.seq)
            if found is not None and found != head.hash:
                return {"lost": 0, "known_seq": head.seq, "known_hash": head.hash}
        return {}

    def _anchor_of(self) -> Anchor:
        assert self._anchor is not None  # noqa: S101 - opened with the connection
        return self._anchor

    def _note(self, written: "_Written") -> None:
        """After a commit."""
        self._compared = True
        if self._log == (0, 0):
            self._log = _identity(_log_of(self._file))
        # What closed a file has to be seen as such by a thread that looks again.
        self._head = None if written.full else written.head
        if written.restart:
            self._anchor_of().restart(written.head)
        else:
            self._anchor_of().advance(written.head)
        if written.begun:
            retire(files.files_of(self.path), self._file.number - self.limits.keep_files + 1)

    def _connect(self) -> sqlite3.Connection:
        """The connection to the file that is written to now."""
        if self._db is not None and self._is_in_place():
            return self._db
        newest = max(files.files_of(self.path), default=None) if self._db is None else None
        # The file that was open may have been removed with its folder: rows must not go where nobody finds them.
        self._let_go()
        if newest is None:
            files.prepare(self.path)
            newest = max(files.files_of(self.path), default=files.file_at(self.path, 1))
        self._open(newest)
        assert self._db is not None  # noqa: S101 - just opened
        return self._db

    def _is_in_place(self) -> bool:
        """Whether the names still mean what is open: rows in a removed log would be gone with this process."""
        return self._identity == _identity(self._file.path) and self._log in ((0, 0), _identity(_log_of(self._file)))

    def _next_file(self) -> None:
        number = self._file.number + 1
        self._let_go()
        newest = max(files.files_of(self.path), default=None)
        self._open(newest if newest is not None and newest.number > number else files.file_at(self.path, number))

    def _open(self, file: files.LedgerFile) -> None:
        files.create(file.path)
        files.check_file(file.path)
        self._file = file
        self._anchor = Anchor(self.path)
        self._db = open_writer(file.path, wait_s=self.limits.wait_s)
        check_version(self._db, file.path)
        self._identity = _identity(file.path)
        self._log = (0, 0)
        self._compared = False

    def _let_go(self) -> None:
        self._capacity = None
        db, self._db = self._db, None
        anchor, self._anchor = self._anchor, None
        if anchor is not None:
            anchor.close()
        if db is not None:
            # An open transaction is rolled back by this.
            db.close()


@dataclass(frozen=True, slots=True)
class _Written:
    """What one transaction wrote. :param first: the number of the batch's first row."""

    head: Head
    first: int
    full: bool = False
    restart: bool = False
    begun: bool = False


class _Rows:
    """Rows that are added to a file within one transaction."""

    def __init__(self, db: sqlite3.Connection, tail: Tail | None) -> None:
        self._db = db
        self.head = Head(0, GENESIS)
        self.follow(tail)

    def follow(self, tail: Tail | None) -> None:
        """Go on after a row."""
        if tail is not None:
            self.head = Head(tail.seq, tail.hash)

    def add(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Write one row after the last one. :raises sqlite3.Error: it could not be written."""
        seq = self.head.seq + 1
        body = body_of(seq, self.head.hash, kind, datetime.now(UTC).isoformat(timespec="microseconds"), fields)
        digest = hash_of(body)
        self._db.execute("INSERT INTO rows VALUES (?, ?, ?)", (seq, digest, body))
        self.head = Head(seq, digest.hex())


def _log_of(file: files.LedgerFile) -> Path:
    return file.path.with_name(f"{file.path.name}-wal")


def _identity(path: Path) -> tuple[int, int]:
    """Which file a name means now; zeros when none."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino
