"""Real hosts in processes of their own, to be killed.

Importing the adapter takes longer than the moments at which a host is to be killed, so a :class:`Nursery` imports it
once and forks a host whenever one is wanted. A host is directed by a plan, an object with a ``stage``:

``start``    starts an agent that never answers ``initialize``
``session``  holds an agent with an open session       ``prompt``  holds one in the middle of a prompt
``parked``   holds a turn whose call waits             ``closing`` closes an agent that ignores everything
``busy``     many turns at once, one after another, without end
``once``     one text turn and a proper end: "the next start" of a host

It says ``{"host": pid, "at": stage, "tmp": directory}`` on stdout when it has come there. Agents ignore the end of
their input and SIGTERM unless the plan says ``polite``; those of turns have a child in a session of its own as well.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STUBBORN = {"ignore_eof": True, "ignore_term": True}
#: Every wait of a test has a bound, in seconds.
BOUND = 20.0


# ---- inside a host --------------------------------------------------------------------------------------------------
def say(stage: str) -> None:
    said = {"host": os.getpid(), "at": stage, "tmp": tempfile.gettempdir()}
    os.write(1, json.dumps(said).encode() + b"\n")


async def hold(plan: dict[str, Any]) -> None:
    from helpers.conversation import BlockStart, Conversation
    from helpers.loopback import loopback_settings

    from antigravity_acp.acp import AgentClient
    from antigravity_acp.adapter import AntigravityAdapter

    stage = plan["stage"]
    options = {} if plan.get("polite") else STUBBORN
    if stage in ("start", "session", "closing"):
        settings = loopback_settings(
            {**options, "init_hangs": stage == "start"}, disposeGraceMs=50 if stage == "closing" else 3000
        )
        starting = asyncio.create_task(AgentClient.start(settings))
        if stage == "start":
            folder = Path(tempfile.gettempdir())
            while not any(
                b'"pid": 0' not in record.read_bytes().partition(b'"agent"')[2] for record in records(folder)
            ):
                await asyncio.sleep(0.002)
            say(stage)
            await starting
        one = await starting
        await one.new_session()
        if stage == "closing":
            closing = asyncio.create_task(one.aclose())
            await asyncio.sleep(plan.get("after", 0.0))
            say(stage)
            await closing
        say(stage)
        await asyncio.Event().wait()
    adapter = AntigravityAdapter(loopback_settings(options, disposeGraceMs=100))
    chat = Conversation(adapter)
    if stage == "once":
        await chat.play({"say": "hello"})
        await adapter.dispose()
        say(stage)
    elif stage == "parked":
        await chat.play({"grandchild": "setsid"}, {"call": {"name": "bash", "arguments": {}}})
        say(stage)
        await asyncio.Event().wait()
    elif stage == "prompt":
        from helpers.loopback import directive

        from antigravity_acp.contract import user

        chat.messages.append(user(directive({"grandchild": "setsid"}, {"sleep": 600})))
        async for chunk in adapter.stream(chat.options()):
            if isinstance(chunk, BlockStart):
                say(stage)
    else:
        say(stage)
        await asyncio.gather(*(busy(adapter, number) for number in range(2)))


async def busy(adapter: Any, number: int) -> None:
    from helpers.conversation import Conversation

    turn = 0
    while True:
        turn += 1
        chat = Conversation(adapter, session_id=f"s{number}-{turn}")
        if (number + turn) % 3:
            reply = await chat.play({"grandchild": "setsid"}, {"call": {"name": "bash", "arguments": {}}}, {"say": "."})
            await chat.answer({reply.calls[0].id: "done"})
        else:
            await chat.play({"say": ["some", "text"]})


def records(folder: Path) -> Iterator[Path]:
    return folder.glob("antigravity-acp-agent-*/owner.json")


def nursery() -> None:
    """The program: forks a host for every line of stdin."""
    # What takes long is imported by a first host, here and to its end: no thread and no process of it is left.
    with tempfile.TemporaryDirectory() as tempfile.tempdir:
        asyncio.run(hold({"stage": "once", "polite": True}))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while line := os.read(0, 65536):
        for plan in map(json.loads, line.splitlines()):
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                null = os.open(os.devnull, os.O_RDWR)
                os.dup2(null, 0)
                os.environ["TMPDIR"] = tempfile.tempdir = plan["tmp"]
                try:
                    asyncio.run(hold(plan))
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(0)


# ---- outside --------------------------------------------------------------------------------------------------------
class Nursery:
    """Makes hosts. Ended by :func:`hosts`."""

    def __init__(self) -> None:
        tests = str(Path(__file__).parents[1])
        code = f"import sys; sys.path.insert(0, {tests!r}); from helpers.hosts import nursery; nursery()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self.said: list[dict[str, Any]] = []
        self._rest = b""
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)

    async def host(self, tmp: Path, stage: str, **plan: Any) -> int:
        """A new host that has come to its stage. :returns: its process id."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"tmp": str(tmp), "stage": stage, **plan}).encode() + b"\n")
        self.process.stdin.flush()
        return await self._until(stage, str(tmp))

    async def _until(self, stage: str, tmp: str) -> int:
        assert self.process.stdout is not None
        deadline = time.monotonic() + BOUND
        while True:
            data = self.process.stdout.read() or b""
            *lines, self._rest = (self._rest + data).split(b"\n")
            self.said += [json.loads(line) for line in lines]
            for one in self.said:
                if (one["at"], one["tmp"]) == (stage, tmp):
                    self.said.remove(one)
                    return int(one["host"])
            assert time.monotonic() < deadline, "the host did not come to its stage"
            await asyncio.sleep(0.005)


@contextmanager
def hosts() -> Iterator[Nursery]:
    """A nursery; what is left of its hosts is ended with it."""
    one = Nursery()
    try:
        yield one
    finally:
        os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait(BOUND)
        for pipe in (one.process.stdin, one.process.stdout):
            assert pipe is not None
            pipe.close()
