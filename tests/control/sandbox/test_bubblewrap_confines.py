"""The real bubblewrap: what a command can reach, and what it cannot. As this user; as nobody too when that is root."""

import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import bubblewrap

from antigravity_control.sandbox import SandboxError, SandboxPlan, sandboxed

NOBODY = 65534
USERS = ["this user", pytest.param("nobody", marks=pytest.mark.skipif(os.geteuid() != 0, reason="needs root"))]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=USERS)
def user(request: pytest.FixtureRequest) -> dict[str, Any]:
    """How `subprocess` becomes the user who runs the commands."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if request.param == "nobody" else {}


@pytest.fixture
def place(user: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with a secret and a project in it, owned by the user who will run commands; in no private directory."""
    bubblewrap.put_on_path(monkeypatch)
    root = Path(tempfile.mkdtemp(prefix="sandbox-test-", dir="/var/tmp")).resolve()
    root.chmod(0o755)
    for name in ("home/project", "home/.ssh", "elsewhere"):
        (root / name).mkdir(parents=True)
    (root / "home/.ssh/id_ed25519").write_text("home secret")
    (root / "elsewhere/file").write_text("other file")
    monkeypatch.setenv("HOME", str(root / "home"))
    # The checkout may lie where only its owner can go.
    found = shutil.which("bwrap")
    assert found
    (root / "programs").mkdir()
    shutil.copy(found, root / "programs" / "bwrap")
    monkeypatch.setenv("PATH", f"{root / 'programs'}{os.pathsep}{os.environ['PATH']}")
    if user:
        subprocess.run(["chown", "-R", str(NOBODY), str(root)], check=True)
    yield root
    shutil.rmtree(root)


@pytest.fixture
def run(place: Path, user: dict[str, Any]) -> Run:
    """Run a line in the sandbox of the project."""

    def go(line: str, **plan: Any) -> subprocess.CompletedProcess[str]:
        with sandboxed(["bash", "-c", line], SandboxPlan(workspace=place / "home/project", **plan)) as command:
            return subprocess.run(
                command.argv,
                env=command.env,
                cwd=command.cwd,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=30,
                **user,
            )

    return go


def test_the_workspace_is_the_working_directory_and_can_be_written(place: Path, run: Run) -> None:
    ended = run("pwd; echo made > new; mkdir -p a/b; echo $?")
    assert (ended.returncode, ended.stdout) == (0, f"{place}/home/project\n0\n"), ended.stderr
    assert (place / "home/project/new").read_text() == "made\n"


@pytest.mark.parametrize("folder", ["/usr", "/etc", "/", "/var", "/dev/pts", "/home", "/opt", "/usr/local/bin"])
def test_a_new_file_outside_is_refused(place: Path, run: Run, folder: str) -> None:
    target = Path(folder, place.name)
    try:
        assert run(f": >> {target}").returncode != 0
        assert not target.exists()
    finally:
        target.unlink(missing_ok=True)


@pytest.mark.parametrize("target", ["/etc/passwd", "/etc/hosts", "/usr/bin/env", "/bin/sh"])
def test_a_file_of_the_system_cannot_be_opened_for_writing(run: Run, target: str) -> None:
    # Opened, not written: were the sandbox broken, this test must not break the machine.
    ended = run(f": >> {target}")
    assert ended.returncode != 0
    assert "Read-only" in ended.stderr or "denied" in ended.stderr


def test_what_is_written_beside_the_workspace_never_arrives(place: Path, run: Run) -> None:
    run(
        f"echo bad > {place}/home/x; echo bad > {place}/elsewhere/file; rm -rf {place}/elsewhere {place}/home/.ssh;"
        f"echo bad > /tmp/{place.name}"
    )
    assert not (place / "home/x").exists()
    assert (place / "elsewhere/file").read_text() == "other file"
    assert (place / "home/.ssh/id_ed25519").exists()
    assert not Path("/tmp", place.name).exists()


def test_secrets_of_the_home_and_of_the_system_cannot_be_read(place: Path, run: Run) -> None:
    ended = run(
        f"cat ~/.ssh/id_ed25519 {place}/home/.ssh/id_ed25519 {place}/elsewhere/file /etc/shadow /etc/ssl/private/* "
        f"/proc/1/root/etc/shadow /proc/1/root{place}/home/.ssh/id_ed25519; ls -A ~ /root /home /tmp /run {place}"
    )
    assert "home secret" not in ended.stdout
    assert "other file" not in ended.stdout
    assert "root:" not in ended.stdout
    visible = {line for line in ended.stdout.split() if not line.endswith(":")}
    # The way to the workspace is all that is left of these directories.
    assert visible <= {"project", "home", "root", *place.parts}, visible


