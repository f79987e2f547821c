"""A plugin for the Python host: it adds a tool, and it has a say before any tool runs.

An installed plugin is found by its entry point in the group `dsh.plugins`; here it is mounted by hand.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any, Final

from antigravity_acp.hooks import HostContext, ToolCall, ToolError, ToolResult, hookimpl
from antigravity_acp.host import AgentLoop, Approvals, Host, PolicyApprover, Selection, ToolContext
from antigravity_acp.host.events import LoopEvent, ToolDecided, ToolEnded
from antigravity_control import Decision, Rules

SCRIPT = Path(__file__).with_suffix(".yaml")


class CountWords:
    """The tool: how many words a file of the workspace has."""

    name = "count_words"
    kind = "read"
    description = "Count the words of a text file of the workspace."
    parameters: Final = {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    }

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Arguments are valid against `parameters` here, and the path is checked to stay in the workspace."""
        try:
            text = context.workspace.file(arguments["path"]).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ToolError("The file is no text.") from None
        return ToolResult.of(f"{len(text.split())} words")


class WordPlugin:
    """The plugin."""

    @hookimpl
    def register(self, ctx: HostContext) -> None:
        """Everything that is registered through `ctx` goes when the plugin goes."""
        ctx.tools.register(CountWords())

    @hookimpl
    def before_tool(self, call: ToolCall) -> Decision | None:
        """`None` is no opinion; the strictest opinion of all plugins and rules counts."""
        if call.arguments.get("path", "").startswith("private"):
            return Decision("deny", "Files named private are not for the model.", "plugin")
        return None


def show(event: LoopEvent) -> None:
    """What the loop does with calls, as it happens."""
    if isinstance(event, ToolDecided):
        print(f"[{event.name}: {event.decision} by {event.source}]")
    elif isinstance(event, ToolEnded):
        print(f"[{event.name}: {event.text}]")


def fill(workspace: Path) -> None:
    """Two files to count."""
    (workspace / "poem.txt").write_text("the quick brown fox\njumps over it\n")
    (workspace / "private.txt").write_text("not for you\n")


async def main() -> None:
    engine = {"engine": "embedded", "args": ["--script", str(SCRIPT)]}
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
        async with Host({"antigravity-acp": engine}) as host:
            await host.start(Selection.parse("antigravity-acp"))
            await host.mount("words", WordPlugin())
            loop = AgentLoop(
                host.ctx,
                model=host.choose_model(),
                workspace=folder,
                approver=Approvals(PolicyApprover(Rules.parse("count_words"))),
                listener=show,
            )
            result = await loop.run("How long are my texts?")
    print(result.text)


asyncio.run(main())
