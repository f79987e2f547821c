"""What lies in the cache, and whether it may be used."""

import json
import os
import random
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers.archives import HARNESS, SERVER
from helpers.installs import DAMAGES, Damage, Release, everything_below, put, release

from antigravity_provisioning import _publish
from antigravity_provisioning._receipt import UnreadableError, decode_receipt
from antigravity_provisioning.errors import ProvisioningError
from antigravity_provisioning.store import Store

pytestmark = pytest.mark.skipif(os.name == "nt", reason="file modes, links and pipes")


@pytest.fixture
def given(tmp_path: Path) -> Release:
    return release(tmp_path / "archives")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "root")


def test_nothing_is_absent_and_looking_makes_nothing(store: Store, given: Release) -> None:
    assert (store.find(given.asset), store.health(given.asset)) == (None, "absent")
    assert store.verify(given.asset) == [f"{store.folder(given.asset).name} is not installed."]
    assert not store.root.exists()


@pytest.mark.requirement("A-051", "A-052")
def test_what_was_published_is_whole_private_and_runs(store: Store, given: Release) -> None:
    installed = put(store, given)
    assert store.find(given.asset) == installed
    assert not installed.proven
    assert (installed.server.name, installed.harness.name) == (SERVER, HARNESS)
    assert installed.server.parent == installed.harness.parent == store.folder(given.asset)
    assert subprocess.run([installed.server], capture_output=True, check=True).stdout == b"works\n"
    assert os.access(installed.harness, os.X_OK)
    assert store.verify(given.asset) == []
    assert [stat.S_IMODE(path.stat().st_mode) for path in (store.root, store.servers)] == [0o700, 0o700]


@pytest.mark.requirement("A-053")
def test_a_receipt_lists_every_file_and_claims_nothing_else(store: Store, given: Release) -> None:
    folder = put(store, given).folder
    receipt = json.loads((folder / "receipt.json").read_bytes())
    assert receipt.keys() == {"format", "version", "platform", "archive", "files"}
    assert receipt["archive"] == {"sha256": given.asset.sha256, "size": given.asset.size}
    assert [(file["path"], file["mode"]) for file in receipt["files"]] == [(SERVER, "0755"), (HARNESS, "0755")]
    assert "sign" not in json.dumps(receipt).lower()
    package = Path(_publish.__file__).parent
    for source in package.glob("*.py"):
        for line in source.read_text(encoding="utf-8").lower().splitlines():
            assert not ("receipt" in line and "signature" in line), f"{source.name}: {line}"


def test_a_receipt_with_any_byte_changed_is_another_receipt_or_damaged(store: Store, given: Release) -> None:
    whole = (put(store, given).folder / "receipt.json").read_bytes()
    choose = random.Random(4)
    for _ in range(1_000):
        data = bytearray(whole)
        for _ in range(choose.randint(1, 3)):
            data[choose.randrange(len(data))] = choose.randrange(256)
        with suppress(UnreadableError):
            assert decode_receipt(bytes(data)).files


@pytest.mark.requirement("A-052")
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.name)
def test_damage_is_seen(store: Store, given: Release, damage: Damage) -> None:
    folder = put(store, given).folder
    store.record(given.asset, "antigravity-acp", "1.3.0")
    damage.do(folder / damage.file)
    assert store.health(given.asset) == (damage.health if damage.cheap else "proven")
    assert (store.find(given.asset) is None) == damage.cheap == bool(store.faults(given.asset))
    assert store.verify(given.asset)


def test_an_installation_of_another_archive_is_not_this_one(store: Store, given: Release, tmp_path: Path) -> None:
    put(store, given)
    same_version = release(tmp_path / "other", padding=2_000)
    assert store.find(same_version.asset) is None
    assert store.faults(same_version.asset) == ["receipt.json belongs to another archive."]


def test_a_link_to_an_installation_is_none(store: Store, given: Release) -> None:
    folder = put(store, given).folder
    away = store.root / "away"
    folder.rename(away)
    folder.symlink_to(away)
    assert store.find(given.asset) is None


@pytest.mark.parametrize("ending", [".part", ".zip"])
def test_a_download_that_was_begun_is_partial(store: Store, given: Release, ending: str) -> None:
    store.prepare()
    (store.downloads_folder() / f"{given.asset.sha256}{ending}").write_bytes(b"x")
    assert store.health(given.asset) == "partial"
    assert store.downloaded(given.asset) == 1


