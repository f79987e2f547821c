"""A provider of one's own against the contract: a plugin with a route, and a model that is a few lines of Python.

The agent loop, the tools and the approvals do not know the difference.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from types import SimpleNamespace

from antigravity_acp import GenerateOptions, LlmAdapter, LlmError, StreamChunk
from antigravity_acp.contract import (
    BlockEnd,
    BlockStart,
    Finish,
    FinishReason,
    ModelInfo,
    ProviderInfo,
    TextBlock,
    TextDelta,
    ToolCallBlock,
)
from antigravity_acp.hooks import HostContext, hookimpl
from antigravity_acp.host import AgentLoop, Host, PolicyApprover, Selection
from antigravity_control import Rules


class Librarian(LlmAdapter):
    """Lists the workspace once, then says what it saw."""

    def provider_info(self, provider: str) -> ProviderInfo:
        return ProviderInfo(provider, "The librarian")

    async def list_models(self, provider: str) -> Sequence[ModelInfo]:
        return [ModelInfo(provider, "shelf", "Shelf")]

    async def stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        """Indexes count up, every start has its end with the whole block, and finish comes once, last."""
        last = options.messages[-1]
        if last.role == "tool":
            text = f"On the shelf: {', '.join(line.split()[0] for line in last.text.splitlines())}"
            yield BlockStart(0, "text")
            for word in text.split(" "):
                yield TextDelta(0, word + " ")
            yield BlockEnd(0, TextBlock(text + " "))
            yield Finish(FinishReason("stop"))
        elif any(tool.name == "list_dir" for tool in options.tools):
            yield BlockStart(0, "tool-call")
            yield BlockEnd(0, ToolCallBlock("call_1", "list_dir", json.dumps({"path": "."})))
            yield Finish(FinishReason("tool-calls"))
        else:
            # The registry turns this into the one terminal chunk, with the code.
            raise LlmError("UNSUPPORTED_OPTION", "The librarian needs the tool list_dir.")


class LibrarianPlugin:
    """What an entry point in the group `dsh.plugins` would name."""

    manifest = SimpleNamespace(provider="librarian", default_model="shelf", settings=None)

    @hookimpl
    def register(self, ctx: HostContext) -> None:
        """A second owner of a route would be refused."""
        ctx.llm.register_adapter(["librarian"], Librarian())


def fill(workspace: Path) -> None:
    """Two books."""
    for name in ("emma.txt", "dubliners.txt"):
        (workspace / name).write_text("…")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
        async with Host() as host:
            await host.start(Selection.parse(""))
            await host.mount("librarian", LibrarianPlugin())
            model = host.choose_model()
            loop = AgentLoop(
                host.ctx, model=model, workspace=folder, approver=PolicyApprover(Rules.parse("list_dir"), headless=True)
            )
            result = await loop.run("What is there to read?")
            print(f"{model}: {result.text}({result.kind}, {result.steps} steps)")


asyncio.run(main())
