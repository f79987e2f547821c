"""Every way to a file, on one real folder tree: what leads out asks, what leads to a denied place is denied.

Each way is asked about for reading and writing, by the tools' actions and by redirections of a command line.
"""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers.policies import policy, verdict

from antigravity_control import ActionName, Request

SKIP = ["--dangerously-skip-permissions"]
BOTH: tuple[ActionName, ...] = ("read_file", "write_file")
LINKS = {
    "w/link": "{root}/outside", "w/rel": "../outside", "w/dangle": "{root}/outside/not-yet", "w/dangledir": "../none",
    "w/self": "self", "w/l1": "l2", "w/l2": "l1", "w/in": "src", "w/chain": "in", "w/filelink": "../outside/key",
    "w/g": ".git", "w/e": ".env", "ws": "w", "w/deep": "{root}/outside/deep", "outside/back": "{root}/w/src",
    "w/root": "/", "w/up": "..", "w/dot": ".", "w/inout": "{root}/outside/back", "w/dangin": "newfile",
    "w/danginout": "up/none", "outside/esc": "{root}/secret",
}  # fmt: skip
PROC = {"w/procroot": "/proc/self/root", "w/proccwd": "/proc/self/cwd", "w/fd": "/dev/fd"}
HAS_PROC = os.path.exists("/proc/self/root")

OUT = [
    "link", "link/", "link/.", "link/key", "link/new", "link//key", "./link/./key", "rel/key", "rel/../outside/key",
    "filelink", "dangle", "dangledir", "dangledir/x", "self", "self/x", "l1", "l1/x", "deep/../x", "root/etc/passwd",
    "up", "up/x", "up/outside/key", "danginout", "{root}/ws/link/key", "dot/link/key", "src/../link/key",
    "in/../link/key", "chain/../../outside/key", "{root}//outside//key", "{root}/w/../outside/key", "../outside/key",
    "src/../../outside/key", "nothing/../link/key", "nothing/../../outside/key", "link/nothing/../key", "{root}/w2",
    "{root}", "~/x", "~", "~other", "a\0b", "", "../" * 3000 + "etc", "C:\\x", "\\\\server\\share\\x", "\\\\?\\C:\\x",
    "\\\\?\\UNC\\server\\share\\x", "\\??\\C:\\x", "\\\\.\\PhysicalDrive0",
]  # fmt: skip
OUT_PROC = ["procroot/etc/passwd", "proccwd/x", "fd/3", "/proc/self/root{root}/outside/key", "/proc/self/cwd/x",
            "/proc/1/root/etc", "/dev/fd/0", "/dev/stdin", "/proc/self/environ"]  # fmt: skip
IN = [
    "src/a", "in/a", "chain/a", "inout/a", "dot/src/a", "{root}/ws/src/a", "{root}/w/", ".", "./", "src/.", "src//a",
    "./src/../src/a", "up/w/src/a", "dangin", "new/deep/file", "a\nb", "é", "e\u0301", "./~x", " x", "x ", "-x",
    "{a,b}",
    "*", "?", "[a]", "$HOME", "...", "..x", "src/..", "nothing/../src/a", "{root}/outside/back/a", "a" * 300,
    "a/" * 1000 + "b", "x/../" * 2000 + "src/a",
]  # fmt: skip
KEY = [
    "link/key", "rel/key", "filelink", "{root}/outside/key", "../outside/key", "up/outside/key", "hard", "link",
    "dangle",
    "{root}/ws/link/key", "dot/dot/link/key", "link/newfile", "root{root}/outside/key", "{root}/outside/",
]  # fmt: skip
KEY_PROC = ["procroot{root}/outside/key", "/proc/self/root{root}/outside/key",
            "/proc/thread-self/root{root}/outside/key",
            "//proc/./self/root/{root}/outside/key", "/proc/self/../self/root{root}/outside/key"]  # fmt: skip
