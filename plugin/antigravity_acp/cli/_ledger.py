"""The ledger on the command line: `control log`, `verify`, `stats`, `export`.

Owns: what these commands print, how a time is written, and which exit code a failure of the ledger has. Reads only.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final

from antigravity_control.ledger import (
    Entry,
    Filter,
    LedgerError,
    default_path,
    follow,
    json_line,
    latest,
    otlp_line,
    read,
    statistics,
    verify,
)

from .failures import FAILED, SETUP, CliError
from .output import JsonLines, count, plain

_AGO: Final = re.compile(r"(\d{1,6})([smhdw])\Z")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_HASH: Final = re.compile(r"[0-9a-fA-F]{64}\Z")
#: Kinds of a ledger's failure that a person mends by setting something up.
_TO_SET_UP: Final = frozenset({"missing", "unsafe", "newer", "unwritable"})
#: Log records of one line.
_BATCH: Final = 500
#: Lines of each count that people are shown.
_TOP: Final = 10


def guarded(work: Callable[[], int], *, as_json: bool) -> int:
    """Run a command; a failure of the ledger becomes one line and an exit code.

    :raises CliError: what failed.
    """
    try:
        return work()
    except LedgerError as error:
        status = SETUP if error.kind in _TO_SET_UP else FAILED
        failure = CliError(f"LEDGER_{error.kind.upper()}", str(error), status=status)
    except CliError as error:
        failure = error
    if as_json:
        JsonLines().show({"event": "error", "code": failure.code, "message": failure.message})
    raise failure from None


def run_log(path: str | None, wanted: Mapping[str, str], *, limit: int, following: bool, as_json: bool) -> int:
    """Show the newest rows, and those that come.

    :raises LedgerError: there is none or it cannot be read. :raises CliError: ``USAGE``.
    """
    folder, meant = _folder(path), to_filter(wanted)
    show: Callable[[Entry], None] = _show_json if as_json else LogTable().show
    # Rows that come while the newest are read must not be lost between the two.
    newest = _newest(folder, may_be_missing=following)
    shown = [entry for entry in latest(folder, meant, limit=limit) if entry.seq <= newest[0].seq] if newest else []
    for entry in shown:
        show(entry)
    if not shown and not following:
        print("no such rows", file=sys.stderr)
    sys.stdout.flush()
    if following:
        for coming in follow(folder, meant, after=newest[0].seq if newest else 0):
            if coming is None:
                sys.stdout.flush()
            else:
                show(coming)
    return 0


def _newest(folder: Path, *, may_be_missing: bool) -> list[Entry]:
    try:
        return latest(folder, Filter(everything=True), limit=1)
    except LedgerError as error:
        if may_be_missing and error.kind == "missing":
            return []
        raise


def run_verify(path: str | None, expect: str | None, *, as_json: bool) -> int:
    """Verify and print faults and head.

    :returns: 0 when everything is as it was written, else 1. :raises LedgerError: as `run_log`.
    """
    if expect is not None and not _HASH.match(expect):
        raise CliError("USAGE", "--expect needs 64 hexadecimal digits, as `control verify` prints them.")
    report = verify(_folder(path), expect=expect)
    summary = {"rows": report.rows, "files": report.files, "first": report.first, "faults": report.found}
    if as_json:
        for fault in report.faults:
            JsonLines().show({"event": "fault", **asdict(fault)})
        head = {"row": report.head.seq, "hash": report.head.hash}
        JsonLines().show({"event": "verified", "ok": report.ok, **summary, "head": head})
        return 0 if report.ok else FAILED
    for fault in report.faults:
        print(plain(f"{fault.kind:<12} {fault.file}: {fault.text}"))
    if report.found > len(report.faults):
        print(f"and {report.found - len(report.faults)} more")
    of = f"{count(report.rows, 'row')} in {count(report.files, 'file')}"
    print(f"{'whole' if report.ok else 'NOT WHOLE'}: {of}")
    if report.rows:
        print(f"head: row {report.head.seq} {report.head.hash}")
    return 0 if report.ok else FAILED


def run_stats(path: str | None, wanted: Mapping[str, str], *, as_json: bool) -> int:
    """Print sums. Raises as `run_log`."""
    found = statistics(_folder(path), to_filter(wanted))
    sums = {each.name: getattr(found, each.name) for each in fields(found)}
    if as_json:
        JsonLines().show({"event": "stats", **sums})
        return 0
    for name, value in sums.items():
        if not isinstance(value, dict):
            print(f"{name.replace('_', ' '):<14} {_local(value) if name in ('first', 'last') and value else value}")
        elif value:
            print(f"\n{name.replace('_', ' ')}")
            ordered = sorted(value.items(), key=lambda each: (-each[1], each[0]))
            for key, number in ordered[:_TOP]:
                print(plain(f"  {number:>8}  {key}"))
            if len(ordered) > _TOP:
                print(f"  {len(ordered) - _TOP} more; --json has them all")
    return 0


def run_export(path: str | None, wanted: Mapping[str, str], *, otel: bool, after: int) -> int:
    """Print rows for programs. Raises as `run_log`."""
    meant = to_filter(wanted) if wanted else Filter(everything=True)
    entries = read(_folder(path), meant, after=after)
    lines = map(otlp_line, _batches(entries)) if otel else map(json_line, entries)
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()
    return 0


def to_filter(wanted: Mapping[str, str]) -> Filter:
    """Flags as a filter. :raises CliError: ``USAGE``: a time that is none."""
    conditions: dict[str, Any] = {**wanted}
    for flag in ("since", "until"):
        if flag in wanted:
            conditions[flag] = to_time(wanted[flag], flag)
    return Filter(**conditions)


def to_time(text: str, flag: str) -> str:
    """A time that a person wrote, in the form that rows have. Without a zone it is this machine's time.

    :raises CliError: ``USAGE``.
    """
    try:
        if match := _AGO.match(text):
            moment = datetime.now(UTC) - timedelta(**{_UNITS[match[2]]: int(match[1])})
        else:
            moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise CliError("USAGE", f"--{flag} needs 30m, 12h, 7d or a time like 2026-11-30T13:00.") from None
    return moment.isoformat(timespec="microseconds")


class LogTable:
    """Rows as lines for people: on a terminal no longer than it is wide, else whole. What the columns are is said once,
    on stderr, so that stdout holds rows and nothing else."""

    _STYLES: Final = {"allow": "green", "deny": "red", "ask": "yellow", "force_ask": "yellow"}

    def __init__(self) -> None:
        from rich.console import Console

        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a text file in every real process
        self._whole = not self.is_terminal()
        self._console = Console(file=sys.stdout, highlight=False, emoji=False)
        self._begun = False

    @staticmethod
    def is_terminal() -> bool:
        """Whether a person looks at the rows, on so many columns."""
        return sys.stdout.isatty()

    def show(self, entry: Entry) -> None:
        """Print one row."""
        from rich.text import Text

        if not self._begun:
            self._begun = True
            print(f"{'time':<25} {'row':>7} {'what':<9} {'tool':<16} why · call", file=sys.stderr, flush=True)
        word = entry.text("decision") or entry.text("outcome") or entry.kind
        line = Text(f"{_local(entry.text('time'))} {entry.seq:>7} ")
        line.append(f"{word:<9} ", style=self._STYLES.get(word, "dim" if word == "ok" else "magenta"))
        # The name that rules and hosts have for it; the ledger's own is in `--json`.
        tool = entry.text("native_tool") or entry.text("tool") or "-"
        line.append(plain(f"{tool:<16} {' · '.join(_notes(entry))}"))
        if self._whole:
            self._console.print(line, soft_wrap=True)
        else:
            self._console.print(line, no_wrap=True, overflow="ellipsis")


def _notes(entry: Entry) -> Iterator[str]:
    if entry.kind == "decision":
        yield entry.text("floor") or entry.text("rule") or entry.text("source")
        for name in ("scope", "approver"):
            if value := entry.text(name):
                yield value
        for flag, word in (("soft", "soft: nobody to ask"), ("escape_hatch", "ESCAPE HATCH ON")):
            if entry.body.get(flag) is True:
                yield word
    else:
        took = entry.body.get("duration_us")
        if isinstance(took, int) and entry.text("outcome") != "not_run":
            yield f"{took / 1e6:.2f} s"
        if entry.text("output") not in ("", "passed"):
            yield f"output {entry.text('output')}"
    if call := entry.text("call"):
        yield call


def _local(time: str) -> str:
    try:
        return datetime.fromisoformat(time).astimezone().isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):
        return f"{time[:25]:<25}"


def _show_json(entry: Entry) -> None:
    JsonLines().show({"event": "row", **entry.body, "hash": entry.hash})


def _batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    source = iter(entries)
    while batch := list(islice(source, _BATCH)):
        yield batch


def _folder(path: str | None) -> Path:
    return default_path() if path is None else Path(path)
