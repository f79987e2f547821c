"""One download: what it asks, what it leaves, how it goes on, and what somebody else may have put in its folder."""

import asyncio
import errno
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.https_server import Exchange, Server, changed, cut_after, serve, status

from antigravity_provisioning import Asset, _local, _pace, _part, _threads
from antigravity_provisioning._http import Patience, is_loopback
from antigravity_provisioning.download import copy_in, download
from antigravity_provisioning.errors import ProvisioningError
from antigravity_provisioning.progress import Progress

SIZE = 200_000
DATA = b"PK\x03\x04" + random.Random(7).randbytes(SIZE - 4)
HASH = hashlib.sha256(DATA).hexdigest()
ONCE = Patience(attempts=1, pause_s=0, block=8192)

posix_only = pytest.mark.skipif(os.name == "nt", reason="links, pipes and modes of POSIX")


def asset_of(url: str) -> Asset:
    return Asset("1.3.0", "linux-x86_64", url, SIZE, HASH, "test", "server", (), ("harness",), 0)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("HTTPS_PROXY", "ALL_PROXY", "https_proxy", "all_proxy", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    with serve(DATA) as running:
        monkeypatch.setenv("SSL_CERT_FILE", running.ca_file)
        yield running


@pytest.fixture
def asset(server: Server) -> Asset:
    return asset_of(server.url)


def names(folder: Path) -> set[str]:
    return {path.name.removeprefix(HASH) for path in folder.iterdir()}


def plant(folder: Path, asset: Asset, data: bytes, note: Any = None) -> Path:
    """A part as an earlier call left it. :returns: its path."""
    part = folder / f"{HASH}.part"
    part.write_bytes(data)
    text = {"url": asset.url, "size": SIZE, "etag": f'"{HASH[:16]}"'} if note is None else note
    (folder / f"{HASH}.json").write_text(text if isinstance(text, str) else json.dumps(text))
    return part


@pytest.mark.requirement("A-050", "X-005")
async def test_the_archive_arrives_alone_and_the_request_asks_for_its_bytes_as_they_are(
    server: Server, asset: Asset, tmp_path: Path
) -> None:
    folder = tmp_path / "a" / "downloads"
    path = await download(asset, folder)
    assert (path, path.read_bytes(), names(folder)) == (folder / f"{HASH}.zip", DATA, {".zip"})
    if os.name != "nt":
        assert path.stat().st_mode & 0o777 == 0o600
    [request] = server.requests
    assert (request.method, request.path) == ("GET", "/releases/archive.zip")
    assert request.headers["accept-encoding"] == "identity"
    assert not {"range", "if-range", "cookie", "authorization"} & set(request.headers)


@pytest.mark.requirement("A-052")
async def test_an_archive_that_is_there_is_verified_and_used_without_a_network(
    server: Server, asset: Asset, tmp_path: Path
) -> None:
    await download(asset, tmp_path)
    steps: list[Progress] = []
    assert await download(asset, tmp_path, report=steps.append) == tmp_path / f"{HASH}.zip"
    assert len(server.requests) == 1
    assert {step.step for step in steps} == {"verify"}


@pytest.mark.requirement("A-052")
@pytest.mark.parametrize("damaged", [DATA[:-1], DATA + b"x", b"X" + DATA[1:], b""])
async def test_a_damaged_archive_is_fetched_again(damaged: bytes, server: Server, asset: Asset, tmp_path: Path) -> None:
    (tmp_path / f"{HASH}.zip").write_bytes(damaged)
    assert (await download(asset, tmp_path)).read_bytes() == DATA
    assert (len(server.requests), names(tmp_path)) == (1, {".zip"})


@pytest.mark.requirement("X-005")
async def test_the_next_call_goes_on_where_the_last_one_stopped(server: Server, asset: Asset, tmp_path: Path) -> None:
    server.script(cut_after(120_000), cut_after(120_000))
    with pytest.raises(ProvisioningError, match="Run it again to continue"):
        await download(asset, tmp_path, patience=ONCE)
    assert names(tmp_path) == {".part", ".json"}
    steps: list[Progress] = []
    assert (await download(asset, tmp_path, report=steps.append)).read_bytes() == DATA
    assert server.requests[2].headers["range"] == "bytes=120000-"
    assert server.requests[2].headers["if-range"] == f'"{HASH[:16]}"'
    # What lay on disk is believed only after it was hashed.
    assert next(step for step in steps if step.step == "verify").total == 120_000
    assert next(step for step in steps if step.step == "download").done == 120_000
    assert names(tmp_path) == {".zip"}


async def test_a_date_continues_where_there_is_no_strong_etag(server: Server, asset: Asset, tmp_path: Path) -> None:
    server.script(cut_after(120_000, etag='W/"x"'), changed(etag='W/"x"'))
    await download(asset, tmp_path, patience=Patience(pause_s=0))
    assert server.requests[1].headers["if-range"].endswith("GMT")
    assert server.requests[1].range_start == 120_000


async def test_a_part_that_is_complete_needs_no_network(server: Server, asset: Asset, tmp_path: Path) -> None:
    plant(tmp_path, asset, DATA, note="")
    assert (await download(asset, tmp_path)).read_bytes() == DATA
    assert (server.requests, names(tmp_path)) == ([], {".zip"})


@pytest.mark.parametrize(
    "wrong", [b"X" + DATA[1:], b"X" + DATA[1:100_000], DATA + b"more"], ids=["all", "half", "more"]
)
async def test_a_part_that_somebody_changed_is_found_by_its_hash_and_replaced(
    wrong: bytes, server: Server, asset: Asset, tmp_path: Path
) -> None:
    plant(tmp_path, asset, wrong)
    assert (await download(asset, tmp_path)).read_bytes() == DATA
    assert [request.range_start for request in server.requests][-1] == 0
    assert names(tmp_path) == {".zip"}


@pytest.mark.parametrize(
    "note",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 5000,
        "{}",
        {"url": "https://elsewhere.example/", "size": SIZE, "etag": '"x"'},
        {"url": "", "size": SIZE - 1, "etag": '"x"'},
        {"etag": 7},
        {"etag": 'W/"weak"'},
        {"etag": '"' + "x" * 5000 + '"'},
        {"last-modified": "a\r\nEvil: yes"},
    ],
)
async def test_a_note_that_means_nothing_starts_over(note: Any, server: Server, asset: Asset, tmp_path: Path) -> None:
    if isinstance(note, dict):
        note = {"url": asset.url, "size": SIZE, **{name: value for name, value in note.items() if value != ""}}
    plant(tmp_path, asset, DATA[:50_000], note)
    assert (await download(asset, tmp_path)).read_bytes() == DATA
    assert [request.range_start for request in server.requests] == [0]


