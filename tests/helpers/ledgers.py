"""Ledgers of tests: rows, tampering, and crowds of writers that are killed.

``python -m helpers.ledgers crowd DIR ACKS ROWS KILLS SEED MAX_ROWS`` forks eight writers of one ledger, kills random
ones at random instants, replaces each, and ends when every writer has its rows. ``… fork DIR`` writes with one object
before, while and after it forks.
"""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from antigravity_control.ledger import DecisionRow, Ledger, Limits, OutcomeRow
from antigravity_control.ledger.chain import hash_of, parse
from antigravity_control.ledger.database import SCHEMA

WRITERS = 8
BOUND_S = 1500.0
#: Seconds until a writer is killed, at most: some dozen rows.
LONGEST_S = 0.15


def decision(number: int, **more: Any) -> DecisionRow:
    fields: dict[str, Any] = {
        "call": f"call-{number}",
        "tool": "Bash",
        "native_tool": "run_command",
        "decision": "allow",
        "source": "rule",
        "rule": "command(git)",
        "scope": "global",
        "conversation": "conversation-1",
        "host": "python",
    }
    return DecisionRow(**{**fields, **more})


def outcome(number: int, row: int = 0, **more: Any) -> OutcomeRow:
    fields: dict[str, Any] = {"call": f"call-{number}", "outcome": "ok", "conversation": "conversation-1"}
    return OutcomeRow(**{**fields, "decision_row": row, "host": "python", "duration_ms": 12.5, **more})


def fill(folder: Path, count: int, limits: Limits | None = None) -> None:
    """That many decisions in a ledger that is closed afterwards."""
    with Ledger.open(folder, limits=limits) as ledger:
        for number in range(count):
            ledger.decided(decision(number))


def copy_of(folder: Path, target: Path) -> Path:
    """The whole folder as it is at this moment."""
    shutil.copytree(folder, target)
    return target


@contextmanager
def tampering(file: Path, *, wal: bool = False) -> Iterator[sqlite3.Connection]:
    """A connection of somebody who knows the schema: the triggers are gone meanwhile and back afterwards."""
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        for name in SCHEMA:
            if name != "rows":
                db.execute(f"DROP TRIGGER {name}")
        yield db
        for name, statement in SCHEMA.items():
            if name != "rows":
                db.execute(statement)
        if not wal:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def rows_of(db: sqlite3.Connection) -> list[tuple[int, bytes, str]]:
    return db.execute("SELECT seq, hash, body FROM rows ORDER BY seq").fetchall()


def put(db: sqlite3.Connection, seq: int, body: str, digest: bytes | None = None) -> None:
    db.execute("INSERT OR REPLACE INTO rows VALUES (?, ?, ?)", (seq, digest or hash_of(body), body))


def forged(body: str, **changes: Any) -> str:
    """The body with other values, in canonical form."""
    import json

    content = parse(body)
    assert content is not None
    return json.dumps({**content, **changes}, sort_keys=True, separators=(",", ":"))


def rechain(db: sqlite3.Connection, first: int, change: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    """Change row ``first`` and compute everything behind it anew; the new last hash."""
    digest = b""
    for seq, _, body in rows_of(db):
        if seq < first:
            continue
        content = parse(body)
        assert content is not None
        body = forged(body, **(change(content) if seq == first else {"prev": digest.hex()}))
        digest = hash_of(body)
        put(db, seq, body, digest)
    return digest


def start(role: str, *arguments: object) -> "subprocess.Popen[bytes]":
    """One of the two programs, in a process group of its own."""
    tests = str(Path(__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-m", "helpers.ledgers", role, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (tests, os.environ.get("PYTHONPATH"))))},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def acknowledged(acks: Path) -> dict[int, str]:
    """Number to call id of every row whose write had returned; a torn last line is none."""
    found: dict[int, str] = {}
    for file in acks.iterdir():
        for line in file.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                seq, call = line.split()
                assert int(seq) not in found, "one number for two rows"
                found[int(seq)] = call
    return found


def _writer(folder: Path, acks: Path, writer: int, rows: int, limits: Limits) -> None:
    file = acks / str(writer)
    done = len(file.read_text().splitlines()) if file.exists() else 0
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with Ledger.open(folder, limits=limits) as ledger:
        for number in range(done, rows):
            call = f"{writer}-{number}"
            if number % 2:
                seq = ledger.decided(decision(number, call=call, arguments={"command": f"git log -{number}"}))
            else:
                seq = ledger.ended(outcome(number, call=call))
            os.write(descriptor, f"{seq} {call}\n".encode())


def _fork(work: Callable[[], None]) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def _crowd(folder: Path, acks: Path, rows: int, kills: int, seed: int, max_rows: int) -> None:
    choose = random.Random(seed)
    limits = Limits(max_rows=max_rows, keep_files=10_000, wait_s=60.0)

    def begin(writer: int) -> int:
        return _fork(lambda: _writer(folder, acks, writer, rows, limits))

    running = {begin(writer): writer for writer in range(WRITERS)}
    killed = 0
    deadline = time.monotonic() + BOUND_S
    while running:
        assert time.monotonic() < deadline
        if killed < kills:
            time.sleep(choose.uniform(0, LONGEST_S))
            os.kill(choose.choice(list(running)), signal.SIGKILL)
            killed += 1
        child, status = os.waitpid(-1, 0)
        writer = running.pop(child)
        if os.WIFSIGNALED(status):
            running[begin(writer)] = writer
        else:
            assert not status, "a writer failed by itself"


def _forking(folder: Path) -> None:
    stop = threading.Event()
    with Ledger.open(folder) as ledger:
        ledger.decided(decision(0, call="before"))

        def meanwhile() -> None:
            while not stop.is_set():
                ledger.ended(outcome(0, call="thread"))

        thread = threading.Thread(target=meanwhile)
        thread.start()

        def child(name: int) -> None:
            for number in range(6):
                ledger.decided(decision(number, call=f"child-{name}-{number}"))

        children = [_fork(lambda name=name: child(name)) for name in range(3)]
        statuses = [os.waitpid(each, 0)[1] for each in children]
        stop.set()
        thread.join()
        ledger.decided(decision(0, call="after"))
    assert not any(statuses), statuses


def main() -> None:
    """One of the two programs."""
    role, folder = sys.argv[1], Path(sys.argv[2])
    if role == "fork":
        _forking(folder)
    else:
        acks, (rows, kills, seed, max_rows) = Path(sys.argv[3]), map(int, sys.argv[4:])
        _crowd(folder, acks, rows, kills, seed, max_rows)


if __name__ == "__main__":
    main()
