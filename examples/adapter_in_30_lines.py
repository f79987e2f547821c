"""The adapter by itself: one tool turn on the embedded engine, with the call carried out by hand in between."""

import asyncio
import json
from pathlib import Path
from typing import Any

from antigravity_acp import AntigravityAdapter, GenerateOptions, Settings

SCRIPT = Path(__file__).with_suffix(".yaml")  # a scripted model; without `args` it is Gemini, by GEMINI_API_KEY
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "weather", "description": "Today's weather in a city.", "parameters": CITY}


async def main() -> None:
    adapter = AntigravityAdapter(Settings.from_mapping({"engine": "embedded", "args": ["--script", str(SCRIPT)]}))
    chat = {"provider": "antigravity-acp", "model": "server-default", "tools": [TOOL], "sessionId": "example"}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Do I need an umbrella in Graz?"}]
    calls: list[dict[str, Any]] | None = None
    try:
        while calls != []:
            blocks = []
            async for chunk in adapter.stream(GenerateOptions.from_wire({**chat, "messages": messages})):
                wire = chunk.to_wire()
                if wire["type"] == "text-delta":
                    print(wire["text"], end="", flush=True)
                elif wire["type"] == "block-end":
                    blocks.append(wire["block"])
            messages.append({"role": "assistant", "content": blocks})
            calls = [block for block in blocks if block["type"] == "tool-call"]
            for call in calls:  # run by you; meanwhile the agent waits for the result inside its own prompt
                text = f"{json.loads(call['arguments'])['city']}: rain until noon, 7 °C"
                messages.append({"role": "tool", "toolCallId": call["id"], "content": [{"type": "text", "text": text}]})
                print(f"\n[{call['name']} -> {text}]")
    finally:
        await adapter.dispose()


asyncio.run(main())
