"""Every kind of tampering is found, and named; and what cannot be found from the folder alone."""

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.ledgers import copy_of, decision, fill, forged, put, rechain, rows_of, tampering

from antigravity_control.ledger import Ledger, LedgerError, Limits, otel_record, read, verify
from antigravity_control.ledger.anchor import Anchor, Head

pytestmark = pytest.mark.requirement("X-007")

#: Three full files and a fourth: rows 1 to 12, 13 to 24, 25 to 36, 37 to 41.
LIMITS = Limits(max_rows=12)
FIRST, MIDDLE, LAST = "ledger-000001.db", "ledger-000002.db", "ledger-000004.db"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written") / "ledger"
    fill(folder, 34, LIMITS)
    report = verify(folder)
    assert report.ok
    assert (report.rows, report.files) == (41, 4)
    return folder


@pytest.fixture
def ledger(written: Path, tmp_path: Path) -> Path:
    return copy_of(written, tmp_path / "ledger")


def faults(folder: Path, **how: Any) -> list[tuple[str, str, int | None]]:
    return [(fault.kind, fault.file, fault.row) for fault in verify(folder, **how).faults]


def changed_field(db: sqlite3.Connection) -> None:
    body = rows_of(db)[5][2]
    db.execute("UPDATE rows SET body = ? WHERE seq = 18", (forged(body, decision="deny"),))


def changed_field_and_hash(db: sqlite3.Connection) -> None:
    put(db, 18, forged(rows_of(db)[5][2], decision="deny"))


def changed_hash(db: sqlite3.Connection) -> None:
    db.execute("UPDATE rows SET hash = ? WHERE seq = 18", (os.urandom(32),))


def hash_of_another_type(db: sqlite3.Connection) -> None:
    db.execute("UPDATE rows SET hash = 'text' WHERE seq = 18")


def body_of_another_type(db: sqlite3.Connection) -> None:
    db.execute("UPDATE rows SET body = CAST(body AS BLOB) WHERE seq = 18")


def body_that_is_no_text(db: sqlite3.Connection) -> None:
    db.execute("UPDATE rows SET body = CAST(x'ff00fe' AS TEXT) WHERE seq = 18")


def spaces_in_the_body(db: sqlite3.Connection) -> None:
    db.execute("UPDATE rows SET body = replace(body, ',', ', ') WHERE seq = 18")


