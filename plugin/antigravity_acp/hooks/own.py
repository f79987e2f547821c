"""This project as a plugin, for its own Python host and for Cordis runtimes for Python.

Owns: the object :data:`plugin`, which the entry point ``dsh.plugins: antigravity-acp`` names, and :func:`apply`.
Settings are validated against the manifest before anything is registered. The adapter is imported when it is first
needed, so that finding the plugin stays quick. Disposal takes the route back first, then ends the adapter.
With the setting ``control`` on the plugin judges every call of its Python host by its rules, has each on record, and
looks at the results. A host that governs its calls itself provides the service ``governor``; the plugin then looks at
the results only.
"""

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from antigravity_acp.contract import (
    ContentBlock,
    LlmError,
    Notice,
    Notify,
    OpaqueBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
)
from antigravity_acp.governing import Governor, Records
from antigravity_acp.governing.sources import check_rules
from antigravity_acp.manifest import Manifest, manifest
from antigravity_acp.settings import Settings
from antigravity_control import Decision

from .calls import ToolCall, ToolResult, governed
from .specs import hookimpl

_log = logging.getLogger("antigravity_acp.hooks")


class AntigravityPlugin:
    """The plugin. One object may be mounted in several hosts: what belongs to a mount lives in the host's context."""

    #: Services that a Cordis runtime must have before it calls ``apply``.
    inject: Final = ("llm",)

    def __init__(self) -> None:
        self.name = manifest().id
        self._settings: Settings | None = None

    @property
    def manifest(self) -> Manifest:
        """The manifest of this installation."""
        return manifest()

    @hookimpl
    def configure(self, config: Mapping[str, Any]) -> None:
        """Validate the settings.

        :raises LlmError: ``INVALID_SETTINGS``; names the field or the rule and what was expected, never the value.
        """
        # Plain functions: between this call and `register` the host does not yield, so two hosts cannot mix settings.
        self._settings = Settings.from_mapping(config)
        if self._settings.control:
            check_rules(self._settings)

    @hookimpl
    def register(self, ctx: Any) -> None:
        """Mount the adapter on the manifest's route; both are undone with ``ctx``.

        :raises LlmError: ``DUPLICATE_ADAPTER`` when another plugin owns the route.
        """
        settings, self._settings = self._settings or Settings.from_mapping(), None
        notify = _notices_of(ctx)
        if settings.control and ctx.get("governor") is None:
            records = Records(settings, host="python")
            governor = Governor(
                settings,
                records=records,
                confines=_confines(ctx),
                settings_files=ctx.get("settings_files") or (),
                by_hook=True,
            )
            ctx.effect(governor.aclose, "records")
            ctx.provide("governor", governor)
        ctx.effect(_mount(ctx.llm, settings, notify), f"adapter {manifest().provider}")

    @hookimpl
    async def before_tool(self, call: ToolCall, ctx: Any) -> Decision | None:
        """What the rules say, with ``control`` on; whom to ask is the host's to know."""
        governor = _governor_of(ctx)
        if governor is None or not governor.by_hook:
            return None
        await governor.ready()
        return governor.decide(governed(call))

    @hookimpl
    async def after_tool(self, call: ToolCall, result: ToolResult, ctx: Any) -> ToolResult | None:
        """The result without the secrets that the policy for outputs withholds."""
        governor = _governor_of(ctx)
        if governor is None:
            return None
        try:
            texts = [_text_of(block) for block in result.content]
        except Exception:  # noqa: BLE001 - a plugin's tool may return anything; what cannot be read is not passed on
            return ToolResult.of("The result was withheld: it could not be read.", is_error=True)
        seen = await governor.inspect(governed(call), texts)
        if isinstance(seen, str):
            return ToolResult.of(seen, is_error=True)
        if list(seen) == texts:
            return None
        blocks = [
            block if text == was else _block_of(block, text)
            for block, was, text in zip(result.content, texts, seen, strict=True)
        ]
        return ToolResult(tuple(blocks), result.is_error)

    def apply(self, ctx: Any, config: object = None) -> Callable[[], Awaitable[None]]:
        """Mount in a Cordis runtime for Python: ``await ctx.plugin(plugin, config)``.

        :param ctx: a context whose service ``llm`` has ``register_adapter(providers, adapter)``.
        :param config: settings as a mapping, ``None`` for the defaults.
        :returns: the clean-up that takes the route back and disposes the adapter.
        :raises LlmError: ``INVALID_SETTINGS`` or ``DUPLICATE_ADAPTER``; nothing is registered then.
        """
        if config is not None and not isinstance(config, Mapping):
            raise LlmError("INVALID_SETTINGS", "The settings of antigravity-acp must be a mapping.")
        return _mount(ctx.require("llm"), Settings.from_mapping(config), _notices_of(ctx))


def _text_of(block: ContentBlock) -> str:
    """What of a block could hold a secret; nothing of an image."""
    if isinstance(block, TextBlock | ReasoningBlock):
        return block.text
    if isinstance(block, OpaqueBlock):
        # As one text: a name and its value belong together.
        return json.dumps(block.raw, ensure_ascii=False)
    return block.arguments if isinstance(block, ToolCallBlock) else ""


def _block_of(block: ContentBlock, text: str) -> ContentBlock:
    """The block with what may be seen of it."""
    if isinstance(block, ReasoningBlock):
        return ReasoningBlock(text)
    if isinstance(block, OpaqueBlock):
        try:
            raw = json.loads(text)
        except ValueError:
            raw = None
        if isinstance(raw, dict) and raw.get("type") == block.kind:
            return OpaqueBlock(raw)
    return TextBlock(text)


def _confines(ctx: Any) -> bool:
    """Whether the host runs its commands in the sandbox that the governor plans."""
    tools: Any = getattr(ctx, "tools", None)
    found: Any = tools.get("run_command") if hasattr(tools, "get") else None
    return bool(getattr(getattr(found, "tool", None), "confines", False))


def _governor_of(ctx: Any) -> Governor | None:
    found = ctx.get("governor") if hasattr(ctx, "get") else None
    return found if isinstance(found, Governor) else None


def _notices_of(ctx: Any) -> Notify:
    """Where notices go: to the host's service ``notices``, a function, else to its log."""
    found = ctx.get("notices") if hasattr(ctx, "get") else None
    if callable(found):
        notify: Notify = found
        return notify
    return _log_notice


def _log_notice(notice: Notice) -> None:
    _log.log(logging.WARNING if notice.level != "info" else logging.INFO, "%s", notice.message)


def _mount(llm: Any, settings: Settings, notify: Notify) -> Callable[[], Awaitable[None]]:
    from antigravity_acp.adapter import AntigravityAdapter

    adapter = AntigravityAdapter(settings, notify=notify)
    # Nothing of the adapter runs before its first request, so a refused registration leaves nothing to end.
    registration = llm.register_adapter([manifest().provider], adapter)

    async def dispose() -> None:
        try:
            # Hosts give back an object with `dispose`, or the disposer itself.
            outcome = getattr(registration, "dispose", registration)()
            if inspect.isawaitable(outcome):
                await outcome
        finally:
            await adapter.dispose()

    return dispose


#: What the entry point names.
plugin = AntigravityPlugin()

#: The declarations that a Cordis runtime reads when this module itself is mounted.
name = plugin.name
inject = plugin.inject


def apply(ctx: Any, config: object = None) -> Callable[[], Awaitable[None]]:
    """Mount in a Cordis runtime for Python; see :meth:`AntigravityPlugin.apply`."""
    return plugin.apply(ctx, config)


# The same declarations for those who mount the function instead of the module.
vars(apply).update(name=name, inject=inject)
