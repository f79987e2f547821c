"""From settings to a program that can be started, installing the official server where that is wanted.

Owns: the one installation of an adapter. However many requests want it at once, it runs once; it is cancelled when the
last of them has gone, and what was downloaded until then is kept for the next attempt. Ends with :meth:`aclose`.
Never: installs what nobody asked for, chooses an address, signs in, or starts a server for anything but one
``initialize`` after it was installed.
"""

import asyncio
import time
from typing import Final

from antigravity_provisioning.errors import ProvisioningError, Reason
from antigravity_provisioning.locate import OfficialServer
from antigravity_provisioning.progress import Progress

from ..contract import LlmError, Notice, Notify
from ..contract.notices import ignore
from ..limits import INSTALL_LIMIT_S, INSTALL_RETRY_S
from ..manifest import manifest
from ..settings import Settings
from .launch import AgentCommand, NotInstalled, choose, official_command, without_browser

#: Seconds between two notices of one step, and the progress that is worth one earlier.
_QUIET_S: Final = 5.0
_STEP: Final = 0.1
_STEPS: Final[dict[str, str]] = {
    "wait": "Another process installs the official Antigravity server; waiting for it.",
    "download": "Downloading the official Antigravity server from Google.",
    "verify": "Checking the downloaded server.",
    "unpack": "Unpacking the official Antigravity server.",
    "initialize": "Starting the installed server once, to see that it answers.",
}


def as_llm_error(error: ProvisioningError) -> LlmError:
    """An installation's failure under the adapter's codes; the message names the stage."""
    code = "ACP_PLATFORM_UNSUPPORTED" if error.stage == "platform" else "ACP_INSTALL_FAILED"
    return LlmError(code, f"Installing the official server failed at the stage `{error.stage}`: {error.message}")


class Installer:
    """Finds the agent of one adapter, and puts the official server on the machine first where it has to."""

    def __init__(self, notify: Notify = ignore) -> None:
        self._notify = notify
        self._running: asyncio.Task[OfficialServer] | None = None
        self._cancelled: set[asyncio.Task[OfficialServer]] = set()
        self._waiting = 0
        self._retry_at = 0.0

    async def command(self, settings: Settings) -> AgentCommand:
        """What to start for these settings.

        :raises LlmError: ``ACP_BINARY_MISSING``, ``ACP_INSTALL_FAILED``, ``ACP_PLATFORM_UNSUPPORTED``.
        """
        # Whole and never answered: the installation is not over, and its last step may be what fails here.
        found = choose(settings, proven=settings.auto_install)
        if isinstance(found, AgentCommand):
            return found
        if not settings.auto_install:
            return _instead(found, found.error)
        if found.fallback is not None and time.monotonic() < self._retry_at:
            return found.fallback
        try:
            return official_command(await self._install(), settings)
        except LlmError as error:
            self._retry_at = time.monotonic() + INSTALL_RETRY_S
            if found.fallback is not None:
                self._notify(
                    Notice("install.failed", f"{error.message} The embedded engine answers instead.", "warning")
                )
            return _instead(found, error)

    async def _install(self) -> OfficialServer:
        """The one installation, joined; cancelled with its last waiter, who does not wait until it has ended."""
        if self._running is None:
            # One that is being cancelled still holds the lock, for which this one waits like any other process.
            self._running = asyncio.create_task(self._run(), name="antigravity-acp install")
        running = self._running
        self._waiting += 1
        try:
            return await asyncio.shield(running)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._running = None
                self._cancel(running)

    def _cancel(self, running: "asyncio.Task[OfficialServer]") -> None:
        if not running.done():
            running.cancel()
            self._cancelled.add(running)
            running.add_done_callback(self._cancelled.discard)

    async def _run(self) -> OfficialServer:
        # Not at start-up: most starts find their agent, and an HTTP client takes a while to import.
        from antigravity_provisioning.install import install

        loop = asyncio.get_running_loop()
        told = _Told(self._notify)

        def report(step: Progress) -> None:
            loop.call_soon_threadsafe(told, step)

        try:
            async with asyncio.timeout(INSTALL_LIMIT_S):
                server = await install(report=report, prove=prove)
        except ProvisioningError as error:
            raise as_llm_error(error) from None
        except TimeoutError:
            raise LlmError(
                "ACP_INSTALL_FAILED",
                f"The official server was not installed within {INSTALL_LIMIT_S:.0f} s. What was downloaded is kept; "
                "run `antigravity-acp install`, or install from a file with `--from`.",
            ) from None
        self._notify(Notice("install.done", "The official Antigravity server is installed."))
        return server

    async def aclose(self) -> None:
        """Cancel an installation that runs, and wait until it has ended. What was downloaded is kept."""
        if self._running is not None:
            self._cancel(self._running)
        if self._cancelled:
            await asyncio.wait(set(self._cancelled))


class _Told:
    """Turns reports, which come many times a second, into notices that a person wants to read."""

    def __init__(self, notify: Notify) -> None:
        self._notify = notify
        self._step = ""
        self._at = 0.0
        self._part = 0.0

    def __call__(self, now: Progress) -> None:
        message = _STEPS.get(now.step)
        if message is None:
            return
        part = now.done / now.total if now.total else None
        due = time.monotonic() >= self._at + _QUIET_S or (part or 0.0) >= self._part + _STEP
        if now.step == self._step and not due:
            return
        self._step, self._at, self._part = now.step, time.monotonic(), part or 0.0
        self._notify(Notice(f"install.{now.step}", message, progress=part))


def _instead(found: NotInstalled, error: LlmError) -> AgentCommand:
    if found.fallback is None:
        raise error
    return found.fallback


async def prove(server: OfficialServer) -> tuple[str, str]:
    """Start an official server for one ``initialize`` and end it.

    :returns: the name and the version that it reports.
    :raises ProvisioningError: stage ``initialize``: it did not answer, or it is something else.
    """
    from .client import AgentClient

    settings = Settings.from_mapping({"engine": "official"})
    try:
        client = await AgentClient.start(settings, without_browser(official_command(server, settings)))
        try:
            return client.agent_name, client.agent_version
        finally:
            await client.aclose()
    except LlmError as error:
        reason: Reason = "wrong-agent" if error.code == "ACP_VERSION_MISMATCH" else "no-answer"
        # A server that cannot be started says nothing about a sign-in; telling people to sign out has cost them theirs.
        raise ProvisioningError(
            "initialize",
            reason,
            f"{error.message} `{manifest().id} doctor` shows more; a stored sign-in is not touched.",
        ) from None
