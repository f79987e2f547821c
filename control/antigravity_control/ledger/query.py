"""Looking into the ledger.

Owns: :class:`Entry`, :class:`Filter`, and the four ways to read: oldest first, the latest, as rows come, and in sums.
Reads beside processes that write, in short transactions, so that none of them has to wait or grow its log for us.
Never: judges a row; a tampered one is shown as it is (``verify.py`` judges).
"""

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from . import folder as files
from .chain import parse
from .database import check_version, has_schema, reading
from .errors import LedgerError

#: Rows of one read transaction.
_PAGE: Final = 500
#: Calls whose outcome is still awaited while rows are counted; a day of work has fewer.
_MOST_OPEN: Final = 100_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One row. :param hash: in hex, as it stands beside the body. :param body: what was written, ``seq`` and all."""

    seq: int
    hash: str
    body: dict[str, Any]

    @property
    def kind(self) -> str:
        """``decision``, ``outcome``, ``file``, ``end`` or ``notice``."""
        return str(self.body["kind"])

    def text(self, name: str) -> str:
        """A field as text, empty when it is not there."""
        value = self.body.get(name, "")
        return value if isinstance(value, str) else str(value)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows; every condition that is set must hold. Without ``everything`` only decisions and outcomes are meant.

    :param since: RFC 3339 in UTC with microseconds, as in rows; included. :param until: likewise; excluded.
    :param decision: one decision; outcomes are left out then. :param tool: the canonical or the native name, in any
        letter case.
    :param rule: a part of the rule's text. :param everything: also ``file``, ``end`` and ``notice`` rows.
    """

    since: str = ""
    until: str = ""
    decision: str = ""
    tool: str = ""
    conversation: str = ""
    host: str = ""
    rule: str = ""
    call: str = ""
    everything: bool = False

    def matches(self, entry: Entry) -> bool:
        """Whether the row is meant."""
        if not self.everything and entry.kind not in ("decision", "outcome"):
            return False
        if (self.since and entry.text("time") < self.since) or (self.until and entry.text("time") >= self.until):
            return False
        if self.tool and self.tool.casefold() not in (
            entry.text("tool").casefold(), entry.text("native_tool").casefold()
        ):  # fmt: skip
            return False
        if self.rule and self.rule not in entry.text("rule"):
            return False
        return all(
            not wanted or entry.text(name) == wanted
            for name, wanted in (
                ("decision", self.decision),
                ("conversation", self.conversation),
                ("host", self.host),
                ("call", self.call),
            )
        )


def read(folder: Path, wanted: Filter | None = None, *, after: int = 0) -> Iterator[Entry]:
    """Rows, the oldest first.

    :param after: only rows with higher numbers.
    :raises LedgerError: there is no ledger, or a file cannot be read.
    """
    meant = wanted or Filter()
    for file in _files(folder):
        last = after
        while page := _page(file, "seq > ? ORDER BY seq", last):
            yield from filter(meant.matches, page)
            last = page[-1].seq
        after = max(after, last)


def latest(folder: Path, wanted: Filter | None = None, *, limit: int = 50) -> list[Entry]:
    """The newest rows that are meant, the oldest of them first; reads no further back than it has to. Raises as
    :func:`read`."""
    meant = wanted or Filter()
    found: deque[Entry] = deque()
    for file in reversed(_files(folder)):
        before = (1 << 63) - 1
        while page := _page(file, "seq < ? ORDER BY seq DESC", before):
            for entry in page:
                if meant.matches(entry):
                    found.appendleft(entry)
                if len(found) >= limit:
                    return list(found)
            before = page[-1].seq
    return list(found)


def follow(
    folder: Path, wanted: Filter | None = None, *, after: int = 0, interval_s: float = 0.5
) -> Iterator[Entry | None]:
    """Rows with numbers above ``after`` as they come, for as long as the caller goes on.

    :returns: ``None`` whenever there is nothing new, after which it waits ``interval_s`` seconds.
    :raises LedgerError: as :func:`read`; a ledger that does not exist yet is waited for.
    """
    everything = Filter(everything=True)
    meant = wanted or Filter()
    while True:
        try:
            for entry in read(folder, everything, after=after):
                after = entry.seq
                if meant.matches(entry):
                    yield entry
        except LedgerError as error:
            # There may be no folder yet.
            if error.kind != "missing":
                raise
        yield None
        time.sleep(interval_s)


