"""What a plan becomes: grants that would make the sandbox worthless are refused, and places are cleaned up."""

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from helpers import bubblewrap

from antigravity_control.sandbox import SandboxError, SandboxPlan, backend, backends, layout, sandboxed, wrap
from antigravity_control.sandbox import bubblewrap as bubblewrap_backend


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home / "project"


def refused(workspace: Path, **plan: Any) -> str:
    with pytest.raises(SandboxError) as caught:
        layout(SandboxPlan(workspace=workspace, **plan))
    return caught.value.code


@pytest.mark.parametrize(
    "grant", ["/", "//", "/..", "/proc", "/proc/1", "/dev/null", "/dev", "/sys/fs", "~/**", "src/*.py", "a?", "\0"]
)
@pytest.mark.parametrize("kind", ["readable", "writable"])
def test_a_grant_that_cannot_be_one_is_refused(workspace: Path, grant: str, kind: str) -> None:
    assert refused(workspace, **{kind: (Path(grant),)}) == "SANDBOX_BAD_GRANT"


def test_a_link_to_a_refused_place_is_refused(workspace: Path) -> None:
    (workspace.parent / "root").symlink_to("/")
    (workspace.parent / "kernel").symlink_to("/proc")
    for name in ("root", "kernel"):
        assert refused(workspace, readable=(workspace.parent / name,)) == "SANDBOX_BAD_GRANT"


@pytest.mark.parametrize("kind", ["readable", "writable"])
@pytest.mark.parametrize("through", ["link", "link/inner", "chain"])
def test_a_command_cannot_turn_a_grant_elsewhere_by_a_link_of_its_own(workspace: Path, kind: str, through: str) -> None:
    """The first command replaces a granted directory by a link; the next one must not get what it leads to."""
    outside = workspace.parent / ".ssh"
    (outside / "inner").mkdir(parents=True)
    (workspace / "link").symlink_to(outside)
    (workspace.parent / "chain").symlink_to(workspace / "link")
    grant = workspace.parent / "chain" if through == "chain" else workspace / through
    assert refused(workspace, **{kind: (grant,)}) == "SANDBOX_BAD_GRANT"


def test_a_link_in_a_writable_directory_counts_as_the_commands_own(workspace: Path) -> None:
    shared, outside = workspace.parent / "shared", workspace.parent / ".ssh"
    shared.mkdir()
    outside.mkdir()
    (shared / "link").symlink_to(outside)
    assert layout(SandboxPlan(workspace=workspace, readable=(shared / "link",))).readable == (outside,)
    assert refused(workspace, writable=(shared,), readable=(shared / "link",)) == "SANDBOX_BAD_GRANT"


def test_paths_are_made_absolute_real_and_few(workspace: Path) -> None:
    for name in ("a/inner", "b", "c[1]"):
        (workspace.parent / name).mkdir(parents=True)
    (workspace.parent / "to-b").symlink_to("b")
    laid = layout(
        SandboxPlan(
            workspace=workspace,
            readable=(Path("../a"), Path("../a/inner"), Path("~/to-b"), Path("src"), Path("../c[1]"), Path("../gone")),
            writable=(Path("../a/inner"), Path(".")),
        )
    )
    home = workspace.parent
    assert laid.readable == (home / "a", home / "b", home / "c[1]")
    assert laid.writable == (home / "a/inner",)
    assert laid.links == ((home / "to-b", home / "b"),)
    assert laid.missing == (workspace / "src", home / "gone")


def test_a_workspace_that_is_a_link_is_confined_where_it_leads(workspace: Path) -> None:
    (workspace.parent / "link").symlink_to(workspace)
    assert layout(SandboxPlan(workspace=workspace.parent / "link")).workspace == workspace


@pytest.mark.parametrize("where", ["missing", "file", "/proc/self"])
def test_a_workspace_that_is_none_is_refused(workspace: Path, where: str) -> None:
    (workspace / "file").touch()
    assert refused(workspace / where) == "SANDBOX_BAD_WORKSPACE"


