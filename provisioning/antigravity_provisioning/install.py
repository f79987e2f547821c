"""Puts the pinned official server on the machine, once for every process, and takes it away again.

Owns: the order of an installation, and the lock while it runs. Ends with the call: cancelled or failed, nothing of it
stays but what was downloaded so far, which the next call resumes. A complete installation is used as it is, without a
network. Never: chooses an address or another release, changes a folder that is published, signs in.
"""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from . import _publish, download, machine, releases
from . import archive as archives
from ._asset import Asset
from ._locking import locked
from ._threads import off_loop, stoppable
from .errors import ProvisioningError
from .locate import OfficialServer
from .progress import Progress, Report, quiet
from .store import Installed, Store

#: Starts a server for one ``initialize`` and gives the name and the version that it answers with.
Prove = Callable[[OfficialServer], Awaitable[tuple[str, str]]]


async def install(
    *,
    asset: Asset | None = None,
    store: Store | None = None,
    archive: Path | None = None,
    verify: bool = False,
    report: Report = quiet,
    prove: Prove | None = None,
) -> OfficialServer:
    """Install the server, or find that it is there; many processes at once download once.

    :param asset: what to install, the pinned one of this platform when left out.
    :param archive: a copy of the archive to use instead of a download; must be the same, byte for byte.
    :param verify: compare an installation that is there with its receipt byte for byte; a damaged one is replaced.
    :param report: told how far it is, also from other threads.
    :param prove: starts the server once. Should it fail, the files stay, unproven, and the next call tries it again.
    :raises ProvisioningError: with the stage, the reason and what to do.
    """
    asset = releases.pinned() if asset is None else asset
    store = Store() if store is None else store
    installed = None if verify else store.find(asset)
    if installed is None or (prove is not None and not installed.proven):
        report(Progress("check"))
        machine.check_cpu(asset)
        await off_loop(store.prepare)
        async with locked(store.lock, report=report):
            installed = await _whole(asset, store, verify=verify, report=report)
            if installed is None:
                installed = await _obtain(asset, store, archive, report)
            if prove is not None and not installed.proven:
                report(Progress("initialize"))
                agent, version = await prove(official(installed))
                if not _is_version(version, asset.version):
                    raise ProvisioningError(
                        "initialize",
                        "wrong-agent",
                        f"The installed server answers as another version than {asset.version}, which was pinned. Run "
                        "`antigravity-acp install --verify`.",
                    )
                await off_loop(store.record, asset, agent, version)
    report(Progress("done"))
    return official(installed)


async def uninstall(store: Store | None = None, *, report: Report = quiet) -> list[str]:
    """Delete every installed release, its proofs and everything downloaded. The lock file stays.

    :returns: what was deleted and how much room that made, in words; empty when nothing was there.
    :raises ProvisioningError: ``busy`` when a server is running from there (Windows), ``disk`` when something stayed.
    """
    store = Store() if store is None else store
    if reason := store.unsafe():
        raise ProvisioningError("disk", "disk", reason)
    if not store.root.is_dir():
        return []
    await off_loop(store.prepare)
    async with locked(store.lock, report=report):
        return await off_loop(store.clear)


def official(installed: Installed) -> OfficialServer:
    """How an installation is started."""
    return OfficialServer(installed.server, installed.harness, installed.asset.args, "cache")


def _is_version(reported: str, pinned: str) -> bool:
    """Whether a server's own words name this version; some put a name before it (``agy_acp_server_1.1.1``)."""
    return re.search(rf"(?<![\d.]){re.escape(pinned)}(?![\d.])", reported) is not None


async def _whole(asset: Asset, store: Store, *, verify: bool, report: Report) -> Installed | None:
    """What is there, once nobody else can change it; what dead installers left is deleted."""
    await off_loop(store.sweep, asset)
    installed = store.find(asset)
    if installed is not None and verify:
        faults = await stoppable(lambda stop: store.verify(asset, report=report, cancelled=stop))
        return None if faults else installed
    return installed


async def _obtain(asset: Asset, store: Store, archive: Path | None, report: Report) -> Installed:
    downloads = store.downloads_folder()
    machine.check_disk(store.root, machine.space_needed(asset) - store.downloaded(asset))
    if archive is None:
        source = await download.download(asset, downloads, report=report)
    else:
        source = await download.copy_in(asset, archive, downloads, report=report)
    staging = store.staging()
    try:
        required = (asset.command, *asset.siblings)
        entries = await stoppable(
            lambda stop: archives.unpack(source, staging, required=required, report=report, cancelled=stop)
        )
        report(Progress("publish"))
        installed = await off_loop(store.publish, asset, staging, entries)
    except BaseException:
        await off_loop(_publish.remove, staging)
        raise
    await off_loop(_publish.remove, source)
    return installed