@dataclass(slots=True)
class Statistics:
    """Sums over rows.

    :param open: calls that were allowed and of which no outcome was written: they run, or their process ended.
    :param escape_hatch: decisions made while asks were turned into allows by a switch.
    """

    rows: int = 0
    decisions: int = 0
    outcomes: int = 0
    notices: int = 0
    first: str = ""
    last: str = ""
    open: int = 0
    soft: int = 0
    escape_hatch: int = 0
    by_decision: Counter[str] = field(default_factory=Counter)
    by_source: Counter[str] = field(default_factory=Counter)
    by_tool: Counter[str] = field(default_factory=Counter)
    by_rule: Counter[str] = field(default_factory=Counter)
    by_floor: Counter[str] = field(default_factory=Counter)
    by_approver: Counter[str] = field(default_factory=Counter)
    by_outcome: Counter[str] = field(default_factory=Counter)
    by_output: Counter[str] = field(default_factory=Counter)
    by_finding: Counter[str] = field(default_factory=Counter)


def statistics(folder: Path, wanted: Filter | None = None) -> Statistics:
    """Sums over the rows that are meant. Raises as :func:`read`."""
    sums = Statistics()
    running: dict[tuple[str, str], None] = {}
    for entry in read(folder, wanted):
        sums.rows += 1
        sums.first = sums.first or entry.text("time")
        sums.last = entry.text("time")
        call = (entry.text("conversation"), entry.text("call"))
        if entry.kind == "decision":
            _count_decision(sums, entry)
            if entry.text("decision") == "allow" and len(running) < _MOST_OPEN:
                running[call] = None
        elif entry.kind == "outcome":
            _count_outcome(sums, entry)
            running.pop(call, None)
        else:
            sums.notices += entry.kind == "notice"
    sums.open = len(running)
    return sums


def _count_decision(sums: Statistics, entry: Entry) -> None:
    sums.decisions += 1
    sums.soft += entry.body.get("soft") is True
    sums.escape_hatch += entry.body.get("escape_hatch") is True
    for counter, name in (
        (sums.by_decision, "decision"),
        (sums.by_source, "source"),
        (sums.by_tool, "tool"),
        (sums.by_rule, "rule"),
        (sums.by_floor, "floor"),
        (sums.by_approver, "approver"),
    ):
        if value := entry.text(name):
            counter[value] += 1


def _count_outcome(sums: Statistics, entry: Entry) -> None:
    sums.outcomes += 1
    sums.by_outcome[entry.text("outcome")] += 1
    # A call that never ran has no output; rows of older releases say `passed` all the same.
    output = entry.text("output")
    if output and (output, entry.text("outcome")) != ("passed", "not_run"):
        sums.by_output[output] += 1
    findings = entry.body.get("findings")
    sums.by_finding.update(map(str, findings) if isinstance(findings, list) else ())


def _files(folder: Path) -> Sequence[files.LedgerFile]:
    found = files.files_of(folder)
    if not found:
        raise LedgerError("missing", folder)
    return found


def _page(file: files.LedgerFile, condition: str, bound: int) -> list[Entry]:
    try:
        with reading(file.path) as db:
            check_version(db, file.path)
            if not has_schema(db):
                return []
            # `condition` is one of two constants of this module.
            statement = f"SELECT seq, hash, body FROM rows WHERE {condition} LIMIT {_PAGE}"  # noqa: S608
            found = db.execute(statement, (bound,)).fetchall()
    except LedgerError as error:
        # Begun and without a row yet, or removed by rotation since it was listed.
        if error.kind in ("unfinished", "missing"):
            return []
        raise
    # A row that cannot be read any more stays visible by its number.
    return [
        Entry(seq, digest.hex() if isinstance(digest, bytes) else "", parse(body) or {"kind": "unreadable", "seq": seq})
        for seq, digest, body in found
    ]
