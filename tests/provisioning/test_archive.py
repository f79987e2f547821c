"""Unpacking an archive that is as it should be, and what ends it early: everything is there, or nothing."""

import contextlib
import errno
import hashlib
import io
import itertools
import os
import stat
import struct
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.archives import HARNESS, SERVER, Member, build, extra, official_layout

from antigravity_provisioning import _hashing, _staging
from antigravity_provisioning.archive import FileEntry, unpack
from antigravity_provisioning.errors import ProvisioningError
from antigravity_provisioning.progress import Progress

MIB = 1024**2
posix_only = pytest.mark.skipif(os.name == "nt", reason="file modes, links and pipes of POSIX")


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    folder = tmp_path / "staging"
    folder.mkdir()
    return folder


def archive(folder: Path, *members: Member, **rest: object) -> Path:
    path = folder / "archive.zip"
    path.write_bytes(build(members, **rest))  # type: ignore[arg-type]
    return path


def noise(size: int, seed: bytes = b"seed") -> bytes:
    """Bytes that do not compress."""
    return hashlib.shake_128(seed).digest(size)


@posix_only
@pytest.mark.requirement("A-051")
def test_the_official_layout_keeps_its_pair_and_its_permissions(tmp_path: Path, staging: Path) -> None:
    script = b"#!/bin/sh\necho up\n" * 1000
    path = official_layout(tmp_path / "server.zip", script)
    entries = unpack(path, staging, required=(SERVER, HARNESS))
    assert [entry.path for entry in entries] == [SERVER, HARNESS]
    assert entries[0] == FileEntry(SERVER, len(script), hashlib.sha256(script).hexdigest(), True)
    assert sorted(os.listdir(staging)) == [SERVER, HARNESS]
    for name in (SERVER, HARNESS):
        assert stat.S_IMODE((staging / name).stat().st_mode) == 0o755
    assert (staging / SERVER).read_bytes() == script


@pytest.mark.requirement("A-051")
def test_an_archive_without_a_required_file_is_incomplete_and_not_unpacked(tmp_path: Path, staging: Path) -> None:
    path = archive(tmp_path, Member(SERVER), Member("lib/" + HARNESS), Member(HARNESS + "/x"))
    with pytest.raises(ProvisioningError, match=f"it lacks `{HARNESS}`") as caught:
        unpack(path, staging, required=(SERVER, HARNESS))
    assert (caught.value.stage, caught.value.reason) == ("archive", "incomplete")
    assert not os.listdir(staging)


@posix_only
def test_permissions_are_755_or_644_and_nothing_else_whatever_the_umask(tmp_path: Path, staging: Path) -> None:
    modes = {"a": 0o100001, "b": 0o107777, "c": 0o106666, "d": 0o100000, "e": 0o040, "f": 0o000}
    path = archive(tmp_path, *(Member(name, mode=mode) for name, mode in modes.items()))
    old = os.umask(0o077)
    try:
        entries = unpack(path, staging, required=("a", "c"))
    finally:
        os.umask(old)
    found = {entry.path: stat.S_IMODE((staging / entry.path).stat().st_mode) for entry in entries}
    assert found == {"a": 0o755, "b": 0o755, "c": 0o644, "d": 0o644, "e": 0o644, "f": 0o644}
    assert {entry.path for entry in entries if entry.executable} == {"a", "b"}


@posix_only
def test_required_programs_run_when_the_archive_comes_from_a_system_without_permissions(
    tmp_path: Path, staging: Path
) -> None:
    path = archive(tmp_path, *(Member(name, mode=0, central={"made": 20}) for name in (SERVER, "read.me")))
    assert [entry.executable for entry in unpack(path, staging, required=(SERVER,))] == [True, False]
    assert os.access(staging / SERVER, os.X_OK)