def receipt_of(store: Store, given: Release) -> Any:
    return json.loads((put(store, given).folder / "receipt.json").read_bytes())


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/etc/passwd",
        "a/../../x",
        "a//b",
        ".",
        "",
        "c:x",
        "a\\b",
        "x\n",
        "receipt.json",
        "RECEIPT.JSON",
        "a" * 2000,
    ],
)
def test_a_receipt_cannot_lead_outside(store: Store, given: Release, path: str) -> None:
    receipt = receipt_of(store, given)
    receipt["files"][0]["path"] = path
    with pytest.raises(UnreadableError):
        decode_receipt(json.dumps(receipt).encode())


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("format",), 2),
        (("format",), True),
        (("version",), ["1.3.0"]),
        (("version",), "../1"),
        (("archive",), None),
        (("archive", "size"), True),
        (("archive", "size"), -1),
        (("archive", "size"), 1e3),
        (("archive", "sha256"), "A" * 64),
        (("files",), {}),
        (("files",), []),
        (("files",), [None]),
        (("files", 0, "size"), 1 << 60),
        (("files", 0, "size"), "3"),
        (("files", 0, "mode"), "4755"),
        (("files", 0, "mode"), 493),
        (("files", 0, "more"), 1),
        (("more",), 1),
    ],
    ids=str,
)
def test_a_receipt_with_a_wrong_value_is_damaged_and_no_exception(
    store: Store, given: Release, where: tuple[Any, ...], value: object
) -> None:
    receipt = receipt_of(store, given)
    inner = receipt
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    (store.folder(given.asset) / "receipt.json").write_text(json.dumps(receipt))
    assert store.health(given.asset) == "damaged"
    assert len(store.verify(given.asset)) == 1


@pytest.mark.parametrize("text", ['{"format": 1' + "1" * 6000 + "}", "NaN", "null", '"x"', '{"format":1}'])
def test_a_receipt_that_is_other_json_is_damaged(store: Store, given: Release, text: str) -> None:
    (put(store, given).folder / "receipt.json").write_text(text)
    assert store.health(given.asset) == "damaged"


def test_a_receipt_that_lists_a_file_twice_or_too_many_is_damaged(store: Store, given: Release) -> None:
    receipt = receipt_of(store, given)
    for files in (receipt["files"] * 2, receipt["files"] * 3000):
        with pytest.raises(UnreadableError):
            decode_receipt(json.dumps({**receipt, "files": files}).encode())


def test_a_folder_inside_that_became_a_link_is_seen(store: Store, given: Release) -> None:
    folder = put(store, given).folder
    receipt = json.loads((folder / "receipt.json").read_bytes())
    (store.root / "outside").mkdir()
    (store.root / "outside" / "x").write_bytes(b"")
    (folder / "sub").symlink_to(store.root / "outside")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    receipt["files"].append({"path": "sub/x", "size": 0, "sha256": empty, "mode": "0644"})
    (folder / "receipt.json").write_text(json.dumps(receipt))
    assert store.faults(given.asset) == ["sub/x is not where it should be."]


@pytest.mark.requirement("X-005")
def test_a_proof_belongs_to_one_receipt(store: Store, given: Release, tmp_path: Path) -> None:
    put(store, given)
    store.record(given.asset, "antigravity-acp", "1.3.0")
    proof = store.proof(given.asset)
    assert proof is not None
    assert (proof.agent, proof.agent_version, store.health(given.asset)) == ("antigravity-acp", "1.3.0", "proven")
    # The same proof beside other files proves nothing.
    other = release(tmp_path / "other", padding=2_000)
    kept = store.proof_path(given.asset).read_bytes()
    put(store, other)
    assert not store.proof_path(given.asset).exists()
    store.proof_path(other.asset).write_bytes(kept)
    assert store.health(other.asset) == "unproven"
    assert store.proof(other.asset) is None


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[" * 10_000, b"x" * 20_000, b'{"format":1,"receipt":1,"agent":{},"time":1}']
)
def test_a_broken_proof_is_none(store: Store, given: Release, content: bytes) -> None:
    put(store, given)
    store.proof_path(given.asset).write_bytes(content)
    assert store.health(given.asset) == "unproven"


def test_names_that_an_agent_gives_itself_are_bounded_and_printable(store: Store, given: Release) -> None:
    put(store, given)
    store.record(given.asset, "a\x1b[2J" + "b" * 1000, "1\n2")
    proof = store.proof(given.asset)
    assert proof is not None
    assert (proof.agent[:6], len(proof.agent), proof.agent_version) == ("a[2Jbb", 256, "12")


@pytest.mark.parametrize(("mode", "who"), [(0o777, "every user"), (0o770, "other users of its group")])
@pytest.mark.parametrize("part", ["", "servers"])
def test_folders_that_others_can_write_to_are_not_used(
    store: Store, given: Release, part: str, mode: int, who: str
) -> None:
    put(store, given)
    (store.root / part).chmod(mode)
    assert (store.find(given.asset), store.health(given.asset)) == (None, "unsafe")
    assert who in store.verify(given.asset)[0]
    with pytest.raises(ProvisioningError, match="Delete it, or correct its permissions") as caught:
        store.prepare()
    assert caught.value.stage == "disk"


def test_a_root_that_belongs_to_somebody_else_is_not_used(
    store: Store, given: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, given)
    real = os.geteuid()
    if real == 0:
        os.chown(store.root, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: real + 1)
    assert store.health(given.asset) == "unsafe"
    with pytest.raises(ProvisioningError, match="belongs to another user"):
        store.prepare()


