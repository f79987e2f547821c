"""What a row may hold, how large a ledger may grow, and where it may lie."""

import math
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.ledgers import decision, fill, outcome

from antigravity_control.ledger import Filter, Ledger, LedgerError, Limits, default_path, latest, read, verify

SECRET = "sk-live-0123456789abcdefSECRET"  # a planted secret, not a real one


def bytes_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()))


@pytest.mark.requirement("X-007", "B-021")
def test_a_decision_and_its_outcome_are_two_rows_with_all_that_is_known(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger") as ledger:
        row = ledger.decided(
            decision(
                1,
                decision="deny",
                floor="delete-root",
                reason="hardline floor: recursive delete",
                approver="terminal:once",
                mode="request-review",
                tier="background",
                engine="embedded",
                escape_hatch=True,
                soft=True,
                duration_ms=1.2345,
                arguments={"command": "ls"},
            )
        )
        ledger.ended(outcome(1, row, outcome="error", output="redacted", findings=["api key"]))
        assert ledger.head is not None
        assert ledger.head.seq == row + 1
    first, second = read(tmp_path / "ledger")
    digest = first.body.pop("arguments_digest")
    assert digest.startswith("hmac-sha256:")
    assert len(digest) == 12 + 64
    for body in (first.body, second.body):
        del body["time"], body["prev"]
    assert first.body == {
        "v": 1,
        "seq": row,
        "kind": "decision",
        "call": "call-1",
        "tool": "Bash",
        "native_tool": "run_command",
        "decision": "deny",
        "source": "rule",
        "reason": "hardline floor: recursive delete",
        "rule": "command(git)",
        "scope": "global",
        "floor": "delete-root",
        "soft": True,
        "approver": "terminal:once",
        "mode": "request-review",
        "tier": "background",
        "conversation": "conversation-1",
        "host": "python",
        "engine": "embedded",
        "escape_hatch": True,
        "duration_us": 1234,
    }
    assert second.body == {
        "v": 1,
        "seq": row + 1,
        "kind": "outcome",
        "call": "call-1",
        "outcome": "error",
        "decision_row": row,
        "conversation": "conversation-1",
        "host": "python",
        "output": "redacted",
        "findings": ["api key"],
        "duration_us": 12500,
    }


@pytest.mark.requirement("B-022")
def test_every_decision_says_whether_the_escape_hatch_was_on(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger") as ledger:
        ledger.decided(decision(1))
        ledger.decided(decision(2, escape_hatch=True))
    assert [entry.body["escape_hatch"] for entry in read(tmp_path / "ledger")] == [False, True]


ODD: list[Any] = [
    {"command": f"curl -H 'Authorization: Bearer {SECRET}' x"},
    {SECRET: 1},
    {"deep": [{"er": SECRET}]},
    {1: SECRET, "1": SECRET},
    {"bytes": SECRET.encode(), "set": {SECRET}},
    {"surrogate": "\ud800" + SECRET},
    {"nan": math.nan, "x": SECRET},
]


def endless() -> dict[str, Any]:
    made: dict[str, Any] = {"x": SECRET}
    made["again"] = made
    return made


@pytest.mark.requirement("X-007")
def test_arguments_never_reach_the_disk_unless_it_was_asked_for(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger") as ledger:
        for arguments in (*ODD, endless()):
            ledger.decided(decision(1, arguments=arguments))
        assert SECRET not in repr(decision(1, arguments=ODD[0]))
        assert SECRET.encode() not in bytes_of(tmp_path / "ledger")
    assert SECRET.encode() not in bytes_of(tmp_path / "ledger")
    found = [entry.text("arguments_digest") for entry in read(tmp_path / "ledger")]
    assert all(len(digest) == 76 for digest in found)
    # What is no JSON at all has one digest by its type; everything else has one of its own.
    assert len(set(found)) == len(found) - 1


def test_equal_arguments_have_equal_digests_in_one_ledger_and_others_in_another(tmp_path: Path) -> None:
    import hashlib

    with Ledger.open(tmp_path / "one") as one, Ledger.open(tmp_path / "other") as other:
        assert one.digest({"a": 1, "b": 2}) == one.digest({"b": 2, "a": 1})
        assert one.digest({"a": 1}) != one.digest({"a": 2})
        # A list of guesses is of no use to whoever has rows and not the folder.
        assert one.digest({"command": "ls"}) != other.digest({"command": "ls"})
        assert hashlib.sha256(b'{"command":"ls"}').hexdigest() not in one.digest({"command": "ls"})
        again = one.digest({"command": "ls"})
    with Ledger.open(tmp_path / "one") as one:
        assert one.digest({"command": "ls"}) == again


def test_arguments_that_are_kept_went_through_the_redactor_and_are_cut(tmp_path: Path) -> None:
    seen: list[str] = []

    def redact(text: str) -> str:
        seen.append(text)
        return text.replace(SECRET, "[hidden]")

    with Ledger.open(tmp_path / "ledger", redact=redact) as ledger:
        ledger.decided(decision(1, arguments={"command": f"echo {SECRET}\n"}))
        ledger.decided(decision(2, arguments={"content": "x" * 10_000 + SECRET}))
        ledger.decided(decision(3, arguments={"content": "x" * 70_000 + SECRET}))
        ledger.decided(decision(4))
    kept = [entry.text("arguments") for entry in read(tmp_path / "ledger")]
    assert kept[0] == '{"command":"echo [hidden]\\n"}'
    assert len(kept[1]) == 2048
    assert kept[2] == "[70044 characters]"
    assert kept[3] == ""
    assert len(seen) == 2
    assert SECRET.encode() not in bytes_of(tmp_path / "ledger")


def test_a_redactor_that_fails_keeps_the_text_out_and_the_row_in(tmp_path: Path) -> None:
    def redact(text: str) -> str:
        raise RuntimeError(text)

    with Ledger.open(tmp_path / "ledger", redact=redact) as ledger:
        ledger.decided(decision(1, arguments={"command": SECRET}))
    assert [entry.text("arguments") for entry in read(tmp_path / "ledger")] == ["[not redacted]"]
    assert SECRET.encode() not in bytes_of(tmp_path / "ledger")


def test_names_that_a_model_chose_are_cut_and_cannot_drive_a_terminal(tmp_path: Path) -> None:
    odd = "\x1b[2J\u202eevil\n\x00\ud800\u2028" + "x" * 100_000
    with Ledger.open(tmp_path / "ledger") as ledger:
        ledger.decided(decision(1, call=odd, tool=odd, native_tool=odd, conversation=odd, reason=odd, rule=odd))
        ledger.ended(outcome(1, call=odd, tool=odd, findings=[odd] * 100, duration_ms=math.inf))
    for entry in read(tmp_path / "ledger"):
        for value in entry.body.values():
            assert len(str(value)) <= 512 or isinstance(value, list)
            assert not set("\x1b\u202e\n\x00\ud800\u2028") & set(str(value))
        assert len(entry.body.get("findings", [])) <= 16
    assert len(bytes_of(tmp_path / "ledger")) < 200_000
    assert verify(tmp_path / "ledger").ok


@pytest.mark.requirement("X-007")
def test_rotation_keeps_the_bound_and_the_chain(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    limits = Limits(max_rows=10, keep_files=3)
    with Ledger.open(folder, limits=limits) as ledger:
        for number in range(100):
            ledger.decided(decision(number))
            assert len(list(folder.glob("ledger-*.db"))) <= 3
    report = verify(folder)
    assert report.ok
    assert report.files == 3
    assert report.rows <= 30
    assert report.head.seq == report.first + report.rows - 1
    # Only what is kept has to be there, and all of it.
    oldest = min(folder.glob("ledger-*.db"))
    oldest.unlink()
    assert [(fault.kind, fault.file) for fault in verify(folder).faults] == [("file-missing", oldest.name)]
    fill(folder, 4, limits)
    assert not verify(folder).ok
    fill(folder, 10, limits)
    assert verify(folder).ok


def test_rotation_by_size(tmp_path: Path) -> None:
    limits = Limits(max_bytes=65_536, keep_files=2)
    with Ledger.open(tmp_path / "ledger", limits=limits) as ledger:
        for number in range(200):
            ledger.decided(decision(number, reason="r" * 512))
    files = list((tmp_path / "ledger").glob("ledger-*.db"))
    assert len(files) == 2
    assert all(file.stat().st_size <= 2 * 65_536 for file in files)
    assert verify(tmp_path / "ledger").ok


def test_a_file_that_rotation_could_not_remove_does_not_count(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    fill(folder, 9, Limits(max_rows=10))
    first = (folder / "ledger-000001.db").read_bytes()
    fill(folder, 40, Limits(max_rows=10, keep_files=2))
    (folder / "ledger-000001.db").write_bytes(first)
    assert verify(folder).ok


def test_bounds_that_cannot_hold_are_refused() -> None:
    for wrong in ({"max_rows": 1}, {"max_bytes": 1}, {"keep_files": 1}, {"wait_s": 0}):
        with pytest.raises(ValueError, match="needed"):
            Limits(**wrong)


def test_folder_and_files_are_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        fill(tmp_path / "deep" / "ledger", 1)
    finally:
        os.umask(before)
    folder = tmp_path / "deep" / "ledger"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}


def wide_folder(folder: Path) -> None:
    folder.chmod(0o750)


def wide_file(folder: Path) -> None:
    (folder / "ledger-000001.db").chmod(0o640)


def linked_folder(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))


def linked_file(folder: Path) -> None:
    file = folder / "ledger-000001.db"
    file.rename(folder.with_name("elsewhere"))
    file.symlink_to(folder.with_name("elsewhere"))


def hard_linked_file(folder: Path) -> None:
    os.link(folder / "ledger-000001.db", folder.with_name("elsewhere"))


def linked_anchor(folder: Path) -> None:
    (folder / "head").rename(folder.with_name("elsewhere"))
    (folder / "head").symlink_to(folder.with_name("elsewhere"))


def folder_that_is_a_file(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.touch()


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes and owners")
@pytest.mark.parametrize(
    "spoil",
    [wide_folder, wide_file, linked_folder, linked_file, hard_linked_file, linked_anchor, folder_that_is_a_file],
)
def test_what_others_may_have_touched_is_refused(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    folder = tmp_path / "ledger"
    fill(folder, 1)
    spoil(folder)
    with pytest.raises(LedgerError) as failure:
        Ledger.open(folder)
    assert failure.value.kind == "unsafe"
    assert str(folder) in str(failure.value)


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes and owners")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "ledger", 1)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(LedgerError, match="another user") as failure:
        Ledger.open(tmp_path / "ledger")
    assert failure.value.kind == "unsafe"


def test_a_place_that_cannot_be_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LedgerError, match="local folder") as failure:
        Ledger.open(tmp_path / "file" / "ledger")
    assert failure.value.kind == "unwritable"


def test_another_process_that_holds_the_ledger_makes_every_waiting_row_fail_in_time(tmp_path: Path) -> None:
    folder = tmp_path / "ledger"
    fill(folder, 1)
    failures: list[LedgerError] = []
    with Ledger.open(folder, limits=Limits(wait_s=0.2)) as ledger:
        with closing(sqlite3.connect(folder / "ledger-000001.db", isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")

            def work() -> None:
                with pytest.raises(LedgerError, match="try again") as failure:
                    ledger.decided(decision(2))
                failures.append(failure.value)

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(20)
        assert [failure.kind for failure in failures] == ["busy"] * 4
        ledger.decided(decision(3))
    assert [entry.text("call") for entry in read(folder)] == ["call-0", "call-3"]
    assert verify(folder).ok


def test_a_ledger_that_may_only_be_read_is_an_error_and_recovers(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger") as ledger:
        ledger.decided(decision(1))
        assert ledger._db is not None
        ledger._db.execute("PRAGMA query_only = ON")
        with pytest.raises(LedgerError) as failure:
            ledger.decided(decision(2))
        assert failure.value.kind == "unwritable"
        ledger.decided(decision(3))
    assert [entry.text("call") for entry in read(tmp_path / "ledger")] == ["call-1", "call-3"]


FULL = """
import resource, sys
from helpers.ledgers import decision
from antigravity_control.ledger import Ledger, LedgerError
with Ledger.open(sys.argv[1]) as ledger:
    for number in range(5):
        ledger.decided(decision(number))
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
    written = 5
    while True:
        try:
            ledger.decided(decision(written))
        except LedgerError as error:
            print(error.kind, written)
            break
        written += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    ledger.decided(decision(9999))
"""


@pytest.mark.skipif(os.name == "nt", reason="RLIMIT_FSIZE")
def test_a_disk_without_room_is_an_error_and_what_was_acknowledged_stays(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "ledger")],
        env={**os.environ, "PYTHONPATH": tests},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    kind, written = done.stdout.split()
    assert kind in ("full", "io")
    calls = [entry.text("call") for entry in read(tmp_path / "ledger")]
    assert calls == [*(f"call-{number}" for number in range(int(written))), "call-9999"]
    assert verify(tmp_path / "ledger").ok


def test_a_folder_that_was_removed_under_a_writer_is_begun_anew(tmp_path: Path) -> None:
    import shutil

    with Ledger.open(tmp_path / "ledger") as ledger:
        ledger.decided(decision(1))
        shutil.rmtree(tmp_path / "ledger")
        ledger.decided(decision(2))
    assert [entry.text("call") for entry in read(tmp_path / "ledger")] == ["call-2"]
    assert verify(tmp_path / "ledger").ok


def test_a_closed_ledger_takes_nothing(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger")
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.decided(decision(1))
    assert latest(tmp_path / "ledger", Filter(everything=True)) == []
    assert verify(tmp_path / "ledger").ok


def test_a_key_that_is_no_key_is_an_error(tmp_path: Path) -> None:
    fill(tmp_path / "ledger", 1)
    (tmp_path / "ledger" / "digest.key").write_bytes(b"short")
    with pytest.raises(LedgerError, match="key") as failure:
        Ledger.open(tmp_path / "ledger")
    assert failure.value.kind == "damaged"
    assert verify(tmp_path / "ledger").ok


def test_the_default_place_is_the_users_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert default_path() == tmp_path / "antigravity-acp" / "ledger"
    assert default_path().parts[-2:] == ("antigravity-acp", "ledger")
