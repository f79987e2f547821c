"""One cell of the fault matrix, played: an adapter on the faulty agent, one turn with the fault, one without, disposal.

What every cell must keep, whatever its outcome: it ends within :data:`BOUND_S`; what the exchange held is given back;
nothing the agent printed shows in an error, a chunk or a log; the host ran each call once; no prompt was sent twice;
the same adapter then serves a sound turn; after its disposal no process is left, grandchildren included.
"""

import asyncio
import json
import logging
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

import psutil

# The SDK takes most of a second to import, which would count into the first cell's deadline.
import antigravity_acp.acp.connection  # noqa: F401 - for that alone
from antigravity_acp.adapter import AntigravityAdapter
from antigravity_acp.contract import Finish, LlmError, ReasoningDelta, StreamChunk, TextDelta, tool_result, user
from antigravity_acp.settings import Settings

from .conversation import Conversation, Reply, check_contract, schema
from .journals import finished_lines

#: In everything that the agent prints and that is no text of the model.
WORDS = "words-of-the-agent"
AGENT = Path(__file__).parent / "agents" / "faulty.py"
TOOL = schema("run", n={"type": "integer"})
#: Seconds in which the turn of a cell ends, the longest deadline among them and slack for a busy machine.
BOUND_S = 4.0
#: Milliseconds of a deadline that a cell is meant to reach, and of the graces.
DEADLINE_MS = 700
GRACE_MS = 120


class Cell(NamedTuple):
    """A fault at a stage and what must come of it.

    :param outcome: the code, or ``ok`` for a turn that goes on as if nothing had happened.
    :param text: what the fault adds to the model's text at its stage. :param thought: the same for its thoughts.
    :param whole: the model's whole text, where the fault makes it another one.
    :param journal: lines that the agent must have written down. :param bridge: counters of the bridge afterwards.
    :param settings: settings of this cell. :param options: what the agent's plan has beside stage and fault.
    """

    stage: str
    fault: str
    outcome: str
    text: str = ""
    thought: str = ""
    whole: str | None = None
    journal: tuple[str, ...] = ()
    bridge: Mapping[str, int] = {}
    settings: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}

    @property
    def id(self) -> str:
        """The name of its test."""
        return f"{self.stage}-{self.fault}".replace(" ", "_")

    @property
    def expected_text(self) -> str:
        """What the model said, in a turn that ends well."""
        if self.whole is not None:
            return self.whole
        said = [
            *("prompt", "first update", "mid-stream", "=one ", "permission", "tools/call", "parked"),
            *("after the result", "=R1 ", "=end", "final response"),
        ]
        return "".join(part[1:] if part[0] == "=" else self.text * (part == self.stage) for part in said)

    @property
    def expected_thoughts(self) -> str:
        """What the model thought, in a turn that ends well."""
        early = self.stage in ("prompt", "first update")
        return f"{self.thought}hm " if early else f"hm {self.thought}"


#: A turn in which nothing goes wrong.
SOUND = Cell("none", "none", "ok")


