"""The host itself: a context with its services, and the plugins mounted in it.

Owns: the root context, the registries, the plugin manager and each plugin's scope. A plugin that fails to load, to
configure, to register or to become ready is undone, named in a warning and kept in :attr:`Host.failures`; the host goes
on without it. :meth:`Host.dispose` ends everything, the plugin that was mounted last first.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from antigravity_acp.contract import LlmError
from antigravity_acp.governing import Governor
from antigravity_acp.hooks import PluginError, PluginManager

from ._ending import to_the_end
from .context import Context
from .discovery import Found, Selection, discover
from .llm import LlmRegistry
from .models import ModelChoice, choose_model
from .tools import ToolRegistry, builtin_tools

if TYPE_CHECKING:
    from antigravity_control.sandbox import SandboxPlan

_log = logging.getLogger("antigravity_acp.host")


class Host:
    """A host; ``async with Host() as host`` disposes it.

    :param settings: settings by plugin name, as in ``{"antigravity-acp": {"timeoutMs": 60000}}``.
    :param settings_files: the files that the settings come from, and folders of such. With
        ``control`` on a call that would change them is asked about in every mode.
    """

    def __init__(
        self, settings: Mapping[str, Mapping[str, Any]] | None = None, *, settings_files: Sequence[str | Path] = ()
    ) -> None:
        self.ctx = Context()
        self.hooks = PluginManager()
        self.failures: list[PluginError] = []
        self._settings = dict(settings or {})
        self._scopes: dict[str, Context] = {}
        self.ctx.provide("llm", LlmRegistry())
        self.ctx.provide("tools", ToolRegistry())
        self.ctx.provide("hooks", self.hooks)
        self.ctx.provide("settings_files", tuple(map(str, settings_files)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.dispose()

    # ---- plugins ----------------------------------------------------------------------------------------------

    async def start(self, selection: Selection | None = None, *, builtins: bool = True) -> Self:
        """Register the workspace tools and mount every plugin that is installed and wanted.

        :param selection: which plugins are wanted; the environment has a say too.
        :param builtins: whether the host's own workspace tools are registered.
        """
        try:
            if builtins:
                for tool in builtin_tools(self._sandbox_for):
                    self.ctx.tools.register(tool)
            return await self.mount_all(list(discover(selection)))
        except BaseException:
            # Cancelled half way: the caller never gets the host that it would have to dispose.
            await self.dispose()
            raise

    async def mount_all(self, found: list[Found]) -> Self:
        """Mount several plugins: all are registered before the first one is told that it is ready."""
        mounted = []
        for each in found:
            if each.error is not None:
                self._warn(each.error)
            elif await self._attempt(each.name, each.plugin):
                mounted.append(each.name)
        for name in mounted:
            try:
                await self.hooks.ready(name, self._scopes[name])
            except PluginError as error:
                await self._give_up(error)
        return self

    async def mount(self, name: str, plugin: object) -> bool:
        """Mount one plugin by hand.

        :returns: whether it is mounted; if not, the reason is the last of :attr:`failures`.
        """
        if not await self._attempt(name, plugin):
            return False
        try:
            await self.hooks.ready(name, self._scopes[name])
        except PluginError as error:
            await self._give_up(error)
            return False
        return True

    async def unmount(self, name: str) -> None:
        """Undo one plugin; unknown names are harmless."""
        scope = self._scopes.pop(name, None)
        if scope is not None:
            await to_the_end(self._undo(name, scope), f"unmount {name}")

    async def dispose(self) -> None:
        """Undo every plugin in reverse order, then the context; returns when all is ended."""
        await to_the_end(self._dispose(), "dispose host")

    async def _dispose(self) -> None:
        while self._scopes:
            await self._undo(*self._scopes.popitem())
        await self.ctx.dispose()

    async def _attempt(self, name: str, plugin: object) -> bool:
        try:
            self.hooks.add(name, plugin)
        except PluginError as error:
            self._warn(error)
            return False
        scope = self._scopes[name] = self.ctx.child(name)
        try:
            # No await of ours between the two: one plugin object may be mounted by two hosts at the same time.
            await self.hooks.configure(name, self._settings.get(name, {}))
            await self.hooks.register(name, scope)
        except PluginError as error:
            await self._give_up(error)
            return False
        return True

    async def _give_up(self, error: PluginError) -> None:
        self._warn(error)
        await self.unmount(error.plugin)

    async def _undo(self, name: str, scope: Context) -> None:
        try:
            await self.hooks.dispose(name, scope)
        except PluginError as error:
            self._warn(error)
        await scope.dispose()
        self.hooks.remove(name)

    def _warn(self, error: PluginError) -> None:
        self.failures.append(error)
        _log.warning("%s; the host goes on without it", error)

    def _sandbox_for(self, command: str, cwd: Path) -> "SandboxPlan | None":
        # Looked up for every line: a plugin that governs the calls is mounted after the tools are registered.
        governor = self.ctx.get("governor")
        return governor.sandbox_for(command, cwd) if isinstance(governor, Governor) else None

    # ---- models -----------------------------------------------------------------------------------------------

    @property
    def default_model(self) -> ModelChoice | None:
        """The default of the first mounted plugin whose manifest names one and whose route is served."""
        served = {info.id for info in self.ctx.llm.list_providers()}
        for name in self.hooks.names:
            choice = _default_of(getattr(self.hooks.get(name), "manifest", None))
            if choice is not None and choice.provider in served:
                return choice
        return None

    def choose_model(self, *, session: str | None = None, profile: str | None = None) -> ModelChoice:
        """The model of a chat: session, then profile, then the plugin's default.

        :raises LlmError: ``NO_ADAPTER`` when nothing was chosen and no mounted plugin has a default, with the reason
            of each plugin that failed; ``INVALID_SETTINGS`` when a choice, or the settings of such a plugin, cannot be
            read.
        """
        default = self.default_model
        if default is None and not session and not profile:
            raise self._no_default()
        return choose_model(session=session, profile=profile, default=default or ModelChoice("", ""))

    def _no_default(self) -> LlmError:
        if not self.failures:
            text = "No plugin with a default model is mounted; name a model as `provider/model`."
            return LlmError("NO_ADAPTER", text)
        refused = any(each.stage == "configure" for each in self.failures)
        text = f"No plugin with a default model is mounted: {'; '.join(map(str, self.failures))}"
        return LlmError("INVALID_SETTINGS" if refused else "NO_ADAPTER", f"{text.rstrip('.')}.")


def _default_of(manifest: Any) -> ModelChoice | None:
    """The default model that a plugin's manifest names: an object as ours, or the mapping that its JSON is."""
    if isinstance(manifest, Mapping):
        provider, model = manifest.get("provider"), manifest.get("defaultModel")
    else:
        provider, model = getattr(manifest, "provider", None), getattr(manifest, "default_model", None)
    return ModelChoice(provider, model) if isinstance(provider, str) and isinstance(model, str) else None
