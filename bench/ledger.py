"""A row of the ledger against a bare SQLite insert of the same size and with the same durability.

Both write one row and return when it is on the disk (WAL, ``synchronous=FULL``), in turn, on the same disk, so that
what else the machine does meets both. Ours does more within its time: it reads the last row, hashes, checks that the
file is still the one, looks whether it is full, digests the arguments and moves the anchor.

The second ratio is what is left when the disk costs nothing: the same two without any sync. It has no bound of its own;
it says how much of the first one is our work.
"""

import json
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from antigravity_control.ledger import DecisionRow, Ledger, latest

NAME = "ledger"
ROWS = 400
WARM_UP = 20

ROW = DecisionRow(
    call="call_0123456789abcdef0123456789abcdef",
    tool="Bash",
    native_tool="run_command",
    decision="allow",
    source="rule",
    reason="The rule `command(git)` allows this command.",
    rule="command(git)",
    scope="global",
    mode="request-review",
    tier="interactive",
    conversation="6f1f7a52-6df5-4dfb-9a39-27c1f0d6c5d1",
    host="python",
    engine="embedded",
    duration_ms=0.42,
    arguments={"command": "git log --oneline -20"},
)


def _bare(path: Path, size: int, *, synced: bool) -> "tuple[sqlite3.Connection, Callable[[], None]]":
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA synchronous={'FULL' if synced else 'OFF'}")
    db.execute("CREATE TABLE rows (seq INTEGER PRIMARY KEY, hash BLOB NOT NULL, body TEXT NOT NULL)")
    digest, body = os.urandom(32), "x" * size

    def write() -> None:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO rows (hash, body) VALUES (?, ?)", (digest, body))
        db.execute("COMMIT")

    return db, write


def _alternate(ours: Callable[[], object], bare: Callable[[], object], rows: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"ours": [], "bare": []}
    for _ in range(WARM_UP):
        ours()
        bare()
    writers = [("ours", ours), ("bare", bare)]
    for _ in range(rows):
        # In turn first: who syncs second finds a part of the work done.
        writers.reverse()
        for kind, write in writers:
            began = time.perf_counter()
            write()
            times[kind].append(time.perf_counter() - began)
    return times


def _size(root: Path) -> int:
    """Characters of such a row's body."""
    with Ledger.open(root / "one") as ledger:
        ledger.decided(ROW)
    body = latest(root / "one", limit=1)[0].body
    return len(json.dumps(body, separators=(",", ":")))


def run(rows: int = ROWS) -> dict[str, Any]:
    """Ratios with their bounds; see the module."""
    # Not in the system's temporary folder: where that is memory, a sync costs nothing and there is nothing to compare.
    with tempfile.TemporaryDirectory(prefix=".ledger-", dir=Path(__file__).parent / "results") as name:
        root = Path(name)
        size = _size(root)
        db, bare = _bare(root / "bare.db", size, synced=True)
        with closing(db), Ledger.open(root / "ledger") as ledger:
            times = _alternate(lambda: ledger.decided(ROW), bare, rows)
        db, bare = _bare(root / "unsynced.db", size, synced=False)
        with closing(db), Ledger.open(root / "unsynced") as ledger:
            connection = ledger._connect()
            connection.execute("PRAGMA synchronous=OFF")
            unsynced = _alternate(lambda: ledger.decided(ROW), bare, rows)
    durable, work = "append over a bare insert, both durable", "append over a bare insert, neither synced"
    return {
        "rows": rows,
        "row_bytes": size,
        "ratios": {
            durable: sum(times["ours"]) / sum(times["bare"]),
            work: statistics.median(unsynced["ours"]) / statistics.median(unsynced["bare"]),
        },
        "bounds": {durable: 2.0},
        "median_ms": {
            "durable": {kind: statistics.median(found) * 1e3 for kind, found in times.items()},
            "unsynced": {kind: statistics.median(found) * 1e3 for kind, found in unsynced.items()},
        },
    }
