"""The sidecar around an adapter that yields the chunks of `tests/dsh/plugins/plain.mjs`: what the way itself costs."""

import re
import sys
from collections.abc import AsyncIterator
from typing import Any

from antigravity_acp.contract import (
    BlockEnd,
    BlockStart,
    Finish,
    FinishReason,
    GenerateOptions,
    ModelInfo,
    ResolvedModelInfo,
    StreamChunk,
    TextBlock,
    TextDelta,
)
from antigravity_acp.sidecar.__main__ import main


class Plain:
    """``say N`` yields N pieces."""

    def __init__(self, settings: Any, *, notify: Any) -> None:
        self.settings = settings

    async def list_models(self, provider: str) -> list[ModelInfo]:
        return [ModelInfo(provider, "server-default", "Plain", input_modalities=("text",))]

    async def resolve_model(self, provider: str, model: str) -> ResolvedModelInfo:
        return ResolvedModelInfo(provider, model, "Plain", input_modalities=("text",))

    async def stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        asked = [found[1] for message in options.messages if (found := re.match(r"say (\d+)", message.text))]
        pieces = [f"piece {at} " for at in range(int(asked[-1]) if asked else 1)]
        yield BlockStart(0, "text")
        for piece in pieces:
            yield TextDelta(0, piece)
        yield BlockEnd(0, TextBlock("".join(pieces)))
        yield Finish(FinishReason("stop"))

    def update(self, settings: Any) -> None:
        self.settings = settings

    def diagnostics(self) -> dict[str, int]:
        return {}

    async def dispose(self) -> None:
        pass


if __name__ == "__main__":
    sys.exit(main(lambda: Plain))
