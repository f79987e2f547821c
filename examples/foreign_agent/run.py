"""Any ACP agent by `command`: it keeps its model, the host keeps the tools."""

import asyncio
import json
import sys
from pathlib import Path

from antigravity_acp import AntigravityAdapter, GenerateOptions, Message, Settings, ToolSchema
from antigravity_acp.contract import BlockEnd, TextDelta, ToolCallBlock, tool_result, user

AGENT = Path(__file__).with_name("agent.py")
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SHOUT = ToolSchema("shout", "Say it louder.", TEXT)


async def main() -> None:
    adapter = AntigravityAdapter(Settings.from_mapping({"command": sys.executable, "args": ["-I", str(AGENT)]}))
    messages = [user("good morning")]
    finished = False
    while not finished:
        options = GenerateOptions(
            provider="antigravity-acp",
            model="server-default",
            messages=tuple(messages),
            tools=(SHOUT,),
            session_id="example",
        )
        blocks = []
        async for chunk in adapter.stream(options):
            if isinstance(chunk, TextDelta):
                print(chunk.text, end="")
            elif isinstance(chunk, BlockEnd):
                blocks.append(chunk.block)
        messages.append(Message("assistant", tuple(blocks)))
        calls = [block for block in blocks if isinstance(block, ToolCallBlock)]
        messages += [tool_result(call.id, json.loads(call.arguments)["text"].upper()) for call in calls]
        finished = not calls
    await adapter.dispose()


asyncio.run(main())