def deleted(db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM rows WHERE seq = 18")


def deleted_and_renumbered(db: sqlite3.Connection) -> None:
    deleted(db)
    for seq in range(19, 25):
        db.execute("UPDATE rows SET seq = ? WHERE seq = ?", (seq - 1, seq))


def swapped(db: sqlite3.Connection) -> None:
    rows = {seq: (digest, body) for seq, digest, body in rows_of(db)}
    put(db, 18, rows[20][1], rows[20][0])
    put(db, 20, rows[18][1], rows[18][0])


def inserted(db: sqlite3.Connection) -> None:
    for seq in range(24, 17, -1):
        db.execute("UPDATE rows SET seq = ? WHERE seq = ?", (seq + 1, seq))
    before = rows_of(db)[4]
    put(db, 18, forged(before[2], seq=18, prev=before[1].hex(), call="never-asked"))


def copied(db: sqlite3.Connection) -> None:
    rows = rows_of(db)
    put(db, 18, rows[3][2], rows[3][1])


def appended_behind_the_end(db: sqlite3.Connection) -> None:
    _, digest, body = rows_of(db)[-1]
    put(db, 25, forged(body, seq=25, prev=digest.hex(), kind="decision", decision="allow", call="x"))


def rewritten_up_to_the_end_of_the_file(db: sqlite3.Connection) -> None:
    rechain(db, 18, lambda _: {"decision": "deny"})


@pytest.mark.parametrize(
    ("tamper", "kinds", "row"),
    [
        (changed_field, {"changed"}, 18),
        (changed_field_and_hash, {"replaced"}, 18),
        (changed_hash, {"changed"}, 18),
        (hash_of_another_type, {"changed"}, 18),
        (body_of_another_type, {"changed"}, 18),
        (body_that_is_no_text, {"changed"}, 18),
        (spaces_in_the_body, {"changed"}, 18),
        (deleted, {"missing"}, 18),
        (deleted_and_renumbered, {"moved", "missing"}, 18),
        (swapped, {"moved"}, 18),
        (inserted, {"moved", "replaced"}, 19),
        (copied, {"moved"}, 18),
        (appended_behind_the_end, {"moved", "replaced"}, 25),
        (rewritten_up_to_the_end_of_the_file, {"replaced"}, 24),
        (rewritten_up_to_the_end_of_the_file, {"replaced"}, 18),
    ],
)
def test_a_row_that_was_tampered_with_is_named(
    ledger: Path, tamper: Callable[[sqlite3.Connection], None], kinds: set[str], row: int
) -> None:
    with tampering(ledger / MIDDLE) as db:
        tamper(db)
    found = faults(ledger)
    assert {kind for kind, _, _ in found} <= kinds
    assert row in {where for _, _, where in found}
    # Named once, and not once more for every row behind it.
    assert len(found) <= 3


@pytest.mark.parametrize("how", ["deleted", "changed", "changed with its hash"])
def test_whichever_row_it_is_it_is_named(ledger: Path, how: str) -> None:
    """Rows that open and close files, and the last one, among them."""
    for name, rows in ((MIDDLE, range(13, 25)), (LAST, range(37, 42))):
        content = (ledger / name).read_bytes()
        for row in rows:
            with tampering(ledger / name) as db:
                body = next(body for seq, _, body in rows_of(db) if seq == row)
                if how == "deleted":
                    db.execute("DELETE FROM rows WHERE seq = ?", (row,))
                elif how == "changed":
                    db.execute("UPDATE rows SET body = ? WHERE seq = ?", (forged(body, more=1), row))
                else:
                    put(db, row, forged(body, more=1))
            assert row in {where for _, _, where in faults(ledger)}, (name, row)
            (ledger / name).write_bytes(content)
    assert verify(ledger).ok


@pytest.mark.parametrize("count", [1, 3])
def test_rows_cut_off_at_the_end_are_missed_by_the_anchor(ledger: Path, count: int) -> None:
    with tampering(ledger / LAST) as db:
        db.execute("DELETE FROM rows WHERE seq > ?", (41 - count,))
    assert faults(ledger) == [("truncated", LAST, 42 - count)]


def test_rows_cut_off_cannot_be_covered_up_by_the_rows_that_come(ledger: Path) -> None:
    with tampering(ledger / LAST) as db:
        db.execute("DELETE FROM rows WHERE seq > 39")
    fill(ledger, 5)
    report = verify(ledger)
    assert [(fault.kind, fault.row) for fault in report.faults] == [("truncated", 40)]
    assert "2 rows up to row 41" in report.faults[0].text


def test_a_removed_anchor_is_a_fault_now_and_after_the_next_row(ledger: Path) -> None:
    (ledger / "head").unlink()
    assert faults(ledger) == [("anchor", "head", None)]
    fill(ledger, 1)
    assert faults(ledger) == [("anchor", LAST, 42)]


@pytest.mark.parametrize("name", [FIRST, MIDDLE, LAST])
def test_a_dropped_file_is_named(ledger: Path, name: str) -> None:
    (ledger / name).unlink()
    found = faults(ledger)
    if name == LAST:
        assert found == [("truncated", "ledger-000003.db", 37)]
        fill(ledger, 1)
        assert ("truncated", LAST, 38) in faults(ledger)
    else:
        assert ("file-missing", name, None) in found


def test_all_files_dropped_is_a_fault_as_long_as_the_anchor_is_there(ledger: Path) -> None:
    for file in ledger.glob("ledger-*"):
        file.unlink()
    assert faults(ledger) == [("truncated", "", 1)]
    fill(ledger, 1)
    assert [kind for kind, _, _ in faults(ledger)] == ["truncated"]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("name", [MIDDLE, LAST])
def test_a_file_that_was_cut_is_named(ledger: Path, name: str, share: float) -> None:
    file = ledger / name
    os.truncate(file, int(file.stat().st_size * share))
    found = faults(ledger)
    assert found
    assert all(where in (name, "ledger-000003.db", "ledger-000002.db") for _, where, _ in found)


def test_a_file_that_was_overwritten_in_the_middle_is_found(ledger: Path) -> None:
    content = bytearray((ledger / MIDDLE).read_bytes())
    for place in range(100, len(content), 211):
        copy = bytearray(content)
        copy[place] ^= 0x55
        # In a row, in the tree or in free space: whatever is read must be what was written.
        (ledger / MIDDLE).write_bytes(copy)
        report = verify(ledger)
        assert report.rows == 41 or not report.ok
    (ledger / MIDDLE).write_bytes(content)
    assert verify(ledger).ok


def test_an_older_copy_of_the_whole_chain_is_found_by_the_anchor(ledger: Path, tmp_path: Path) -> None:
    older = copy_of(ledger, tmp_path / "older")
    fill(ledger, 3)
    shutil.copy(older / LAST, ledger / LAST)
    assert faults(ledger) == [("truncated", LAST, 42)]


def test_another_chain_in_its_place_is_found_by_the_anchor(ledger: Path, tmp_path: Path) -> None:
    fill(tmp_path / "other", 34, LIMITS)
    for file in (tmp_path / "other").glob("ledger-*"):
        shutil.copy(file, ledger / file.name)
    found = faults(ledger)
    assert {kind for kind, _, _ in found} == {"replaced"}
    # The header and the first row came with one commit, so the anchor knows the second of the two.
    assert {fault.text for fault in verify(ledger).faults} == {"row 2 is not the one that the anchor knows"}


def test_a_chain_computed_anew_with_its_anchor_is_found_only_with_a_hash_kept_elsewhere(ledger: Path) -> None:
    noted = verify(ledger).head.hash
    with tampering(ledger / LAST) as db:
        digest = rechain(db, 39, lambda _: {"decision": "deny"})
    assert faults(ledger)[0][0] == "replaced"
    anchor = Anchor(ledger)
    anchor.restart(Head(41, digest.hex()))
    anchor.close()
    # This is the limit of any file that lies on the machine it speaks of.
    assert verify(ledger).ok
    assert faults(ledger, expect=noted) == [("expected", LAST, None)]


def test_an_expected_hash_is_found_when_rows_came_after_it_and_in_capitals(ledger: Path) -> None:
    noted = verify(ledger).head.hash
    fill(ledger, 3)
    assert verify(ledger, expect=noted.upper()).ok
    assert not verify(ledger, expect="0" * 63 + "1").ok


def test_a_late_or_torn_write_of_the_anchor_never_takes_the_newest_row_back(tmp_path: Path) -> None:
    anchor = Anchor(tmp_path)
    anchor.restart(Head(0, "0" * 64))
    for seq in (1, 2, 66, 65):
        anchor.advance(Head(seq, f"{seq:064x}"))
    anchor.advance(Head(1, f"{1:064x}"))  # the slot of 65, by a process that was held up
    anchor.advance(Head(2, f"{2:064x}"))
    assert [head.seq for head in anchor.heads()] == [66, 65, 0]
    anchor.close()
    content = bytearray((tmp_path / "head").read_bytes())
    content[2 * 128 + 30] ^= 1
    (tmp_path / "head").write_bytes(content)
    anchor = Anchor(tmp_path)
    assert [head.seq for head in anchor.heads()] == [65, 0]
    anchor.close()


def test_one_file_is_verified_by_itself(ledger: Path) -> None:
    assert verify(ledger / MIDDLE).ok
    with tampering(ledger / MIDDLE) as db:
        changed_field(db)
    assert faults(ledger / MIDDLE) == [("changed", MIDDLE, 18)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rows SET body = '{}' WHERE seq = 18",
        "UPDATE rows SET seq = 99 WHERE seq = 24",
        "DELETE FROM rows",
        "DELETE FROM rows WHERE seq = 24",
        "INSERT INTO rows VALUES (17, x'00', '{}')",
        "INSERT OR REPLACE INTO rows VALUES (18, x'00', '{}')",
        "REPLACE INTO rows VALUES (24, x'00', '{}')",
        "INSERT INTO rows (hash, body) SELECT hash, body FROM rows WHERE seq = -1 UNION SELECT x'00', '{}'",
    ],
)
def test_the_file_itself_refuses_everything_but_a_next_row(ledger: Path, statement: str) -> None:
    with closing(sqlite3.connect(ledger / MIDDLE)) as db, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute(statement)
    assert verify(ledger).ok


