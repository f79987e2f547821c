"""The doctor: every row in its order, each on its own.

Owns: the order, the exit code, and one agent for as long as it is looked at. A row that fails or breaks does not stop
those after it; what depends on it is said to be not asked. Bounded by the settings' limits for a start and a request.
Never: starts a sign-in, an installation or a prompt; shows a secret, an address or a home directory.
"""

import asyncio
import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from antigravity_acp.acp.launch import has_engine, has_model
from antigravity_acp.contract import LlmError
from antigravity_acp.settings import Settings
from antigravity_provisioning import Asset, releases
from antigravity_provisioning.errors import ProvisioningError
from antigravity_provisioning.store import Store

from . import _bundle
from ._doctor_agent import Look, Subject, find
from ._doctor_beside import beside_rows
from ._doctor_machine import machine_rows
from ._report import Curtain, Report, Row, Table
from ._report import as_json as json_row
from ._setup import NO_MODEL, find_half
from .failures import CliError
from .options import AgentFlags

#: Seconds beside the settings' own limits: for imports, and for the steps of ending a process.
_MARGIN_S: Final = 60.0


async def run_doctor(flags: AgentFlags, *, bundle: str | None, force: bool, as_json: bool) -> int:
    """Look at everything.

    :returns: 0 when no row failed, else 1. :raises CliError: wrong usage, settings that are not valid.
    """
    if force and bundle is None:
        raise CliError("USAGE", "--force belongs to --bundle FILE.")
    target = _bundle.check_target(bundle, force=force) if bundle is not None else None
    settings = Settings.from_mapping(flags.settings())
    curtain = Curtain(settings)
    report = Report(curtain, json_row if as_json else Table())
    look = Look(settings, report.add)
    await _rows(settings, report, look)
    if target is not None:
        _bundle.write(target, _bundle.contents(report, settings, curtain, look.tail()), force=force)
        print(f"The report is in {target}. Read it before you pass it on.", file=sys.stderr)
    return report.status


def _limit_s(settings: Settings) -> float:
    waits = settings.startup_timeout_ms + settings.request_timeout_ms + 2 * settings.dispose_grace_ms
    return waits / 1000 + _MARGIN_S


async def _rows(settings: Settings, report: Report, look: Look) -> None:
    store = Store()
    asset = _asset()
    installed = asset is not None and store.find(asset) is not None
    _add_all(report, "machine", machine_rows(store.root, installed=installed))
    subject = _guarded(report, "server", lambda: find(settings, report.add))
    _guarded(report, "pair", lambda: report.add(pair_row(subject, settings)))
    _guarded(report, "receipt", lambda: report.add(receipt_row(subject, store, asset)))
    try:
        async with asyncio.timeout(_limit_s(settings)):
            await look.take(subject)
    except BrokenPipeError:
        raise
    except TimeoutError:
        report.add(Row("agent", "fail", "it could not be looked at in time", "Lower `startupTimeoutMs`."))
    except Exception as error:  # noqa: BLE001 - whatever an agent provokes is a row and not the end of the report
        what = error.code if isinstance(error, LlmError) else type(error).__name__
        report.add(Row("agent", "fail", f"looking at it went wrong ({what})", "Report this, with `--bundle FILE`."))
    _guarded(report, "engine", lambda: report.add(engine_row(subject, settings)))
    _add_all(report, "beside", beside_rows(_home()))


def pair_row(subject: Subject | None, settings: Settings) -> Row:
    """Whether the server's two programs lie side by side; half a server is told from none, also where another agent
    answers."""
    if subject is not None and subject.server is not None:
        return Row("pair", "ok", f"{subject.server.path.name} and {subject.server.harness.name} lie side by side")
    if find_half(settings):
        return Row(
            "pair",
            "fail" if subject is None else "warn",
            "a server is there without its sibling `localharness_external` (or one of the two cannot be run)",
            "Unpack the whole archive into one folder, or run `antigravity-acp install`.",
        )
    if subject is not None:
        return Row("pair", "skip", "not the official server")
    return Row("pair", "skip", "not asked: there is no server")


def receipt_row(subject: Subject | None, store: Store, asset: Asset | None) -> Row:
    """What the cache holds: an installation that is whole and has answered, or what is left of one."""
    if asset is None:
        return Row("receipt", "skip", "there is no release for this platform")
    used = subject is not None and subject.server is not None and subject.server.source == "cache"
    health = store.health(asset)
    if health == "proven":
        return Row("receipt", "ok", f"{asset.version}: every file has its size, and the server has answered from there")
    if health == "absent":
        return Row("receipt", "skip", "nothing was installed by `antigravity-acp install`")
    texts = {
        "unproven": "whole, but the server has not answered from there yet",
        "partial": "an installation was begun and not finished",
        "damaged": "damaged: " + (" ".join(store.faults(asset)[:3]) or "its files are not what the receipt says"),
        "unsafe": store.unsafe() or "others could write there",
    }
    advice = "" if health == "unsafe" else "Run `antigravity-acp install`; it goes on or repairs."
    # With another agent at work, leftovers hurt nobody.
    needed = used or subject is None
    return Row("receipt", "fail" if needed and health != "unproven" else "warn", texts[health], advice)


def engine_row(subject: Subject | None, settings: Settings) -> Row:
    """The embedded engine: the agent that is looked at, or one that could be."""
    used = subject is not None and subject.kind == "engine"
    if not has_engine():
        needed = settings.engine == "embedded" and not settings.command
        advice = "Run pip install 'dsh-antigravity-acp[engine]'."
        return Row("engine", "fail" if needed else "skip", "not installed" + ("" if needed else "; not needed"), advice)
    text = f"google-antigravity {_version('google-antigravity')}"
    if has_model(settings):
        return Row("engine", "ok", f"{text}, with a model back end")
    if used or subject is None:
        return Row("engine", "fail" if used else "warn", f"{text}, without a model back end", NO_MODEL)
    return Row("engine", "skip", f"{text}, without a model back end; not needed")


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "(unknown version)"


def _home() -> Path:
    # Not pathlib's, which raises where a user has none.
    return Path(os.path.expanduser("~"))


def _asset() -> Asset | None:
    try:
        return releases.pinned()
    except ProvisioningError:
        return None


def _add_all(report: Report, name: str, rows: Iterable[Row]) -> None:
    def add() -> None:
        for row in rows:
            report.add(row)

    _guarded(report, name, add)


T = TypeVar("T")


def _guarded(report: Report, name: str, work: Callable[[], T]) -> T | None:
    """One row's work; what it raises becomes a row of its own, so that the others are still asked."""
    try:
        return work()
    except BrokenPipeError:
        raise
    except (OSError, ValueError, LlmError, ProvisioningError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__
        report.add(Row(name, "warn", f"could not be looked at ({reason})"))
        return None