def test_a_git_that_is_a_link_is_refused_since_the_link_cannot_be_kept(workspace: Path) -> None:
    (workspace / ".git").symlink_to(workspace.parent)
    assert refused(workspace) == "SANDBOX_BAD_WORKSPACE"
    assert layout(SandboxPlan(workspace=workspace, protect=())).protected == ()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0"])
def test_a_protected_name_is_a_name(workspace: Path, name: str) -> None:
    assert refused(workspace, protect=(name,)) == "SANDBOX_BAD_WORKSPACE"


def test_a_granted_repository_keeps_its_git_too(workspace: Path) -> None:
    (workspace.parent / "other/.git").mkdir(parents=True)
    laid = layout(SandboxPlan(workspace=workspace, writable=(workspace.parent / "other",)))
    assert laid.protected == (workspace.parent / "other/.git",)


# ---- what must not be read or written -------------------------------------------------------------------------------
def test_hidden_and_kept_places_are_real_and_their_way_is_pinned(workspace: Path) -> None:
    for name in ("a/b/c", "src", "home-of-none"):
        (workspace / name).mkdir(parents=True)
    (workspace / "link").symlink_to("a/b")
    laid = layout(
        SandboxPlan(
            workspace=workspace,
            hidden=(workspace / "link" / "c", Path("a/b/c"), Path("gone"), Path("\0"), workspace.parent / ".ssh"),
            kept=(Path("src"), workspace.parent),
        )
    )
    assert laid.hidden == (workspace / "a/b/c",)
    assert laid.pinned == (workspace / "a", workspace / "a/b")
    # A kept place around the workspace makes that read-only, and shows no more.
    assert laid.protected == (workspace / "src", workspace)


@pytest.mark.parametrize("place", [".", "..", "/", "~"])
def test_a_workspace_that_must_not_be_read_is_refused(workspace: Path, place: str) -> None:
    assert refused(workspace, hidden=(Path(place),)) == "SANDBOX_BAD_WORKSPACE"


def test_repositories_further_down_are_protected_and_links_not_followed(workspace: Path) -> None:
    elsewhere = workspace.parent / "elsewhere/.git"
    elsewhere.mkdir(parents=True)
    for name in ("nested/.git", "vendor/bare.git/objects", "vendor/bare.git/refs", "deep/er/sub"):
        (workspace / name).mkdir(parents=True)
    (workspace / "vendor/bare.git/HEAD").write_text("ref: refs/heads/main\n")
    (workspace / "deep/er/sub/.git").write_text("gitdir: ../../../.git/modules/sub\n")
    (workspace / "link").symlink_to(elsewhere.parent)
    laid = layout(SandboxPlan(workspace=workspace))
    assert set(laid.protected) == {
        workspace / "nested/.git", workspace / "vendor/bare.git", workspace / "deep/er/sub/.git"
    }  # fmt: skip
    assert set(laid.pinned) == {workspace / name for name in ("nested", "vendor", "deep", "deep/er", "deep/er/sub")}
    assert layout(SandboxPlan(workspace=workspace, protect=())).protected == ()


def test_a_workspace_that_is_a_bare_repository_keeps_its_parts(workspace: Path) -> None:
    for name in ("objects", "refs", "hooks"):
        (workspace / name).mkdir()
    for name in ("HEAD", "config", "notes"):
        (workspace / name).touch()
    laid = layout(SandboxPlan(workspace=workspace))
    assert {each.name for each in laid.protected} == {"HEAD", "objects", "refs", "config", "hooks"}


# ---- the program ----------------------------------------------------------------------------------------------------
def program(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "bwrap").write_text(f"#!/bin/bash\n{text}\n")
    (folder / "bwrap").chmod(0o755)
    # Nothing but it: a program of the system would be taken first.
    monkeypatch.setenv("PATH", str(folder))


def test_without_a_program_it_says_what_to_do(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(workspace))
    with pytest.raises(SandboxError, match="Install bubblewrap") as caught:
        backend(platform="linux")
    assert caught.value.code == "SANDBOX_MISSING"