@pytest.mark.parametrize(
    "statement",
    ["DROP TRIGGER rows_delete", "CREATE TABLE other (x)", "CREATE TRIGGER t AFTER INSERT ON rows BEGIN SELECT 1; END"],
)
def test_a_schema_that_is_not_ours_is_a_fault(ledger: Path, statement: str) -> None:
    with closing(sqlite3.connect(ledger / MIDDLE)) as db:
        db.execute(statement)
    assert [kind for kind, _, _ in faults(ledger)] == ["schema"]


def test_what_is_no_database_is_a_fault_for_the_reader_and_an_error_for_the_writer(ledger: Path) -> None:
    (ledger / LAST).write_bytes(b"not a database " * 1000)
    assert "file-damaged" in {kind for kind, _, _ in faults(ledger)}
    with pytest.raises(LedgerError, match="control verify") as failure:
        fill(ledger, 1)
    assert failure.value.kind == "damaged"


def test_a_report_lists_a_hundred_faults_and_counts_all(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger") as ledger:
        for number in range(150):
            ledger.decided(decision(number))
    with tampering(tmp_path / "ledger" / FIRST) as db:
        db.execute("UPDATE rows SET hash = x'00'")
    report = verify(tmp_path / "ledger")
    assert len(report.faults) == 100
    assert report.found >= 151


def test_a_ledger_of_a_newer_version_is_left_alone(ledger: Path) -> None:
    with closing(sqlite3.connect(ledger / LAST)) as db:
        db.execute("PRAGMA user_version = 2")
    for use in (lambda: verify(ledger), lambda: fill(ledger, 1)):
        with pytest.raises(LedgerError, match="newer version") as failure:
            use()
        assert failure.value.kind == "newer"


# ---- the oldest file, which no row before it vouches for -------------------------------------------------------------
@pytest.mark.parametrize(("cut", "row"), [(1, 1), (4, 4), (11, 11)])
def test_rows_cut_off_at_the_beginning_are_missed(ledger: Path, cut: int, row: int) -> None:
    with tampering(ledger / FIRST) as db:
        db.execute("DELETE FROM rows WHERE seq <= ?", (cut,))
    assert faults(ledger) == [("missing", FIRST, row)]
    assert faults(ledger / FIRST) == [("missing", FIRST, row)]


def test_the_first_rows_that_rotation_kept_are_missed_too(ledger: Path) -> None:
    fill(ledger, 12, Limits(max_rows=12, keep_files=2))
    oldest = min(ledger.glob("ledger-*.db"))
    assert oldest.name != FIRST
    with tampering(oldest) as db:
        first = rows_of(db)[0][0]
        db.execute("DELETE FROM rows WHERE seq = ?", (first,))
    assert faults(ledger) == [("missing", oldest.name, first)]


def test_an_oldest_file_without_its_rows_is_named(ledger: Path) -> None:
    with tampering(ledger / FIRST) as db:
        db.execute("DELETE FROM rows")
    assert faults(ledger) == [("missing", FIRST, None)]


def test_files_that_were_renamed_over_a_dropped_one_are_named(ledger: Path) -> None:
    (ledger / FIRST).unlink()
    for number in (2, 3, 4):
        (ledger / f"ledger-{number:06}.db").rename(ledger / f"ledger-{number - 1:06}.db")
    assert faults(ledger) == [("moved", FIRST, 13)]


# ---- while a process has it open -------------------------------------------------------------------------------------
@pytest.mark.parametrize("whose", ["its own", "another's"])
def test_rows_that_are_cut_off_under_a_writer_are_noted_by_its_next_row(tmp_path: Path, whose: str) -> None:
    """And stay so: the anchor alone forgets them after as many rows as it has slots."""
    folder = tmp_path / "ledger"
    with Ledger.open(folder) as ledger:
        ledger.decided(decision(0))
        if whose == "its own":
            for number in range(5):
                ledger.decided(decision(number))
        else:
            fill(folder, 5)
        with tampering(folder / FIRST, wal=True) as db:
            db.execute("DELETE FROM rows WHERE seq > 4")
        for number in range(80):
            ledger.decided(decision(number))
        assert faults(folder) == [("truncated", FIRST, 5)]
    report = verify(folder)
    assert [(fault.kind, fault.row) for fault in report.faults] == [("truncated", 5)]
    assert "3 rows up to row 7" in report.faults[0].text


def test_a_row_that_is_replaced_under_a_writer_is_noted_by_its_next_row(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    with Ledger.open(folder) as ledger:
        for number in range(5):
            ledger.decided(decision(number))
        with tampering(folder / FIRST, wal=True) as db:
            rechain(db, 6, lambda _: {"decision": "deny"})
        for number in range(80):
            ledger.decided(decision(number))
    assert ("replaced", FIRST, 7) in faults(folder)


def test_several_writers_at_once_note_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    with Ledger.open(folder, limits=LIMITS) as first, Ledger.open(folder, limits=LIMITS) as second:
        for number in range(30):
            (first if number % 3 else second).decided(decision(number))
    report = verify(folder)
    assert report.ok, report.faults


def test_a_log_that_is_removed_under_a_writer_costs_no_row(ledger: Path) -> None:
    with Ledger.open(ledger) as writer:
        for number in range(3):
            writer.decided(decision(number))
        (ledger / f"{LAST}-wal").unlink()
        written = [writer.decided(decision(number)) for number in range(3)]
        # As if the process were killed now: what it acknowledged lies under the names that everybody reads.
        copy = copy_of(ledger, ledger.parent / "copy")
        assert verify(copy).ok
        assert verify(copy).head.seq == written[-1]
    assert verify(ledger).ok


# ---- what is no file, and what no row of ours says -------------------------------------------------------------------
@contextmanager
def a_pipe(path: Path) -> Iterator[None]:
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    # Open and full, so that a reader who does not look first gets something and does not hang.
    held = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    os.write(held, b" " * 8192)
    yield
    os.close(held)


@contextmanager
def a_folder(path: Path) -> Iterator[None]:
    path.unlink(missing_ok=True)
    path.mkdir()
    yield


@contextmanager
def a_link(path: Path) -> Iterator[None]:
    path.touch()
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    yield


Make = Callable[[Path], AbstractContextManager[None]]


@pytest.mark.parametrize("make", [a_pipe, a_folder, a_link])
@pytest.mark.parametrize("name", [MIDDLE, LAST, f"{LAST}-wal", f"{LAST}-shm", f"{LAST}-journal"])
def test_a_database_that_is_no_plain_file_is_named_and_never_waited_for(ledger: Path, name: str, make: Make) -> None:
    file = name.partition("-wal")[0].partition("-shm")[0].partition("-journal")[0]
    with make(ledger / name):
        assert ("file-damaged", file, 13 if file == MIDDLE else 37) in faults(ledger)
        with pytest.raises(LedgerError, match="not a link") as failure:
            list(read(ledger))
        assert failure.value.kind == "unsafe"


@pytest.mark.parametrize("make", [a_pipe, a_folder, a_link])
def test_an_anchor_that_is_no_plain_file_is_a_fault(ledger: Path, make: Make) -> None:
    with make(ledger / "head"):
        assert faults(ledger) == [("anchor", "head", None)]


@pytest.mark.parametrize("statement", ["user_version = 0", "user_version = -1", "application_id = 1"])
def test_a_header_that_is_not_ours_is_a_fault(ledger: Path, statement: str) -> None:
    with closing(sqlite3.connect(ledger / MIDDLE)) as db:
        db.execute(f"PRAGMA {statement}")
    assert faults(ledger) == [("schema", MIDDLE, None)]


def test_a_row_number_beyond_all_numbers_is_an_error_of_the_ledger(ledger: Path) -> None:
    """Not another exception, which would end the turn instead of denying the call."""
    with closing(sqlite3.connect(ledger / LAST)) as db, db:
        db.execute("INSERT INTO rows VALUES (?, x'00', '{}')", ((1 << 63) - 1,))
    with pytest.raises(LedgerError, match="control verify") as failure:
        fill(ledger, 1)
    assert failure.value.kind == "damaged"
    assert ("changed", LAST, (1 << 63) - 1) in faults(ledger)


@pytest.mark.parametrize("when", ["9999-12-31T23:59:59.999999-23:59", "0001-01-01T00:00:00+23:59", "soon", 5, None])
def test_a_row_with_a_time_that_is_none_is_exported_all_the_same(ledger: Path, when: object) -> None:
    with tampering(ledger / LAST) as db:
        seq, _, body = rows_of(db)[1]
        put(db, seq, forged(body, time=when))
    times = [otel_record(entry)["timeUnixNano"] for entry in read(ledger)]
    assert len(times) == 34
    assert times.count("0") <= 1
    assert all(int(each) >= 0 for each in times)
