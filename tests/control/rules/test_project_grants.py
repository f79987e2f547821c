"""The grants of a project are found by the folder that the vendor's file says it is about."""

import json
from pathlib import Path
from typing import Any

import pytest

from antigravity_control import Policy, Request
from antigravity_control.sources.projects import PROJECT_LIMIT, project_sources


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".gemini" / "config" / "projects").mkdir(parents=True)
    (tmp_path / "work" / "sub").mkdir(parents=True)
    (tmp_path / "with space").mkdir()
    (tmp_path / "alias").symlink_to("work")
    return tmp_path.resolve()


def write(home: Path, name: str, data: Any) -> Path:
    path = home / ".gemini" / "config" / "projects" / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def grants(rule: str, **more: Any) -> dict[str, Any]:
    return {"permissionGrants": {"permissionGrants": {"allow": [rule]}}, **more}


def resources(*folders: str, deeper: bool = False) -> dict[str, Any]:
    each = [{"gitFolder": {"folderUri": folder}} if deeper else {"folderUri": folder} for folder in folders]
    return {"projectResources": {"resources": each}}


def test_a_file_that_is_too_large_to_be_looked_through_may_belong_to_the_workspace(home: Path) -> None:
    path = write(home, "1.json", {"projectResources": [[]] * 20_000, **grants("command(a)")})
    ruled = Policy.compile(project_sources(home, str(home / "work")), workspace=str(home / "work"))
    assert ruled.incomplete
    assert [fault.file for fault in ruled.faults] == [str(path)]
    assert ruled.decide(Request("read_file", "x")).decision == "ask"


def found(home: Path, workspace: str | list[str]) -> list[str]:
    ruled = Policy.compile(project_sources(home, workspace), workspace=workspace, home=str(home))
    assert {rule.origin.scope for rule in ruled.rules} <= {"project"}
    assert not ruled.faults
    return [rule.text for rule in ruled.rules]


def test_only_the_project_of_the_workspace_counts(home: Path) -> None:
    assert [source.data for source in project_sources(home / "nobody", "/w")] == [{}]
    assert [source.data for source in project_sources(home, str(home / "work"))] == [{}]
    write(home, "1.json", grants("command(uri)", **resources(f"file://{home}/work")))
    write(home, "2.json", grants("command(other)", **resources(f"file://{home}/elsewhere")))
    write(home, "3.json", grants("command(named)", name=f"{home}/alias"))
    write(home, "4.json", grants("command(deep)", **resources("file:///none", f"file://{home}/work/", deeper=True)))
    write(home, "5.json", grants("command(nothing)", name="work", projectResources={}))
    write(home, "6.json", grants("command(below)", **resources(f"file://{home}/work/sub")))
    write(home, "7.json", grants("command(odd)", name=7, projectResources=[None, 1, {"folderUri": 3}, ["x"]]))
    write(home, "8.bak", grants("command(old)", name=f"{home}/work"))
    write(home, "9.json", grants("command(blank)", **resources(f"file://{home}/with%20space")))
    mine = ["command(deep)", "command(named)", "command(uri)"]
    assert found(home, str(home / "work")) == mine
    assert found(home, str(home / "alias")) == mine
    assert found(home, str(home)) == []
    assert found(home, str(home / "work" / "sub")) == ["command(below)"]
    assert found(home, str(home / "with space")) == ["command(blank)"]
    assert found(home, [str(home / "work"), str(home / "work" / "sub")]) == ["command(below)", *mine]


def test_a_project_cannot_switch_questions_off(home: Path) -> None:
    data = {"name": str(home / "work"), "toolPermission": "always-proceed", "dangerouslySkipPermissions": True}
    write(home, "1.json", data)
    sources = project_sources(home, str(home / "work"))
    assert len(sources) == 2
    ruled = Policy.compile(sources, workspace=str(home / "work"))
    assert ruled.decide(Request("command", "ls")).decision == "ask"


@pytest.mark.parametrize("there", [True, False])
def test_nobody_makes_a_project_of_a_workspace_unasked(home: Path, there: bool) -> None:
    folder = home / ".gemini" / "config" / "projects"
    if not there:
        folder.rmdir()
    sources = project_sources(home, str(home))
    ruled = Policy.compile(sources, workspace=str(home), flags=["--dangerously-skip-permissions"])
    for target in (folder / "new.json", folder, folder.parent):
        assert ruled.decide(Request("write_file", str(target))).decision == "ask"
        assert ruled.decide(Request("command", f"echo x > {target}")).decision == "ask"
    assert ruled.decide(Request("write_file", str(folder.parent / "other.json"))).decision == "allow"
    assert ruled.decide(Request("read_file", str(folder / "1.json"))).decision == "allow"


def test_a_file_that_cannot_be_read_may_hold_a_deny_for_this_workspace(home: Path) -> None:
    path = write(home, "1.json", "{")
    sources = project_sources(home, "/w")
    assert [source.file for source in sources] == [str(path.parent), str(path)]
    assert Policy.compile(sources, workspace="/w").incomplete
    path.unlink()
    path.mkdir()
    assert Policy.compile(project_sources(home, "/w"), workspace="/w").incomplete


def test_there_is_an_end_to_how_much_is_looked_at(home: Path) -> None:
    for number in range(PROJECT_LIMIT + 1):
        write(home, f"{number}.json", "{}")
    sources = project_sources(home, "/w")
    assert len(sources) == 2
    assert Policy.compile(sources, workspace="/w").incomplete
    write(home, "0.json", {"projectResources": [{"x": [1] * 20_000}, {"folderUri": "file:///none"}]})
    *_, large, _ = project_sources(home, str(home / "work"))
    assert [fault.effect for fault in large.faults] == ["unreadable"]
