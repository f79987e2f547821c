"""The host side of the sidecar protocol, over real pipes to a real process; each frame is held against the schema."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema
import msgspec
import psutil

from antigravity_acp.contract import GenerateOptions, LlmError, StreamChunk, chunk_from_wire
from antigravity_acp.settings import Settings
from antigravity_acp.sidecar.frames import schema

from .conversation import BOUND, Conversation
from .loopback import loopback_settings

Json = dict[str, Any]

SIDECAR = [sys.executable, "-m", "antigravity_acp.sidecar"]
#: The same process with an adapter that plays what the prompt says; see there.
SCRIPTED = [sys.executable, str(Path(__file__).parent / "agents" / "scripted_sidecar.py")]


class RemoteError(Exception):
    """A request was answered with an error."""

    def __init__(self, body: Json) -> None:
        super().__init__(body["message"])
        self.number: int = body["code"]
        self.message: str = body["message"]
        self.data: Json = body.get("data", {})
        self.code: str = self.data.get("code", "")


class Stream:
    """One stream as the host sees it. :attr:`frames` counts the frames that carried :attr:`chunks`."""

    def __init__(self, host: "Host", name: str, acknowledge: bool) -> None:
        self.host = host
        self.name = name
        self.acknowledge = acknowledge
        self.chunks: list[StreamChunk] = []
        self.frames = 0
        self.answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._news = asyncio.Event()

    def arrived(self, chunks: list[Json]) -> None:
        self.frames += 1
        self.chunks += map(chunk_from_wire, chunks)
        if self.acknowledge:
            self.ack(len(chunks))
        self._news.set()

    def ack(self, chunks: int) -> None:
        self.host.notify("stream/ack", stream=self.name, chunks=chunks)

    def cancel(self) -> None:
        self.host.notify("stream/cancel", stream=self.name)

    async def until(self, chunks: int) -> None:
        """Return when so many chunks have arrived."""
        async with asyncio.timeout(BOUND):
            while len(self.chunks) < chunks:
                self._news.clear()
                await self._news.wait()

    async def end(self) -> list[StreamChunk]:
        """Every chunk, once the request is answered.

        :raises RemoteError: when it is answered with an error.
        """
        async with asyncio.timeout(BOUND):
            await asyncio.shield(self.answer)
        return self.chunks

    async def code(self) -> str:
        """The code with which it fails."""
        try:
            await self.end()
        except RemoteError as error:
            return error.code
        raise AssertionError("the stream did not fail")


class Host:
    """A host and its sidecar process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.sent: list[Json] = []
        self.received: list[tuple[Json, str | None]] = []
        self.notices: list[Json] = []
        self.logs: list[Json] = []
        self.streams: dict[str, Stream] = {}
        self.keep = True
        self._methods: dict[Any, str] = {}
        self._waiting: dict[Any, asyncio.Future[Json]] = {}
        self._strays: asyncio.Queue[Json] = asyncio.Queue()
        self._next = 0
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, argv: Sequence[str] = SIDECAR, *, limit: int = 1 << 20, **options: Any) -> "Host":
        pipe = asyncio.subprocess.PIPE
        return cls(await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, limit=limit, **options))

    # ---- what it sends ----------------------------------------------------------------------------------------------
    def write(self, data: bytes) -> None:
        """Any bytes."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def send(self, frame: Json) -> None:
        if self.keep:
            self.sent.append(frame)
        self.write(json.dumps(frame).encode() + b"\n")

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Json | None = None, *, key: Any = None) -> "asyncio.Future[Json]":
        """Send a request; the future has its result, or RemoteError."""
        if key is None:
            self._next += 1
            key = self._next
        self._methods[key] = method
        self._waiting[key] = asyncio.get_running_loop().create_future()
        self.send({"jsonrpc": "2.0", "id": key, "method": method, "params": params or {}})
        return self._waiting[key]

    async def request(self, method: str, params: Json | None = None) -> Json:
        async with asyncio.timeout(BOUND):
            return await self.ask(method, params)

    async def initialize(self, settings: Json | Settings | None = None, **changes: Any) -> Json:
        mapping = msgspec.to_builtins(settings) if isinstance(settings, Settings) else settings or {}
        params = {"protocol": 1, "client": {"name": "tests", "version": "0"}, "settings": mapping, "attended": True}
        return await self.request("initialize", params | changes)

    def stream(self, options: GenerateOptions | Json, name: str | None = None, *, acknowledge: bool = True) -> Stream:
        """Start a generation; the signal of the options is not used."""
        name = name or f"s{len(self.streams)}"
        found = self.streams[name] = Stream(self, name, acknowledge)
        wire = options.to_wire() if isinstance(options, GenerateOptions) else options
        found.answer = self.ask("stream/start", {"stream": name, "options": wire})
        return found

    # ---- what it reads ----------------------------------------------------------------------------------------------
    def stop_reading(self) -> None:
        self._may_read.clear()

    def read_on(self) -> None:
        self._may_read.set()

    async def stray(self) -> Json:
        """The next error frame that belongs to no request."""
        async with asyncio.timeout(BOUND):
            return await self._strays.get()

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            await self._may_read.wait()
            frame = json.loads(line)
            key = frame.get("id")
            if self.keep:
                self.received.append((frame, self._methods.get(key)))
            if "method" in frame:
                self._on_notification(frame["method"], frame["params"])
            elif key in self._waiting:
                future = self._waiting.pop(key)
                if future.cancelled():
                    continue
                if "error" in frame:
                    future.set_exception(RemoteError(frame["error"]))
                    future.exception()  # a test need not look at each
                else:
                    future.set_result(frame["result"])
            else:
                self._strays.put_nowait(frame)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ConnectionError("the sidecar is gone"))
                future.exception()

    def _on_notification(self, method: str, params: Json) -> None:
        if method == "stream/chunk":
            self.streams[params["stream"]].arrived(params["chunks"])
        else:
            {"notice": self.notices, "log": self.logs}[method].append(params)

    # ---- the end ----------------------------------------------------------------------------------------------------
    async def exit_code(self) -> int:
        """How the process ends."""
        async with asyncio.timeout(BOUND):
            return await self.process.wait()

    async def aclose(self) -> None:
        """End of input; the process must end, and every frame of the conversation be valid."""
        assert self.process.stdin is not None
        self.read_on()
        self.process.stdin.close()
        try:
            await self.exit_code()
            await asyncio.wait({self._reader}, timeout=BOUND)
        finally:
            if self.process.returncode is None:
                self.process.kill()
                await self.process.wait()
            self._reader.cancel()
        self.check_frames()

    def check_frames(self) -> None:
        for frame in self.sent:
            check("host", frame)
        for frame, method in self.received:
            check("sidecar", frame)
            if "result" in frame:
                assert method is not None, "a result for nothing that was asked"
                check(f"{method.replace('/', '.')}.result", frame["result"])

    def family(self) -> list[psutil.Process]:
        """Everything that runs below the sidecar, and itself."""
        one = psutil.Process(self.process.pid)
        return [one, *one.children(recursive=True)]


@cache
def _validator(name: str) -> Callable[[Any], Any]:
    return fastjsonschema.compile({"$ref": f"#/definitions/{name}", "definitions": schema()["definitions"]})


def check(name: str, value: Any) -> None:
    """Hold a value against a definition of frames.json."""
    _validator(name)(value)


@asynccontextmanager
async def sidecar(
    settings: Json | Settings | None = None,
    argv: Sequence[str] = SIDECAR,
    introduced: Json | None = None,
    **options: Any,
) -> AsyncIterator[Host]:
    """A sidecar that has been introduced; ended by the end of its input, with exit code 0.

    :param introduced: more of what ``initialize`` says.
    """
    host = await Host.start(argv, **options)
    try:
        await host.initialize(settings, **(introduced or {}))
        yield host
    finally:
        await host.aclose()
    assert host.process.returncode == 0


def on_loopback(agent: Json | None = None, **overrides: Any) -> Json:
    """Settings as JSON whose command is the loopback agent."""
    found: Json = msgspec.to_builtins(loopback_settings(agent, **overrides))
    return found


class Through:
    """The face of an adapter that :class:`helpers.conversation.Conversation` needs, at the other end of the pipes."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.last: Stream | None = None

    async def stream(self, options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        stream = self.last = self.host.stream(options)
        try:
            chunks = await stream.end()
        except RemoteError as error:
            raise LlmError(error.code, error.message) from None
        for chunk in chunks:
            yield chunk


def talk(host: Host, **options: Any) -> Conversation:
    """A session of this host."""
    return Conversation(Through(host), **options)  # type: ignore[arg-type]


async def until_gone(processes: Sequence[psutil.Process], bound: float = BOUND) -> None:
    """Return when none of them runs any more."""
    async with asyncio.timeout(bound):
        while any(_runs(one) for one in processes):
            await asyncio.sleep(0.005)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
