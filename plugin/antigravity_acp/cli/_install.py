"""Putting the official server on this machine, and taking it away: `install` and `uninstall`.

Owns: what the two commands say. The work is that of `antigravity_provisioning`; cancelled at any byte, what was
downloaded stays for the next run. Never: chooses an address or a release, signs in or out.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Final, Literal

from antigravity_acp.acp.installer import as_llm_error, prove
from antigravity_provisioning import releases
from antigravity_provisioning.errors import ProvisioningError
from antigravity_provisioning.install import install, uninstall
from antigravity_provisioning.locate import LocateError, OfficialServer, locate
from antigravity_provisioning.progress import Progress, Report
from antigravity_provisioning.store import Store

from ._progress import display, size
from .failures import CliError
from .output import JsonLines

Outcome = Literal["installed", "repaired", "proven", "present"]

_SAID: Final[dict[Outcome, str]] = {
    "installed": "installed",
    "repaired": "was damaged and has been installed again",
    "proven": "was installed already and has now answered",
    "present": "is installed already",
}


async def run_install(archive: str | None, *, verify: bool, as_json: bool) -> int:
    """Install, or find that it is there.

    :raises CliError: with the stage that failed.
    """
    source = _file(archive)
    try:
        asset, store = releases.pinned(), Store()
        before = store.health(asset)
        with display(as_json=as_json) as show:
            steps = _Steps(show)
            server = await install(
                asset=asset,
                store=store,
                archive=source,
                verify=verify,
                report=steps,
                prove=prove,
            )
    except ProvisioningError as error:
        failure = as_llm_error(error)
        raise CliError(failure.code, failure.message) from None
    except asyncio.CancelledError:
        # The interpreter may be ending: a line, and on with it.
        _interrupted(store.downloaded(asset), as_json=as_json)
        raise
    if "publish" in steps.seen:
        outcome: Outcome = "repaired" if before in ("damaged", "unproven", "proven") else "installed"
    else:
        outcome = "proven" if "initialize" in steps.seen else "present"
    used = _used()
    first = used if used is not None and used.path != server.path else None
    if as_json:
        JsonLines().show(
            {
                "event": "installed",
                "outcome": outcome,
                "verified": verify or outcome in ("installed", "repaired"),
                "version": asset.version,
                "platform": asset.platform,
                "path": str(server.path),
                "usedInstead": str(first.path) if first is not None else None,
            }
        )
        return 0
    checked = "; every file is as it was unpacked" if verify and outcome in ("proven", "present") else ""
    print(f"Antigravity server {asset.version} {_SAID[outcome]}: {server.path}{checked}")
    if first is not None:
        print(f"Another one is used before it: {first.path} (`antigravity-acp where` says why).", file=sys.stderr)
    return 0


async def run_uninstall(*, as_json: bool) -> int:
    """Delete what was installed.

    :raises CliError: when something is in use or cannot be deleted.
    """
    store = Store()
    before = store.size()
    try:
        with display(as_json=as_json) as show:
            removed = await uninstall(store, report=show)
    except ProvisioningError as error:
        raise CliError("ACP_INSTALL_FAILED", f"Not everything was deleted: {error.message}") from None
    freed, left = max(0, before - store.size()), _used()
    if as_json:
        stays = str(left.path) if left is not None else None
        JsonLines().show({"event": "uninstalled", "removed": removed, "bytes": freed, "stillUsed": stays})
        return 0
    for item in removed:
        print(f"deleted: {item}")
    print(f"{size(freed)} are free again." if removed else f"Nothing was installed in {store.root}.")
    if left is not None:
        print(f"A server that was not installed by this command stays in use: {left.path}")
    print("The agent's sign-in was not touched.")
    return 0


def _file(given: str | None) -> Path | None:
    if given is None:
        return None
    if not os.path.isfile(given):
        raise CliError("USAGE", f"--from: there is no file {given}, or it cannot be reached by this user.")
    return Path(given)


class _Steps:
    """Passes reports on and remembers which steps there were."""

    def __init__(self, show: Report) -> None:
        self._show = show
        self.seen: set[str] = set()

    def __call__(self, report: Progress) -> None:
        self.seen.add(report.step)
        self._show(report)


def _interrupted(kept: int, *, as_json: bool) -> None:
    message = f"Cancelled; {size(kept)} are kept and the next run goes on there." if kept else "Cancelled."
    if as_json:
        JsonLines().show({"event": "error", "code": "INTERRUPTED", "message": message})
    print(f"antigravity-acp: INTERRUPTED: {message}", file=sys.stderr)


def _used() -> OfficialServer | None:
    try:
        return locate()
    except LocateError:
        return None
