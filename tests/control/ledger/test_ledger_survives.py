"""Kill -9, power cuts, forks, threads and many processes: nothing that was acknowledged is lost, and one chain."""

import os
import random
import shutil
import signal
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest
from helpers.ledgers import WRITERS, acknowledged, copy_of, decision, fill, start

from antigravity_control.ledger import Filter, Ledger, Limits, read, verify

pytestmark = pytest.mark.skipif(os.name == "nt", reason="SIGKILL and fork")
BOUND_S = 60.0


def calls_of(folder: Path) -> dict[int, str]:
    return {entry.seq: entry.text("call") for entry in read(folder)}


@pytest.mark.requirement("X-007")
def test_eight_writers_that_are_killed_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    folder, acks = tmp_path / "ledger", tmp_path / "acks"
    acks.mkdir()
    seed = random.randrange(1 << 32)
    crowd = start("crowd", folder, acks, 40, 24, seed, 60)
    assert crowd.wait(BOUND_S) == 0, seed
    known, found = acknowledged(acks), calls_of(folder)
    assert len(known) == WRITERS * 40
    assert known.items() <= found.items()
    report = verify(folder)
    assert report.ok, (seed, report.faults)
    # Rotation happened among the kills, too.
    assert report.files > 3


def _wait_until_stopped(processes: list[psutil.Process]) -> None:
    deadline = time.monotonic() + BOUND_S
    while True:
        states = {process.status() for process in processes if process.is_running()}
        if states <= {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}:
            return
        assert time.monotonic() < deadline, states
        time.sleep(0.001)


@pytest.mark.requirement("X-007")
def test_what_lies_on_the_disk_at_any_moment_opens_and_holds_every_acknowledged_row(tmp_path: Path) -> None:
    folder, acks = tmp_path / "ledger", tmp_path / "acks"
    acks.mkdir()
    choose = random.Random()
    # More rows than there is time for, and fewer than are kept.
    crowd = start("crowd", folder, acks, 1_500, 0, 0, 1_000)
    try:
        looked = 0
        for number in range(100):
            if looked == 8 or crowd.poll() is not None:
                break
            time.sleep(choose.uniform(0.05, 0.25))
            # Between two system calls of every writer: what is copied is what a crash of the machine would leave.
            os.killpg(crowd.pid, signal.SIGSTOP)
            _wait_until_stopped([psutil.Process(crowd.pid), *psutil.Process(crowd.pid).children(recursive=True)])
            known = acknowledged(acks)
            copy = copy_of(folder, tmp_path / f"copy-{number}") if folder.exists() else None
            os.killpg(crowd.pid, signal.SIGCONT)
            if copy is None or not known:
                continue
            for shared in copy.glob("*-shm"):
                shared.unlink()  # not a file: memory that a restart begins anew
            assert known.items() <= calls_of(copy).items()
            report = verify(copy)
            assert report.ok, report.faults
            with Ledger.open(copy) as ledger:
                ledger.decided(decision(0))
            assert verify(copy).ok
            shutil.rmtree(copy)
            looked += 1
        assert looked >= 5
    finally:
        with suppress(ProcessLookupError):
            os.killpg(crowd.pid, signal.SIGKILL)
        crowd.wait(BOUND_S)


@pytest.mark.requirement("X-007")
def test_a_log_that_was_cut_anywhere_is_a_shorter_chain_and_the_report_says_from_where(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger") as ledger:
        for number in range(30):
            ledger.decided(decision(number))
        whole = copy_of(tmp_path / "ledger", tmp_path / "whole")
    wal = whole / "ledger-000001.db-wal"
    before = calls_of(whole)
    size = wal.stat().st_size
    for cut in sorted(random.Random(5).sample(range(size), 25)):
        copy = copy_of(whole, tmp_path / f"cut-{cut}")
        os.truncate(copy / wal.name, cut)
        (copy / "ledger-000001.db-shm").unlink(missing_ok=True)
        report = verify(copy)
        left = {} if not report.rows else calls_of(copy)
        assert left.items() <= before.items()
        assert [(fault.kind, fault.row) for fault in report.faults] == [("truncated", report.rows + 1)]


@pytest.mark.requirement("X-007")
def test_one_object_in_many_forks_and_a_thread_keeps_one_chain(tmp_path: Path) -> None:
    assert start("fork", tmp_path / "ledger").wait(BOUND_S) == 0
    found = list(calls_of(tmp_path / "ledger").values())
    named = [call for call in found if call != "thread"]
    assert sorted(named) == sorted(
        ["before", "after", *(f"child-{name}-{number}" for name in range(3) for number in range(6))]
    )
    assert verify(tmp_path / "ledger").ok


def test_rows_of_many_threads_have_numbers_of_their_own(tmp_path: Path) -> None:
    numbers: list[int] = []
    with Ledger.open(tmp_path / "ledger", limits=Limits(max_rows=50)) as ledger:

        def work(name: int) -> None:
            numbers.extend(ledger.decided(decision(number, call=f"{name}-{number}")) for number in range(10))

        threads = [threading.Thread(target=work, args=(name,)) for name in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND_S)
    assert len(set(numbers)) == 120
    assert set(numbers) <= calls_of(tmp_path / "ledger").keys()
    assert verify(tmp_path / "ledger").ok


def test_two_objects_of_one_process_share_a_chain(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger") as one, Ledger.open(tmp_path / "ledger") as other:
        for number in range(10):
            (one, other)[number % 2].decided(decision(number))
    assert len(calls_of(tmp_path / "ledger")) == 10
    assert verify(tmp_path / "ledger").ok


def _leave_half_begun(file: Path) -> None:
    """A file whose first transaction was cut by a crash: a hot rollback journal lies beside it."""
    beside = file.with_name("beside.db")
    with closing(sqlite3.connect(beside, isolation_level=None)) as db:
        db.execute("PRAGMA cache_size = 1")
        db.execute("BEGIN")
        db.execute("CREATE TABLE rows (x)")
        db.executemany("INSERT INTO rows VALUES (?)", [("x" * 3000,)] * 20)
        for suffix in ("", "-journal"):
            shutil.copy(f"{beside}{suffix}", f"{file}{suffix}")
            Path(f"{file}{suffix}").chmod(0o600)
    beside.unlink()


@pytest.mark.parametrize("state", ["ended without a successor", "an empty successor", "a half begun successor"])
def test_a_rotation_that_was_killed_is_finished_by_the_next_writer(tmp_path: Path, state: str) -> None:
    folder = tmp_path / "ledger"
    fill(folder, 40, Limits(max_rows=20))
    newest = sorted(folder.glob("ledger-*.db"))[-1]
    lost = {entry.seq for entry in read(folder, Filter(everything=True))}
    newest.unlink()
    if state == "an empty successor":
        newest.touch(mode=0o600)
    elif state == "a half begun successor":
        _leave_half_begun(newest)
    kept = {entry.seq for entry in read(folder, Filter(everything=True))}
    # The anchor as it was then.
    (folder / "head").unlink()
    from antigravity_control.ledger.anchor import Anchor, Head

    last = list(read(folder, Filter(everything=True)))[-1]
    anchor = Anchor(folder)
    anchor.advance(Head(last.seq, last.hash))
    anchor.close()
    assert verify(folder).ok
    fill(folder, 1)
    assert verify(folder).ok
    assert newest.exists()
    assert max(kept) + 2 == max(calls_of(folder)) <= max(lost)
