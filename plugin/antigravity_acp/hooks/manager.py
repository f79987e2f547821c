"""Runs the hooks of every plugin, each on its own.

Owns: the list of plugins and the calls of their hooks. ``pluggy`` checks implementations against the specifications
and orders them; the calls are made here, one implementation at a time, since a ``pluggy`` call ends at the first one
that raises, and one plugin's fault may not silence the others. Each gets a copy of the call: what one does to the
arguments reaches neither another's judgement nor the tool.
Never: lets an exception's own text out; it may hold settings or arguments. Type and place in the file say enough.
"""

import asyncio
import copy
import inspect
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any, get_args

import msgspec
import pluggy

from antigravity_acp.contract import LlmError
from antigravity_acp.limits import HOOK_TIMEOUT_S
from antigravity_control import Decision, Verdict, strictest

from .calls import ToolCall, ToolResult
from .schema import Schema
from .specs import PROJECT, PluginSpecs

_log = logging.getLogger("antigravity_acp.hooks")


class PluginError(Exception):
    """A plugin cannot be used.

    :param plugin: its name.
    :param stage: ``load``, ``check``, or the hook that failed.
    :param reason: what happened, without the text of foreign exceptions.
    """

    def __init__(self, plugin: str, stage: str, reason: str) -> None:
        self.plugin = plugin
        self.stage = stage
        self.reason = reason
        super().__init__(f"plugin `{plugin}` failed in {stage}: {reason}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.plugin, self.stage, self.reason)


def describe(error: BaseException) -> str:
    """An exception in words that are safe to log: our own messages as they are, foreign ones by type and place."""
    if isinstance(error, LlmError):
        return error.message
    if isinstance(error, TimeoutError):
        return f"it took longer than {HOOK_TIMEOUT_S:g} s"
    text = type(error).__name__
    if isinstance(error, ImportError) and error.name:
        text += f" for the module `{error.name}`"
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is not None:
        text += f" at {PurePath(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"
    return text


class PluginManager:
    """The plugins of one host, by name, in the order they were added."""

    def __init__(self) -> None:
        self._pluggy = pluggy.PluginManager(PROJECT)
        self._pluggy.add_hookspecs(PluginSpecs)
        self._plugins: dict[str, object] = {}
        self._scopes: dict[str, object] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all plugins."""
        return tuple(self._plugins)

    def get(self, name: str) -> object | None:
        """The plugin object of a name."""
        return self._plugins.get(name)

    def add(self, name: str, plugin: object) -> None:
        """Take a plugin after checking it: known hooks, known arguments, at least one hook, no wrappers.

        :raises PluginError: stage ``check``; nothing of the plugin is kept.
        """
        if name in self._plugins:
            raise PluginError(name, "check", "another plugin has this name")
        if any(plugin is each for each in self._plugins.values()):
            raise PluginError(name, "check", "the same object is mounted under another name")
        try:
            self._pluggy.register(plugin, name)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything; its fault is named and stays its own
            self._forget(name)
            # Of pluggy's own text nothing is kept: it shows the plugin object, whose repr is not ours to print.
            wrong_arguments = isinstance(error, pluggy.PluginValidationError)
            reason = "a hook has arguments that its specification has not" if wrong_arguments else describe(error)
            raise PluginError(name, "check", reason) from None
        try:
            self._check(name, plugin)
        except PluginError:
            self._forget(name)
            raise
        self._plugins[name] = plugin

    def remove(self, name: str) -> None:
        """Forget a plugin; its hooks are called no more."""
        self._scopes.pop(name, None)
        if self._plugins.pop(name, None) is not None:
            self._forget(name)

    async def configure(self, name: str, config: Mapping[str, Any]) -> None:
        """Validate a plugin's settings against its manifest, then hand them to its ``configure`` hook.

        :raises PluginError: names the field that is not valid and what was expected.
        """
        manifest = getattr(self._plugins[name], "manifest", None)
        schema = manifest.get("settings") if isinstance(manifest, Mapping) else getattr(manifest, "settings", None)
        if schema is not None:
            try:
                faults = Schema(schema).faults(dict(config))
            except ValueError as error:
                raise PluginError(name, "configure", f"its settings schema is not usable: {error}") from None
            if faults:
                raise PluginError(name, "configure", f"its settings are not valid: {'; '.join(faults)}")
        await self._lifecycle(name, "configure", config=config, manifest=manifest)

    async def register(self, name: str, ctx: object) -> None:
        """Call one plugin's ``register``. :raises PluginError: when it fails."""
        self._scopes[name] = ctx
        await self._lifecycle(name, "register", ctx=ctx)

    async def ready(self, name: str, ctx: object) -> None:
        """Call one plugin's ``ready``. :raises PluginError: when it fails."""
        await self._lifecycle(name, "ready", ctx=ctx)

    async def dispose(self, name: str, ctx: object) -> None:
        """Call one plugin's ``dispose``. :raises PluginError: when it fails."""
        await self._lifecycle(name, "dispose", ctx=ctx)

    async def before_tool(self, call: ToolCall) -> Decision | None:
        """The strictest opinion of all plugins; ``None`` when none has one. A hook that fails denies."""
        opinions = []
        for impl in self._implementations("before_tool"):
            source = f"hook:{impl.plugin_name}"
            try:
                answer = await _invoke(impl, call=copy.deepcopy(call), ctx=self._scopes.get(impl.plugin_name))
                if answer is not None and not (isinstance(answer, Decision) and answer.decision in get_args(Verdict)):
                    raise TypeError("before_tool must return a Decision or None")
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything; its fault is named and stays its own
                _log.warning("plugin `%s` failed in before_tool: %s", impl.plugin_name, describe(error))
                reason = f"The plugin `{impl.plugin_name}` could not judge this call, so it is denied."
                opinions.append(Decision("deny", reason, source))
                continue
            if answer is not None:
                # Whoever decided says what it decided by, but not who it is.
                opinions.append(replace(answer, source=source))
        return strictest(opinions)

    async def after_tool(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Show every plugin how a call ended. Each sees what the one before it left of the result."""
        for impl in self._implementations("after_tool"):
            try:
                scope = self._scopes.get(impl.plugin_name)
                answer = await _invoke(impl, call=_copied(call), result=result, ctx=scope)
                if answer is not None and not isinstance(answer, ToolResult):
                    raise TypeError("after_tool must return a ToolResult or None")
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything; its fault is named and stays its own
                _log.warning("plugin `%s` failed in after_tool: %s", impl.plugin_name, describe(error))
                continue
            if answer is not None:
                result = answer
        return result

    async def _lifecycle(self, name: str, hook: str, **arguments: Any) -> None:
        for impl in self._implementations(hook):
            if impl.plugin_name != name:
                continue
            try:
                await _invoke(impl, **arguments)
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything; its fault is named and stays its own
                raise PluginError(name, hook, describe(error)) from None

    def _implementations(self, hook: str) -> Iterator[pluggy.HookImpl]:
        """In call order: pluggy lists them with the last to be called first."""
        caller: pluggy.HookCaller = getattr(self._pluggy.hook, hook)
        return reversed(caller.get_hookimpls())

    def _check(self, name: str, plugin: object) -> None:
        callers = self._pluggy.get_hookcallers(plugin) or []
        try:
            self._pluggy.check_pending()
        except pluggy.PluginValidationError:
            unknown = ", ".join(f"`{caller.name}`" for caller in callers if not caller.has_spec())
            known = ", ".join(hook for hook in vars(PluginSpecs) if not hook.startswith("_"))
            raise PluginError(name, "check", f"there is no hook {unknown}; known hooks: {known}") from None
        mine = [impl for caller in callers for impl in caller.get_hookimpls() if impl.plugin is plugin]
        if not mine:
            raise PluginError(name, "check", "it implements no hook; is `hookimpl` missing, or is this no plugin?")
        if any(impl.wrapper or impl.hookwrapper for impl in mine):
            raise PluginError(name, "check", "hook wrappers are not taken: one plugin may not change another's answer")

    def _forget(self, name: str) -> None:
        if self._pluggy.has_plugin(name):
            self._pluggy.unregister(name=name)


def _copied(call: ToolCall) -> ToolCall:
    """A call for one hook. Arguments that cannot be copied, too deep ones, are left out: the result must be looked at
    all the same."""
    try:
        return copy.deepcopy(call)
    except Exception:  # noqa: BLE001 - whatever an argument is made of
        return msgspec.structs.replace(call, arguments={})


async def _invoke(impl: pluggy.HookImpl, **arguments: Any) -> Any:
    result = impl.function(*(arguments[name] for name in impl.argnames))
    if inspect.isawaitable(result):
        async with asyncio.timeout(HOOK_TIMEOUT_S):
            return await result
    return result