def test_a_root_that_is_a_link_or_a_file_is_not_used(tmp_path: Path, given: Release) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_bytes(b"")
    for name in ("link", "file"):
        store = Store(tmp_path / name)
        assert store.health(given.asset) == "unsafe"
        with pytest.raises(ProvisioningError, match="is a link or not a folder"):
            store.prepare()
    assert not list((tmp_path / "real").iterdir())


def test_a_download_folder_that_is_a_link_is_replaced_and_not_followed(store: Store, tmp_path: Path) -> None:
    store.prepare()
    (tmp_path / "real").mkdir()
    store.downloads.symlink_to(tmp_path / "real")
    assert store.downloads_folder().is_dir()
    assert not store.downloads.is_symlink()


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_download_folder_that_others_can_write_to_is_not_used(store: Store, mode: int) -> None:
    # Between the hash and the unpacking somebody could put another archive there.
    store.prepare()
    store.downloads.mkdir()
    store.downloads.chmod(mode)
    with pytest.raises(ProvisioningError, match="Delete it, or correct its permissions") as caught:
        store.downloads_folder()
    assert (caught.value.stage, caught.value.reason) == ("disk", "disk")


def test_an_archive_that_lacks_a_program_is_not_published(store: Store, given: Release) -> None:
    store.prepare()
    staging = store.staging()
    (staging / SERVER).write_bytes(b"x")
    from antigravity_provisioning.archive import FileEntry

    with pytest.raises(ProvisioningError, match=HARNESS) as caught:
        store.publish(given.asset, staging, [FileEntry(SERVER, 1, "0" * 64, executable=True)])
    assert (caught.value.reason, store.health(given.asset)) == ("incomplete", "partial")


def test_programs_without_permission_bits_in_the_archive_become_executable(store: Store, given: Release) -> None:
    from antigravity_provisioning.archive import FileEntry, unpack

    store.prepare()
    staging = store.staging()
    entries = []
    for entry in unpack(given.archive, staging):
        (staging / entry.path).chmod(0o666)
        entries.append(FileEntry(entry.path, entry.size, entry.sha256, executable=False))
    installed = store.publish(given.asset, staging, entries)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (installed.server, installed.harness)] == [0o744, 0o744]


def test_what_dead_installers_left_is_swept_and_nothing_else(store: Store, given: Release) -> None:
    installed = put(store, given)
    before = everything_below(installed.folder)
    (store.staging() / "half").write_bytes(b"x")
    locked_up = store.servers / ".trash" / "old"
    (locked_up / "inner").mkdir(parents=True)
    (locked_up / "inner" / "file").write_bytes(b"x")
    (locked_up / "inner").chmod(0o500)
    (locked_up / "link").symlink_to(installed.folder)
    downloads = store.downloads_folder()
    for name in (f"{given.asset.sha256}.zip", "0" * 64 + ".part"):
        (downloads / name).write_bytes(b"x")
    store.sweep(given.asset)
    assert everything_below(installed.folder) == before
    assert os.listdir(downloads) == ["0" * 64 + ".part"]
    assert not (store.servers / ".staging").exists()
    assert not (store.servers / ".trash").exists()


def held(times: int) -> tuple[Any, list[int]]:
    """A rename that an anti-virus program forbids some times, and how often it was tried."""
    real, calls = os.rename, [0]

    def rename(source: Path, target: Path) -> None:
        calls[0] += 1
        if calls[0] <= times:
            error = PermissionError(13, "Access is denied")
            error.winerror = 5  # type: ignore[attr-defined]  # what Windows sets
            raise error
        real(source, target)

    return rename, calls


def test_a_rename_that_is_held_for_a_moment_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename, calls = held(3)
    monkeypatch.setattr(os, "rename", rename)
    (tmp_path / "a").mkdir()
    pauses: list[float] = []
    _publish.move(tmp_path / "a", tmp_path / "b", pause=pauses.append)
    assert (tmp_path / "b").is_dir()
    assert (calls[0], pauses) == (4, list(_publish.RENAME_PAUSES[:3]))


def test_a_rename_that_is_held_for_good_ends_as_busy_and_keeps_the_old(
    store: Store, given: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = put(store, given)
    before = everything_below(installed.folder)
    monkeypatch.setattr(_publish, "RENAME_PAUSES", (0.0, 0.0))
    rename, calls = held(10**6)
    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(ProvisioningError, match="End every running Antigravity server") as caught:
        put(store, given)
    assert (caught.value.stage, caught.value.reason, calls[0]) == ("publish", "busy", 3)
    assert everything_below(installed.folder) == before


def test_a_rename_that_fails_for_another_reason_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause(_: float) -> None:
        pytest.fail("waited for nothing")

    with pytest.raises(FileNotFoundError):
        _publish.move(tmp_path / "none", tmp_path / "b", pause=pause)