def test_no_capability_is_left_and_none_can_be_had(run: Run) -> None:
    ended = run(
        "grep -E 'Cap(Prm|Eff|Bnd)' /proc/self/status; unshare -Urm true || echo refused; umount .git || echo no"
    )
    assert [line.split()[1] for line in ended.stdout.splitlines()[:3]] == ["0" * 16] * 3
    assert "no" in ended.stdout.splitlines()


@pytest.mark.parametrize(
    "attack",
    [
        "echo bad > .git/config",
        "echo bad > .git/hooks/pre-commit",
        "rm -rf .git",
        "mv .git away && mkdir .git && echo bad > .git/config",
        "ln .git/config link && echo bad > link",
        "ln -s .git link && echo bad > link/config",
        "echo bad > /proc/self/cwd/.git/config",
        "echo bad > /proc/1/root$PWD/.git/config",
        "mount -o remount,rw .git; echo bad > .git/config",
        "unshare -Urm sh -c 'umount .git; echo bad > .git/config'",
        "git config user.name bad",
    ],
)
def test_git_cannot_be_written(place: Path, run: Run, attack: str) -> None:
    repository = place / "home/project/.git"
    repository.mkdir()
    (repository / "hooks").mkdir()
    for name, text in (("config", "[core]\n"), ("HEAD", "ref: refs/heads/main\n")):
        (repository / name).write_text(text)
    subprocess.run(["chown", "-R", f"--reference={place}", str(repository)], check=True)
    # By its full path first: an attack must not meet another repository if the sandbox began elsewhere.
    assert run(f"cd {place}/home/project && cat .git/config && ({attack})").stdout.startswith("[core]\n")
    assert (repository / "config").read_text() == "[core]\n"
    assert sorted(path.name for path in repository.rglob("*")) == ["HEAD", "config", "hooks"]


@pytest.mark.parametrize(
    "attack", ["mkdir .git", "git init .", "echo bad > .git", "ln -s x .git", "rmdir .git; mkdir .git/x"]
)
def test_git_cannot_be_created_and_nothing_stays_of_its_place(place: Path, run: Run, attack: str) -> None:
    run(f"cd {place}/home/project || exit; {attack}; mkdir .git/hooks; echo bad > .git/config; touch ran")
    assert [path.name for path in (place / "home/project").iterdir()] == ["ran"]


def test_a_link_in_the_workspace_does_not_lead_out(place: Path, run: Run) -> None:
    project = place / "home/project"
    (project / "key").symlink_to(place / "home/.ssh/id_ed25519")
    (project / "out").symlink_to(place / "elsewhere")
    ended = run("cat key out/file; echo bad > out/file; echo bad > out/new")
    assert (ended.stdout, (place / "elsewhere/file").read_text()) == ("", "other file")
    assert not (place / "elsewhere/new").exists()


def test_grants_are_honoured_and_not_more_than_they_say(place: Path, run: Run) -> None:
    line = "cat ../../elsewhere/file; echo more >> ../../elsewhere/file; echo $?"
    read = run(line, readable=(place / "elsewhere",))
    assert read.stdout == "other file1\n"
    written = run(line, writable=(place / "elsewhere",))
    assert written.stdout == "other file0\n"
    assert (place / "elsewhere/file").read_text() == "other filemore\n"
    # A single file of the home: its neighbours stay hidden.
    (place / "home/.gitconfig").write_text("granted")
    one = run("cat ~/.gitconfig; ls -A ~", readable=(Path("~/.gitconfig"),))
    assert one.stdout.replace("granted", "").split() == [".gitconfig", "project"]


def test_a_grant_that_is_spelled_by_a_link_is_found_under_both_names(place: Path, run: Run) -> None:
    (place / "home/link").symlink_to(place / "elsewhere")
    ended = run(f"cat ~/link/file {place}/elsewhere/file", readable=(place / "home/link",))
    assert ended.stdout == "other file" * 2, ended.stderr