def test_folders_are_made_and_files_in_them_are_told_by_their_path(tmp_path: Path, staging: Path) -> None:
    path = archive(
        tmp_path,
        Member("a/b/deep", b"1"),
        Member("a/", b"", mode=0o40755),
        Member("empty/", b"", method=0, mode=0o40755),
        Member("./a/beside", b"", method=0),
        Member("caf\u00e9/\u65e5\u672c", b"2"),
    )
    entries = unpack(path, staging)
    assert [(entry.path, entry.size) for entry in entries] == [
        ("a/b/deep", 1),
        ("a/beside", 0),
        ("caf\u00e9/\u65e5\u672c", 1),
    ]
    assert (staging / "a" / "b" / "deep").read_bytes() == b"1"
    assert (staging / "empty").is_dir()


@pytest.mark.parametrize("method", [0, 8])
@pytest.mark.parametrize("descriptor", [None, (4, False), (4, True), (8, False), (8, True)])
@pytest.mark.parametrize("wide", [False, True])
def test_every_form_that_writers_of_zip_choose_is_read(
    tmp_path: Path, staging: Path, method: int, descriptor: tuple[int, bool] | None, wide: bool
) -> None:
    data = noise(5000) * 3
    plain = Member("first", data, method, descriptor=descriptor)
    sizes = struct.pack("<QQ", 0, 0) if descriptor else struct.pack("<QQ", len(data), len(data))
    other = Member("wide", data, 0, descriptor=descriptor)
    if wide:
        full = {"packed": 0xFFFFFFFF, "unpacked": 0xFFFFFFFF}
        other.local, other.local_extra = full, extra(1, sizes)
        other.central, other.central_extra = full, extra(1, struct.pack("<QQ", len(data), len(data)))
    path = archive(tmp_path, plain, other, end64={} if wide else None, comment=b"some words")
    with zipfile.ZipFile(path) as peer:  # the maker itself is right
        assert peer.testzip() is None
    assert [entry.sha256 for entry in unpack(path, staging)] == [hashlib.sha256(data).hexdigest()] * 2


def test_what_zipfile_streams_is_read(tmp_path: Path, staging: Path) -> None:
    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.data = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            self.data += bytes(data)  # type: ignore[call-overload]
            return len(data)  # type: ignore[arg-type]

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as writer:  # type: ignore[call-overload]
        with writer.open("wide", "w", force_zip64=True) as file:
            file.write(b"wide" * 100)
        writer.writestr("plain", b"plain" * 100)
        writer.mkdir("folder")
    path = tmp_path / "streamed.zip"
    path.write_bytes(pipe.data)
    assert [(entry.path, entry.size) for entry in unpack(path, staging)] == [("wide", 400), ("plain", 500)]


