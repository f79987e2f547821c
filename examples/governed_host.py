"""The Python host under rules: they judge what its tools do, and tools of one's own; what nobody allows is refused.

The rules here are in force together with those of your own files, see "Where rules live" in docs/control.md.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Any, Final

from antigravity_acp.hooks import ToolResult
from antigravity_acp.host import AgentLoop, Approvals, Host, Selection, ToolContext
from antigravity_acp.host.events import LoopEvent, ToolDecided

SCRIPT = Path(__file__).with_suffix(".yaml")
SETTINGS: Final = {
    "engine": "embedded",
    "args": ["--script", str(SCRIPT)],
    "control": True,
    "permissions": {
        # A tool that is not of this host's own goes by `mcp(host/NAME)`.
        "allow": ["command(echo)", "mcp(host/deploy)"],
        "deny": ["read_file(.env)"],
    },
    # Left on, as it is by default, each decision is on record before its call runs: `antigravity-acp control log`.
    "ledger": False,
}


class Deploy:
    """A tool of one's own."""

    name = "deploy"
    description = "Bring the project to a stage."
    parameters: Final = {"type": "object", "properties": {"stage": {"type": "string"}}, "required": ["stage"]}

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Say so."""
        return ToolResult.of(f"deployed to {arguments['stage']}")


def show(event: LoopEvent) -> None:
    """Each decision with its reason."""
    if isinstance(event, ToolDecided):
        remedies = f" [{', '.join(event.remedies)}]" if event.remedies else ""
        print(f"{event.name}: {event.decision}: {event.reason}{remedies}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / ".env").write_text("COLOUR=blue\n")
        async with Host({"antigravity-acp": SETTINGS}) as host:
            await host.start(Selection.parse("antigravity-acp"))
            host.ctx.tools.register(Deploy())
            # Where a person sits: `Approvals.of(host.ctx, TerminalApprover(governor=host.ctx.get("governor")))`.
            loop = AgentLoop(
                host.ctx,
                model=host.choose_model(),
                workspace=folder,
                approver=Approvals.of(host.ctx),
                listener=show,
            )
            result = await loop.run("Build it and bring it to staging.")
    print(result.text)


asyncio.run(main())
