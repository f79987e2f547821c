"""What a dead host left is swept, and nothing else is: not a living host's, not a stranger's, not through a link."""

import asyncio
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers.family import family, gone, lives, until_gone

from antigravity_acp.acp import AgentProcess, _scratch, process
from antigravity_acp.acp._scratch import SCRATCH_PREFIX, Scratch, sweep
from antigravity_acp.acp._supervisor import tree
from antigravity_acp.acp._supervisor.folder import remove

DEAD_PID = 2**22 + 1  # above the largest id that Linux gives


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_behind(root: Path, name: str = "abcdefgh", *, lock: bool = True, **changes: Any) -> Path:
    """A directory as a dead host leaves it."""
    folder = root / f"{SCRATCH_PREFIX}{name}"
    (folder / "tmp" / "_MEI1").mkdir(parents=True)
    (folder / "work").mkdir()
    (folder / "tmp" / "_MEI1" / "big").write_bytes(b"x" * 1000)
    if lock:
        (folder / "lock").touch()
    record = {
        "version": 1,
        "place": tree.place(),
        "host": {"pid": DEAD_PID, "began": "1"},
        "agent": {"pid": 0, "began": ""},
        **changes,
    }
    (folder / "owner.json").write_text(json.dumps(record))
    return folder


def me() -> dict[str, Any]:
    return {"pid": os.getpid(), "began": tree.stamp(os.getpid())}


@pytest.fixture
def bystander() -> Iterator[psutil.Process]:
    """A process that has nothing to do with any agent."""
    one = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        yield psutil.Process(one.pid)
    finally:
        one.kill()
        one.wait(10)


# ---- what is made ---------------------------------------------------------------------------------------------------
def test_a_scratch_directory_is_private_locked_and_says_whose_it_is(root: Path) -> None:
    before = os.umask(0)
    try:
        scratch = Scratch.make()
    finally:
        os.umask(before)
    try:
        for path in (scratch.path, scratch.cwd, scratch.tmp):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
        record = json.loads((scratch.path / "owner.json").read_text())
        assert record["host"] == me()
        assert stat.S_IMODE((scratch.path / "owner.json").stat().st_mode) == 0o600
        with open(scratch.path / "lock") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        assert scratch.remove()
    assert list(root.iterdir()) == []


async def test_the_record_names_the_agent_itself() -> None:
    async with family() as one:
        record = json.loads((one.process.scratch / "owner.json").read_text())
        assert record["agent"] == {"pid": one.process.pid, "began": tree.stamp(one.process.pid)}


