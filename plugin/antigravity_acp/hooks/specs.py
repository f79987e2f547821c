"""The hook specifications: what a plugin may implement.

Owns: the names, arguments and meaning of the six hooks. Each may be a plain function or a coroutine function; the
host awaits what is awaitable, with a bound. A plugin is a module, an instance, or a class that is made into an
instance without arguments; it marks its hooks with :data:`hookimpl` and may leave out any of them and any argument.
A plugin object may carry ``manifest``: an object or mapping with ``settings``, a JSON Schema. Its settings are
validated against that schema before ``configure`` is called.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import pluggy

from antigravity_control import Decision

from .calls import ToolCall, ToolResult


class HostContext(Protocol):
    """What a hook may use of the host's context; `antigravity_acp.host.Context` is one."""

    @property
    def llm(self) -> Any:
        """The model registry: ``register_adapter``, ``stream`` and the rest."""

    @property
    def tools(self) -> Any:
        """The tool registry: ``register``."""

    @property
    def logger(self) -> logging.Logger:
        """A logger named after the plugin."""

    def effect(self, disposer: Callable[[], object], label: str = "") -> Callable[[], Awaitable[None]]:
        """Have something undone with the plugin's scope."""


#: The project name of the hooks; the entry point group of plugins is ``dsh.plugins``.
PROJECT: Final = "dsh"

hookspec = pluggy.HookspecMarker(PROJECT)
#: Marks a function of a plugin as the implementation of the hook of the same name.
hookimpl = pluggy.HookimplMarker(PROJECT)


class PluginSpecs:
    """The six hooks, in the order of a plugin's life."""

    @hookspec
    def configure(self, config: Mapping[str, Any], manifest: Any) -> Awaitable[None] | None:
        """Take the plugin's settings. Nothing is registered yet; raise to refuse them, and name the field.

        :param config: the settings that the host has for this plugin, empty when it has none.
        :param manifest: the plugin's own manifest, or ``None``.
        """

    @hookspec
    def register(self, ctx: HostContext) -> Awaitable[None] | None:
        """Register adapters, tools, services and effects in the plugin's own scope; all are undone with it."""

    @hookspec
    def ready(self, ctx: HostContext) -> Awaitable[None] | None:
        """Every plugin is registered; routes and tools of the others can be used."""

    @hookspec
    def before_tool(self, call: ToolCall, ctx: HostContext) -> Awaitable[Decision | None] | Decision | None:
        """Judge a call before it runs. ``None`` is no opinion; the strictest opinion of all plugins counts.

        :param ctx: the plugin's own scope; one plugin may be mounted in several hosts.
        A hook that raises, takes too long or answers anything else denies the call.
        """

    @hookspec
    def after_tool(
        self, call: ToolCall, result: ToolResult, ctx: HostContext
    ) -> Awaitable[ToolResult | None] | ToolResult | None:
        """See how a call ended, denied ones included. A :class:`ToolResult` replaces what the model will see.

        :param ctx: the plugin's own scope.
        A hook that raises leaves the result as it was.
        """

    @hookspec
    def dispose(self, ctx: HostContext) -> Awaitable[None] | None:
        """The plugin's scope is about to be undone; what it registered is still there."""