def test_the_repository_of_a_worktree_can_be_read_and_not_written(place: Path, run: Run, user: dict[str, Any]) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(place / "elsewhere"), "-c", "user.name=a", "-c", "user.email=b@c", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, **user).stdout

    git("init", "-b", "main")
    git("commit", "--allow-empty", "-m", "first")
    (place / "home/project").rmdir()
    git("worktree", "add", str(place / "home/project"))
    ended = run("git log --format=%s; echo bad > .git; git commit -q --allow-empty -m second; touch new")
    assert ended.stdout == "first\n", ended.stderr
    assert (place / "home/project/.git").read_text().startswith("gitdir: ")
    assert (place / "home/project/new").exists()
    assert git("rev-list", "--all", "--count") == "1\n"


def test_a_git_file_of_a_stranger_shows_nothing(place: Path, run: Run) -> None:
    (place / "home/.ssh/gitdir").write_text("../project/.git")
    (place / "home/.ssh/commondir").write_text(".")
    (place / "home/project/.git").write_text("gitdir: ../.ssh\n")
    assert run("cat ../.ssh/id_ed25519; ls -A ~").stdout == "project\n"


def test_a_git_file_that_names_the_worktree_of_another_project_shows_nothing(place: Path, run: Run) -> None:
    """The repository is real, but it does not know this workspace: who wrote the file only guessed its place."""
    private = place / "elsewhere/.git"
    (private / "worktrees/x").mkdir(parents=True)
    (private / "HEAD").write_text("ref: refs/heads/main\n")
    (private / "worktrees/x/commondir").write_text("../..\n")
    (private / "worktrees/x/gitdir").write_text(f"{place}/elsewhere/file\n")
    (place / "home/project/.git").write_text(f"gitdir: {private}/worktrees/x\n")
    assert run(f"cat {private}/HEAD {place}/elsewhere/file").stdout == ""


@pytest.mark.parametrize(
    "attack",
    [
        "cat a/b/secret",
        "cat link/secret",
        "cat /proc/self/cwd/a/b/secret /proc/1/root$PWD/a/b/secret",
        "mv a/b c && cat c/secret",
        "mv a c; cat c/b/secret",
        "ln a/b/secret c; cat c",
        "rm -rf a/b; ls a/b/secret",
        "umount a/b; cat a/b/secret",
        "unshare -Urm sh -c 'umount a/b; cat a/b/secret'",
        "echo bad > a/b/secret",
        "cat .env; mv .env c; cat c; echo bad > .env",
    ],
)
def test_what_must_not_be_read_is_not_there_nor_under_another_name_later(place: Path, run: Run, attack: str) -> None:
    project = place / "home/project"
    (project / "a/b").mkdir(parents=True)
    (project / "a/b/secret").write_text("hidden word")
    (project / ".env").write_text("hidden word")
    (project / "link").symlink_to("a/b")
    subprocess.run(["chown", "-R", f"--reference={place}", str(project)], check=True)
    plan = {"hidden": (project / "a/b", project / ".env")}
    first = run(f"cd {project} && ({attack}); echo ended", **plan)
    assert first.stdout.endswith("ended\n")
    # The next command has the same rules, which name the same places.
    second = run("grep -rs 'hidden word' . ; echo ended", **plan)
    assert "hidden word" not in first.stdout + second.stdout
    assert second.stdout.endswith("ended\n")
    assert (project / "a/b/secret").read_text() == (project / ".env").read_text() == "hidden word"


def test_files_of_the_system_can_be_hidden_too(run: Run) -> None:
    ended = run(
        "cat /etc/passwd /usr/bin/env; ls /usr/share",
        hidden=tuple(map(Path, ("/etc/passwd", "/usr/bin/env", "/usr/share"))),
    )
    assert ended.stdout == ""


@pytest.mark.parametrize(
    "attack", ["echo bad >> a/kept", "rm -f a/kept; echo bad > a/kept", "mv a c; mkdir a; echo bad > a/kept"]
)
def test_what_must_not_be_written_stays(place: Path, run: Run, attack: str) -> None:
    project = place / "home/project"
    (project / "a").mkdir()
    (project / "a/kept").write_text("as it was")
    subprocess.run(["chown", "-R", f"--reference={place}", str(project)], check=True)
    ended = run(f"cd {project} && ({attack}); cat a/kept; touch a/new made && echo ended", kept=(project / "a/kept",))
    assert ended.stdout == "as it wasended\n", ended.stderr
    assert (project / "a/kept").read_text() == "as it was"


