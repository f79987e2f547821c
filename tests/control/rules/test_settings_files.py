"""Settings that people and programs wrote: every layout, every fault with its place, and nothing widened by any."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from antigravity_control import Policy, Request, Source, read_file, standard_sources
from antigravity_control.sources.settings import FILE_LIMIT

LS = Request("command", "ls")


def faults(data: dict[str, Any], scope: Any = "global") -> list[tuple[str, str]]:
    ruled = Policy.compile([Source(scope, data, "settings.json")], workspace="/w")
    assert ruled.decide(LS).decision == "ask"
    assert all(fault.file == "settings.json" and fault.reason for fault in ruled.faults)
    return [(fault.place, fault.effect) for fault in ruled.faults]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, []),
        ({"permissions": None}, []),
        ({"permissions": []}, [("permissions", "ignored")]),
        ({"permissions": "command(ls)"}, [("permissions", "ignored")]),
        ({"permissions": {"allow": "command(ls)"}}, [("permissions.allow", "ignored")]),
        ({"permissions": {"allow": {"command(ls)": True}}}, [("permissions.allow", "ignored")]),
        ({"permissions": {"allow": ["command(ls"]}}, [("permissions.allow[0]", "ignored")]),
        ({"permissions": {"allow": [["command(ls)"]]}}, [("permissions.allow[0]", "ignored")]),
        ({"permissions": {"allow": ["command(a)", 3]}}, [("permissions.allow[1]", "ignored")]),
        ({"allow": ["command(ls)"]}, [("allow", "ignored")]),
        ({"toolPermission": "Always-Proceed"}, [("toolPermission", "ignored")]),
        ({"toolPermission": ["always-proceed"]}, [("toolPermission", "ignored")]),
        ({"dangerouslySkipPermissions": "yes"}, [("dangerouslySkipPermissions", "ignored")]),
        ({"enableTerminalSandbox": 1}, [("enableTerminalSandbox", "ignored")]),
        ({"preset": "none"}, [("preset", "ignored")]),
        ({"agentMode": "yolo"}, [("agentMode", "ignored")]),
        ({"trustedWorkspaces": [1]}, [("trustedWorkspaces", "ignored")]),
        ({"userSettings": {"globalPermissionGrants": 1}}, [("userSettings.globalPermissionGrants", "ignored")]),
    ],
)
@pytest.mark.requirement("B-001")
def test_what_is_wrong_is_reported_with_its_place_and_left_out(data: dict[str, Any], expected: list[Any]) -> None:
    assert faults(data) == expected


def test_the_files_of_a_home_folder(tmp_path: Path) -> None:
    contents = {
        ".gemini/antigravity-cli/settings.json": {"permissions": {"allow": ["command(a)"]}, "toolPermission": "strict"},
        ".gemini/config/config.json": {"userSettings": {"globalPermissionGrants": {"deny": ["command(b)"]}}},
        ".gemini/config/projects/1.json": {"permissionGrants": {"permissionGrants": {"ask": ["command(a c)"]}}},
    }
    for name, data in contents.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\ufeff" + json.dumps(data), encoding="utf-8")
    sources = standard_sources(tmp_path, tmp_path / ".gemini/config/projects/1.json")
    ruled = Policy.compile(sources, workspace="/w")
    made = {line: ruled.decide(Request("command", line)) for line in ("a", "b", "a c")}
    assert {line: (each.decision, each.scope) for line, each in made.items()} == {
        "a": ("allow", "global"), "b": ("deny", "shared"), "a c": ("ask", "project"),
    }  # fmt: skip
    assert ruled.mode.tool_permission == "strict"
    assert not ruled.faults
    assert str(tmp_path) in str(ruled.rules[0].origin)


def test_missing_files_are_no_fault(tmp_path: Path) -> None:
    ruled = Policy.compile(standard_sources(tmp_path, tmp_path / "none.json"), workspace="/w")
    assert not ruled.faults
    assert not ruled.incomplete


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"permissions": {"allow": ["command(*)"]}', "\x00", "[" * 100_000]
)
def test_a_file_that_cannot_be_read_leaves_the_policy_incomplete(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    ruled = Policy.compile([read_file(path, "global")], workspace="/w")
    assert ruled.incomplete
    assert [(fault.file, fault.effect) for fault in ruled.faults] == [(str(path), "unreadable")]
    assert ruled.decide(LS).decision == "ask"


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "huge").write_bytes(b" " * (FILE_LIMIT + 1))
    (tmp_path / "dangling").symlink_to("nowhere.json")
    for name in ("pipe", "huge", ".", "dangling"):
        source = read_file(tmp_path / name, "global")
        assert [fault.effect for fault in source.faults] == ["unreadable"]
        assert not source.data


def test_faults_never_hold_what_a_setting_says() -> None:
    secret = "hunter2-hunter2"
    data = {"permissions": {"allow": [secret, f"command({secret}", f"shell({secret})"]}, "toolPermission": secret}
    ruled = Policy.compile([Source("global", data)], workspace="/w", flags=[secret])
    assert len(ruled.faults) == 5
    assert secret not in repr(ruled.faults)
    assert secret not in "".join(map(str, ruled.faults))


def test_whoever_is_judged_by_the_rules_does_not_change_them_unasked(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"permissions": {"allow": ["write_file(*)", "command(*)"]}, "toolPermission": "always-proceed"}')
    (tmp_path / "link").symlink_to("settings.json")
    (tmp_path / "twin").hardlink_to(path)
    ruled = Policy.compile(
        [read_file(path, "global")], workspace=str(tmp_path), flags=["--dangerously-skip-permissions"]
    ).with_grants(["write_file(*)"])
    for name in ("settings.json", "link", "twin", str(tmp_path)):
        assert ruled.decide(Request("write_file", name)).decision == "ask", name
        assert ruled.decide(Request("command", f"echo x > {name}")).decision == "ask", name
        assert ruled.attended("headless").decide(Request("command", f"cp x {name}")).soft, name
    assert ruled.decide(Request("read_file", "settings.json")).decision == "allow"
    assert ruled.decide(Request("write_file", "other")).decision == "allow"


@pytest.mark.parametrize(
    ("text", "places", "rules"),
    [
        ('{"permissions": {"deny": ["command(a)"], "deny": []}}', ["permissions.deny"], ["command(a)"]),
        ('{"permissions": {"deny": ["command(a)"], "deny": null}}', ["permissions.deny"], ["command(a)"]),
        ('{"permissions": {"deny": ["command(a)"]}, "permissions": {"allow": []}}', ["permissions"], ["command(a)"]),
        ('{"permissions": {"ask": ["command(a)"]}, "permissions": null}', ["permissions"], ["command(a)"]),
        ('{"permissions": {"allow": ["command(a)"], "allow": ["command(b)"]}}', ["permissions.allow"], ["command(b)"]),
        ('{"permissions": {"allow": ["command(a)"]}, "permissions": {}}', ["permissions"], []),
        (
            '{"permissions": {"deny": ["command(a)"]}, "permissions": {"deny": ["command(b)"]}, "permissions": {}}',
            ["permissions"],
            ["command(a)", "command(b)"],
        ),
        (
            '{"userSettings": {"globalPermissionGrants": {"deny": ["command(a)"]}}, "userSettings": {"theme": 1}}',
            ["userSettings"],
            ["command(a)"],
        ),
        ('{"toolPermission": "strict", "toolPermission": "always-proceed"}', ["toolPermission"], []),
        ('{"list": [{"a": 1, "a": 2}], "a\\u001b[2J b": 1, "a\\u001b[2J b": 2}', ["(a key)", "list[0].a"], []),
        ('{"permissions": {"deny": ["command(a)"]}}', [], ["command(a)"]),
    ],
)
def test_a_key_that_stands_twice_is_reported_and_takes_no_restriction_away(
    tmp_path: Path, text: str, places: list[str], rules: list[str]
) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    ruled = Policy.compile([read_file(path, "global")], workspace="/w")
    assert sorted((each.place, each.effect, each.file) for each in ruled.faults) == [
        (place, "repeated", str(path)) for place in places
    ]
    assert [rule.text for rule in ruled.rules] == rules
    assert not ruled.incomplete