def test_a_program_of_the_working_directory_is_not_taken(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(workspace / "bin", "exit 0", monkeypatch)
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("PATH", "bin:.:")
    with pytest.raises(SandboxError) as caught:
        backend(platform="linux")
    assert caught.value.code == "SANDBOX_MISSING"


@pytest.mark.parametrize(
    "text",
    [
        "exit 1",
        # runs what it is given, without any sandbox
        'while [ "${1:---}" != -- ]; do shift; done; shift; cd "$OLDPWD"; exec "$@"',
        # says what the test wants to hear
        "echo confined; for each in user mnt pid net ipc; do readlink /proc/self/ns/$each; done",
        "sleep 60 & sleep 60",
    ],
    ids=["fails", "does nothing", "pretends", "hangs"],
)
def test_a_program_that_does_not_confine_is_not_used(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    program(tmp_path / "bin", text, monkeypatch)
    monkeypatch.setattr(backends, "SELF_TEST_S", 0.5)
    with (
        pytest.raises(SandboxError, match="does not confine") as caught,
        sandboxed(["touch", "ran"], SandboxPlan(workspace=workspace)),
    ):
        pytest.fail("it was made")
    assert caught.value.code == "SANDBOX_BROKEN"
    assert list(workspace.iterdir()) == []


def test_a_program_where_commands_may_write_is_not_used(workspace: Path) -> None:
    with pytest.raises(SandboxError) as caught:
        wrap(["true"], SandboxPlan(workspace=workspace), platform="linux", program=str(workspace / "bwrap"))
    assert caught.value.code == "SANDBOX_BROKEN"


MARKER = 'echo ran > "{marker}"'


@pytest.mark.parametrize("how", ["program", "link to it", "link in the workspace"])
def test_a_program_where_commands_may_write_is_not_even_started(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The proof runs outside of any sandbox: a command that leaves a `bwrap` in a virtual environment of the workspace,
    which is first on PATH, must not get its next line run there."""
    marker = tmp_path / "marker"
    outside, place = tmp_path / "bin", workspace / ".venv/bin"
    program(outside, MARKER.format(marker=marker), monkeypatch)
    place.mkdir(parents=True)
    if how == "program":
        (outside / "bwrap").rename(place / "bwrap")
    elif how == "link to it":
        (outside / "bwrap").rename(place / "bwrap")
        (outside / "bwrap").symlink_to(place / "bwrap")
    else:
        (place / "bwrap").symlink_to(outside / "bwrap")
    monkeypatch.setenv("PATH", str(outside if how == "link to it" else place))
    with (
        pytest.raises(SandboxError, match="may write") as caught,
        sandboxed(["touch", "ran"], SandboxPlan(workspace=workspace)),
    ):
        pytest.fail("it was made")
    assert caught.value.code == "SANDBOX_BROKEN"
    with pytest.raises(SandboxError, match="may write"):
        wrap(["touch", "ran"], SandboxPlan(workspace=workspace), platform="linux")
    assert not marker.exists()


def test_a_program_of_the_system_is_taken_before_any_other(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another project's environment may stand first on PATH, and commands may have written there before."""
    marker = tmp_path / "marker"
    program(tmp_path / "bin", MARKER.format(marker=marker), monkeypatch)
    system = tmp_path / "system"
    system.mkdir()
    (system / "bwrap").write_text("#!/bin/sh\nexit 1\n")
    (system / "bwrap").chmod(0o755)
    monkeypatch.setattr(bubblewrap_backend, "system_paths", lambda: (system,))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{system}")
    with pytest.raises(SandboxError, match=f"`{system}/bwrap`"):
        backend(platform="linux")
    assert not marker.exists()


def test_a_system_without_a_sandbox_says_so() -> None:
    with pytest.raises(SandboxError) as caught:
        backend(platform="win32")
    assert caught.value.code == "SANDBOX_MISSING"


def test_the_self_test_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bubblewrap.put_on_path(monkeypatch)
    backend()
    monkeypatch.setattr(backends, "_prove", lambda found: pytest.fail("again"))
    assert backend().name == "bubblewrap"


# ---- macOS: the profile's text --------------------------------------------------------------------------------------
def test_the_profile_denies_by_default_and_holds_no_path_of_the_plan(workspace: Path) -> None:
    odd = workspace.parent / 'a") (allow default) ("'
    odd.mkdir()
    plan = SandboxPlan(workspace=workspace, readable=(odd,), protect=(".git",))
    argv = wrap(["echo", "x"], plan, platform="darwin", program="/usr/bin/sandbox-exec")
    profile = argv[argv.index("-p") + 1]
    assert "(deny default)" in profile
    assert "allow default" not in profile
    assert "network" not in profile
    assert f"READ0={odd}" in argv
    assert f"WRITE0={workspace}" in argv
    assert argv[-2:] == ["echo", "x"]
    assert profile.count("(") == profile.count(")") or "[.]" in profile
    # The guard comes after what allows: the last rule that fits decides.
    assert profile.index("deny file-write*") > profile.rindex("allow file-read* file-write*")
    assert "[gG][iI][tT]" in profile
    granted = wrap(["x"], SandboxPlan(workspace=workspace, network=True), platform="darwin", program="/usr/bin/x")
    assert "(allow network*)" in granted[granted.index("-p") + 1]


# ---- places of protected names --------------------------------------------------------------------------------------
def inside(workspace: Path, line: str, stack: ExitStack | None = None) -> subprocess.CompletedProcess[bytes]:
    with ExitStack() as own:
        command = (stack or own).enter_context(sandboxed(["bash", "-c", line], SandboxPlan(workspace=workspace)))
        return subprocess.run(command.argv, env=command.env, cwd=command.cwd, capture_output=True, timeout=30)


def test_a_place_outlives_the_command_that_made_it_while_another_needs_it(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bubblewrap.put_on_path(monkeypatch)
    with sandboxed(["true"], SandboxPlan(workspace=workspace)):
        second = sandboxed(
            ["bash", "-c", "echo up; read; mkdir .git/x || mkdir .git"], SandboxPlan(workspace=workspace)
        )
        command = second.__enter__()
        child = subprocess.Popen(
            command.argv, env=command.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
    # The first has ended here.
    _, stderr = child.communicate(b"\n", timeout=30)
    assert b"Read-only" in stderr
    assert child.returncode != 0
    second.__exit__(None, None, None)
    assert list(workspace.iterdir()) == []


def test_what_is_put_into_the_place_from_outside_is_kept(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bubblewrap.put_on_path(monkeypatch)
    with sandboxed(["true"], SandboxPlan(workspace=workspace)):
        (workspace / ".git" / "HEAD").write_text("x")
    assert (workspace / ".git" / "HEAD").read_text() == "x"


def test_an_empty_directory_of_the_user_is_kept(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bubblewrap.put_on_path(monkeypatch)
    (workspace / ".git").mkdir()
    assert inside(workspace, "touch .git/x").returncode != 0
    assert (workspace / ".git").is_dir()


def test_the_place_of_a_killed_host_is_reused_and_removed(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bubblewrap.put_on_path(monkeypatch)
    program = (
        "import os,signal,sys,pathlib;from antigravity_control.sandbox import *;"
        "it=sandboxed(['true'],SandboxPlan(workspace=pathlib.Path(sys.argv[1])));it.__enter__();"
        "os.kill(os.getpid(),signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, str(workspace)], timeout=60)
    assert (workspace / ".git").is_dir()
    assert inside(workspace, "mkdir .git/x").returncode != 0
    assert list(workspace.iterdir()) == []


def test_many_at_once_never_leave_it_open(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bubblewrap.put_on_path(monkeypatch)
    program = (
        "import subprocess,sys,pathlib;from antigravity_control.sandbox import *\n"
        "plan=SandboxPlan(workspace=pathlib.Path(sys.argv[1]))\n"
        "for _ in range(15):\n"
        " with sandboxed(['bash','-c','mkdir .git/x || mkdir .git'],plan) as c:\n"
        "  assert subprocess.run(c.argv,env=c.env,stderr=subprocess.DEVNULL,timeout=30).returncode == 1\n"
    )
    started = time.monotonic()
    children = [subprocess.Popen([sys.executable, "-c", program, str(workspace)]) for _ in range(4)]
    assert [child.wait(60) for child in children] == [0] * 4, time.monotonic() - started
    assert os.listdir(workspace) == []
