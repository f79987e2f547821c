"""Where installations lie, and whether what lies there is whole.

Owns: the layout below one root, and every judgement about it. Starts nothing, downloads nothing; only :meth:`record`,
:meth:`prepare`, :meth:`publish`, :meth:`sweep` and :meth:`clear` write, and those who call them hold the lock.

    <root>/servers/<version>-<platform>/            files of one archive and receipt.json; never changed once there
    <root>/servers/<version>-<platform>.proof.json  that this receipt's server answered `initialize`
    <root>/servers/.lock                            held by the one installer; never deleted
    <root>/servers/.staging/, <root>/servers/.trash/  what is not there yet, and not any more
    <root>/downloads/                               archives, whole or in part

A receipt is what we wrote down about the files. It finds damage; it is no statement of whoever made them.
Everything here blocks; the cheap calls (:meth:`find`, :meth:`health`) cost one small file and a ``stat`` for each file.
"""

import os
import secrets
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from . import _publish
from ._checks import cheap_faults, files_below, foreign, is_folder, names_in, server_path, sibling_paths, take_stock
from ._hashing import HashCancelled, never, sha256_of
from ._receipt import (
    MAX_PROOF,
    MAX_RECEIPT,
    NAME,
    RECEIPT_NAME,
    Proof,
    Receipt,
    UnreadableError,
    decode_proof,
    decode_receipt,
    digest,
    encode_proof,
    encode_receipt,
    read_bounded,
)
from .errors import ProvisioningError
from .progress import Progress, Report, quiet

if TYPE_CHECKING:  # `locate` loads this module when a plugin starts
    from ._asset import Asset
    from .archive import FileEntry

_HARNESS: Final = "localharness_external"
_UNTRUSTED: Final = "{folder} {fault}, who could put another program there. Delete it, or correct its permissions."

#: ``unsafe``: somebody else could write there, so nothing in it is used. ``partial``: begun and not finished.
Health = Literal["unsafe", "absent", "partial", "damaged", "unproven", "proven"]


class Installed(NamedTuple):
    """A complete installation.

    :param folder: its files; nobody may change them. :param proven: the server has answered ``initialize`` from here.
    """

    asset: "Asset"
    folder: Path
    server: Path
    harness: Path
    proven: bool


def default_root() -> Path:
    """The user's cache folder: ``~/.cache/antigravity-acp`` on Linux (``XDG_CACHE_HOME``), its likes elsewhere."""
    import platformdirs

    try:
        return platformdirs.user_cache_path("antigravity-acp", appauthor=False)
    except RuntimeError:
        # A user without a home, as in containers; a place that :meth:`Store.unsafe` refuses, with what to do.
        return Path("antigravity-acp")


