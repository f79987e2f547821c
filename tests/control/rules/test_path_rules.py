"""Rules about files on real folder trees: boundaries, links, other names, other volumes."""

import os
from pathlib import Path

import pytest
from helpers.policies import policy, verdict

from antigravity_control import Request
from antigravity_control.language.paths import Paths, case_folds, resolve

SKIP = ["--dangerously-skip-permissions"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace ``w`` beside a folder ``outside``."""
    (tmp_path / "w" / "src").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("key")
    (tmp_path / "w" / "src" / "a").write_text("a")
    return tmp_path.resolve()


def says(root: Path, action: str, target: str, **options: object) -> str:
    return verdict(action, target.replace("{root}", str(root)), workspace=str(root / "w"), **options)  # type: ignore[arg-type]  # a test's own words


@pytest.mark.parametrize(
    ("action", "target", "expected"),
    [
        ("read_file", "{root}/w/src/a", "allow"),
        ("read_file", "src/a", "allow"),
        ("read_file", "./src//a", "allow"),
        ("read_file", "../outside/key", "ask"),
        ("write_file", "src/../../outside/new", "ask"),
        ("write_file", "new/deep/file", "allow"),
        ("read_file", "{root}/w2", "ask"),
        ("read_file", "{root}", "ask"),
        ("read_file", "/", "ask"),
        ("write_file", ".vscode/settings.json", "ask"),
        ("read_file", ".vscode/settings.json", "allow"),
        ("read_file", "~/x", "ask"),
        ("read_file", "~other/x", "ask"),
        ("read_file", "a\0b", "ask"),
        ("read_file", "x/" * 20_000, "ask"),
        ("read_file", "", "ask"),
    ],
)
@pytest.mark.requirement("B-006")
def test_the_workspace_is_open_and_nothing_else_is(root: Path, action: str, target: str, expected: str) -> None:
    assert says(root, action, target) == expected


def test_a_link_that_is_made_after_the_rules_were_compiled_counts(root: Path) -> None:
    ruled = policy(workspace=str(root / "w"), allow=[f"write_file({root}/w)"], deny=[f"read_file({root}/outside)"])
    target = Request("write_file", str(root / "w" / "later" / "key"))
    assert ruled.decide(target).decision == "allow"
    (root / "w" / "later").symlink_to(root / "outside")
    assert ruled.decide(target).decision == "deny"


def test_tools_that_drop_dot_dot_as_text_and_tools_that_do_not_are_both_thought_of(root: Path) -> None:
    (root / "outside" / "in").symlink_to(root / "w" / "src")
    (root / "w" / "out").symlink_to(root / "outside")
    # Inside for the kernel, outside as text; and the other way round.
    for target in ("{root}/outside/in/../a", "{root}/w/out/../a"):
        for action in ("read_file", "write_file"):
            assert says(root, action, target) == "ask"


def test_a_denied_name_that_becomes_a_link_stays_denied(root: Path) -> None:
    ruled = policy(workspace=str(root / "w"), deny=["read_file(later)"])
    (root / "w" / "later").symlink_to("src")
    assert ruled.decide(Request("read_file", "later/a")).decision == "deny"
    assert ruled.decide(Request("read_file", "src/a")).decision == "allow"


def test_a_rule_for_a_folder_in_the_workspace_does_not_follow_a_link_out_of_it(root: Path) -> None:
    (root / "w" / "build").symlink_to(root / "outside")
    for rule in ("write_file(build)", f"write_file({root}/w/build)"):
        ruled = policy(workspace=str(root / "w"), allow=[rule])
        assert ruled.decide(Request("write_file", "build/x")).decision == "ask"
        assert [fault.effect for fault in ruled.faults] == ["inert"]


def test_a_rule_for_a_link_outside_the_workspace_covers_where_it_leads(root: Path) -> None:
    (root / "alias").symlink_to("outside")
    assert says(root, "read_file", "{root}/alias/key", allow=[f"read_file({root}/alias)"]) == "allow"
    assert says(root, "read_file", "{root}/outside/key", deny=[f"read_file({root}/alias)"]) == "deny"


def test_another_name_of_a_denied_file_is_denied_also_below_a_denied_folder(root: Path) -> None:
    (root / "w" / "copy").hardlink_to(root / "outside" / "key")
    for rule in (f"read_file({root}/outside/key)", f"read_file({root}/outside)"):
        assert says(root, "read_file", "copy", allow=["read_file(*)"], deny=[rule]) == "deny"
        assert says(root, "read_file", "copy", allow=["read_file(*)"], deny=[rule], flags=SKIP) == "deny"
    assert says(root, "read_file", "copy", ask=[f"read_file({root}/outside)"]) == "ask"
    assert says(root, "read_file", "src/a", deny=[f"read_file({root}/outside)"]) == "allow"


@pytest.mark.skipif(not os.path.exists("/proc/self/root"), reason="needs the process file system of Linux")
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/proc/self/root{root}/outside/key", "deny"),
        ("/proc/thread-self/root{root}/outside/key", "deny"),
        ("/proc/1/root{root}/outside/key", "deny"),
        ("/proc/self/task/1/root/{root}/outside/key", "deny"),
        ("/proc/self/cwd/x", "ask"),
        ("/proc/self/fd/3", "ask"),
        ("/dev/fd/3", "ask"),
        ("{root}/w/up/outside/key", "deny"),
    ],
)
def test_aliases_of_the_process_file_system_do_not_get_round_a_deny(root: Path, target: str, expected: str) -> None:
    (root / "w" / "up").symlink_to("/proc/self/root" + str(root))
    options = {"allow": ["read_file(*)"], "deny": [f"read_file({root}/outside)"]}
    assert says(root, "read_file", target, **options) == expected
    assert says(root, "read_file", target, flags=SKIP, **options) == expected


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("C:\\w\\src\\a", "allow"),
        ("c:/w/SRC/a", "allow"),
        ("src\\a", "allow"),
        ("C:\\w\\..\\x", "ask"),
        ("D:\\w\\a", "ask"),
        ("\\\\?\\C:\\w\\a", "allow"),
        ("\\\\server\\share\\a", "ask"),
        ("C:\\w\\.env", "deny"),
        ("C:\\w\\.ENV.", "deny"),
        ("C:\\w\\.env::$DATA", "deny"),
        ("D:\\w\\.env", "deny"),
        ("C:\\w\\PROGRA~1\\x", "ask"),
        ("C:x", "ask"),
    ],
)
def test_paths_as_windows_writes_them(target: str, expected: str) -> None:
    assert verdict("read_file", target, workspace="C:\\w", deny=["read_file(.env)"]) == expected


def test_the_drive_letter_counts_only_where_both_name_one() -> None:
    assert verdict("read_file", "C:\\data\\x", allow=["read_file(C:\\data)"]) == "allow"
    assert verdict("read_file", "C:\\data\\x", allow=["read_file(/data)"]) == "allow"
    assert verdict("read_file", "D:\\data\\x", allow=["read_file(C:\\data)"]) == "ask"
    assert verdict("read_file", "D:\\data\\x", allow=["read_file(*)"], deny=["read_file(C:\\data)"]) == "deny"


def test_a_volume_that_ignores_case_is_denied_and_allowed_in_any_case(root: Path) -> None:
    for folds, expected in ((lambda _: True, "deny"), (lambda _: False, "ask")):
        assert (
            says(root, "read_file", "{root}/OUTSIDE/Key", deny=[f"read_file({root}/outside)"], folds=folds) == expected
        )
    assert says(root, "read_file", "SRC/A", allow=[f"read_file({root}/W)"], folds=lambda _: True) == "allow"


def test_whether_a_volume_ignores_case_is_found_out(root: Path) -> None:
    (root / "Probe").touch()
    assert case_folds(str(root / "Probe")) == (root / "pROBE").exists()
    assert not case_folds("/")


def test_links_are_followed_as_the_kernel_does(root: Path) -> None:
    (root / "w" / "deep").symlink_to(root / "outside")
    (root / "w" / "loop").symlink_to("loop")
    (root / "w" / "chain").symlink_to("deep/../w/src")
    assert resolve(f"{root}/w/deep/../x") == ((*root.parts[1:], "x"), None)
    assert resolve(f"{root}/w/chain/a") == ((*root.parts[1:], "w", "src", "a"), None)
    assert resolve(f"{root}/w/loop/a")[1] is not None
    for path in (f"{root}/w/deep/key", f"{root}/w/chain/a", f"{root}/w/nothing/../src"):
        assert "/" + "/".join(resolve(path)[0]) == os.path.realpath(path)


def test_a_search_of_a_folder_reaches_what_is_denied_below_it(root: Path) -> None:
    ruled = policy(workspace=str(root / "w"), deny=["read_file(src/a)"])
    assert ruled.decide(Request("read_file", ".", recursive=True)).decision == "ask"
    assert ruled.decide(Request("read_file", "docs", recursive=True)).decision == "allow"
    assert ruled.decide(Request("read_file", ".")).decision == "allow"


@pytest.mark.parametrize(
    ("rules", "reads", "writes"),
    [
        ({"allow": ["write_file(/srv/a)"]}, "allow", "allow"),
        ({"allow": ["read_file(/srv/a)"]}, "allow", "ask"),
        ({"allow": ["write_file(*)"], "deny": ["read_file(/srv/a)"]}, "deny", "deny"),
        ({"allow": ["write_file(*)"], "deny": ["write_file(/srv/a)"]}, "allow", "deny"),
        ({"allow": ["write_file(*)"], "ask": ["write_file(/srv/a)"]}, "allow", "ask"),
        ({"allow": ["write_file(*)"], "ask": ["read_file(/srv/a)"]}, "ask", "allow"),
    ],
)
@pytest.mark.requirement("B-005")
def test_what_reading_and_writing_say_about_each_other(rules: dict[str, list[str]], reads: str, writes: str) -> None:
    assert verdict("read_file", "/srv/a/x", **rules) == reads
    assert verdict("write_file", "/srv/a/x", **rules) == writes


def test_several_workspace_folders() -> None:
    from antigravity_control import Policy, Source

    source = Source("global", {"permissions": {"deny": ["read_file(.env)"]}})
    ruled = Policy.compile([source], workspace=["/w", "/v"])
    decided = [ruled.decide(Request("read_file", path)).decision for path in ("/v/a", "/v/.env", "/w/.env", "/u/a")]
    assert decided == ["allow", "deny", "deny", "ask"]


@pytest.mark.parametrize("workspace", ["", "w", "./w", []])
def test_a_workspace_that_is_no_absolute_path_is_an_error(workspace: str | list[str]) -> None:
    from antigravity_control import Policy

    with pytest.raises(ValueError, match="workspace"):
        Policy.compile([], workspace=workspace)


def test_no_text_makes_the_reading_of_paths_fail() -> None:
    reader = Paths("/w", None)
    for text in ("\ud800", "/" * 5_000, "../" * 4_000, "~", "~/", "a" * 300, "/proc/self/fd", "\\\\", "C:", "//"):
        assert reader.read(text).opaque is not None or reader.read(text).resolved, text[:20]
