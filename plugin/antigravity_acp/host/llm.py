"""``ctx.llm``: which adapter serves which provider route, and the one way to stream from it.

Owns: the routes. A route has one owner; registering several is all or nothing. It does not own adapters: who registers
one disposes it. :meth:`LlmRegistry.stream` never raises for what an adapter does; every failure becomes the one
terminal ``finish`` of kind ``error`` or ``aborted``, and the stream keeps the chunk contract whatever comes in.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence

from antigravity_acp.contract import (
    AbortSignal,
    Failure,
    Finish,
    FinishReason,
    GenerateOptions,
    LlmAdapter,
    LlmError,
    ModelInfo,
    ProviderInfo,
    ResolvedModelInfo,
    StreamChunk,
)
from antigravity_acp.limits import ABORT_GRACE_S

from ._guard import ContractBreakError, StreamGuard, as_error
from ._scope import Scope

_log = logging.getLogger("antigravity_acp.host.llm")


class _Route:
    __slots__ = ("adapter", "info")

    def __init__(self, adapter: LlmAdapter, info: ProviderInfo) -> None:
        self.adapter = adapter
        self.info = info


class AdapterRegistration:
    """The routes that one registration holds."""

    def __init__(self, routes: dict[str, _Route], adapter: LlmAdapter, held: dict[str, _Route]) -> None:
        self._routes = routes
        self._adapter = adapter
        self._held = held
        self._disposed = False

    @property
    def providers(self) -> tuple[str, ...]:
        """The routes held now."""
        return tuple(self._held)

    def replace(self, providers: Iterable[str]) -> None:
        """Hold exactly these routes with the same adapter from now on; no request can see a gap. None is legal here.

        :raises LlmError: ``REGISTRATION_DISPOSED``, ``DUPLICATE_ADAPTER`` or ``INVALID_ADAPTER``; nothing changes then.
        """
        if self._disposed:
            raise LlmError("REGISTRATION_DISPOSED")
        taken = {name: route for name, route in self._routes.items() if name not in self._held}
        new = _checked(tuple(providers), self._adapter, taken)
        self._withdraw()
        self._held = new
        self._routes.update(new)

    def dispose(self) -> None:
        """Give every route back; calling it twice is harmless. Streams that run are not touched."""
        if not self._disposed:
            self._disposed = True
            self._withdraw()

    def _withdraw(self) -> None:
        for name in self._held:
            del self._routes[name]
        self._held = {}


class LlmRegistry:
    """The service ``llm``."""

    def __init__(self) -> None:
        self._routes: dict[str, _Route] = {}
        self._scope: Scope | None = None

    def scoped(self, ctx: Scope) -> "LlmRegistry":
        """A view whose registrations end with ``ctx``."""
        view = LlmRegistry()
        view._routes = self._routes
        view._scope = ctx
        return view

    # ---- registration -----------------------------------------------------------------------------------------

    def register_adapter(self, providers: Iterable[str], adapter: LlmAdapter) -> AdapterRegistration:
        """Let ``adapter`` serve these routes.

        :param providers: at least one route.
        :raises LlmError: ``DUPLICATE_ADAPTER`` when a route has an owner or is named twice, ``INVALID_ADAPTER`` when
            the adapter's ``provider_info`` does not echo a route or gives it no name. All or nothing.
        """
        names = tuple(providers)
        if not names:
            raise LlmError("INVALID_ADAPTER", "An adapter needs at least one provider route.")
        held = _checked(names, adapter, self._routes)
        registration = AdapterRegistration(self._routes, adapter, held)
        if self._scope is not None:
            self._scope.effect(registration.dispose, f"routes {', '.join(names)}")
        self._routes.update(held)
        return registration

    # ---- metadata ---------------------------------------------------------------------------------------------

    def list_providers(self) -> tuple[ProviderInfo, ...]:
        """Every route, in the order of registration."""
        return tuple(route.info for route in self._routes.values())

    async def list_models(self, provider: str | None = None) -> tuple[ModelInfo, ...]:
        """The models of one route, or of all; then a route that cannot be asked is named in a warning and left out.

        :raises LlmError: ``NO_ADAPTER``, ``INVALID_ADAPTER``, or the adapter's own code.
        """
        if provider is not None:
            return await self._models_of(provider)
        found: list[ModelInfo] = []
        for name in tuple(self._routes):
            try:
                found += await self._models_of(name)
            except LlmError as error:
                _log.warning("the models of `%s` cannot be listed: %s", name, error)
        return tuple(found)

    async def resolve_model(self, provider: str, model: str, signal: AbortSignal | None = None) -> ResolvedModelInfo:
        """What is known of one exact model.

        :raises LlmError: ``NO_ADAPTER``, ``INVALID_ADAPTER`` when the answer is about something else, or the
            adapter's own code.
        """
        adapter = self._owner(provider)
        try:
            info = await adapter.resolve_model(provider, model, signal)
        except Exception as error:  # noqa: BLE001 - an adapter may raise anything; it becomes a typed failure
            raise as_error(error) from None
        if not isinstance(info, ResolvedModelInfo) or (info.provider, info.id) != (provider, model) or not info.name:
            raise LlmError("INVALID_ADAPTER", f"The adapter of `{provider}` answered for another model than was asked.")
        return info

    async def _models_of(self, provider: str) -> tuple[ModelInfo, ...]:
        adapter = self._owner(provider)
        try:
            models = tuple(await adapter.list_models(provider))
        except Exception as error:  # noqa: BLE001 - an adapter may raise anything; it becomes a typed failure
            raise as_error(error) from None
        if any(not isinstance(each, ModelInfo) or each.provider != provider or not each.id for each in models):
            raise LlmError("INVALID_ADAPTER", f"The adapter of `{provider}` lists models of another route.")
        return models

    def _owner(self, provider: str) -> LlmAdapter:
        route = self._routes.get(provider)
        if route is None:
            known = ", ".join(f"`{name}`" for name in self._routes) or "none"
            raise LlmError("NO_ADAPTER", f"No adapter serves this provider route. Routes that are served: {known}.")
        return route.adapter

    # ---- generation -------------------------------------------------------------------------------------------

    async def stream(self, options: GenerateOptions) -> AsyncGenerator[StreamChunk, None]:
        """One attempt at one generation; use it under ``contextlib.aclosing`` where you may stop early.

        The adapter's generator runs in the consumer's own task and is closed before this one ends, whoever stops
        first. When the signal has fired and the adapter has not ended by itself within a grace, it is interrupted.
        """
        guard = StreamGuard()
        patience = _Patience(options.signal)
        source: AsyncIterator[StreamChunk] | None = None
        try:
            try:
                _check_signal(options.signal)
                source = aiter(self._owner(options.provider).stream(options))
                while not guard.finished and (chunk := await patience.next(source)) is not None:
                    for out in guard.take(chunk):
                        yield out
                if not guard.finished:
                    raise ContractBreakError("it ended without a finish")
            except Exception as error:  # noqa: BLE001 - an adapter may raise anything; it becomes a typed failure
                for out in guard.end(_reason(error, options)):
                    yield out
        finally:
            patience.close()
            await _close(source, options.provider)


def _checked(names: Sequence[str], adapter: LlmAdapter, taken: dict[str, _Route]) -> dict[str, _Route]:
    held: dict[str, _Route] = {}
    for name in names:
        if not isinstance(name, str) or not name:
            raise LlmError("INVALID_ADAPTER", "A provider route must be a name that is not empty.")
        if name in taken or name in held:
            raise LlmError("DUPLICATE_ADAPTER", f"The provider route `{name}` already has an adapter.")
        try:
            info = adapter.provider_info(name)
        except Exception as error:  # noqa: BLE001 - an adapter may raise anything; it becomes a typed failure
            raise as_error(error) from None
        if not isinstance(info, ProviderInfo) or info.id != name or not info.name:
            raise LlmError("INVALID_ADAPTER", f"The adapter's provider_info must keep `{name}` as id and have a name.")
        held[name] = _Route(adapter, info)
    return held


def _check_signal(signal: AbortSignal | None) -> None:
    if signal is not None and signal.aborted:
        raise LlmError("ABORTED")


class _Patience:
    """How long an adapter may go on once the signal has fired. One for each stream; listens until it is closed."""

    def __init__(self, signal: AbortSignal | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline: float | None = None
        self._bound: asyncio.Timeout | None = None
        self.close: Callable[[], None] = signal.add_listener(self._fired) if signal else lambda: None

    def _fired(self) -> None:
        self._deadline = self._loop.time() + ABORT_GRACE_S
        if self._bound is not None and not self._bound.expired():
            self._bound.reschedule(self._deadline)

    async def next(self, source: AsyncIterator[StreamChunk]) -> StreamChunk | None:
        """The adapter's next chunk, ``None`` at its end. :raises TimeoutError: when the grace is over."""
        if self._deadline is not None and self._loop.time() >= self._deadline:
            raise TimeoutError  # an adapter that never waits would not notice the timeout below
        # A timeout that is set only when the signal fires: no task of its own, so the generator never changes tasks.
        async with asyncio.timeout_at(self._deadline) as bound:
            self._bound = bound
            try:
                return await anext(source, None)
            finally:
                self._bound = None


def _reason(error: Exception, options: GenerateOptions) -> FinishReason:
    if options.signal is not None and options.signal.aborted:
        return FinishReason("aborted", Failure.of(LlmError("ABORTED")))
    if not isinstance(error, LlmError):
        _log.warning("the adapter of `%s` failed with %s", options.provider, type(error).__name__)
    return Finish.of(as_error(error)).reason


async def _close(source: AsyncIterator[StreamChunk] | None, provider: str) -> None:
    close = getattr(source, "aclose", None)
    if close is None:
        return
    try:
        await close()
    except Exception as error:  # noqa: BLE001 - an adapter may raise anything; it becomes a typed failure
        _log.warning("the stream of `%s` failed while it was closed: %s", provider, type(error).__name__)