DENIES = ["{root}/outside", "{root}/outside/", "{root}/outside/.", "{root}//outside", "link", "{root}/w/link", "rel",
          "../outside", "{root}/w/../outside", "{root}/ws/link", "src/../link"]  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve()
    for folder in ("w/src", "w/.git", "outside/deep", "secret"):
        (root / folder).mkdir(parents=True)
    for file in ("w/src/a", "w/x", "w/.env", "w/.git/config", "outside/key", "outside/x", "secret/k"):
        (root / file).touch()
    for name, to in {**LINKS, **(PROC if HAS_PROC else {})}.items():
        (root / name).symlink_to(to.replace("{root}", str(root)))
    (root / "w" / "hard").hardlink_to(root / "outside" / "key")
    (root / "w" / "src" / "envcopy").hardlink_to(root / "w" / ".env")
    return root


def says(root: Path, action: ActionName, target: str, *, workspace: str = "w", **options: Any) -> str:
    placed = {
        name: [each.replace("{root}", str(root)) for each in value] if name in ("allow", "ask", "deny") else value
        for name, value in options.items()
    }
    return verdict(action, target.replace("{root}", str(root)), workspace=str(root / workspace), **placed)


def differing(root: Path, expected: str, targets: list[str], *actions: ActionName, **options: Any) -> list[Any]:
    said = [(action, each[:80], says(root, action, each, **options)) for each in targets for action in actions or BOTH]
    return [each for each in said if each[2] != expected]


def test_what_leads_out_of_the_workspace_or_nowhere_asks(root: Path) -> None:
    ways = [*OUT, *(OUT_PROC if HAS_PROC else ())]
    assert differing(root, "ask", ways) == []
    assert differing(root, "soft", ways, mode="headless") == []
    assert differing(root, "ask", ways, workspace="ws") == []
    assert differing(root, "ask", ways, allow=["write_file({root}/w)", "read_file(link)"]) == []


def test_what_stays_in_the_workspace_does_not(root: Path) -> None:
    assert differing(root, "allow", IN) == []
    assert differing(root, "allow", IN, workspace="ws") == []
    assert differing(root, "allow", IN, "read_file", mode="headless") == []
    assert differing(root, "soft", IN, "write_file", mode="headless") == []
    assert differing(root, "allow", IN, mode="headless", allow=["write_file({root}/ws)"]) == []


@pytest.mark.parametrize("folder", DENIES)
def test_a_denied_folder_is_denied_by_every_way_to_it(root: Path, folder: str) -> None:
    ways = [*KEY, *(KEY_PROC if HAS_PROC else ())]
    wide = {"allow": ["read_file(*)", "write_file(*)"]}
    assert differing(root, "deny", ways, deny=[f"read_file({folder})"], **wide) == []
    assert differing(root, "deny", ways, deny=[f"read_file({folder})"], flags=SKIP, **wide) == []
    assert differing(root, "ask", ways, "read_file", ask=[f"read_file({folder})"], **wide) == []
    assert differing(root, "allow", ["src/a", "in/a", ".env"], deny=[f"read_file({folder})"], **wide) == []


@pytest.mark.parametrize("file", [".env", "{root}/w/.env", "e", "src/../.env", ".env/", "{root}/ws/.env", "up/w/e"])
def test_a_denied_file_of_the_workspace_is_denied_by_every_name(root: Path, file: str) -> None:
    ways = [
        ".env",
        "e",
        "src/envcopy",
        "./.env",
        "{root}/ws/.env",
        "in/../.env",
        ".env/",
        ".env/.",
        "x/../" * 2000 + ".env",
    ]
    assert differing(root, "deny", ways, deny=[f"read_file({file})"]) == []
    assert differing(root, "allow", [".env.x", ".en", "x.env", "src/.env"], deny=[f"read_file({file})"]) == []


@pytest.mark.parametrize("folder", [".git/", "{root}/w/.git", "g", "{root}/ws/.git"])
def test_a_folder_that_must_not_be_written_may_be_read_by_every_way(root: Path, folder: str) -> None:
    ways = [
        ".git",
        ".git/",
        ".git/.",
        ".git/config",
        "g",
        "g/config",
        "g/new",
        "src/../.git/x",
        "dot/.git/x",
        "up/w/.git/x",
    ]
    assert differing(root, "deny", ways, "write_file", deny=[f"write_file({folder})"], allow=["write_file(*)"]) == []
    assert differing(root, "allow", ways, "read_file", deny=[f"write_file({folder})"]) == []


