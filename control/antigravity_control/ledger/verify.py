"""Is the ledger what was written?

Owns: :func:`verify`: every row of every file, how they follow each other, the files, the schema and the anchor. Reads
only, one row at a time, beside processes that write.

What can be found from the folder alone: a row that was changed, removed, moved, copied or inserted, with or without new
hashes, as long as one row behind it is as it was written; files that are missing, cut or replaced; rows that are
missing at the end, or another chain in the place of this one, because the anchor knows better; and, since the next
writer notes what it finds, also when rows came after that. What cannot: a chain that was computed anew from some row to
its end *with* its anchor, by somebody who may write the folder. For that a hash has to lie elsewhere: ``expect``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from . import folder as files
from .anchor import ANCHOR_FILE, Head, read_heads
from .chain import GENESIS, hash_of, parse
from .database import check_version, has_schema, reading, schema_faults
from .errors import LedgerError, from_system

FaultKind = Literal[
    "changed",
    "missing",
    "moved",
    "replaced",
    "truncated",
    "file-missing",
    "file-damaged",
    "schema",
    "anchor",
    "expected",
]

#: Faults that a report lists; more are counted. One is enough to distrust everything behind it.
_MOST_FAULTS: Final = 100
#: Rows whose hashes are remembered by the number they were written with; a row that was moved further is found all the
#: same, only without a word about its predecessor.
_REMEMBERED: Final = 4096
_UNANCHORED: Final = "rows that were cut off at the end would not be noticed"
#: Attempts, when rotation removes a file that was just listed.
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is not as it was written.

    :param kind: a stable word. :param file: the file's name. :param row: the row's number, the first when several.
    :param text: a sentence for a person.
    """

    kind: FaultKind
    file: str
    row: int | None
    text: str


@dataclass(slots=True)
class Report:
    """What a verification found.

    :param rows: rows that were read. :param first: number of the oldest row. :param head: number and hash of the newest
        one: what to note elsewhere and to give to ``expect`` later. :param faults: at most 100; ``found`` counts all.
    """

    rows: int = 0
    files: int = 0
    first: int = 0
    head: Head = field(default_factory=lambda: Head(0, GENESIS))
    found: int = 0
    faults: list[Fault] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything is as it was written, as far as this can be known."""
        return self.found == 0

    def add(self, kind: FaultKind, file: str, row: int | None, text: str) -> None:
        """Take a fault."""
        self.found += 1
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(Fault(kind, file, row, text))


def verify(path: Path | str, *, expect: str | None = None) -> Report:
    """Verify a ledger's folder, or one file of it by itself (without an anchor, then).

    :param expect: a hash, in hex, that the chain must hold: the head of an earlier report that was kept elsewhere.
    :raises LedgerError: there is no ledger, or it may not be read. A damaged one is a report, not an error.
    """
    place = Path(path)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _verify(place, expect.lower() if expect is not None else None)
        except _GoneError:
            if attempt == _ATTEMPTS:
                break
    raise LedgerError("busy", place)


class _GoneError(Exception):
    """A file was there a moment ago."""


def _verify(place: Path, expect: str | None) -> Report:
    single = place.is_file()
    heads: list[Head] = []
    odd = False
    try:
        # Before the rows: whatever the anchor knows was committed by then.
        heads = [] if single else read_heads(place)
    except LedgerError:
        odd = True
    except OSError as error:
        raise from_system(error, place) from None
    present = [files.LedgerFile(0, place)] if single else files.files_of(place)
    if not present and not heads and not odd:
        raise LedgerError("missing", place)
    walk = _Walk(heads, expect)
    if odd:
        walk.report.add("anchor", ANCHOR_FILE, None, f"the anchor `{ANCHOR_FILE}` is no file of its own: {_UNANCHORED}")
    kept = present if single else _check_files(walk.report, present)
    for file in kept:
        _read_file(walk, file)
    walk.finish(anchored=not single)
    return walk.report


def _check_files(report: Report, present: Sequence[files.LedgerFile]) -> list[files.LedgerFile]:
    """The files that count, oldest first; those that are missing among them are faults."""
    oldest = next(filter(None, map(_oldest_kept, reversed(present))), present[0].number if present else 1)
    # What is older was to be removed by rotation, and could not be.
    kept = [file for file in present if file.number >= oldest]
    expected = oldest
    for file in kept:
        for number in range(expected, min(file.number, expected + _MOST_FAULTS)):
            name = files.file_at(file.path.parent, number).path.name
            report.add("file-missing", name, None, f"the file {name} is missing")
        expected = file.number + 1
    return kept


def _oldest_kept(file: files.LedgerFile) -> int | None:
    """The oldest file that there must be, as this one's first row says; ``None`` when it says nothing."""
    try:
        with reading(file.path) as db:
            found = db.execute("SELECT body FROM rows ORDER BY seq LIMIT 1").fetchone() if has_schema(db) else None
    except LedgerError:
        return None
    oldest = (parse(found[0]) or {}).get("oldest") if found is not None else None
    return oldest if type(oldest) is int and 0 < oldest <= file.number else None


