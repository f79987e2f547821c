"""`make soak`: thousands of turns through one adapter with a fault in every tenth, and nothing more at the end."""

import asyncio
import gc
import json
import os
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers.conversation import BOUND, Conversation, until
from helpers.loopback import directive, loopback_settings

from antigravity_acp.adapter import AntigravityAdapter
from antigravity_acp.contract import LlmError, user

pytestmark = pytest.mark.soak
TURNS = 2_000
WARM_UP = 200
BASH = {"call": {"name": "bash", "arguments": {}}}
FAULTS: list[dict[str, Any]] = [
    {"exit": 1},
    {"error": {"code": -32603, "message": "x"}},
    {"native": {"kind": "execute", "status": "in_progress"}},
    {"stop": "a_reason_of_next_year"},
    {"wait_cancel": 30},
]


def census(scratch: Path) -> dict[str, int]:
    """What must not grow; counted when nothing is under way."""
    gc.collect()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "processes": len(psutil.Process().children(recursive=True)),
        "directories": len([entry for entry in scratch.iterdir() if entry.name.startswith("antigravity-acp-")]),
    }


async def tool_turn(adapter: AntigravityAdapter, number: int) -> None:
    chat = Conversation(adapter, session_id=f"tool {number}")
    first = await chat.play({"say": "x"}, BASH)
    assert (await chat.answer({first.calls[0].id: f"r{number}"})).text.endswith(f"result:bash:r{number}")


async def text_turn(adapter: AntigravityAdapter, number: int) -> None:
    chat = Conversation(adapter, session_id=f"text {number}", tools=())
    assert (await chat.play({"think": "t"}, {"say": f"n{number}"})).text == f"n{number}"


async def faulty_turn(adapter: AntigravityAdapter, number: int) -> None:
    fault = FAULTS[number // 10 % len(FAULTS)]
    chat = Conversation(
        adapter, session_id=f"fault {number}", tools=() if number % 20 else Conversation(adapter).base["tools"]
    )
    chat.messages.append(user(directive({"say": "x"}, fault)))
    stream = adapter.stream(chat.options())
    async with asyncio.timeout(BOUND):
        try:
            async for _ in stream:
                if "wait_cancel" in fault:
                    chat.controller.abort()
        except LlmError:
            return
        finally:
            await stream.aclose()
    raise AssertionError("the fault was not noticed")


async def rounds(adapter: AntigravityAdapter, count: int, begin: int = 0) -> None:
    for number in range(begin, begin + count):
        turn = faulty_turn if number % 10 == 9 else tool_turn
        await turn(adapter, number)
        await (faulty_turn if number % 10 == 4 else text_turn)(adapter, number)


@pytest.mark.timeout(1500)
async def test_thousands_of_turns_leave_no_more_than_a_few(tmp_path: Path) -> None:
    import tempfile

    adapter = AntigravityAdapter(loopback_settings(None, cancelGraceMs=200, disposeGraceMs=300))
    try:
        quiet = lambda: adapter.diagnostics()["processes"] == adapter.diagnostics()["idle_processes"]  # noqa: E731
        await rounds(adapter, WARM_UP)
        await until(quiet, "all is quiet")
        before, rss = census(Path(tempfile.gettempdir())), psutil.Process().memory_info().rss
        await rounds(adapter, TURNS, WARM_UP)
        await until(quiet, "all is quiet")
        await asyncio.sleep(1)
        after, grown = census(Path(tempfile.gettempdir())), (psutil.Process().memory_info().rss - rss) / 2**20
        print(
            json.dumps(
                {
                    "turns": 2 * TURNS,
                    "starts": adapter.diagnostics()["process_starts"],
                    "before": before,
                    "after": after,
                    "MB more": round(grown, 2),
                }
            )
        )
        assert {key: max(0, after[key] - before[key]) for key in after if key != "processes"} == {
            key: 0 for key in after if key != "processes"
        }
        assert after["processes"] <= 4
        assert grown < 8
    finally:
        await adapter.dispose()


@pytest.mark.timeout(600)
async def test_sixteen_conversations_with_64_parallel_calls_each_are_never_mixed_up() -> None:
    adapter = AntigravityAdapter(loopback_settings())

    async def one(n: int) -> str:
        chat = Conversation(adapter, session_id=f"s{n}")
        wanted = [{"name": "bash", "arguments": {"command": f"{n}.{index}"}} for index in range(64)]
        reply = await chat.play({"calls": wanted, "parallel": True})
        text = reply.text
        asked = []
        while reply.kind == "tool-calls":
            commands = {call.id: json.loads(call.arguments)["command"] for call in reply.calls}
            asked += commands.values()
            reply = await chat.answer({call_id: f"<{command}>" for call_id, command in commands.items()})
            text += reply.text
        assert sorted(asked) == sorted(f"{n}.{index}" for index in range(64))
        return text

    try:
        async with asyncio.timeout(300):
            texts = await asyncio.gather(*(one(n) for n in range(16)))
        for n, text in enumerate(texts):
            for index in range(64):
                assert text.count(f"result:bash:<{n}.{index}>") == 1
            assert f"<{(n + 1) % 16}." not in text
        print(json.dumps({"conversations": 16, "calls": 16 * 64}))
    finally:
        await adapter.dispose()
