"""The fault matrix: whatever an agent does, at whatever stage, the turn ends as the table says and nothing is left."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.fault_cells import CELLS, SPEAKING, STARTING
from helpers.faults import BOUND_S, DEADLINE_MS, SOUND, Cell, Scene

from antigravity_acp.contract import StreamChunk, TextDelta


@pytest.fixture
def scene_of(tmp_path: Path) -> Iterator[Callable[[Cell], Scene]]:
    scenes: list[Scene] = []

    def make(cell: Cell) -> Scene:
        scenes.append(Scene(tmp_path, cell))
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.close()


async def while_parked(scene: Scene) -> None:
    """The host has calls and has not answered them yet: what the fault needs of it then."""
    stage, fault = scene.cell.stage, scene.cell.fault
    if "done" in scene.journal() or scene.calls:
        return
    if stage == "parked":
        scene.open_gate()
        # Back-pressure may hold what it says until the host reads on.
        goes_on = "begun" if fault in ("hang", "50000 updates", "wrong id", "null id", "text id") else "done"
        await scene.until(lambda: goes_on in scene.journal() or scene.released, "the fault while calls are parked")
        if scene.cell.outcome != "ok" and goes_on != "begun":
            # Its place is free at once, not when the host answers.
            await scene.until(lambda: scene.released, "the place is free")
    elif fault in ("same id twice", "sent again"):
        scene.open_gate()
        # The same request after its answer is a new one: clients that start afresh count from 1 again.
        await scene.until(lambda: scene.bridge["joined_calls"] == 1, "the call was sent again")
    elif fault == "hangs up":
        scene.open_gate()
        await scene.until(lambda: scene.released, "the turn has ended without the host's result")
    elif fault == "hangs up, calls on":
        scene.open_gate()
        await scene.until(lambda: scene.adapter.diagnostics()["parked_calls"] == 2, "the second call is parked")
    elif fault == "fetched late":
        scene.open_gate()
        await scene.until_said("hung up")
        asyncio.get_running_loop().create_task(_second_gate(scene), name="the second gate")


async def _second_gate(scene: Scene) -> None:
    await scene.until(lambda: scene.adapter.diagnostics()["parked_calls"] == 0, "the host has answered")
    scene.open_gate()


def abort_at(scene: Scene, chat: Any) -> Callable[[StreamChunk], None]:
    def watch(chunk: StreamChunk) -> None:
        if scene.cell.stage == "cancel" and isinstance(chunk, TextDelta):
            chat.controller.abort()

    return watch


@pytest.mark.requirement("A-014", "A-028", "A-036", "A-037", "A-038", "X-010")
@pytest.mark.parametrize("cell", [pytest.param(cell, id=cell.id) for cell in CELLS])
async def test_cell(
    cell: Cell, scene_of: Callable[[Cell], Scene], outcomes: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    scene = scene_of(cell)
    try:
        chat = scene.conversation("s1")
        started = time.monotonic()
        outcomes[cell.id] = await scene.turn(chat, while_parked, abort_at(scene, chat))
        took = time.monotonic() - started
        assert outcomes[cell.id] == cell.outcome
        assert took < BOUND_S
        check_turn(scene, took)
        scene.check_words(caplog.records)
        await scene.until(lambda: scene.released, "everything is given back")
        await check_journal(scene)
        first = dict(scene.bridge)
        assert {name: first.get(name, 0) for name in cell.bridge} == cell.bridge
        assert await scene.turn(scene.conversation("s2")) == "ok"
        assert (scene.text, scene.thoughts) == (SOUND.expected_text, SOUND.expected_thoughts)
    finally:
        started = time.monotonic()
        await scene.adapter.dispose()
    assert time.monotonic() - started < BOUND_S
    await scene.until(lambda: not scene.pids(), "every process has ended")
    scene.check_words(caplog.records)


def check_turn(scene: Scene, took: float) -> None:
    """What the host got."""
    cell = scene.cell
    if cell.settings:
        assert took > DEADLINE_MS / 1000, "it was the deadline that ended it"
    if cell.outcome in ("ok", "max-tokens"):
        assert scene.text == cell.expected_text
        assert scene.thoughts == cell.expected_thoughts
    else:
        assert (cell.expected_text + cell.text).startswith(scene.text)
    wanted = ['{"n": 1}', '{"n": 2}'] if cell.fault == "hangs up, calls on" else ['{"n": 1}']
    complete = cell.outcome == "ok" and cell.expected_text != ""
    assert scene.calls == (wanted if complete else wanted[: len(scene.calls)])


async def check_journal(scene: Scene) -> None:
    """What the agent saw."""
    cell = scene.cell
    for line in cell.journal:
        await scene.until_said(line)
    journal = scene.journal()
    assert "begun" in journal, "the fault has happened"
    # A failed turn is not repeated by the adapter, and one that failed before its prompt has none.
    assert journal.count("came session/prompt") == (cell.outcome == "ok" or cell.stage not in STARTING)
    ended_by_us = cell.outcome in ("ABORTED", "ACP_NATIVE_TOOLS_UNSUPPORTED", "ACP_TIMEOUT")
    if ended_by_us and cell.stage in (*SPEAKING, "cancel", "final response"):
        assert "came session/cancel" in journal