def _read_file(walk: "_Walk", file: files.LedgerFile) -> None:
    name = file.path.name
    walk.report.files += 1
    try:
        with reading(file.path) as db:
            check_version(db, file.path)
            if not has_schema(db) and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
                return  # a process was killed before the file's first row
            walk.begin(name, file.number)
            for wrong in schema_faults(db):
                walk.report.add("schema", name, None, f"`{wrong}` in {name} is missing, different or not the ledger's")
            for seq, digest, body in db.execute("SELECT seq, hash, body FROM rows ORDER BY seq"):
                walk.row(name, seq, digest.hex() if isinstance(digest, bytes) else "", body)
    except LedgerError as error:
        if error.kind == "missing":
            raise _GoneError from None
        if error.kind == "unfinished":
            return  # it has no row; those that it may have had are missed by the anchor
        if error.kind not in ("damaged", "unsafe"):
            raise
        how = "it was cut or overwritten" if error.kind == "damaged" else "it or one of its helpers is not a plain file"
        text = f"{name} cannot be read behind row {walk.position}: {how}"
        walk.report.add("file-damaged", name, walk.position + 1, text)
        return
    walk.end(name)


class _Walk:
    """The state between two rows."""

    def __init__(self, heads: Sequence[Head], expect: str | None) -> None:
        self.report = Report()
        self.position = 0
        self._name = ""
        self._heads = {head.seq: head.hash for head in heads}
        self._newest = heads[0].seq if heads else 0
        self._expect = expect
        self._met = expect is None
        #: By the number that a row was *written* with: the hashes that its successor may refer to.
        self._hashes: dict[int, tuple[str, str]] = {}
        #: How far rows stand from the number they were written with; told once, not for every row behind.
        self._shift = 0
        self._other = False
        #: The file that is being read: its number, 0 when it is read by itself, and whether a row of it was seen.
        self._number = 0
        self._opened = True
        #: How far files stand from the number they were begun with; told once.
        self._renamed = 0

    def begin(self, name: str, number: int) -> None:
        """The rows of a file come now."""
        self._name, self._number, self._opened = name, number, False

    def end(self, name: str) -> None:
        """They are through. Its first rows come with the file itself, so one without any lost them."""
        if not self._opened and not self.position:
            self.report.add("missing", name, None, f"{name} has lost all its rows")
        self._opened = True

    def row(self, name: str, seq: int, stored: str, body: object) -> None:
        """Take the next row."""
        self.report.rows += 1
        self._name = name
        content = parse(body)
        computed = hash_of(body).hex() if isinstance(body, str) else ""
        whole = content is not None and computed == stored
        if not whole:
            self.report.add("changed", name, seq, f"row {seq} was changed: its content and its hash do not fit")
        if not self._opened:
            self._opening(name, seq, content)
        self._place(name, seq)
        written = seq
        if content is not None:
            written = content["seq"]
            self._order(name, seq, written)
            self._link(name, seq, written, content["prev"])
            self._say(name, seq, content)
        if whole:
            self._compare(name, seq, written, stored, computed)
            self._met = self._met or self._expect in (stored, content["prev"] if content else "")
        self._remember(written, stored, computed)
        self.position = seq
        self.report.head = Head(seq, stored)

    def finish(self, *, anchored: bool) -> None:
        """After the last row."""
        if self._newest > self.position:
            first = self.position + 1
            text = f"rows {first} to {self._newest} are missing at the end: the anchor knows row {self._newest}"
            self.report.add("truncated", self._name, first, text)
        if (
            anchored
            and not self._heads
            and self.report.rows
            and not any(fault.kind == "anchor" and fault.row is None for fault in self.report.faults)
        ):
            text = f"the anchor `{ANCHOR_FILE}` is missing or empty: {_UNANCHORED}"
            self.report.add("anchor", "head", None, text)
        if not self._met:
            text = "no row has the expected hash: this is another chain, or that row is older than what is kept"
            self.report.add("expected", self._name, None, text)

    def _opening(self, name: str, seq: int, content: dict[str, Any] | None) -> None:
        """A file's first row says which file it is. Without it rows before are missing, also where no other row tells
        it: in the oldest file."""
        self._opened = True
        if content is None:
            return
        if content["kind"] != "file":
            if not self.position:
                self.report.add("missing", name, max(1, seq - 1), f"the rows of {name} before row {seq} are missing")
            return
        index = content.get("index")
        if not self._number or type(index) is not int or self._number - index == self._renamed:
            return
        self._renamed = self._number - index
        self.report.add("moved", name, seq, f"{name} was begun as file {index}: files were renamed or removed")

    def _place(self, name: str, seq: int) -> None:
        if not self.position:
            self.report.first = seq
        elif seq > self.position + 1:
            first, last = self.position + 1, seq - 1
            text = f"row {first} is missing" if first == last else f"rows {first} to {last} are missing"
            self.report.add("missing", name, first, text)
        elif seq <= self.position:
            self.report.add("moved", name, seq, f"row {seq} comes again after row {self.position}")

    def _order(self, name: str, seq: int, written: int) -> None:
        if seq - written == self._shift:
            return
        self._shift = seq - written
        if self._shift:
            text = f"row {seq} was written as row {written}: rows were moved, copied, inserted or removed"
            self.report.add("moved", name, seq, text)

    def _link(self, name: str, seq: int, written: int, prev: str) -> None:
        before = self._hashes.get(written - 1)
        if before is not None and prev not in before:
            row = max(1, seq - 1)
            text = f"row {row} is not the one that row {seq} was written after: it was replaced, hash and all"
            self.report.add("replaced", name, row, text)
        elif written == 1 and prev != GENESIS:
            self.report.add("replaced", name, seq, f"row {seq} does not begin a chain")

    def _compare(self, name: str, seq: int, written: int, stored: str, computed: str) -> None:
        known = self._heads.get(seq)
        if known is None or written != seq or known in (stored, computed) or self._other:
            return
        # Everything behind it is another one, too.
        self._other = True
        self.report.add("replaced", name, seq, f"row {seq} is not the one that the anchor knows")

    def _say(self, name: str, seq: int, content: dict[str, Any]) -> None:
        if content["kind"] != "notice":
            return
        lost, known = content.get("lost"), content.get("known_seq")
        if lost:
            text = f"before row {seq} was written, {lost} rows up to row {known} had been cut off"
        elif known:
            text = f"before row {seq} was written, row {known} had been replaced"
        else:
            text = f"before row {seq} was written, the anchor had been removed"
        self.report.add("truncated" if lost else "replaced" if known else "anchor", name, seq, text)

    def _remember(self, written: int, stored: str, computed: str) -> None:
        self._hashes[written] = (stored, computed)
        if len(self._hashes) > _REMEMBERED:
            del self._hashes[next(iter(self._hashes))]


__all__ = ["Fault", "FaultKind", "Report", "verify"]