class Store:
    """The installations of one user.

    :param root: the folder that holds everything; :func:`default_root` when left out. Need not exist.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root: Final = default_root() if root is None else root
        self.servers: Final = self.root / "servers"
        self.downloads: Final = self.root / "downloads"
        self.lock: Final = self.servers / ".lock"
        self._staging: Final = self.servers / ".staging"
        self._trash: Final = self.servers / ".trash"

    def folder(self, asset: "Asset") -> Path:
        """Where an asset belongs."""
        if not NAME.match(asset.version) or not NAME.match(asset.platform):
            raise ValueError("a version or platform that cannot be part of a folder's name")
        return self.servers / f"{asset.version}-{asset.platform}"

    def proof_path(self, asset: "Asset") -> Path:
        """Where an asset's proof belongs."""
        folder = self.folder(asset)
        return folder.with_name(f"{folder.name}.proof.json")

    # What is there, for everybody.

    def find(self, asset: "Asset") -> Installed | None:
        """The installation of exactly this archive, if it looks whole: receipt, sizes, permissions. Never raises."""
        if self.unsafe():
            return None
        folder = self.folder(asset)
        try:
            receipt, data = self._receipt(asset)
        except UnreadableError:
            return None
        if cheap_faults(folder, receipt):
            return None
        server = folder / server_path(asset)
        harness = next((folder / path for path in sibling_paths(asset) if _HARNESS in path), server.parent / _HARNESS)
        return Installed(asset, folder, server, harness, self._is_proven(asset, data))

    def health(self, asset: "Asset") -> Health:
        """One word for :meth:`find` and for what is there instead. Never raises."""
        if self.unsafe():
            return "unsafe"
        installed = self.find(asset)
        if installed is not None:
            return "proven" if installed.proven else "unproven"
        folder = self.folder(asset)
        if os.path.lexists(folder):
            return "damaged" if os.path.lexists(folder / RECEIPT_NAME) else "partial"
        begun = (self.downloads / f"{asset.sha256}{ending}" for ending in (".part", ".zip"))
        return "partial" if any(map(os.path.lexists, begun)) or names_in(self._staging) else "absent"

    def faults(self, asset: "Asset") -> list[str]:
        """Why :meth:`find` finds nothing, in words; empty when it does. Never raises."""
        if reason := self.unsafe():
            return [reason]
        try:
            return cheap_faults(self.folder(asset), self._receipt(asset)[0])
        except UnreadableError as fault:
            return [f"{fault}."]

    def verify(self, asset: "Asset", *, report: Report = quiet, cancelled: Callable[[], bool] = never) -> list[str]:
        """Compare every byte with the receipt.

        Reads all files: seconds for a whole server. :returns: every fault in words, none when all is as it was.
        :raises ProvisioningError: ``cancelled``.
        """
        if faults := self.faults(asset):
            return faults
        folder = self.folder(asset)
        try:
            receipt, _ = self._receipt(asset)
        except UnreadableError as fault:
            return [f"{fault}."]
        total, done = sum(file.size for file in receipt.files), 0
        for file in receipt.files:
            report(Progress("verify", done, total))
            try:
                if sha256_of(folder / file.path, cancelled) != (file.size, file.sha256):
                    faults.append(f"{file.path} is not the file that was unpacked.")
            except HashCancelled:
                raise ProvisioningError("verify", "cancelled", "The verification was cancelled.") from None
            except OSError:
                faults.append(f"{file.path} cannot be read.")
            done += file.size
        report(Progress("verify", done, total))
        known = {file.path for file in receipt.files} | {RECEIPT_NAME}
        return faults + [f"{path!a} does not belong there." for path in files_below(folder) if path not in known]

    def proof(self, asset: "Asset") -> Proof | None:
        """Who answered ``initialize`` from the installation that is there now. Never raises."""
        try:
            return self._proof(asset, self._receipt(asset)[1])
        except UnreadableError:
            return None

    def size(self) -> int:
        """Bytes of everything below the root; what cannot be read counts nothing."""
        return _publish.size_of(self.root)

    def unsafe(self) -> str:
        """Why nothing below the root may be trusted, and what to do; ``""`` when it may. Never raises."""
        if not self.root.is_absolute():
            # Whoever made the current directory would choose the program.
            return "Nobody knows where this user's home is. Set HOME, or XDG_CACHE_HOME, to a whole path."
        for folder in (self.root, self.servers):
            try:
                status = folder.lstat()
            except FileNotFoundError:
                return ""
            except OSError:
                return f"{folder} cannot be looked at. Correct its permissions."
            if not stat.S_ISDIR(status.st_mode):
                return f"{folder} is a link or not a folder. Delete it; set XDG_CACHE_HOME to use another disk."
            if fault := foreign(status):
                return _UNTRUSTED.format(folder=folder, fault=fault)
        return ""

    # Changes, for the holder of the lock.

    def prepare(self) -> None:
        """Make the folders that an installer needs, for this user alone. May be called without the lock.

        :raises ProvisioningError: ``disk``: they cannot be made, or may not be trusted.
        """
        if reason := self.unsafe():
            raise ProvisioningError("disk", "disk", reason)
        try:
            self.root.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.root, self.servers):
                if not os.path.lexists(folder):
                    folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            what = f"The folder {self.root} cannot be made; XDG_CACHE_HOME may name another place"
            raise _publish.disk_fault("disk", error, what) from None
        if reason := self.unsafe():  # somebody was faster
            raise ProvisioningError("disk", "disk", reason)

    def staging(self) -> Path:
        """A new empty folder to unpack into. :raises ProvisioningError: it cannot be made."""
        return self._slot(self._staging, make=True)

    def downloads_folder(self) -> Path:
        """The folder for archives, made when it is not there. :raises ProvisioningError: it cannot be made."""
        self._own_folder(self.downloads)
        return self.downloads

    def downloaded(self, asset: "Asset") -> int:
        """Bytes of an asset's archive that are here already."""
        names = (name for name in names_in(self.downloads) if name.startswith(asset.sha256))
        return min(asset.size, sum(_publish.size_of(self.downloads / name) for name in names))

    def publish(self, asset: "Asset", staging: Path, entries: Sequence["FileEntry"]) -> Installed:
        """Turn a staging folder that was unpacked completely into the installation; replaces a damaged one.

        :raises ProvisioningError: ``incomplete``, ``busy``, ``disk-full``, ``disk``; what was there is still there.
        """
        folder = self.folder(asset)
        try:
            receipt = encode_receipt(take_stock(asset, staging, entries))
            aside = self._slot(self._trash, make=False)
            # First, so that no instant shows new files with the proof of old ones.
            with suppress(FileNotFoundError):
                self.proof_path(asset).unlink()
            _publish.publish(staging, folder, staging / RECEIPT_NAME, receipt, aside=aside)
        except OSError as error:
            raise _publish.disk_fault("publish", error, f"The server cannot be put into {folder}") from None
        _publish.remove(aside)
        installed = self.find(asset)
        if installed is None:
            raise ProvisioningError(
                "publish", "damaged", f"What was just put into {folder} has changed. Is another program at work there?"
            )
        return installed

    def record(self, asset: "Asset", agent: str, version: str) -> None:
        """Write down that the installed server answered ``initialize``.

        :raises ProvisioningError: it is not installed any more, or the proof cannot be written.
        """
        try:
            data = self._receipt(asset)[1]
            now = datetime.now(UTC).isoformat(timespec="seconds")
            proof = encode_proof(Proof(digest(data), _printable(agent), _printable(version), now))
            _publish.replace_file(self.proof_path(asset), proof, scratch=self._slot(self._staging, make=False))
        except UnreadableError as fault:
            raise ProvisioningError("verify", "damaged", f"{fault}. Run `antigravity-acp install` again.") from None
        except OSError as error:
            raise _publish.disk_fault("publish", error, "The proof of the server cannot be written") from None

    def sweep(self, asset: "Asset | None" = None) -> None:
        """Delete what dead installers left: staging, trash, and the archive of an asset that is installed.

        Everything there belongs to somebody who held the lock, and that is only the caller now.
        """
        for area in (self._staging, self._trash):
            _publish.remove(area)
        if asset is not None and self.find(asset) is not None:
            for name in names_in(self.downloads):
                if name.startswith(asset.sha256):
                    _publish.remove(self.downloads / name)

    def clear(self) -> list[str]:
        """Delete every installation, proof, download and leftover. :returns: what went, in words.

        :raises ProvisioningError: ``busy`` or ``disk``; names what stayed.
        """
        removed = []
        for name in names_in(self.servers):
            if name == self.lock.name:
                continue
            path = self.servers / name
            size = _publish.size_of(path)
            if path not in (self._staging, self._trash) and is_folder(path):
                path = self._discard(path)
                removed.append(f"server {name} ({_bytes(size)})")
            elif size:
                removed.append(f"leftovers ({_bytes(size)})" if name.startswith(".") else name)
            self._must_go(path)
        if os.path.lexists(self.downloads):
            size = _publish.size_of(self.downloads)
            self._must_go(self.downloads)
            if size:
                removed.append(f"downloads ({_bytes(size)})")
        _publish.remove(self._trash)
        return removed

    # Inside.

    def _receipt(self, asset: "Asset") -> tuple[Receipt, bytes]:
        folder = self.folder(asset)
        try:
            status = folder.lstat()
        except OSError:
            raise UnreadableError(f"{folder.name} is not installed") from None
        if not stat.S_ISDIR(status.st_mode) or foreign(status):
            raise UnreadableError(f"{folder.name} is not a folder of this user alone")
        data = read_bounded(folder / RECEIPT_NAME, MAX_RECEIPT)
        receipt = decode_receipt(data)
        if (receipt.version, receipt.platform) != (asset.version, asset.platform):
            raise UnreadableError(f"{RECEIPT_NAME} belongs to another release")
        if (receipt.archive_sha256, receipt.archive_size) != (asset.sha256, asset.size):
            raise UnreadableError(f"{RECEIPT_NAME} belongs to another archive")
        programs = {file.path for file in receipt.files if sys.platform == "win32" or file.mode & 0o100}
        if not programs.issuperset((server_path(asset), *sibling_paths(asset))):
            raise UnreadableError(f"{RECEIPT_NAME} lacks a program that belongs to the server")
        return receipt, data

    def _proof(self, asset: "Asset", receipt: bytes) -> Proof | None:
        try:
            proof = decode_proof(read_bounded(self.proof_path(asset), MAX_PROOF))
        except UnreadableError:
            return None
        return proof if proof.receipt == digest(receipt) else None

    def _is_proven(self, asset: "Asset", receipt: bytes) -> bool:
        return self._proof(asset, receipt) is not None

    def _own_folder(self, folder: Path) -> None:
        try:
            if os.path.lexists(folder) and not stat.S_ISDIR(folder.lstat().st_mode):
                folder.unlink()
            folder.mkdir(mode=0o700, exist_ok=True)
            fault = foreign(folder.lstat())
        except OSError as error:
            raise _publish.disk_fault("disk", error, f"The folder {folder} cannot be made") from None
        if fault:
            raise ProvisioningError("disk", "disk", _UNTRUSTED.format(folder=folder, fault=fault))

    def _slot(self, area: Path, *, make: bool) -> Path:
        """A name in an area that nobody has; as an empty folder when ``make``."""
        self._own_folder(area)
        slot = area / secrets.token_hex(8)
        if make:
            self._own_folder(slot)
        return slot

    def _discard(self, folder: Path) -> Path:
        """A folder goes by one rename, so that nobody ever finds half of it."""
        try:
            aside = self._slot(self._trash, make=False)
            _publish.move(folder, aside)
        except OSError as error:
            raise _publish.disk_fault("publish", error, f"{folder} cannot be deleted") from None
        return aside

    def _must_go(self, path: Path) -> None:
        if not _publish.remove(path):
            raise ProvisioningError(
                "disk", "disk", f"{path} cannot be deleted completely. Close what uses it and try again."
            )


def _printable(text: str) -> str:
    return "".join(character for character in text if character.isprintable())[:256]


def _bytes(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB"
