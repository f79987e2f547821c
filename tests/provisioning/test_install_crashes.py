"""An installation that stops at any instant leaves the old state or the new one."""

import builtins
import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.installs import Release, everything_below, left_over, put, release
from helpers.killed_installs import kill_installers

from antigravity_provisioning import _publish
from antigravity_provisioning.archive import unpack
from antigravity_provisioning.errors import ProvisioningError
from antigravity_provisioning.install import install
from antigravity_provisioning.store import Store

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and file modes")


@pytest.fixture
def given(tmp_path: Path) -> Release:
    return release(tmp_path / "archives")


class Failing:
    """The ``os`` of one module, whose call number ``at`` of those that write fails."""

    WRITES = ("open", "rename", "replace", "fsync", "fdopen", "walk")

    def __init__(self, at: int, number: int) -> None:
        self._left, self._number = at, number
        self.failed = ""

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self.counted(name, real) if name in self.WRITES else real

    def counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                self.failed = name
                raise OSError(self._number, os.strerror(self._number))
            return real(*args, **options)

        return call


@pytest.mark.requirement("A-052")
@pytest.mark.parametrize(
    ("before", "number", "reason"),
    [("nothing", errno.ENOSPC, "disk-full"), ("damaged", errno.EIO, "disk"), ("whole", errno.EACCES, "disk")],
)
def test_a_fault_at_any_operation_leaves_the_old_or_the_new(
    tmp_path: Path, given: Release, before: str, number: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # real ones take seconds, and no power fails here
    hit: list[str] = []
    raised: list[tuple[str, str]] = []
    for at in range(1, 100):
        store = Store(tmp_path / f"root{at}")
        if before != "nothing":
            put(store, given)
            store.record(given.asset, "antigravity-acp", "1.3.0")
        if before == "damaged":
            (store.folder(given.asset) / "agy_acp_server.par").unlink()
        old = everything_below(store.folder(given.asset))
        store.prepare()
        staging = store.staging()
        entries = unpack(given.archive, staging)
        fault = Failing(at, number)
        with monkeypatch.context() as patched:
            patched.setattr(_publish, "os", fault)
            patched.setattr(_publish, "open", fault.counted("read", builtins.open), raising=False)
            try:
                store.publish(given.asset, staging, entries)
                store.record(given.asset, "antigravity-acp", "1.3.0")
            except ProvisioningError as error:
                raised.append((error.stage, error.reason))
        hit.append(fault.failed)
        if not fault.failed:
            break
        if store.find(given.asset) is None:
            assert everything_below(store.folder(given.asset)) == old, fault.failed
        else:
            assert store.verify(given.asset) == [], fault.failed
        store.sweep(given.asset)
        put(store, given)
        assert store.verify(given.asset) == []
        assert [left for left in left_over(store) if not left.startswith("downloads")] == []
    # It came to the end, and on the way every kind of operation had failed at least once.
    assert hit[-1] == ""
    assert store.health(given.asset) == "proven"
    assert raised == [("publish", reason)] * (len(hit) - 1)
    assert {"open", "rename", "replace", "fsync", "fdopen", "read"} <= set(hit)


async def test_a_crash_between_the_two_renames_is_a_clean_retry(
    tmp_path: Path, given: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PowerCut(BaseException):
        pass

    store = Store(tmp_path / "root")
    put(store, given)
    (store.folder(given.asset) / "receipt.json").unlink()
    real, calls = os.rename, 0

    def rename(source: Path, target: Path) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise PowerCut  # nothing after this instant, not even the way back
        real(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", rename)
        with pytest.raises(PowerCut):
            _publish.publish(
                store.staging(), store.folder(given.asset), tmp_path / "r", b"", aside=store.servers / ".trash"
            )
    assert store.health(given.asset) == "partial"
    await install(asset=given.asset, store=store, archive=given.archive)
    assert (store.verify(given.asset), left_over(store)) == ([], [])


def test_the_receipt_is_written_last_and_everything_is_on_the_disk_before_the_rename(
    tmp_path: Path, given: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "root")
    store.prepare()
    staging = store.staging()
    entries = unpack(given.archive, staging)
    told: list[tuple[str, str]] = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(descriptor: int) -> None:
        told.append(("fsync", os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))))
        real_fsync(descriptor)

    def rename(source: Path, target: Path) -> None:
        told.append(("rename", Path(target).name))
        real_rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    folder = store.publish(given.asset, staging, entries).folder
    renamed = told.index(("rename", folder.name))
    assert {name for _, name in told[: renamed - 2]} >= {entry.path for entry in entries}
    assert told[renamed - 2 :] == [
        ("fsync", "receipt.json"),
        ("fsync", staging.name),
        ("rename", folder.name),
        ("fsync", "servers"),
    ]


@pytest.mark.requirement("A-052")
def test_installers_killed_at_random_instants_leave_a_server_or_a_clean_retry(tmp_path: Path, given: Release) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    outcome = kill_installers(tmp_path / "root", given, kills=12, seed=seed)
    assert outcome.faults == []
    assert outcome.kills == 12
