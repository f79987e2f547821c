"""The primary LLM adapter: Antigravity, or any ACP v1 agent, behind the host's model interface.

Owns: the agent processes, the private MCP listener and the unfinished turns of one mounted plugin; :meth:`dispose` ends
them all. One call of :meth:`AntigravityAdapter.stream` is one attempt at one generation.
Never: executes a tool, retries, stores history or credentials.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from .acp import AgentPool, ModelChoice, Standby
from .bridge import Bridge, Catalogue, Endpoint
from .contract import (
    AbortSignal,
    GenerateOptions,
    LlmAdapter,
    LlmError,
    ModelInfo,
    Notify,
    ProviderInfo,
    ResolvedModelInfo,
    StreamChunk,
)
from .contract.notices import ignore
from .limits import AGENT_PREFIX_RESERVE, MAX_EXPORTED_NAME
from .manifest import manifest
from .prompt import check_content, check_controls, has_images
from .settings import Settings
from .turns import BARE, Exchange, TurnRegistry


class AntigravityAdapter(LlmAdapter):
    """Adapter of the route ``antigravity-acp``.

    :param settings: validated settings; see ``manifest.json``.
    :param notify: gets what a person should know beside the answers, such as an installation that takes long.
    """

    def __init__(self, settings: Settings | None = None, *, notify: Notify = ignore) -> None:
        self._settings = settings or Settings.from_mapping()
        self._pool: AgentPool[Endpoint | None] = AgentPool(self._settings, notify)
        self._bridge = Bridge(tool_timeout_s=self._settings.tool_timeout_ms / 1000)
        self._turns = TurnRegistry(self._settings.max_active_tool_sessions)
        self._models: dict[str, ModelChoice] = {}
        self._listing: asyncio.Task[None] | None = None
        self._turnstile = asyncio.Lock()
        self._disposed = False
        self._key = secrets.token_bytes(32)

    # ---- metadata ---------------------------------------------------------------------------------------------

    def provider_info(self, provider: str) -> ProviderInfo:
        """The route and its name for people."""
        return ProviderInfo(provider, manifest().name)

    async def list_models(self, provider: str) -> Sequence[ModelInfo]:
        """The agent's live catalogue, after the default that leaves the choice to the agent.

        :raises LlmError: when the agent cannot be asked; several callers at once share one question.
        """
        self._check_alive()
        if self._listing is None or self._listing.done():
            self._listing = asyncio.create_task(self._discover(), name="antigravity-acp models")
        await asyncio.shield(self._listing)
        return [self._info(provider, model) for model in (manifest().default_model, *self._models)]

    async def resolve_model(self, provider: str, model: str, signal: AbortSignal | None = None) -> ResolvedModelInfo:
        """What is known of one model without asking the agent; hosts call this before every generation."""
        info = self._info(provider, model)
        return ResolvedModelInfo(provider, model, info.name, info.description, info.input_modalities)

    def _info(self, provider: str, model: str) -> ModelInfo:
        images = self._pool.images
        modalities = None if images is None else ("text", "image") if images else ("text",)
        if model == manifest().default_model:
            return ModelInfo(provider, model, "Server default", "The model that the agent itself prefers.", modalities)
        choice = self._models.get(model)
        if choice is None:
            return ModelInfo(provider, model, model, None, modalities)
        return ModelInfo(provider, model, choice.name, choice.description, modalities)

    async def _discover(self) -> None:
        client, _ = await self._pool.checkout()
        session = None
        try:
            session = await client.new_session(None)
            self._models = {choice.id: choice for choice in session.models}
        finally:
            # The session is still empty: a request without tools may claim it, once.
            standby = (BARE, Standby[Endpoint | None](session, None, lambda: None)) if session else None
            self._pool.give_back(client, healthy=session is not None, standby=standby)

    # ---- generation -------------------------------------------------------------------------------------------

    async def stream(self, options: GenerateOptions) -> AsyncGenerator[StreamChunk, None]:
        """One attempt at one generation, fresh or the continuation of a suspended tool turn.

        :raises LlmError: any code of the table; blocks that were open are closed first.
        """
        self._check_alive()
        check_controls(options)
        if options.signal and options.signal.aborted:
            raise LlmError("ABORTED")
        exchange = self._turns.claim(options) or await self._start(options)
        async with aclosing(exchange.segment(options)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _start(self, options: GenerateOptions) -> Exchange:
        check_content(options)
        if has_images(options) and self._pool.images is False:
            raise LlmError("UNSUPPORTED_OPTION", "This agent does not announce image input; send the request without.")
        budget = MAX_EXPORTED_NAME - AGENT_PREFIX_RESERVE
        catalogue = Catalogue.build(options.tools, name_budget=budget) if options.tools else None
        exchange = Exchange(self._settings, options, self._pool, self._bridge)
        self._turns.add(exchange)
        await exchange.open(options, catalogue, self._key, self._turnstile)
        return exchange

    # ---- settings ---------------------------------------------------------------------------------------------

    def update(self, settings: Settings) -> None:
        """Take over new settings, for what begins afterwards: turns, endpoints and processes.

        Another agent answers from the next turn on; turns that are unfinished stay with theirs.

        :raises LlmError: ``INVALID_SETTINGS`` when one differs that cannot change while the adapter runs; such a change
            needs a new adapter.
        """
        if (fixed := self._settings.fixed_in(settings)) is not None:
            raise LlmError(
                "INVALID_SETTINGS", f"Setting `{fixed}` cannot change while the plugin runs. Mount the plugin again."
            )
        same = self._settings.same_agent(settings)
        self._settings = self._pool.settings = settings
        if not same:
            self._models = {}
            self._pool.renew()
        self._bridge.tool_timeout_s = settings.tool_timeout_ms / 1000
        self._turns.limit = settings.max_active_tool_sessions

    # ---- the end ----------------------------------------------------------------------------------------------

    def diagnostics(self) -> dict[str, Any]:
        """Counters for tests, `doctor` and operators; numbers only."""
        return {
            "process_starts": self._pool.starts,
            "processes": self._pool.live,
            "idle_processes": self._pool.idle,
            "prepared_sessions": self._pool.prepared,
            "active_turns": self._turns.active,
            "parked_calls": self._turns.parked_calls,
            "undelivered_results": self._bridge.counters["undelivered_results"],
        }

    async def dispose(self) -> None:
        """End every turn, process and socket; returns when they are gone. Running streams end with ACP_DISPOSED."""
        self._disposed = True
        if self._listing:
            self._listing.cancel()
            await asyncio.wait({self._listing})
        await self._turns.dispose()
        await self._bridge.aclose()
        await self._pool.aclose()

    def _check_alive(self) -> None:
        if self._disposed:
            raise LlmError("ACP_DISPOSED")