@pytest.mark.parametrize(
    "attack",
    [
        "echo bad > sub/.git/config",
        "mv sub other; mkdir -p sub/.git; echo bad > sub/.git/config",
        "rm -rf sub; mkdir -p sub/.git; echo bad > sub/.git/config",
        "mv sub/.git sub/x",
    ],
)
def test_a_repository_further_down_cannot_be_written_or_replaced(place: Path, run: Run, attack: str) -> None:
    project = place / "home/project"
    (project / "sub/.git").mkdir(parents=True)
    (project / "sub/.git/config").write_text("[core]\n")
    subprocess.run(["chown", "-R", f"--reference={place}", str(project)], check=True)
    assert run(f"cd {project} && cat sub/.git/config && ({attack})").stdout == "[core]\n"
    assert (project / "sub/.git/config").read_text() == "[core]\n"


@pytest.mark.parametrize("granted", [False, True])
def test_the_network_is_off_unless_granted(run: Run, granted: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        seen: list[bytes] = []

        def serve() -> None:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            with peer:
                seen.append(peer.recv(16))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            ended = run(f"echo hello > /dev/tcp/127.0.0.1/{server.getsockname()[1]}", network=granted)
        finally:
            if not granted:
                with socket.create_connection(server.getsockname()):
                    pass
            thread.join()
    assert (ended.returncode == 0, seen == [b"hello\n"]) == (granted, granted), ended.stderr


def test_abstract_sockets_of_the_machine_cannot_be_reached(run: Run, place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{place.name}")
        server.listen()
        assert place.name not in run("cat /proc/net/unix").stdout


def test_processes_of_the_machine_are_not_there(run: Run) -> None:
    ended = run(f"ls /proc | grep -c '^[0-9]'; kill -0 {os.getpid()} 2>/dev/null && echo seen; echo $PPID")
    count, *rest = ended.stdout.split()
    assert int(count) <= 6
    assert rest == ["1"]


def test_switches_of_the_machine_cannot_be_opened(run: Run) -> None:
    """Asked, not written: root may write them without any capability, and they are the machine's, not the sandbox's."""
    ended = run(
        "find /proc -path '/proc/[0-9]*' -prune -o -type f -writable -print; echo asked; cat /proc/sys/kernel/pid_max"
    )
    assert ended.stdout.startswith("asked\n")
    assert ended.stdout.split()[1].isdigit()


def test_there_is_no_terminal_to_type_into(run: Run) -> None:
    """TIOCSTI needs a controlling terminal: there is none, not even where the host has one."""
    ended = run(": < /dev/tty || echo none; ps -o tty= -p $$; cut -d' ' -f6,7 /proc/$$/stat")
    assert ended.stdout.split()[:2] == ["none", "?"]
    session, terminal = ended.stdout.split()[2:]
    assert (int(session) > 0, terminal) == (True, "0")


def test_only_listed_variables_pass(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GEMINI_API_KEY", "GITHUB_TOKEN", "INNOCENT_NAME", "SSH_AUTH_SOCK", "LD_PRELOAD", "BASH_ENV", "PAGER"):
        monkeypatch.setenv(name, "planted")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:planted@proxy:1")
    for network in (False, True):
        ended = run("env; cat /proc/*/environ | tr '\\0' '\\n'", network=network)
        assert "planted" not in ended.stdout
        assert "HOME=" in ended.stdout


def test_programs_start_and_know_the_user(run: Run) -> None:
    ended = run("id -un; git --version; ls -d /usr; date; test -w /tmp && mktemp; test -c /dev/null; echo $?")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.endswith("0\n")


def test_what_a_line_leaves_behind_ends_with_it(run: Run, place: Path) -> None:
    ended = run("setsid -f bash -c 'sleep 0.2; touch survived; sleep 60'; (sleep 60 &); echo ready")
    assert ended.stdout == "ready\n"
    listed = subprocess.run(["ps", "axo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(place) not in listed
    assert not (place / "home/project/survived").exists()


def test_a_workspace_that_holds_the_home_is_refused(place: Path, run: Run) -> None:
    for workspace in (place / "home", place, Path("/")):
        with pytest.raises(SandboxError) as caught, sandboxed(["true"], SandboxPlan(workspace=workspace)):
            pytest.fail("it was made")
        assert caught.value.code == "SANDBOX_BAD_WORKSPACE"
