"""Whatever the host does to end a turn, the agent is told, nothing of it is left, and the next turn is served.

An agent that answers a cancel, one that ignores it, and one that dies of it; in the middle of its text, and while the
host has its call.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from helpers.conversation import Conversation
from helpers.faults import BOUND_S, SOUND, Cell, Scene

from antigravity_acp.contract import Finish, LlmError, TextDelta, user

#: What the host does, and what its stream call then ends with.
HOW = {"abort": "ABORTED", "early return": "returned", "cancelled task": "cancelled", "dispose": "ACP_DISPOSED"}
REACTION = ("nothing wrong", "hang", "SIGKILL")


@pytest.fixture
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    fault, late = request.param
    made = Scene(tmp_path, Cell("cancel", fault, "ABORTED", options={"late": late}))
    yield made
    made.close()


async def end(scene: Scene, chat: Conversation, how: str) -> str:
    """A stream call that is ended at its first text; how it ended."""
    stream = scene.adapter.stream(chat.options())
    try:
        async with aclosing(stream):
            async for chunk in stream:
                if not isinstance(chunk, TextDelta):
                    continue
                if how == "early return":
                    return "returned"
                if how == "abort":
                    chat.controller.abort()
                elif how == "cancelled task":
                    task = asyncio.current_task()
                    assert task
                    task.cancel()
                else:
                    await scene.adapter.dispose()
    except LlmError as error:
        return error.code
    except asyncio.CancelledError:
        return "cancelled"
    return "finished"


@pytest.mark.requirement("A-036", "A-037", "A-028")
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("scene", [(fault, False) for fault in REACTION], ids=REACTION, indirect=True)
async def test_in_the_middle_of_its_text(scene: Scene, how: str) -> None:
    chat = scene.conversation("s1")
    chat.messages.append(user("go"))
    started = time.monotonic()
    assert await asyncio.create_task(end(scene, chat, how)) == HOW[how]
    await after(scene, started, how)


@pytest.mark.requirement("A-036", "A-037", "A-028", "A-035")
@pytest.mark.parametrize("how", ["abort", "another history", "dispose"])
@pytest.mark.parametrize("scene", [(fault, True) for fault in REACTION], ids=REACTION, indirect=True)
async def test_while_the_host_has_its_call(scene: Scene, how: str) -> None:
    chat = scene.conversation("s1")
    chat.messages.append(user("go"))
    reply = await scene.segment(chat)
    assert reply is not None
    assert isinstance(reply.chunks[-1], Finish)
    assert reply.kind == "tool-calls"
    started = time.monotonic()
    if how == "abort":
        chat.controller.abort()
    elif how == "dispose":
        await scene.adapter.dispose()
    else:
        chat.messages = []
        assert await scene.turn(chat) == "ok"
    await after(scene, started, how)


async def after(scene: Scene, started: float, how: str) -> None:
    await scene.until(lambda: scene.released, "everything is given back")
    assert time.monotonic() - started < BOUND_S
    await scene.until_said("came session/cancel")
    try:
        if how != "dispose":
            assert await scene.turn(scene.conversation("s2")) == "ok"
            assert scene.text == SOUND.expected_text
    finally:
        await scene.adapter.dispose()
    await scene.until(lambda: not scene.pids(), "every process has ended")
