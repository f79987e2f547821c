"""The floor beyond the vectors: more spellings of each entry, more everyday lines. No line of them is ever run."""

import json
from pathlib import Path

import pytest

from antigravity_control.floor import ENTRIES, check
from antigravity_control.shell import read_line

LINES = json.loads((Path(__file__).parents[2] / "data" / "floor_spellings.json").read_text(encoding="utf-8"))


@pytest.mark.requirement("B-037")
def test_every_spelling_is_denied() -> None:
    hits = {line: check(line) for line in LINES["denied"]}
    assert [line for line, hit in hits.items() if hit is None] == []
    names = {entry.name for entry in ENTRIES}
    assert all(hit and hit.entry in names and len(hit.segment) <= 400 for hit in hits.values())


@pytest.mark.requirement("B-037")
def test_an_everyday_line_passes() -> None:
    assert [(line, hit.entry) for line in LINES["passed"] if (hit := check(line))] == []


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("rm -rf /", "root-delete"),
        ("rm -rf /etc", "system-delete"),
        ("rm -rf ~", "home-delete"),
        ("mkfs.ext4 /dev/sda1", "format"),
        ("dd if=x of=/dev/sda", "raw-device-write"),
        ("echo x > /dev/sda", "raw-device-redirect"),
        (":(){ :|:& };:", "fork-bomb"),
        ("kill -9 -1", "kill-all"),
        ("reboot", "power"),
    ],
)
def test_the_entry_is_named(line: str, entry: str) -> None:
    hit = check(line)
    assert hit is not None
    assert hit.entry == entry


def test_the_absolute_spelling_of_home_counts_where_it_is_known() -> None:
    assert check("rm -rf /srv/people/ada") is None
    hit = check("rm -rf /srv/people/ada/", home="/srv/people/ada")
    assert hit is not None
    assert hit.entry == "home-delete"
    assert check("rm -rf /srv/people/ada/project", home="/srv/people/ada") is None


def test_the_folder_of_the_call_counts() -> None:
    assert check(read_line("rm -rf *")) is None
    assert check(read_line("rm -rf *", cwd="/w/project")) is None
    assert check(read_line("rm -rf ../..", cwd="/w/project")) is not None
    assert check(read_line("rm -rf *", cwd="/etc")) is not None


def test_commands_before_a_fault_are_seen_since_bash_runs_them() -> None:
    assert check("reboot\necho 'not closed") is not None


def test_the_dialect_of_the_caller_is_used() -> None:
    line = read_line("rd /s /q C:\\", dialect="cmd")
    assert not line.understood
    assert check(line) is not None
