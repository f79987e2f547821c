"""Installations to be tested: an asset for any archive, and the ways in which a cache gets damaged."""

import hashlib
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from antigravity_provisioning import Asset, machine
from antigravity_provisioning.archive import unpack
from antigravity_provisioning.store import Installed, Store

from .archives import HARNESS, SERVER, official_layout

PROGRAM = b"#!/bin/sh\necho works\n"


def asset_of(data: bytes, *, url: str = "https://dl.google.com/none.zip", version: str = "1.3.0") -> Asset:
    """A pinned asset for this machine whose archive is ``data``."""
    return Asset(
        version=version,
        platform=machine.platform_key(),
        url=url,
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        sha256_source="this test",
        command=SERVER,
        args=("--uid=",),
        siblings=(HARNESS,),
        unpacked=0,
    )


@dataclass(frozen=True)
class Release:
    """An archive on the disk and the asset that pins it."""

    asset: Asset
    archive: Path


def release(folder: Path, *, padding: int = 1_000, version: str = "1.3.0", sibling: str = HARNESS) -> Release:
    """An archive in the official layout; its server prints ``works``, and its harness does not get smaller by packing.

    :param sibling: another name makes an archive that lacks the harness.
    """
    folder.mkdir(parents=True, exist_ok=True)
    harness = random.Random(padding).randbytes(padding)
    path = official_layout(folder / f"{version}-{padding}-{sibling}.zip", PROGRAM, harness=harness, sibling=sibling)
    return Release(asset_of(path.read_bytes(), version=version), path)


def put(store: Store, given: Release) -> Installed:
    """Install without an installer: unpack and publish."""
    store.prepare()
    staging = store.staging()
    entries = unpack(given.archive, staging, required=(given.asset.command, *given.asset.siblings))
    return store.publish(given.asset, staging, entries)


def left_over(store: Store) -> list[str]:
    """What an installer should have cleaned up: entries of staging and trash, and archives."""
    areas = (store.servers / ".staging", store.servers / ".trash", store.downloads)
    return [f"{area.name}/{name}" for area in areas if area.is_dir() for name in os.listdir(area)]


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def _link_away(path: Path) -> None:
    away = path.parent.parent.parent / "elsewhere"
    path.rename(away)
    path.symlink_to(away)


def _older(path: Path) -> None:
    path.write_text(path.read_text().replace('"version": "1.3.0"', '"version": "1.2.1"'))


@dataclass(frozen=True)
class Damage:
    """One way to damage an installation.

    :param file: which file it concerns. :param cheap: whether a look at names, sizes and modes is enough to see it.
    """

    name: str
    file: str
    do: Callable[[Path], object]
    cheap: bool = True
    health: str = "damaged"


RECEIPT = "receipt.json"
DAMAGES = [
    Damage("truncated", SERVER, lambda path: os.truncate(path, 3)),
    Damage("emptied", HARNESS, lambda path: os.truncate(path, 0)),
    Damage("grown", HARNESS, lambda path: path.write_bytes(path.read_bytes() + b"x")),
    Damage("one byte changed", SERVER, _flip, cheap=False),
    Damage("server missing", SERVER, lambda path: path.unlink()),
    Damage("harness missing", HARNESS, lambda path: path.unlink()),
    Damage("link in its place", SERVER, _link_away),
    Damage("folder in its place", HARNESS, lambda path: (path.unlink(), path.mkdir())),
    Damage("pipe in its place", HARNESS, lambda path: (path.unlink(), os.mkfifo(path))),
    Damage("not executable", SERVER, lambda path: path.chmod(0o644)),
    Damage("harness not executable", HARNESS, lambda path: path.chmod(0o644)),
    Damage("writable by everybody", SERVER, lambda path: path.chmod(0o777)),
    Damage("receipt missing", RECEIPT, lambda path: path.unlink(), health="partial"),
    Damage("receipt empty", RECEIPT, lambda path: os.truncate(path, 0)),
    Damage("receipt cut", RECEIPT, lambda path: os.truncate(path, 90)),
    Damage("receipt garbage", RECEIPT, lambda path: path.write_bytes(b"\xff\x00{")),
    Damage("receipt huge", RECEIPT, lambda path: path.write_bytes(path.read_bytes() + b" " * (9 << 20))),
    Damage("receipt deep", RECEIPT, lambda path: path.write_bytes(b"[" * 200_000)),
    Damage("receipt of another version", RECEIPT, _older),
    Damage("receipt a link", RECEIPT, _link_away),
    Damage("receipt a pipe", RECEIPT, lambda path: (path.unlink(), os.mkfifo(path))),
    Damage("extra file", "extra", lambda path: path.write_bytes(b"x"), cheap=False),
    Damage("extra link", "extra", lambda path: path.symlink_to("/"), cheap=False),
]


def everything_below(folder: Path) -> dict[str, bytes]:
    """Every file with its content, links as what they lead to."""
    return {
        str(path.relative_to(folder)): os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }
