"""Installing and uninstalling: from nothing, from every kind of damage, cancelled at every step."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from helpers.archives import HARNESS, SERVER
from helpers.installs import DAMAGES, Damage, Release, asset_of, everything_below, left_over, put, release

from antigravity_provisioning import _locking, download, machine, releases
from antigravity_provisioning.errors import ProvisioningError
from antigravity_provisioning.install import install, uninstall
from antigravity_provisioning.locate import OfficialServer, locate
from antigravity_provisioning.progress import Progress
from antigravity_provisioning.store import Store

pytestmark = pytest.mark.skipif(os.name == "nt", reason="file modes, links and pipes")


@pytest.fixture
def given(tmp_path: Path) -> Release:
    return release(tmp_path / "archives")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "root")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> Path:
        pytest.fail("something was fetched or copied")

    monkeypatch.setattr(download, "download", refuse)
    monkeypatch.setattr(download, "copy_in", refuse)


async def prove(_: OfficialServer) -> tuple[str, str]:
    return "antigravity-acp", "1.3.0"


async def put_in(store: Store, given: Release, **options: object) -> OfficialServer:
    return await install(asset=given.asset, store=store, archive=given.archive, **options)  # type: ignore[arg-type]


def output(server: OfficialServer) -> bytes:
    return subprocess.run([server.path], capture_output=True, check=True).stdout


@pytest.mark.requirement("A-052", "X-005")
async def test_from_nothing_to_a_proven_server(store: Store, given: Release) -> None:
    steps: list[Progress] = []
    server = await put_in(store, given, report=steps.append, prove=prove)
    assert output(server) == b"works\n"
    assert (server.source, server.args, server.harness.name) == ("cache", given.asset.args, HARNESS)
    assert store.health(given.asset) == "proven"
    seen = list(dict.fromkeys(step.step for step in steps))
    assert [step for step in seen if step not in ("download", "verify")] == [
        *("check", "unpack", "publish", "initialize", "done")
    ]
    # The archive takes a third of the room and is of no more use.
    assert left_over(store) == []


@pytest.mark.requirement("A-052")
async def test_what_is_there_is_used_without_network_lock_or_write(
    store: Store, given: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await put_in(store, given, prove=prove)
    before = everything_below(store.root)

    def forbidden(*_: object, **__: object) -> None:
        pytest.fail("a complete installation was not left alone")

    for module, name in ((download, "download"), (download, "copy_in"), (machine, "check_cpu"), (Store, "prepare")):
        monkeypatch.setattr(module, name, forbidden)
    with FileLock(store.lock):
        assert await install(asset=given.asset, store=store, prove=prove) == first
    assert everything_below(store.root) == before


@pytest.mark.requirement("A-052")
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
async def test_every_damage_is_repaired_by_the_next_installation(store: Store, given: Release, damage: Damage) -> None:
    server = await put_in(store, given, prove=prove)
    damage.do(server.path.parent / damage.file)
    assert await put_in(store, given, verify=not damage.cheap) == server
    assert output(server) == b"works\n"
    # New files have proved nothing yet.
    assert (store.verify(given.asset), store.health(given.asset)) == ([], "unproven")
    assert left_over(store) == []
    outside = {path.name for path in store.root.iterdir()}
    assert outside <= {"servers", "downloads", "elsewhere"}


async def test_a_verified_installation_that_is_whole_is_left_alone(
    store: Store, given: Release, no_network: None
) -> None:
    put(store, given)
    before = store.folder(given.asset).stat().st_ino
    await put_in(store, given, verify=True)
    assert store.folder(given.asset).stat().st_ino == before


@pytest.mark.requirement("X-005")
async def test_a_server_that_proves_nothing_stays_and_is_asked_again(
    store: Store, given: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(_: OfficialServer) -> tuple[str, str]:
        raise ProvisioningError("initialize", "no-answer", "It did not answer.")

    with pytest.raises(ProvisioningError) as caught:
        await put_in(store, given, prove=silent)
    assert (caught.value.stage, store.health(given.asset)) == ("initialize", "unproven")
    monkeypatch.setattr(download, "copy_in", None)  # called, it would fail
    with pytest.raises(ProvisioningError):
        await put_in(store, given, prove=silent)
    server = await put_in(store, given, prove=prove)
    assert (store.health(given.asset), output(server)) == ("proven", b"works\n")


@pytest.mark.requirement("X-005")
@pytest.mark.parametrize(
    ("reported", "proven"),
    [("1.3.0", True), ("agy_acp_server_1.3.0", True), ("1.3.0-rc1", True)]
    + [(other, False) for other in ("11.3.0", "1.3.0.1", "1.3.01", "1.2.1", "", "rc01")],
)
async def test_only_the_pinned_version_proves_itself(store: Store, given: Release, reported: str, proven: bool) -> None:
    async def answers(_: OfficialServer) -> tuple[str, str]:
        return "antigravity-acp", reported

    if proven:
        await put_in(store, given, prove=answers)
    else:
        with pytest.raises(ProvisioningError) as caught:
            await put_in(store, given, prove=answers)
        assert (caught.value.stage, caught.value.reason) == ("initialize", "wrong-agent")
        assert not reported or reported not in caught.value.message
    assert store.health(given.asset) == ("proven" if proven else "unproven")


async def test_an_unproven_server_is_enough_for_who_does_not_ask(
    store: Store, given: Release, no_network: None
) -> None:
    put(store, given)
    assert (await put_in(store, given)).path == store.folder(given.asset) / SERVER


STEPS = ["check", "verify", "unpack", "publish", "initialize"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("times", [1, 3])
async def test_cancelled_at_any_step_nothing_stays_and_the_lock_is_free(
    store: Store, given: Release, step: str, times: int
) -> None:
    loop = asyncio.get_running_loop()
    reached = asyncio.Event()

    def report(progress: Progress) -> None:
        if progress.step == step and not reached.is_set():
            for _ in range(times):
                loop.call_soon_threadsafe(task.cancel)
            loop.call_soon_threadsafe(reached.set)

    async def slow_proof(_: OfficialServer) -> tuple[str, str]:
        await asyncio.sleep(30)
        raise AssertionError

    task = asyncio.create_task(put_in(store, given, report=report, prove=slow_proof))
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 20)
    assert reached.is_set()
    assert [left for left in left_over(store) if not left.startswith("downloads/")] == []
    assert (store.find(given.asset) is not None) == (step in ("publish", "initialize"))
    assert store.health(given.asset) != "proven"
    FileLock(store.lock).acquire(blocking=False).lock.release(force=True)
    assert output(await put_in(store, given, prove=prove)) == b"works\n"


@pytest.mark.parametrize("where", ["unpack", "publish"])
async def test_a_report_that_raises_leaves_nothing_behind(store: Store, given: Release, where: str) -> None:
    def report(progress: Progress) -> None:
        if progress.step == where:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await put_in(store, given, report=report)
    assert [left for left in left_over(store) if not left.startswith("downloads/")] == []
    assert output(await put_in(store, given)) == b"works\n"


async def test_a_waiting_installer_says_so_can_be_cancelled_and_finds_what_the_other_made(
    store: Store, given: Release, no_network: None
) -> None:
    store.prepare()
    waits = asyncio.Event()

    def report(progress: Progress) -> None:
        if progress.step == "wait":
            waits.set()

    with FileLock(store.lock):
        given_up = asyncio.create_task(put_in(store, given, report=report))
        patient = asyncio.create_task(put_in(store, given))
        await asyncio.wait_for(waits.wait(), 5)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        put(store, given)
        assert not patient.done()
    assert (await asyncio.wait_for(patient, 5)).path.parent == store.folder(given.asset)


async def test_two_tasks_of_one_process_install_once(store: Store, given: Release) -> None:
    steps: list[str] = []
    servers = await asyncio.gather(*(put_in(store, given, report=lambda p: steps.append(p.step)) for _ in range(4)))
    assert len(set(servers)) == 1
    assert steps.count("publish") == 1


async def test_waiting_for_the_lock_is_bounded(store: Store) -> None:
    store.prepare()
    with FileLock(store.lock), pytest.raises(ProvisioningError, match="Another process has been installing") as caught:
        async with _locking.locked(store.lock, report=lambda _: None, wait_s=0.1):
            pytest.fail("two holders")
    assert (caught.value.stage, caught.value.reason) == ("lock", "busy")


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "pipe"])
async def test_a_lock_that_somebody_put_there_is_an_error_and_not_followed(
    store: Store, given: Release, tmp_path: Path, kind: str
) -> None:
    store.prepare()
    target = tmp_path / "target"
    if kind == "link":
        target.write_bytes(b"kept")
    make: dict[str, Callable[[], object]] = {
        "link": lambda: store.lock.symlink_to(target),
        "dangling link": lambda: store.lock.symlink_to(target),
        "folder": store.lock.mkdir,
        "pipe": lambda: os.mkfifo(store.lock),
    }
    make[kind]()
    with pytest.raises(ProvisioningError, match="delete it and try again") as caught:
        await put_in(store, given)
    assert (caught.value.stage, caught.value.reason) == ("lock", "disk")
    assert target.exists() == (kind == "link")


@pytest.mark.parametrize("error", [PermissionError(13, "no"), OSError(38, "no locks"), NotImplementedError()])
async def test_a_lock_that_cannot_be_used_is_a_clear_error(
    store: Store, given: Release, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(FileLock, "acquire", fail)
    with pytest.raises(ProvisioningError, match="cannot be used") as caught:
        await put_in(store, given)
    assert caught.value.stage == "lock"


async def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path, given: Release) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ProvisioningError, match="file") as caught:
        await put_in(Store(tmp_path / "file" / "root"), given)
    assert (caught.value.stage, caught.value.reason) == ("disk", "disk")


@pytest.mark.parametrize("check", ["check_cpu", "check_disk"])
async def test_a_machine_that_cannot_run_or_hold_it_downloads_nothing(
    store: Store, given: Release, no_network: None, monkeypatch: pytest.MonkeyPatch, check: str
) -> None:
    def refuse(*_: object) -> None:
        raise ProvisioningError("platform", "cpu", "no")

    monkeypatch.setattr(machine, check, refuse)
    with pytest.raises(ProvisioningError, match="no"):
        await put_in(store, given)


async def test_the_pinned_release_is_what_is_installed(
    store: Store, given: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "pinned", lambda: given.asset)
    server = await install(store=store, archive=given.archive)
    assert locate(environ={"PATH": ""}, home=store.root, store=store) == server


@pytest.mark.requirement("X-005")
async def test_another_archive_than_the_pinned_one_is_refused(store: Store, given: Release, tmp_path: Path) -> None:
    other = release(tmp_path / "other", padding=1_001)
    for wrong in (other.archive, tmp_path / "none.zip"):
        with pytest.raises(ProvisioningError):
            await install(asset=given.asset, store=store, archive=wrong)
    assert store.find(given.asset) is None
    assert left_over(store) == []


@pytest.mark.requirement("A-051")
async def test_an_archive_without_the_sibling_is_refused_and_staging_is_empty(store: Store, tmp_path: Path) -> None:
    half = release(tmp_path / "half", sibling="something_else")
    with pytest.raises(ProvisioningError) as caught:
        await put_in(store, half)
    assert (caught.value.stage, caught.value.reason) == ("archive", "incomplete")
    assert [left for left in left_over(store) if not left.startswith("downloads/")] == []


async def test_an_archive_with_our_receipt_in_it_is_refused(store: Store, tmp_path: Path) -> None:
    import zipfile

    path = release(tmp_path).archive
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("Receipt.json", "{}")
    with pytest.raises(ProvisioningError) as caught:
        await install(asset=asset_of(path.read_bytes()), store=store, archive=path)
    assert caught.value.stage == "archive"
    assert [left for left in left_over(store) if not left.startswith("downloads/")] == []


async def test_releases_live_side_by_side_until_they_are_uninstalled(store: Store, tmp_path: Path) -> None:
    old, new = (release(tmp_path, version=version) for version in ("1.2.1", "1.3.0"))
    servers = []
    for each in (old, new):

        async def answers(_: OfficialServer, version: str = each.asset.version) -> tuple[str, str]:
            return "antigravity-acp", version

        servers.append(await put_in(store, each, prove=answers))
    assert [store.health(each.asset) for each in (old, new)] == ["proven", "proven"]
    assert [output(server) for server in servers] == [b"works\n"] * 2


async def test_uninstalling_takes_everything_of_ours_and_nothing_else(
    store: Store, given: Release, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"kept")
    server = await put_in(store, given, prove=prove)
    await put_in(store, release(tmp_path, version="1.2.1"))
    (store.staging() / "half").write_bytes(b"x")
    (store.downloads_folder() / "x.part").write_bytes(b"12345")
    (store.root / "notes of the user").write_bytes(b"kept")
    (store.servers / "link").symlink_to(outside)
    (store.downloads / "link").symlink_to(outside)
    (server.path.parent / "link").symlink_to(outside)
    removed = await uninstall(store)
    assert everything_below(store.root) == {"notes of the user": b"kept", "servers/.lock": b""}
    assert everything_below(outside) == {"kept": b"kept"}
    assert [line.split(" (")[0] for line in removed] == [
        "leftovers",
        f"server 1.2.1-{given.asset.platform}",
        f"server 1.3.0-{given.asset.platform}",
        f"1.3.0-{given.asset.platform}.proof.json",
        "downloads",
    ]
    assert all("MB" in line for line in removed if line.startswith(("server", "downloads")))
    assert store.health(given.asset) == "absent"
    assert await uninstall(store) == []


async def test_uninstalling_where_nothing_is_makes_nothing(store: Store) -> None:
    assert await uninstall(store) == []
    assert not store.root.exists()


async def test_uninstalling_does_not_follow_a_root_that_is_a_link(store: Store, given: Release, tmp_path: Path) -> None:
    put(store, given)
    (tmp_path / "link").symlink_to(store.root)
    for root in (tmp_path / "link",):
        with pytest.raises(ProvisioningError, match="is a link"):
            await uninstall(Store(root))
    away = tmp_path / "away"
    store.servers.rename(away)
    store.servers.symlink_to(away)
    with pytest.raises(ProvisioningError, match="is a link"):
        await uninstall(store)
    assert (away / store.folder(given.asset).name / SERVER).exists()


async def test_uninstalling_waits_for_an_installer(store: Store, given: Release) -> None:
    put(store, given)
    waits = asyncio.Event()
    with FileLock(store.lock):
        task = asyncio.create_task(uninstall(store, report=lambda _: waits.set()))
        await asyncio.wait_for(waits.wait(), 5)
        assert store.find(given.asset) is not None
    assert await asyncio.wait_for(task, 5)


async def test_a_server_that_is_in_use_stops_the_uninstallation_whole(
    store: Store, given: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, given)

    def held(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr("antigravity_provisioning._publish.RENAME_PAUSES", ())
    monkeypatch.setattr(os, "rename", held)
    with pytest.raises(ProvisioningError, match="End every running Antigravity server") as caught:
        await uninstall(store)
    assert caught.value.reason == "busy"
    assert store.verify(given.asset) == []


def test_looking_for_a_server_loads_nothing_heavy() -> None:
    heavy = ("asyncio", "httpx2", "filelock", "platformdirs", "zipfile", "antigravity_provisioning.install")
    code = (
        "import sys, antigravity_provisioning, antigravity_provisioning.locate, antigravity_provisioning.store\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_public_types_are_there_and_nothing_else() -> None:
    import antigravity_provisioning

    assert all(getattr(antigravity_provisioning, name) for name in antigravity_provisioning.__all__)
    with pytest.raises(AttributeError):
        antigravity_provisioning.nothing  # noqa: B018 - the look-up is the test