def test_many_makers_and_sweepers_at_once_lose_nothing(root: Path) -> None:
    stop = threading.Event()
    faults: list[object] = []

    def sweeper() -> None:
        while not stop.is_set():
            sweep()

    def maker() -> None:
        try:
            for _ in range(60):
                scratch = Scratch.make()
                (scratch.tmp / "file").write_text("x")
                sweep()
                if not (scratch.tmp / "file").exists() or not (scratch.path / "owner.json").exists():
                    faults.append("swept while its host lived")
                scratch.remove()
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=sweeper) for _ in range(2)] + [threading.Thread(target=maker) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads[2:]:
        one.join(60)
    stop.set()
    for one in threads:
        one.join(10)
    assert faults == []
    assert list(root.iterdir()) == []


def test_a_directory_that_is_swept_while_it_is_made_is_made_anew(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    real = tempfile.mkdtemp

    def mkdtemp(**options: Any) -> str:
        made.append(real(**options))
        if len(made) == 1:
            sweep()
            assert not os.path.exists(made[0])
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    scratch = Scratch.make()
    assert len(made) == 2
    assert str(scratch.path) == made[1]
    scratch.remove()


# ---- what is swept --------------------------------------------------------------------------------------------------
@pytest.mark.requirement("A-037")
def test_a_dead_hosts_directory_goes(root: Path) -> None:
    left_behind(root)
    sweep()
    assert list(root.iterdir()) == []


@pytest.mark.requirement("A-037")
@pytest.mark.parametrize("step", ["made", "locked", "recording", "empty-of-records"])
def test_a_host_that_died_while_making_or_removing_leaves_nothing(step: str, root: Path) -> None:
    folder = root / f"{SCRATCH_PREFIX}abcdefgh"
    folder.mkdir()
    if step in ("locked", "recording"):
        (folder / "lock").touch()
    if step == "recording":
        (folder / "owner.json.new").write_text('{"vers')
    sweep()
    assert not folder.exists()


def test_removal_keeps_the_record_until_the_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = left_behind(root)
    seen: list[list[str]] = []
    real = os.unlink

    def unlink(path: Any, **options: Any) -> None:
        seen.append(sorted(entry.name for entry in folder.iterdir()))
        real(path, **options)

    monkeypatch.setattr(os, "unlink", unlink)
    assert remove(str(folder), _scratch.LAST)
    assert ["lock", "owner.json", "tmp"] in seen or ["lock", "owner.json", "tmp", "work"] in seen
    for names in seen:
        assert {"lock", "owner.json"} <= set(names) or not {"tmp", "work"} & set(names)


@pytest.mark.requirement("A-037")
async def test_agents_of_a_dead_host_are_ended_by_pid_and_start_time(bystander: psutil.Process, root: Path) -> None:
    # Bears no mark, as something that wrote over its own environment would not.
    left_behind(root, agent={"pid": bystander.pid, "began": tree.stamp(bystander.pid)})
    await asyncio.to_thread(sweep)
    await until_gone([bystander.pid], 2)
    assert list(root.iterdir()) == []


@pytest.mark.requirement("A-037")
def test_a_reused_process_id_is_nobodys_agent(bystander: psutil.Process, root: Path) -> None:
    began = tree.stamp(bystander.pid)
    left_behind(root, agent={"pid": bystander.pid, "began": began[:-1] + str((int(began[-1]) + 1) % 10)})
    sweep()
    assert lives(bystander.pid)
    assert list(root.iterdir()) == []


def test_a_reused_process_id_is_nobodys_host(bystander: psutil.Process, root: Path) -> None:
    left_behind(root, host={"pid": bystander.pid, "began": "1"})
    sweep()
    assert lives(bystander.pid)
    assert list(root.iterdir()) == []


async def test_what_bears_the_mark_is_found_without_its_leader(root: Path) -> None:
    async with family("setsid", "daemon", "family") as one:
        relatives = [pid for pids in one.relatives.values() for pid in pids]
        os.kill(one.supervisor, signal.SIGKILL)
        await one.process.wait()
        record = json.loads((one.process.scratch / "owner.json").read_text())
        record["host"] = {"pid": DEAD_PID, "began": "1"}
        (one.process.scratch / "owner.json").write_text(json.dumps(record))
        assert gone(*relatives) != set(relatives)
        await asyncio.to_thread(sweep)
        await until_gone(relatives, 2)
        assert list(root.iterdir()) == []


def test_a_directory_of_another_namespace_goes_when_nobody_holds_it(bystander: psutil.Process, root: Path) -> None:
    # Process ids of another container mean nothing here.
    agent = {"pid": bystander.pid, "began": tree.stamp(bystander.pid)}
    left_behind(root, place="elsewhere", agent=agent)
    sweep()
    assert lives(bystander.pid)
    assert list(root.iterdir()) == []


# ---- what is not ----------------------------------------------------------------------------------------------------
@pytest.mark.requirement("A-037")
async def test_a_living_hosts_agent_is_left_alone() -> None:
    async with family("setsid") as one:
        await asyncio.to_thread(sweep)
        assert one.process.scratch.exists()
        assert gone(*one.everyone) == set()


@pytest.mark.parametrize(
    "changes", [{"host": "me"}, {"place": "elsewhere", "held": True}, {"host": {"pid": 1, "began": ""}, "held": True}]
)
def test_a_directory_whose_host_lives_is_left_alone(changes: dict[str, Any], root: Path) -> None:
    held = changes.pop("held", False) if (changes := dict(changes)) else False
    if changes.get("host") == "me":
        changes["host"] = me()
    folder = left_behind(root, **changes)
    with open(folder / "lock") as file:
        if held:
            fcntl.flock(file, fcntl.LOCK_EX)
        sweep()
    assert (folder / "tmp" / "_MEI1" / "big").exists()


def test_a_directory_that_is_just_being_made_is_left_alone(root: Path) -> None:
    folder = root / f"{SCRATCH_PREFIX}abcdefgh"
    folder.mkdir()
    with open(folder / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        sweep()
    assert (folder / "lock").exists()


def test_links_are_not_followed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    target = left_behind(elsewhere, "target00")
    (elsewhere / "precious").write_text("x")
    (root / f"{SCRATCH_PREFIX}link0000").symlink_to(target)
    inside = left_behind(root, "inside00")
    (inside / "tmp" / "out").symlink_to(elsewhere)
    record = left_behind(root, "record00")
    (record / "owner.json").rename(elsewhere / "owner.json")
    (record / "owner.json").symlink_to(elsewhere / "owner.json")
    sweep()
    assert (target / "owner.json").exists()
    assert (elsewhere / "precious").exists()
    assert not inside.exists()
    assert record.exists(), "a record that is a link is none of ours"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"version": 2}',
        b'{"version": 1, "place": "", "host": {"pid": "1", "began": ""}, "agent": {"pid": 0, "began": ""}}',
        b'{"version": 1, "place": "", "host": {"pid": -1, "began": ""}, "agent": {"pid": 0, "began": ""}}',
        b'{"version": 1, "place": "", "host": {"pid": true, "began": ""}, "agent": {"pid": 0, "began": ""}}',
        b'{"version": 1, "place": "", "host": {"pid": 99999999999, "began": ""}, "agent": {"pid": 0, "began": ""}}',
        b"[" * 4000,
        b" " * 5000,
        b"\xff\xfe",
    ],
)
def test_a_record_that_cannot_be_ours_protects_its_directory(content: bytes, root: Path) -> None:
    folder = left_behind(root)
    (folder / "owner.json").write_bytes(content)
    sweep()
    assert (folder / "tmp" / "_MEI1" / "big").exists()