# Cancellation


@pytest.mark.requirement("X-005")
@pytest.mark.parametrize("sent", [-1, 0, 1, 4, 8_191, 8_192, 100_000, SIZE - 1])
async def test_a_cancellation_at_any_byte_keeps_what_came_and_the_next_call_continues(
    sent: int, server: Server, asset: Asset, tmp_path: Path
) -> None:
    loop, there = asyncio.get_running_loop(), asyncio.Event()

    async def stop_here(exchange: Exchange) -> None:
        if sent >= 0:
            await exchange.good(stop=sent)
        loop.call_soon_threadsafe(there.set)
        await asyncio.Event().wait()

    server.script(stop_here)
    reached = asyncio.Event()
    task = asyncio.ensure_future(
        download(
            asset,
            tmp_path,
            patience=Patience(report_s=0, block=8192),
            report=lambda progress: reached.set() if progress.done >= sent else None,
        )
    )
    await asyncio.wait_for(there.wait(), 10)
    await asyncio.wait_for(reached.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    part = tmp_path / f"{HASH}.part"
    kept = part.stat().st_size if part.exists() else 0
    # Fewer than the four bytes that tell an archive are not written.
    assert kept == (sent if sent >= 4 else 0)
    assert names(tmp_path) == ({".part", ".json"} if kept else set())
    assert (await download(asset, tmp_path)).read_bytes() == DATA
    assert server.requests[-1].range_start == kept


async def test_a_cancellation_while_the_kept_part_is_hashed_keeps_it(
    server: Server, asset: Asset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, asset, DATA[:150_000])
    monkeypatch.setattr(_part, "PIECE", 1000)
    seen = asyncio.Event()
    task = asyncio.ensure_future(download(asset, tmp_path, patience=Patience(report_s=0), report=lambda _: seen.set()))
    await asyncio.wait_for(seen.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (server.requests, (tmp_path / f"{HASH}.part").read_bytes()) == ([], DATA[:150_000])


async def test_a_cancellation_waits_for_the_thread_that_writes(tmp_path: Path) -> None:
    begun, go = threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        go.wait(10)

    task = asyncio.ensure_future(_threads.off_loop(slow))
    await asyncio.to_thread(begun.wait, 10)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task


@posix_only
@pytest.mark.requirement("A-052", "X-005")
async def test_a_process_that_is_killed_leaves_a_part_that_the_next_one_continues(
    server: Server, asset: Asset, tmp_path: Path
) -> None:
    async def stop_here(exchange: Exchange) -> None:
        await exchange.good(stop=100_000)
        await asyncio.Event().wait()

    server.script(stop_here)
    program = (
        "import asyncio, pathlib, sys\n"
        "from antigravity_provisioning.download import download\n"
        "from antigravity_provisioning._http import Patience\n"
        "from antigravity_provisioning import Asset\n"
        f"asset = Asset(*{tuple(asset)!r})\n"
        f"asyncio.run(download(asset, pathlib.Path({str(tmp_path)!r}), patience=Patience(block=8192)))\n"
    )
    process = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", program])
    part = tmp_path / f"{HASH}.part"
    try:
        async with asyncio.timeout(20):
            while not part.exists() or part.stat().st_size < 90_000:
                await asyncio.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        await asyncio.to_thread(process.wait, 10)
    kept = part.stat().st_size
    assert DATA.startswith(part.read_bytes())
    assert (await download(asset, tmp_path)).read_bytes() == DATA
    assert server.requests[1].range_start == kept


# The disk


@pytest.mark.parametrize(
    ("number", "reason"), [(errno.ENOSPC, "disk-full"), (errno.EDQUOT, "disk-full"), (errno.EIO, "disk")]
)
async def test_a_disk_that_fails_in_the_middle_of_a_write_leaves_a_true_beginning(
    number: int, reason: str, server: Server, asset: Asset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, room = os.write, 100_000

    def write(descriptor: int, data: Any) -> int:
        nonlocal room
        if len(data) < 1000:
            return real(descriptor, data)
        if not room:
            raise OSError(number, "no more")
        written = real(descriptor, data[:room])
        room -= written
        return written

    monkeypatch.setattr(_part.os, "write", write)
    with pytest.raises(ProvisioningError) as caught:
        await download(asset, tmp_path, patience=ONCE)
    assert (caught.value.stage, caught.value.reason) == ("download", reason)
    part = (tmp_path / f"{HASH}.part").read_bytes()
    # The bytes that fitted of the block that did not fit are taken back: hash and file agree.
    assert 90_000 < len(part) < 100_000
    assert DATA.startswith(part)
    monkeypatch.setattr(_part.os, "write", real)
    assert (await download(asset, tmp_path)).read_bytes() == DATA
    assert server.requests[1].range_start == len(part)


async def test_a_folder_that_cannot_be_used_is_named(server: Server, asset: Asset, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ProvisioningError, match="file") as caught:
            await download(asset, folder)
        assert caught.value.reason == "disk"
    for suffix in (".part", ".zip"):
        target = tmp_path / suffix
        (target / f"{HASH}{suffix}").mkdir(parents=True)
        with pytest.raises(ProvisioningError) as caught:
            await download(asset, target)
        assert caught.value.reason == "disk"
        assert (target / f"{HASH}{suffix}").is_dir()


async def test_disk_and_hash_never_run_on_the_event_loop(
    server: Server, asset: Asset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, set[int]] = {}

    def watch(module: Any, name: str) -> None:
        real = getattr(module, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            threads.setdefault(name, set()).add(threading.get_ident())
            return real(*arguments, **options)

        monkeypatch.setattr(module, name, watched)

    plant(tmp_path, asset, DATA[:50_000])
    for name in ("write", "read", "fsync", "ftruncate", "open"):
        watch(_part.os, name)
    watch(hashlib, "sha256")
    await download(asset, tmp_path, patience=ONCE)
    for name in ("write", "read", "fsync", "open"):
        assert threads[name], name
        assert threading.get_ident() not in threads[name], name


async def test_a_second_writer_of_the_same_part_is_turned_away_and_the_first_ends_well(
    server: Server, asset: Asset, tmp_path: Path
) -> None:
    if sys.platform == "win32":
        pytest.skip("files are locked by the store alone there")
    go = asyncio.Event()
    loop, there = asyncio.get_running_loop(), asyncio.Event()
    servers: list[asyncio.AbstractEventLoop] = []

    async def wait(exchange: Exchange) -> None:
        servers.append(asyncio.get_running_loop())
        loop.call_soon_threadsafe(there.set)
        await go.wait()
        await exchange.good()

    server.script(wait)
    first = asyncio.ensure_future(download(asset, tmp_path))
    await asyncio.wait_for(there.wait(), 10)
    with pytest.raises(ProvisioningError) as caught:
        await download(asset, tmp_path)
    assert caught.value.reason == "busy"
    servers[0].call_soon_threadsafe(go.set)
    assert (await first).read_bytes() == DATA


# What somebody may have planted


@posix_only
@pytest.mark.parametrize("suffix", [".part", ".json", ".json.new", ".zip"])
@pytest.mark.parametrize("kind", ["symlink", "dangling", "hard link", "pipe"])
async def test_what_is_planted_under_our_names_is_replaced_and_never_written_through(
    kind: str, suffix: str, server: Server, asset: Asset, tmp_path: Path
) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "downloads"
    folder.mkdir()
    content = DATA[:60_000]
    victim.write_bytes(content)
    if suffix != ".part":
        (folder / f"{HASH}.part").write_bytes(DATA[:50_000])
    planted = folder / f"{HASH}{suffix}"
    if kind == "symlink":
        planted.symlink_to(victim)
    elif kind == "dangling":
        planted.symlink_to(tmp_path / "nowhere")
    elif kind == "hard link":
        planted.hardlink_to(victim)
    else:
        os.mkfifo(planted)
    async with asyncio.timeout(10):
        path = await download(asset, folder)
    assert (path.is_symlink(), path.read_bytes(), victim.read_bytes()) == (False, DATA, content)
    assert not (tmp_path / "nowhere").exists()
    assert names(folder) <= {".zip", ".json.new"}


# Reports


def test_reports_are_at_most_ten_a_second_and_the_rate_does_not_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(_pace.time, "monotonic", lambda: now)
    steps: list[Progress] = []
    pace = _pace.Reporter(steps.append, "download", 10_000_000, Patience())
    pace.start(0)
    done = 0
    for _ in range(1000):
        now += 0.005
        done += 5_000
        pace.at(done)
    pace.last(done)
    assert 45 <= len(steps) <= 52
    assert steps[-1].done == done
    assert steps[-1].rate == pytest.approx(1_000_000, rel=0.01)
    assert steps[-1].seconds_left == pytest.approx(5, rel=0.01)
    # A moment of ten times the speed.
    now += 0.1
    pace.at(done + 1_000_000)
    assert 1_000_000 < (steps[-1].rate or 0) < 1_500_000


async def test_progress_only_grows_and_ends_at_the_size(server: Server, asset: Asset, tmp_path: Path) -> None:
    steps: list[Progress] = []
    server.script(cut_after(90_000))
    await download(asset, tmp_path, report=steps.append, patience=Patience(report_s=0, pause_s=0))
    done = [step.done for step in steps]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, SIZE)
    assert {(step.step, step.total) for step in steps} == {("download", SIZE)}


async def test_pauses_grow_and_heed_the_server_within_a_bound(
    server: Server, asset: Asset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float, *rest: Any) -> None:
        if seconds:
            pauses.append(seconds)
        await real(0)

    server.script(status(503), status(429, retry_after=7), status(503, retry_after=99_999), status(500))
    with monkeypatch.context() as patch:
        patch.setattr("antigravity_provisioning.download.asyncio.sleep", sleep)
        await download(asset, tmp_path)
    assert pauses == [0.5, 7, 30, 4]


def test_loopback_is_told_from_names_that_look_like_it() -> None:
    for host in ("localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"):
        assert is_loopback(host), host
    for host in ("localhost.example.com", "127.0.0.1.example.com", "128.0.0.1", "dl.google.com", "", "::2"):
        assert not is_loopback(host), host


# A file that the user has


@pytest.mark.requirement("A-052", "X-005")
async def test_a_file_of_the_user_becomes_the_archive_and_stays(tmp_path: Path) -> None:
    asset, folder = asset_of("https://dl.google.com/never-asked.zip"), tmp_path / "downloads"
    source = tmp_path / "mine.zip"
    source.write_bytes(DATA)
    steps: list[Progress] = []
    path = await copy_in(asset, source, folder, report=steps.append)
    assert (path, path.read_bytes(), source.read_bytes()) == (folder / f"{HASH}.zip", DATA, DATA)
    assert steps[-1] == ("verify", SIZE, SIZE, steps[-1].rate)
    # The finished archive itself, and one over what an interrupted download left.
    plant(folder, asset, DATA[:500])
    assert await copy_in(asset, path, folder) == path
    assert (path.read_bytes(), names(folder)) == (DATA, {".zip"})
    assert await download(asset, folder) == path


@pytest.mark.parametrize(
    ("content", "reason"),
    [(DATA[:-1], "size"), (DATA + b"x", "size"), (b"", "size"), (b"PK\x03\x05" + DATA[4:], "hash"), (None, "disk")],
)
async def test_another_file_is_refused_and_nothing_of_it_stays(
    content: bytes | None, reason: str, tmp_path: Path
) -> None:
    asset, folder = asset_of("https://dl.google.com/a.zip"), tmp_path / "downloads"
    source = tmp_path / "mine.zip"
    if content is not None:
        source.write_bytes(content)
    with pytest.raises(ProvisioningError, match=r"mine\.zip") as caught:
        await copy_in(asset, source, folder)
    assert caught.value.reason == reason
    assert not folder.exists() or names(folder) == set()


@posix_only
async def test_a_folder_or_a_pipe_is_no_archive_and_a_planted_link_is_not_written_through(tmp_path: Path) -> None:
    asset, folder = asset_of("https://dl.google.com/a.zip"), tmp_path / "downloads"
    os.mkfifo(tmp_path / "pipe")
    for source in (tmp_path, tmp_path / "pipe"):
        async with asyncio.timeout(5):
            with pytest.raises(ProvisioningError) as caught:
                await copy_in(asset, source, folder)
        assert caught.value.reason == "content"
    source = tmp_path / "mine.zip"
    source.write_bytes(DATA)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder.mkdir()
    for suffix in (".copy", ".zip"):
        (folder / f"{HASH}{suffix}").symlink_to(victim)
    assert (await copy_in(asset, source, folder)).read_bytes() == DATA
    assert victim.read_text() == "mine"


async def test_a_cancelled_copy_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asset, folder = asset_of("https://dl.google.com/a.zip"), tmp_path / "downloads"
    source = tmp_path / "mine.zip"
    source.write_bytes(DATA)
    monkeypatch.setattr(_local, "PIECE", 1000)
    seen = asyncio.Event()
    task = asyncio.ensure_future(
        copy_in(asset, source, folder, patience=Patience(report_s=0), report=lambda _: seen.set())
    )
    await asyncio.wait_for(seen.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert names(folder) == set()
