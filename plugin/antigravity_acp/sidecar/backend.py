"""The adapter behind the sidecar, loaded when the host has been answered.

Owns: the one adapter of the host that has introduced itself, from its settings to its disposal. Its libraries take
longer to load than everything else; they are loaded beside the conversation, so that a host which only starts up does
not wait for them.
"""

import asyncio
import importlib
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar, cast

from antigravity_acp.contract import GenerateOptions, LlmError, ModelInfo, Notify, ResolvedModelInfo, StreamChunk
from antigravity_acp.limits import KILL_STEP_S, SIDECAR_DISPOSE_S
from antigravity_acp.settings import Settings

_Outcome = TypeVar("_Outcome")
_log = logging.getLogger("antigravity_acp.sidecar")


class Serves(Protocol):
    """What the sidecar needs of an adapter; :class:`~antigravity_acp.adapter.AntigravityAdapter` has it."""

    async def list_models(self, provider: str) -> Sequence[ModelInfo]: ...

    async def resolve_model(self, provider: str, model: str) -> ResolvedModelInfo: ...

    def stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]: ...

    def update(self, settings: Settings) -> None: ...

    def diagnostics(self) -> Mapping[str, Any]: ...

    async def dispose(self) -> None: ...


#: What the adapter itself loads when it first needs it: the agent protocol, then the private MCP endpoint. Loaded
#: ahead, so that the first request of a host that has been up for a moment does not wait for it.
AHEAD: Final = (
    "antigravity_acp.acp.connection",
    "antigravity_acp.bridge._core",
    "antigravity_acp.bridge._app",
    "antigravity_acp.bridge._listener",
    "antigravity_control",
)

#: Makes the adapter from valid settings; may take a while and is called in a thread.
MakeAdapter = Callable[[], Callable[..., Serves]]


def load_adapter() -> Callable[..., Serves]:
    """Load the adapter's libraries; returns what makes one."""
    made: Callable[..., Serves] = importlib.import_module("antigravity_acp.adapter").AntigravityAdapter
    return made


class Backend:
    """The adapter, soon or already.

    :param settings: valid settings. :param notify: gets the adapter's notices.
    """

    def __init__(self, settings: Settings, notify: Notify, load: MakeAdapter = load_adapter) -> None:
        self.settings = settings
        self._notify = notify
        self._adapter: Serves | None = None
        self._disposed = False
        self._broken = False
        self._ready = asyncio.Event()
        self._loading = asyncio.create_task(self._load(load), name="antigravity-acp load")

    @property
    def ready(self) -> Serves | None:
        """The adapter if it is there and not disposed."""
        return None if self._disposed else self._adapter

    async def adapter(self) -> Serves:
        """The adapter, as soon as it is there.

        :raises LlmError: ``ACP_DISPOSED`` afterwards, ``UNKNOWN`` when this installation is broken.
        """
        if self._adapter is None and not self._disposed:
            await self._ready.wait()
        if self._broken:
            raise LlmError("UNKNOWN", "The adapter could not be loaded. Install antigravity-acp again.")
        if self._disposed or self._adapter is None:
            raise LlmError("ACP_DISPOSED")
        return self._adapter

    def update(self, settings: Settings) -> None:
        """Take over new settings.

        :raises LlmError: ``INVALID_SETTINGS`` when one differs that cannot change while the plugin runs.
        """
        if (fixed := self.settings.fixed_in(settings)) is not None:
            raise LlmError(
                "INVALID_SETTINGS", f"Setting `{fixed}` cannot change while the plugin runs. Mount the plugin again."
            )
        if self._adapter is not None:
            self._adapter.update(settings)
        self.settings = settings

    async def dispose(self) -> bool:
        """End the adapter and everything it started; whether that was possible in time."""
        self._disposed = True
        self._loading.cancel()
        self._ready.set()
        await asyncio.wait({self._loading})
        return self._adapter is None or await self._dispose(self._adapter)

    async def _dispose(self, adapter: Serves) -> bool:
        settings = self.settings
        graces = (settings.cancel_grace_ms + 2 * settings.dispose_grace_ms) / 1000 + 2 * KILL_STEP_S
        try:
            async with asyncio.timeout(SIDECAR_DISPOSE_S + graces):
                await adapter.dispose()
        except TimeoutError:
            _log.error("the adapter could not be disposed in time")
            return False
        except Exception as error:  # noqa: BLE001 - the process ends all the same, and its supervisor ends the agents
            _log.error("the adapter could not be disposed: %s", type(error).__name__)
            return False
        return True

    async def _load(self, load: MakeAdapter) -> None:
        try:
            make = await _in_thread(load)
            # With the settings of now: they may have changed while the libraries were loading.
            self._adapter = make(self.settings, notify=self._notify)
            self._ready.set()
            for name in AHEAD if load is load_adapter else ():
                await _in_thread(partial(importlib.import_module, name))
        except Exception as error:  # noqa: BLE001 - a broken installation; whoever needs the adapter hears of it
            _log.error("the adapter could not be loaded: %s", type(error).__name__)
            self._broken = self._adapter is None
        finally:
            self._ready.set()


async def _in_thread(work: Callable[[], _Outcome]) -> _Outcome:
    """Run work in a thread that nobody waits for at the end: an import cannot be stopped, and may take seconds."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Outcome] = loop.create_future()

    def settle(outcome: _Outcome | None, error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(cast("_Outcome", outcome))
        else:
            done.set_exception(error)

    def run() -> None:
        outcome, failure = None, None
        try:
            outcome = work()
        except Exception as error:  # noqa: BLE001 - handed to whoever waits
            failure = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, outcome, failure)

    threading.Thread(target=run, name="antigravity-acp load", daemon=True).start()
    return await done