def test_bytes_that_unpack_to_much_more_than_one_piece_are_complete(tmp_path: Path, staging: Path) -> None:
    data = bytes(3 * MIB) + noise(MIB) + b"end"
    (entry,) = unpack(archive(tmp_path, Member("a", data)), staging)
    assert (entry.size, entry.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert (staging / "a").read_bytes() == data


def test_reports_go_from_nothing_to_everything(tmp_path: Path, staging: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antigravity_provisioning.archive.REPORT_S", 0)
    said: list[Progress] = []
    unpack(archive(tmp_path, Member("a", noise(MIB)), Member("b", bytes(MIB))), staging, report=said.append)
    assert {report.step for report in said} == {"unpack"}
    assert {report.total for report in said} == {2 * MIB}
    done = [report.done for report in said]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, 2 * MIB)
    assert len(done) > 8
    assert said[4].rate


def test_reports_do_not_come_faster_than_anybody_can_read(
    tmp_path: Path, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antigravity_provisioning.archive.REPORT_S", 3600)
    said: list[Progress] = []
    unpack(archive(tmp_path, Member("a", bytes(4 * MIB))), staging, report=said.append)
    assert [report.done for report in said] == [0, 4 * MIB]


@pytest.mark.parametrize("method", [0, 8])
def test_an_archive_that_is_cut_while_it_is_unpacked_is_refused(tmp_path: Path, staging: Path, method: int) -> None:
    path = archive(tmp_path, Member("a", noise(MIB), method))

    def cut(_: Progress) -> None:
        os.truncate(path, MIB // 2)

    with pytest.raises(ProvisioningError, match="entry 1 ends too early"):
        unpack(path, staging, report=cut)
    assert not os.listdir(staging)


def test_a_cancellation_at_any_poll_empties_the_folder(tmp_path: Path, staging: Path) -> None:
    path = archive(tmp_path, Member("x/y/a", noise(MIB)), Member("b/", b"", method=0, mode=0), Member("c", bytes(MIB)))
    polls = 0

    def count() -> bool:
        nonlocal polls
        polls += 1
        return False

    unpack(path, tmp_path_of(staging, "whole"), cancelled=count)
    assert polls > 16
    for stop in range(polls):
        left = iter(range(stop))
        with pytest.raises(ProvisioningError) as caught:
            unpack(path, staging, cancelled=lambda left=left: next(left, None) is None)  # type: ignore[misc]
        assert (caught.value.stage, caught.value.reason) == ("archive", "cancelled")
        assert not os.listdir(staging)


def tmp_path_of(staging: Path, name: str) -> Path:
    folder = staging.parent / name
    folder.mkdir()
    return folder


@pytest.mark.parametrize("method", [0, 8])
def test_it_is_asked_for_cancellation_at_least_once_in_each_mebibyte(
    tmp_path: Path, staging: Path, method: int
) -> None:
    sizes: list[int] = []

    def written() -> bool:
        sizes.append((staging / "a").stat().st_size if (staging / "a").exists() else 0)
        return False

    unpack(archive(tmp_path, Member("a", bytes(12 * MIB), method)), staging, cancelled=written)
    assert max(after - before for before, after in itertools.pairwise(sizes)) <= MIB


def test_an_exception_of_a_report_empties_the_folder(tmp_path: Path, staging: Path) -> None:
    def broken(progress: Progress) -> None:
        if progress.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unpack(archive(tmp_path, Member("a/b"), Member("c")), staging, report=broken)
    assert not os.listdir(staging)


def test_a_full_disk_is_told_as_such_and_empties_the_folder(
    tmp_path: Path, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Callable[[int, memoryview], int] = os.write
    written = 0

    def write(descriptor: int, data: memoryview) -> int:
        nonlocal written
        if written > MIB:
            raise OSError(errno.ENOSPC, "no space")
        written += (count := real(descriptor, data[:70000]))  # a system may take less than it is given
        return count

    path = archive(tmp_path, Member("fits", noise(MIB // 2)), Member("a/does-not", noise(2 * MIB)))
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(ProvisioningError, match="Free some space") as caught:
        unpack(path, staging)
    assert (caught.value.stage, caught.value.reason) == ("archive", "disk-full")
    assert written > MIB
    assert not os.listdir(staging)
    written = -(2**40)
    assert unpack(path, staging)[0].sha256 == hashlib.sha256(noise(MIB // 2)).hexdigest()


@posix_only
def test_a_limit_of_the_system_on_files_empties_the_folder(tmp_path: Path, staging: Path) -> None:
    resource = pytest.importorskip("resource")
    path = archive(tmp_path, Member("fits", noise(MIB // 2)), Member("does-not", noise(2 * MIB)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, hard))
    try:
        with pytest.raises(ProvisioningError, match="could not be read or unpacked") as caught:
            unpack(path, staging)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (caught.value.stage, caught.value.reason) == ("archive", "disk")
    assert not os.listdir(staging)


def test_every_file_and_folder_is_flushed_to_the_disk(
    tmp_path: Path, staging: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: set[tuple[int, int]] = set()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        state = os.fstat(descriptor)
        # Flushed with all its contents, not before they are there.
        flushed.add((state.st_ino, 0 if stat.S_ISDIR(state.st_mode) else state.st_size))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    unpack(archive(tmp_path, Member("a/b/c", noise(MIB)), Member("d")), staging)
    there = [staging, *(path for path in staging.rglob("*") if os.name != "nt" or path.is_file())]
    assert {(path.stat().st_ino, 0 if path.is_dir() else path.stat().st_size) for path in there} <= flushed


def test_a_staging_folder_that_is_not_empty_is_left_as_it_is(tmp_path: Path, staging: Path) -> None:
    (staging / "mine").write_text("mine")
    with pytest.raises(ProvisioningError) as caught:
        unpack(archive(tmp_path, Member("a")), staging)
    assert caught.value.reason == "disk"
    assert os.listdir(staging) == ["mine"]


def test_a_staging_folder_that_is_missing_or_a_file_or_a_link_is_refused(tmp_path: Path, staging: Path) -> None:
    path = archive(tmp_path, Member("a"))
    wrong = [tmp_path / "missing", path]
    if os.name != "nt":
        (tmp_path / "link").symlink_to(staging, target_is_directory=True)
        wrong.append(tmp_path / "link")
    for folder in wrong:
        with pytest.raises(ProvisioningError) as caught:
            unpack(path, folder)
        assert caught.value.reason == "disk"
    assert not os.listdir(staging)


@posix_only
def test_a_pipe_in_the_place_of_the_archive_does_not_hang(tmp_path: Path, staging: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ProvisioningError, match="it is not a file"):
            unpack(path, staging)
    with pytest.raises(ProvisioningError, match="could not be read"):
        unpack(tmp_path / "missing", staging)


@posix_only
def test_a_link_that_appears_in_the_staging_folder_leads_nowhere(tmp_path: Path, staging: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    own = _staging.Staging(staging)
    try:
        own.folder("a/b")
        (staging / "a" / "b").rmdir()
        (staging / "a" / "b").symlink_to(outside, target_is_directory=True)
        (staging / "c").symlink_to(outside / "c")
        for path in ("a/b/file", "c"):
            with pytest.raises(OSError):  # noqa: PT011  # which error it is differs between systems
                own.create(path, executable=True)
        with pytest.raises(OSError):  # noqa: PT011  # what somebody else put there is not removed
            own.clear()
    finally:
        own.close()
    assert not os.listdir(outside)


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="open descriptors are not listed")
def test_no_descriptor_is_left_open_whether_it_ends_well_or_not(tmp_path: Path, staging: Path) -> None:
    good = archive(tmp_path, Member("a/b/c/d"), Member("e/f"))
    bad = tmp_path / "bad.zip"
    bad.write_bytes(build([Member("a/b/c/d"), Member("e", local={"crc": 1}, central={"crc": 1})]))
    before = len(os.listdir("/dev/fd"))
    for path in (bad, tmp_path, good, good):  # the last finds a folder that is not empty
        with contextlib.suppress(ProvisioningError):
            unpack(path, staging)
    assert (staging / "e" / "f").exists()
    assert len(os.listdir("/dev/fd")) == before


def test_archives_are_unpacked_in_threads_side_by_side(tmp_path: Path) -> None:
    path = archive(tmp_path, Member("a", noise(MIB)), Member("b", bytes(MIB)))
    found: list[list[FileEntry]] = []
    folders = [tmp_path / str(index) for index in range(4)]
    for folder in folders:
        folder.mkdir()
    threads = [threading.Thread(target=lambda f=f: found.append(unpack(path, f))) for f in folders]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 4
    assert all(entries == found[0] for entries in found)


def test_the_hash_of_a_file_is_that_of_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for size in (0, 1, _hashing.PIECE, 3 * _hashing.PIECE + 7):
        path.write_bytes(noise(size))
        assert _hashing.sha256_of(path) == (size, hashlib.sha256(noise(size)).hexdigest())
    left = iter([False, False, True])
    with pytest.raises(_hashing.HashCancelled):
        _hashing.sha256_of(path, lambda: next(left))