class Scene:
    """The files through which a test and the faulty agent hear of each other, and the adapter between them."""

    def __init__(self, home: Path, cell: Cell) -> None:
        self.home = home
        self.cell = cell
        (home / "armed").touch()
        os.mkfifo(home / "gate")
        # Opened both ways: neither side waits for the other to open its end.
        self._gate = os.open(home / "gate", os.O_RDWR | os.O_NONBLOCK)
        plan = {"stage": cell.stage, "fault": cell.fault, "home": str(home), "words": WORDS, **cell.options}
        self.adapter = AntigravityAdapter(
            Settings.from_mapping(
                {
                    "command": sys.executable,
                    "args": ["-I", "-S", str(AGENT), json.dumps(plan)],
                    "authMethod": "door",
                    "cancelGraceMs": GRACE_MS,
                    "disposeGraceMs": GRACE_MS,
                    **cell.settings,
                }
            )
        )
        self.chunks: list[StreamChunk] = []
        self.calls: list[str] = []
        self.error: LlmError | None = None

    def close(self) -> None:
        """Close the gate, and end what a failed test has left."""
        os.close(self._gate)
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)

    def open_gate(self) -> None:
        """Let the fault go on that waits for the host."""
        os.write(self._gate, b"x")

    def journal(self) -> list[str]:
        """What the agent has written down so far."""
        return finished_lines(self.home / "journal")

    def pids(self) -> list[int]:
        """Every process that was started, its own children included, and that still runs."""
        started = [int(line.split()[1]) for line in self.journal() if line.startswith("pid ")]
        return [pid for pid in started if _runs(pid)]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition within the bound."""
        try:
            async with asyncio.timeout(BOUND_S):
                while not condition():
                    await asyncio.sleep(0.002)
        except TimeoutError:
            raise AssertionError(
                f"never happened: {what}; journal: {self.journal()}, bridge: {dict(self.bridge)}"
            ) from None

    async def until_said(self, line: str) -> None:
        """Wait until the agent has written this line down."""
        await self.until(lambda: line in self.journal(), f"the agent says `{line}`")

    @property
    def bridge(self) -> Counter[str]:
        """What happened at the bridge so far."""
        return self.adapter._bridge.counters

    @property
    def released(self) -> bool:
        """Whether no exchange holds anything."""
        found = self.adapter.diagnostics()
        return not (found["active_turns"] or found["parked_calls"] or found["processes"] - found["idle_processes"])

    async def segment(self, chat: Conversation, watch: Callable[[StreamChunk], None] = lambda _: None) -> Reply | None:
        """One stream call; ``None`` when it failed, with :attr:`error` set."""
        chunks: list[StreamChunk] = []
        stream: AsyncGenerator[StreamChunk, None] = self.adapter.stream(chat.options())
        try:
            async with asyncio.timeout(BOUND_S), aclosing(stream):
                async for chunk in stream:
                    chunks.append(chunk)
                    watch(chunk)
        except LlmError as error:
            self.error = error
            check_contract([*chunks, Finish.of(error)])
            return None
        finally:
            self.chunks += chunks
        check_contract(chunks)
        reply = Reply(chunks)
        chat.messages.append(reply.message)
        return reply

    async def turn(
        self,
        chat: Conversation,
        parked: "Callable[[Scene], Any]" = lambda _: None,
        watch: Callable[[StreamChunk], None] = lambda _: None,
    ) -> str:
        """One whole turn; the code it failed with, ``max-tokens``, or ``ok``.

        :param parked: called each time the host has calls, before it answers them; may return an awaitable.
        """
        self.chunks, self.calls, self.error = [], [], None
        chat.messages.append(user("go"))
        reply = await self.segment(chat, watch)
        while reply is not None and reply.kind == "tool-calls":
            waiting = parked(self)
            if waiting is not None:
                await waiting
            for call in reply.calls:
                self.calls.append(call.arguments)
                chat.messages.append(tool_result(call.id, f"R{json.loads(call.arguments)['n']}"))
            reply = await self.segment(chat, watch)
        if self.error is not None:
            return self.error.code
        assert reply is not None
        return "ok" if reply.kind == "stop" else reply.kind

    def conversation(self, name: str) -> Conversation:
        """A new session of the host; its model is not the agent's first one, so that it has to be selected."""
        return Conversation(self.adapter, session_id=name, tools=(TOOL,), model="m2")

    @property
    def text(self) -> str:
        """What the model said in the last turn."""
        return "".join(chunk.text for chunk in self.chunks if isinstance(chunk, TextDelta))

    @property
    def thoughts(self) -> str:
        """What the model thought in the last turn."""
        return "".join(chunk.text for chunk in self.chunks if isinstance(chunk, ReasoningDelta))

    def check_words(self, records: list[logging.LogRecord]) -> None:
        """Nothing that the agent printed shows anywhere at the host."""
        shown = [json.dumps(chunk.to_wire()) for chunk in self.chunks]
        shown += [record.getMessage() + str(record.exc_info) for record in records]
        if self.error is not None:
            shown += traceback.format_exception(self.error)
        assert WORDS not in "".join(shown)
        assert [record.getMessage() for record in records if record.levelno >= logging.ERROR] == []


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