@pytest.mark.parametrize(
    ("expected", "action", "target", "rules"),
    [
        ("allow", "read_file", "{root}/outside/key", {"allow": ["read_file({root}/outside)"]}),
        ("allow", "read_file", "link/key", {"allow": ["read_file({root}/outside/)"]}),
        ("allow", "read_file", "{root}/outside/key", {"allow": ["write_file({root}/outside)"]}),
        ("ask", "read_file", "{root}/outside/key", {"allow": ["read_file({root}/out)"]}),
        ("ask", "write_file", "{root}/outside/key", {"allow": ["read_file({root}/outside)"]}),
        ("ask", "read_file", "link/key", {"allow": ["read_file(link)"]}),
        ("ask", "read_file", "{root}/outside/esc/k", {"allow": ["read_file({root}/outside)"]}),
        ("ask", "write_file", "{root}/outside/esc/new", {"allow": ["write_file({root}/outside)"]}),
        ("allow", "read_file", "{root}/outside/esc/k", {"allow": ["read_file({root}/secret)"]}),
        ("deny", "read_file", "src/a", {"deny": ["read_file({root})"], "allow": ["read_file({root}/w)"]}),
        ("deny", "write_file", "src/a", {"deny": ["write_file(/)"]}),
        ("allow", "read_file", "src/a", {"allow": ["read_file({root})"], "deny": ["read_file({root}/outside)"]}),
        ("deny", "write_file", "later/x", {"deny": ["write_file(later)"]}),
        ("deny", "write_file", "up/none/x", {"deny": ["read_file({root}/none)"], "allow": ["write_file(*)"]}),
        ("deny", "write_file", "dangledir/x", {"deny": ["read_file({root}/none)"], "allow": ["write_file(*)"]}),
        ("allow", "write_file", "{root}/none/x", {"allow": ["write_file({root}/none)"]}),
        *(
            ("ask", "read_file", "{root}/outside/key", {"allow": [f"read_file({{root}}/{pattern})"]})
            for pattern in ("outside/**", "outside/*", "outside/?ey", "outside/{key,x}", "out*", "**", "**/key")
        ),
    ],
)
def test_where_a_rule_reaches(
    root: Path, expected: str, action: ActionName, target: str, rules: dict[str, list[str]]
) -> None:
    assert says(root, action, target, **rules) == expected
    assert says(root, action, target, workspace="ws", **rules) == expected


def test_redirections_go_the_same_ways(root: Path) -> None:
    plain = {"allow": ["command(echo)", "command(cat)"]}
    for way in (
        "link/n",
        "rel/n",
        "dangle",
        "dangledir/x",
        "self/x",
        "up/n",
        "deep/../n",
        "filelink",
        "../n",
        "in/../link/n",
    ):
        for text in (f"echo x > {way}", f'echo x >> "{way}"', f"cat < {way}"):
            assert says(root, "command", text, **plain) == "ask", text
            assert says(root, "command", text, mode="headless", **plain) == "soft", text
            assert says(root, "command", text, deny=["read_file(*)"], **plain) == "deny", text
    for way in ("src/n", "in/n", "dot/n", "new/n", "{root}/w/n", "{root}/ws/n", "dangin"):
        assert says(root, "command", f"echo x > {way}", **plain) == "allow", way
    for text in (
        "cat link/key",
        "cat < hard",
        "cat e",
        "cd link && cat key",
        "cat < src/envcopy",
        "cd src; cat ../.env",
    ):
        denied = ["read_file({root}/outside)", "read_file(.env)"]
        assert says(root, "command", text, allow=["command(*)"], deny=denied) == "deny", text
    assert says(root, "command", "echo x > g/config", allow=["command(*)"], deny=["write_file(.git/)"]) == "deny"


def test_a_program_of_the_workspace_is_not_the_one_that_a_rule_names(root: Path) -> None:
    (root / "w" / "bin").mkdir()
    (root / "w" / "bin" / "git").touch()
    (root / "w" / "bin" / "g").symlink_to("git")
    for name in ("{root}/w/bin/git", "./bin/git", "bin/git", "bin/../bin/git", '"{root}/w/bin/git"', "./bin/g"):
        assert says(root, "command", f"{name} status", allow=["command(git)"]) == "ask", name
        assert says(root, "command", f"{name} status", allow=["command(*)"], deny=["command(git)"]) == "deny", name
    assert says(root, "command", "./bin/git status", allow=["command(./bin/git)"]) == "allow"


