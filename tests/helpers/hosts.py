"""Real hosts in processes of their own, to be killed.

Importing the adapter takes longer than the moments at which a host is to be killed, so a :class:`Nursery` imports it
once and forks a host whenever one is wanted. A host is directed by a plan, an object with a ``stage``:

``start``    starts an agent that never answers ``initialize``
``session``  holds an agent with an open session       ``prompt``  holds one in the middle of a prompt
``parked``   holds a turn whose call waits             ``closing`` closes an agent that ignores everything
``busy``     many turns at once, one after another, without end
``once``     one text turn, then the end: "the next start" of a host

It says ``{"host": pid, "at": stage}`` on stdout when it has come there. Agents ignore the end of their input and SIGTERM
unless the plan says ``polite``, and have a child in a session of its own, so that nothing ends by itself.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STUBBORN = {"ignore_eof": True, "ignore_term": True}
#: Every wait of a test has a bound, in seconds.
BOUND = 20.0


# ---- inside a host --------------------------------------------------------------------------------------------------
def say(stage: str) -> None:
    os.write(1, json.dumps({"host": os.getpid(), "at": stage}).encode() + b"\n")


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
            while not any(b'"pid": 0' not in record.read_bytes().partition(b'"agent"')[2] for record in records(folder)):
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
        say(stage)
        await adapter.dispose()
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
        await asyncio.gather(*(busy(adapter, number) for number in range(3)))


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
    import helpers.conversation

    import antigravity_acp.acp.connection  # noqa: F401 - what takes long is imported once

    assert helpers.conversation
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(1, b'{"at": "ready"}\n')
    while line := os.read(0, 65536):
        for plan in map(json.loads, line.splitlines()):
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                null = os.open(os.devnull, os.O_RDWR)
                os.dup2(null, 0)
                os.environ["TMPDIR"] = tempfile.tempdir = plan["tmp"]
                try:
                    asyncio.run(hold(plan))
                finally:
                    os._exit(0)


# ---- outside --------------------------------------------------------------------------------------------------------
class Nursery:
    """Makes hosts. Ended by :func:`hosts`."""

    def __init__(self) -> None:
        tests = str(Path(__file__).parents[1])
        code = f"import sys; sys.path.insert(0, {tests!r}); from helpers.hosts import nursery; nursery()"
        self.process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.said: list[dict[str, Any]] = []
        self._rest = b""
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)

    async def host(self, tmp: Path, stage: str, **plan: Any) -> int:
        """A new host that has come to its stage. :returns: its process id."""
        before = len(self.said)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"tmp": str(tmp), "stage": stage, **plan}).encode() + b"\n")
        self.process.stdin.flush()
        return (await self.until(lambda new: new["at"] == stage, before))["host"]  # type: ignore[no-any-return]

    async def until(self, wanted: Any, start: int = 0) -> dict[str, Any]:
        """The first thing said from ``start`` on that is wanted."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + BOUND
        while True:
            data = self.process.stdout.read() or b""
            *lines, self._rest = (self._rest + data).split(b"\n")
            self.said += [json.loads(line) for line in lines]
            for number in range(start, len(self.said)):
                if wanted(self.said[number]):
                    return self.said.pop(number)
            assert time.monotonic() < deadline, "the host did not come to its stage"
            await asyncio.sleep(0.005)


@contextmanager
def hosts() -> Iterator[Nursery]:
    """A nursery, ended afterwards; the hosts are the test's to end."""
    one = Nursery()
    try:
        yield one
    finally:
        one.process.kill()
        one.process.wait(BOUND)
        for pipe in (one.process.stdin, one.process.stdout):
            assert pipe is not None
            pipe.close()