@pytest.mark.parametrize("name", ["antigravity-acp-tests-x", f"{SCRATCH_PREFIX}notes", f"{SCRATCH_PREFIX}ABCDEFGH"])
def test_other_names_are_left_alone(name: str, root: Path) -> None:
    left_behind(root).rename(root / name)
    sweep()
    assert (root / name / "owner.json").exists()


def test_a_directory_with_our_name_and_a_strangers_content_is_left_alone(root: Path) -> None:
    folder = root / f"{SCRATCH_PREFIX}abcdefgh"
    folder.mkdir()
    (folder / "thesis.txt").write_text("x")
    sweep()
    assert (folder / "thesis.txt").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_another_users_directory_is_left_alone(root: Path) -> None:
    folder = left_behind(root)
    os.chown(folder, 12345, 12345)
    sweep()
    assert (folder / "owner.json").exists()


def test_a_pipe_in_the_records_place_does_not_hang_a_start(root: Path) -> None:
    folder = left_behind(root)
    (folder / "owner.json").unlink()
    os.mkfifo(folder / "owner.json")
    began = time.monotonic()
    sweep()
    assert time.monotonic() - began < 2
    assert folder.exists()


# ---- bounds ---------------------------------------------------------------------------------------------------------
def test_one_sweep_does_bounded_work_and_the_next_goes_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_scratch, "_MAX_SWEPT", 4)
    for number in range(10):
        left_behind(root, f"abcdefg{number}")
    for left in (6, 2, 0):
        sweep()
        assert len(list(root.iterdir())) == left


async def test_a_slow_sweep_does_not_hold_up_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(_scratch, "sweep", lambda: release.wait(20))
    monkeypatch.setattr(process, "_SWEEP_WAIT_S", 0.05)
    try:
        async with asyncio.timeout(5), family():
            pass
    finally:
        release.set()


async def test_a_host_sweeps_once_in_a_while(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[int] = []
    monkeypatch.setattr(_scratch, "sweep", lambda: swept.append(1))
    for _ in range(3):
        async with family():
            pass
    assert len(swept) == 1
    process._swept[str(root)] -= 1000
    async with family():
        pass
    assert len(swept) == 2


async def test_no_place_for_temporary_files_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from helpers.family import family_command

    from antigravity_acp.contract import LlmError

    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent-directory")
    with pytest.raises(LlmError) as caught:
        await AgentProcess.start(family_command(), dispose_grace_ms=100)
    assert caught.value.code == "ACP_PLATFORM_UNSUPPORTED"
    assert "TMPDIR" in caught.value.message
    assert "nonexistent" not in caught.value.message


def test_read_only_directories_are_deleted_and_links_in_them_not_followed(root: Path) -> None:
    outside = root / "outside"
    outside.mkdir(mode=0o500)
    folder = root / "cache"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").write_text("x")
    (folder / "a" / "link").symlink_to(outside)
    for path in (folder / "a" / "b", folder / "a", folder):
        path.chmod(0o500)
    # Root is not held up by modes, so who runs this decides which half of the work is seen; the result is the same.
    from antigravity_acp.acp._supervisor import folder as deleting

    deleting._open_up(str(folder))
    assert stat.S_IMODE((folder / "a" / "b").stat().st_mode) == 0o700
    assert stat.S_IMODE(outside.stat().st_mode) == 0o500
    assert remove(str(folder))
    outside.chmod(0o700)