def test_a_parent_that_becomes_a_link_counts_from_then_on(root: Path) -> None:
    parent = root / "w" / "later"
    parent.mkdir()
    ruled = policy(workspace=str(root / "w"), deny=[f"read_file({root}/outside)"])
    asked = [Request("read_file", "later/key"), Request("command", "cat later/key"), Request("write_file", "later/key")]
    assert [ruled.decide(each).decision for each in asked] == ["allow", "ask", "allow"]
    shutil.rmtree(parent)
    parent.symlink_to("../outside")
    assert [ruled.decide(each).decision for each in asked] == ["deny"] * 3


def test_a_name_that_is_no_text_is_a_name_like_any_other(root: Path) -> None:
    for raw in (b"\xff", b"a\nb", b"caf\xc3\xa9", b" .env "):
        name = os.fsdecode(raw)
        (root / "w" / name).touch()
        (root / "w" / f"link{name}").symlink_to(name)
        # Blanks around a target of a rule are not part of it.
        rule = f"read_file({root}/w/{name}/)"
        for way in (name, f"./{name}", f"link{name}", f"dot/{name}", f"{root}/ws/{name}"):
            assert says(root, "read_file", way, deny=[rule]) == "deny", (raw, way)


@pytest.mark.parametrize(
    ("expected", "target"),
    [
        ("deny", "\\\\?\\C:\\w\\.env"), ("deny", "\\\\.\\C:\\w\\.env"), ("deny", "\\??\\C:\\w\\.env"),
        ("deny", "\\w\\.env"),
        ("deny", "src\\..\\.ENV"), ("deny", ".env ..."), ("deny", "/w/.env"), ("deny", "\\\\localhost\\C$\\w\\.env"),
        ("deny", "\\\\?\\UNC\\127.0.0.1\\c$\\w\\.env"), ("ask", "\\\\?\\GLOBALROOT\\Device\\HarddiskVolume1\\w\\.env"),
        ("ask", "\\\\?\\Volume{1}\\w\\.env"), ("ask", "C:.env"), ("ask", "\\\\host\\d$\\other"),
        ("allow", "\\\\host\\d\\other"),
        ("deny", "\\\\?\\UNC\\server\\share\\x"), ("deny", "\\\\server\\share"), ("allow", "src\\a"),
    ],
)  # fmt: skip
def test_names_of_windows_that_lead_to_the_same_file(expected: str, target: str) -> None:
    rules = {"allow": ["read_file(*)"], "deny": ["read_file(.env)", "read_file(\\\\server\\share)"]}
    assert verdict("read_file", target, workspace="C:\\w", **rules) == expected
    assert verdict("read_file", target, workspace="C:\\w", flags=SKIP, **rules) == expected


def test_a_policy_knows_whether_its_folders_and_rules_still_lead_where_they_led(root: Path) -> None:
    turned = root / "turned"
    turned.symlink_to("outside")
    made = [
        policy(workspace=str(root / "ws"), deny=["read_file(src)"]),
        policy(workspace=str(root / "w"), deny=[f"read_file({turned}/key)"]),
        policy(workspace=str(root / "w"), allow=[f"read_file({root}/not-yet/x)"]),
        policy(workspace=str(root / "w"), trustedWorkspaces=[f"{root}/trusted"]),
        policy(workspace=str(root / "w")).with_grants([f"read_file({turned})"]),
    ]
    still = policy(workspace=str(root / "w"), deny=["read_file(src)", "command(rm)"])
    assert all(each.holds() for each in (*made, still, *(each.attended("headless") for each in made)))
    (root / "ws").unlink()
    (root / "ws").symlink_to("secret")
    turned.unlink()
    turned.symlink_to("secret")
    (root / "not-yet").symlink_to("outside")
    (root / "trusted").symlink_to("w")
    assert not any(each.holds() or each.attended("headless").holds() for each in made)
    assert still.holds()
