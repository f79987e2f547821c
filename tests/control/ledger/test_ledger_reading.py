"""Filters, following, sums and exports; and the four commands."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
from helpers.cli import environment
from helpers.ledgers import copy_of, decision, fill, outcome, tampering

from antigravity_acp.cli._ledger import LogTable
from antigravity_acp.cli.control_log import COMMANDS
from antigravity_acp.cli.failures import CliError
from antigravity_control.ledger import (
    Filter,
    Ledger,
    LedgerError,
    Limits,
    follow,
    json_line,
    latest,
    otel_record,
    otlp_line,
    read,
    statistics,
    verify,
)

pytestmark = pytest.mark.requirement("B-021", "X-007")
BOUND_S = 60.0


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written") / "ledger"
    with Ledger.open(folder, limits=Limits(max_rows=8)) as ledger:
        for number in range(10):
            row = ledger.decided(decision(number, duration_ms=number))
            ledger.ended(outcome(number, row))
        ledger.decided(decision(10, decision="deny", source="floor", rule="", floor="delete-root", host="dsh"))
        row = ledger.decided(decision(11, tool="mcp/files/read", native_tool="read", conversation="two", soft=True))
        ledger.ended(outcome(11, row, conversation="two", outcome="error", output="blocked", findings=["token", "key"]))
        ledger.decided(decision(12, escape_hatch=True, rule="command(\u001b[31mgit push)", approver="terminal:turn"))
    return folder


def calls(folder: Path, **conditions: Any) -> list[str]:
    return [entry.text("call") for entry in read(folder, Filter(**conditions))]


def test_filters_are_all_in_force_together(written: Path) -> None:
    assert calls(written, decision="deny") == ["call-10"]
    assert calls(written, tool="read") == calls(written, tool="mcp/files/read") == ["call-11"]
    assert calls(written, conversation="two") == ["call-11", "call-11"]
    assert calls(written, host="dsh", decision="allow") == []
    assert calls(written, rule="git push") == ["call-12"]
    assert calls(written, call="call-3") == ["call-3", "call-3"]
    assert len(calls(written, decision="allow")) == 12
    moment = next(entry for entry in read(written) if entry.text("call") == "call-5").text("time")
    assert calls(written, until=moment)[-1] == "call-4"
    assert calls(written, since=moment)[0] == "call-5"


def test_the_latest_are_the_newest_in_their_order_through_all_files(written: Path) -> None:
    everything = list(read(written))
    for limit in (1, 5, 9, 1000):
        assert latest(written, limit=limit) == everything[-limit:]
    assert [entry.text("call") for entry in latest(written, Filter(decision="deny"), limit=3)] == ["call-10"]


def test_rows_are_followed_through_rotation_and_none_comes_twice(tmp_path: Path) -> None:
    source = follow(tmp_path / "ledger", Filter(decision="allow"), interval_s=0.0)
    assert next(source) is None
    seen: list[str] = []
    with Ledger.open(tmp_path / "ledger", limits=Limits(max_rows=6, keep_files=50)) as ledger:
        for number in range(20):
            ledger.decided(decision(number))
            ledger.decided(decision(number, decision="deny"))
            while (entry := next(source)) is not None:
                seen.append(entry.text("call"))
    assert seen == [f"call-{number}" for number in range(20)]


def test_sums(written: Path) -> None:
    sums = statistics(written)
    assert (sums.rows, sums.decisions, sums.outcomes, sums.open) == (24, 13, 11, 1)
    assert (sums.soft, sums.escape_hatch) == (1, 1)
    assert sums.by_decision == {"allow": 12, "deny": 1}
    assert sums.by_floor == {"delete-root": 1}
    assert sums.by_outcome == {"ok": 10, "error": 1}
    assert sums.by_output == {"passed": 10, "blocked": 1}
    assert sums.by_finding == {"token": 1, "key": 1}
    assert sums.by_tool == {"Bash": 12, "mcp/files/read": 1}


def test_json_lines_can_be_checked_without_this_project(written: Path) -> None:
    lines = [json_line(entry) for entry in read(written, Filter(everything=True))]
    known = []
    for line in lines:
        row = json.loads(line)
        known.append((row["prev"], row.pop("hash")))
        text = json.dumps(row, sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(b"antigravity-acp ledger row 1\n" + text.encode()).hexdigest() == known[-1][1]
    assert all(before[1] == after[0] for before, after in pairwise(known))
    assert known[-1][1] == verify(written).head.hash


def test_log_records_have_the_shape_of_otlp(written: Path) -> None:
    entries = list(read(written))
    batch = json.loads(otlp_line(entries))
    (resource,) = batch["resourceLogs"]
    (scope,) = resource["scopeLogs"]
    assert scope["logRecords"] == [otel_record(entry) for entry in entries]
    record = otel_record(latest(written, Filter(conversation="two", decision="allow"))[0])
    assert record["timeUnixNano"].isdigit()
    seconds = int(record["timeUnixNano"]) / 1e9
    assert abs(datetime.fromtimestamp(seconds, UTC) - datetime.now(UTC)) < timedelta(hours=1)
    values = {each["key"]: each["value"] for each in record["attributes"]}
    assert len(values) == len(record["attributes"])
    assert values["gen_ai.tool.name"] == {"stringValue": "mcp/files/read"}
    assert values["gen_ai.conversation.id"] == {"stringValue": "two"}
    assert values["antigravity.control.soft"] == {"boolValue": True}
    assert values["antigravity.control.seq"]["intValue"].isdigit()
    severities = {entry.text("call"): otel_record(entry)["severityText"] for entry in entries}
    assert severities["call-1"] == "INFO"
    assert severities["call-10"] == "WARN"
    assert severities["call-12"] == "WARN"


def test_reading_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    for use in (verify, latest, lambda folder: list(read(folder)), statistics):
        with pytest.raises(LedgerError) as failure:
            use(tmp_path / "none")
        assert failure.value.kind == "missing"


def test_a_row_that_was_made_unreadable_is_shown_by_its_number(written: Path, tmp_path: Path) -> None:
    copy = copy_of(written, tmp_path / "ledger")
    with tampering(copy / "ledger-000001.db") as db:
        db.execute("UPDATE rows SET body = 'nonsense' WHERE seq = 3")
    assert [entry.seq for entry in read(copy, Filter(everything=True)) if entry.kind == "unreadable"] == [3]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """One of the commands as the group runs it."""
    capsys.readouterr()
    group = click.Group("control", commands=list(COMMANDS))
    status = group.main(list(arguments), standalone_mode=False)
    shown = capsys.readouterr()
    return status or 0, shown.out, shown.err


def test_log_shows_the_newest_and_lets_nothing_drive_the_terminal(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = run(capsys, "log", "--path", str(written), "-n", "3")
    lines = out.splitlines()
    assert (status, len(lines)) == (0, 3)
    assert "ESCAPE HATCH ON" in lines[-1]
    assert "terminal:turn" in lines[-1]
    assert "\x1b" not in out
    _, out, _ = run(capsys, "log", "--path", str(written), "--decision", "deny")
    assert "delete-root" in out
    assert len(out.splitlines()) == 1
    status, out, err = run(capsys, "log", "--path", str(written), "--tool", "nothing")
    assert (status, out, err) == (0, "", "no such rows\n")


def test_log_says_what_its_columns_are_where_and_what_a_tool_is_called_elsewhere(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, err = run(capsys, "log", "--path", str(written), "-n", "5")
    assert err.split() == ["time", "row", "what", "tool", "why", "·", "call"]
    lines = out.splitlines()
    # The zone of the time, the name that rules have for the tool, and the word that the docs have.
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d +\d+ ", line) for line in lines)
    assert "run_command" in lines[-1]
    assert any("soft: nobody to ask" in line and " read " in line for line in lines)
    for name in ("BASH", "Run_Command"):
        assert run(capsys, "log", "--path", str(written), "--tool", name, "-n", "3")[1].splitlines()[-1] == lines[-1]


def test_a_line_of_the_log_is_no_longer_than_the_terminal_is_wide(
    written: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "dumb")
    assert max(map(len, run(capsys, "log", "--path", str(written))[1].splitlines())) > 60
    monkeypatch.setattr(LogTable, "is_terminal", staticmethod(lambda: True))
    lines = run(capsys, "log", "--path", str(written), "-n", "4")[1].splitlines()
    assert (len(lines), max(map(len, lines))) == (4, 60)


def test_a_call_that_never_ran_has_no_output_to_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Ledger.open(tmp_path) as ledger:
        # The second as older releases have it.
        for number, output in enumerate(("", "passed")):
            ledger.ended(outcome(number, 0, outcome="not_run", output=output))
        ledger.ended(outcome(2, 0, outcome="not_run", output="audited", findings=["token"]))
        ledger.ended(outcome(3, 0))
    assert "output" not in next(read(tmp_path)).body
    assert statistics(tmp_path).by_output == {"audited": 1, "passed": 1}
    assert "whole: 5 rows in 1 file\n" in run(capsys, "verify", "--path", str(tmp_path))[1]
    assert [" s · call" in line for line in run(capsys, "log", "--path", str(tmp_path))[1].splitlines()] == [
        False, False, False, True,
    ]  # fmt: skip
    _, out, _ = run(capsys, "stats", "--path", str(tmp_path))
    assert re.search(r"^first +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d$", out, re.MULTILINE)


def test_log_as_json_is_what_was_written(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "log", "--path", str(written), "--json", "--since", "1h", "--rule", "push")
    (row,) = map(json.loads, out.splitlines())
    assert row["event"] == "row"
    assert row["call"] == "call-12"
    assert row["escape_hatch"] is True
    _, out, _ = run(capsys, "log", "--path", str(written), "--until", "2020-01-01")
    assert out == ""


def test_verify_ends_with_1_and_a_line_for_each_fault(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = verify(written).head
    status, out, _ = run(capsys, "verify", "--path", str(written), "--expect", head.hash)
    assert status == 0
    assert out.endswith(f"head: row {head.seq} {head.hash}\n")
    copy = copy_of(written, tmp_path / "ledger")
    with tampering(copy / "ledger-000002.db") as db:
        db.execute("DELETE FROM rows WHERE seq = 11")
    status, out, _ = run(capsys, "verify", "--path", str(copy))
    assert status == 1
    assert "row 11 is missing" in out
    assert "NOT WHOLE" in out
    status, out, _ = run(capsys, "verify", "--path", str(copy), "--json")
    events = [json.loads(line) for line in out.splitlines()]
    assert status == 1
    assert [event["event"] for event in events] == ["fault", "verified"]
    assert (events[0]["kind"], events[0]["row"]) == ("missing", 11)
    assert events[1]["ok"] is False


def test_stats_and_export(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "stats", "--path", str(written))
    assert "escape hatch" in out
    _, out, _ = run(capsys, "stats", "--path", str(written), "--json")
    assert json.loads(out)["by_tool"] == {"Bash": 12, "mcp/files/read": 1}
    _, out, _ = run(capsys, "export", "--path", str(written))
    assert out.splitlines() == [json_line(entry) for entry in read(written, Filter(everything=True))]
    _, out, _ = run(capsys, "export", "--path", str(written), "--otel", "--decision", "deny")
    assert len(json.loads(out)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]) == 1
    _, out, _ = run(capsys, "export", "--path", str(written), "--after", "30")
    assert json.loads(out.splitlines()[0])["seq"] == 31


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        (["log", "--path", "/nowhere/at/all"], "LEDGER_MISSING", 2),
        (["verify", "--path", "/nowhere/at/all"], "LEDGER_MISSING", 2),
        (["verify", "--expect", "abc"], "USAGE", 2),
        (["log", "--since", "yesterday"], "USAGE", 2),
        (["stats", "--until", "99999999999w"], "USAGE", 2),
    ],
)
def test_what_cannot_be_done_is_one_line_and_a_code(
    arguments: list[str], code: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CliError) as failure:
        run(capsys, *arguments, "--json")
    assert (failure.value.code, failure.value.status) == (code, status)
    assert json.loads(capsys.readouterr().out)["code"] == code


_FOLLOW = """
import click, sys
from antigravity_acp.cli.control_log import COMMANDS
click.Group("control", commands=list(COMMANDS)).main(sys.argv[1:])
"""


@pytest.mark.skipif(os.name == "nt", reason="SIGINT")
def test_log_follows_until_it_is_interrupted(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    fill(folder, 2)
    with subprocess.Popen(
        [sys.executable, "-c", _FOLLOW, "log", "--path", str(folder), "--follow", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
        text=True,
    ) as process:
        assert process.stdout is not None
        shown = [json.loads(process.stdout.readline())["call"] for _ in range(2)]
        with Ledger.open(folder) as ledger:
            ledger.decided(decision(7))
        shown.append(json.loads(process.stdout.readline())["call"])
        process.send_signal(signal.SIGINT)
        process.wait(BOUND_S)
    assert shown == ["call-0", "call-1", "call-7"]
    assert verify(folder).ok


def test_help_of_the_commands_loads_none_of_the_ledger() -> None:
    program = _FOLLOW.replace(".main(sys.argv[1:])", ".main(sys.argv[1:], standalone_mode=False)")
    program += "print('LOADED', *sys.modules)"
    for command in COMMANDS:
        done = subprocess.run(
            [sys.executable, "-c", program, str(command.name), "--help"],
            capture_output=True,
            text=True,
            env=environment(),
            check=True,
        )
        text, _, loaded = done.stdout.partition("LOADED")
        assert "--path" in text
        assert not {"sqlite3", "rich", "antigravity_control", "msgspec", "platformdirs"} & set(loaded.split())
