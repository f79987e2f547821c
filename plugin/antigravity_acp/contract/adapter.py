"""The adapter contract: what a provider plugin implements.

Owns: :class:`LlmAdapter` and the metadata it answers with. One call of ``stream`` is one attempt; the host retries.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence

import msgspec

from .chunks import StreamChunk
from .options import GenerateOptions
from .signal import AbortSignal


class ProviderInfo(msgspec.Struct, frozen=True):
    """A provider route for selectors: ``id`` is the route, ``name`` is for people."""

    id: str
    name: str


class ModelInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One model that an adapter advertises. ``input_modalities`` left out means unknown."""

    provider: str
    id: str
    name: str
    description: str | None = None
    input_modalities: tuple[str, ...] | None = None


class ModelContext(msgspec.Struct, frozen=True, rename="camel"):
    """Capacity of one model: ``context_window`` in tokens."""

    context_window: int


class ResolvedModelInfo(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """All that is known of one exact model; ``provider`` and ``id`` echo the question."""

    provider: str
    id: str
    name: str
    description: str | None = None
    input_modalities: tuple[str, ...] | None = None
    context: ModelContext | None = None


class LlmAdapter(ABC):
    """A provider's adapter between the host's vocabulary and a wire."""

    def provider_info(self, provider: str) -> ProviderInfo:
        """Describe one owned route; the answer's ``id`` must equal ``provider``."""
        return ProviderInfo(provider, provider)

    async def list_models(self, provider: str) -> Sequence[ModelInfo]:
        """Models that can be chosen now, in preferred order. Advisory: unlisted ids may work.

        :raises LlmError: when the agent cannot be asked.
        """
        return ()

    async def resolve_model(self, provider: str, model: str, signal: AbortSignal | None = None) -> ResolvedModelInfo:
        """Metadata of one exact model; settles promptly once ``signal`` fires."""
        return ResolvedModelInfo(provider, model, model)

    @abstractmethod
    def stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        """One attempt at one generation.

        The iterator ends after its ``finish`` chunk. It may raise :class:`~antigravity_acp.contract.errors.LlmError`;
        the host's registry turns that into a terminal ``finish`` of kind error or aborted.
        """

    async def dispose(self) -> None:  # noqa: B027 - an adapter that holds nothing has nothing to release
        """Release everything; returns when it is released. Safe to call twice."""
