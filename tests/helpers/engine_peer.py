"""Drives a real `antigravity-engine` process over its stdio, frame by frame."""

import asyncio
import contextlib
import inspect
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil

from .journals import json_lines

#: No answer of the engine takes longer, on the slowest machine.
REPLY_S = 30.0


class RpcError(Exception):
    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error.get("message"))
        self.code = error.get("code")
        self.data = error.get("data") or {}

    @property
    def type(self) -> str:
        return self.data.get("type", "")


def allow(_: dict[str, Any]) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": "allow_once"}}


def reject(_: dict[str, Any]) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": "reject_once"}}


class Peer:
    """The client's side of one connection."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path | None) -> None:
        self.process = process
        self.log_path = log
        self.updates: list[tuple[str, dict[str, Any]]] = []
        self.permissions: list[dict[str, Any]] = []
        self.on_permission: Callable[[dict[str, Any]], Any] = allow
        self.asked = asyncio.Event()
        self.noise: list[bytes] = []
        self.stderr = b""
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._next = 0
        self._changed = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()

    async def read(self) -> None:
        assert self.process.stdout is not None
        buffer = b""
        while data := await self.process.stdout.read(1 << 18):
            buffer += data
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                try:
                    message = json.loads(line)
                except ValueError:
                    self.noise.append(line)
                    continue
                self._take(message)
        for future in self._pending.values():
            if not future.done():
                future.set_exception(ConnectionError("the engine has gone"))

    async def read_stderr(self) -> None:
        assert self.process.stderr is not None
        while data := await self.process.stderr.read(1 << 16):
            self.stderr += data

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("method") == "session/update":
            self.updates.append((message["params"]["sessionId"], message["params"]["update"]))
            self._changed.set()
        elif message.get("method") == "session/request_permission":
            self.permissions.append(message["params"])
            self.asked.set()
            task = asyncio.create_task(self._answer(message))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        elif message.get("id") in self._pending:
            future = self._pending.pop(message["id"])
            if future.done():
                return
            if "error" in message:
                future.set_exception(RpcError(message["error"]))
            else:
                future.set_result(message["result"])

    async def _answer(self, message: dict[str, Any]) -> None:
        result = self.on_permission(message["params"])
        if inspect.isawaitable(result):
            result = await result
        await self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(ConnectionError):
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            await self.process.stdin.drain()

    def request_soon(self, method: str, params: dict[str, Any]) -> "asyncio.Future[Any]":
        """The answer as a future; the frame is written before this returns to the loop twice."""
        self._next += 1
        number, future = self._next, asyncio.get_running_loop().create_future()
        self._pending[number] = future
        assert self.process.stdin is not None
        frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        return future

    async def request(self, method: str, params: dict[str, Any], timeout: float = REPLY_S) -> Any:
        return await asyncio.wait_for(self.request_soon(method, params), timeout)

    # ---- ACP ---------------------------------------------------------------------------------------------------------
    async def initialize(self) -> dict[str, Any]:
        return await self.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})

    async def new_session(self, *servers: dict[str, Any], cwd: str = "/") -> str:
        result = await self.request("session/new", {"cwd": cwd, "mcpServers": list(servers)})
        return result["sessionId"]

    def prompt_soon(self, session: str, text: str, *blocks: dict[str, Any]) -> "asyncio.Future[Any]":
        prompt = [{"type": "text", "text": text}, *blocks]
        return self.request_soon("session/prompt", {"sessionId": session, "prompt": prompt})

    async def prompt(
        self, session: str, text: str, *blocks: dict[str, Any], timeout: float = REPLY_S
    ) -> dict[str, Any]:
        return await asyncio.wait_for(self.prompt_soon(session, text, *blocks), timeout)

    async def cancel(self, session: str) -> None:
        await self.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})

    # ---- what came ---------------------------------------------------------------------------------------------------
    def of(self, kind: str, session: str | None = None) -> list[dict[str, Any]]:
        return [u for sid, u in self.updates if u["sessionUpdate"] == kind and session in (None, sid)]

    def text(self, session: str | None = None) -> str:
        return "".join(update["content"]["text"] for update in self.of("agent_message_chunk", session))

    def thoughts(self) -> str:
        return "".join(update["content"]["text"] for update in self.of("agent_thought_chunk"))

    async def until(self, condition: Callable[[], Any], timeout: float = REPLY_S) -> None:
        """Waits for updates until the condition holds."""
        async with asyncio.timeout(timeout):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def seen(self) -> list[dict[str, Any]]:
        """What the scripted model received."""
        assert self.log_path is not None
        return json_lines(self.log_path)

    def last_bodies_text(self) -> str:
        return json.dumps(self.seen()[-1]["body"]["contents"])

    # ---- processes ---------------------------------------------------------------------------------------------------
    def harnesses(self) -> list[psutil.Process]:
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [child for child in children if child.name().startswith("localharness")]

    async def until_harnesses(self, count: int, timeout: float = REPLY_S) -> list[psutil.Process]:
        async with asyncio.timeout(timeout):
            while len(found := self.harnesses()) != count:
                await asyncio.sleep(0.02)
        return found


@contextlib.asynccontextmanager
async def engine(
    tmp_path: Path, *arguments: str, script: str | None = None, env: dict[str, str] | None = None
) -> AsyncIterator[Peer]:
    """A running engine, initialised by nobody yet. With `script`, its model is that text."""
    flags = list(arguments)
    log = None
    if script is not None:
        path = tmp_path / "script.yml"
        path.write_text(script)
        log = tmp_path / "seen.jsonl"
        flags += ["--script", str(path), "--script-log", str(log)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "antigravity_engine",
        *flags,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(tmp_path, env),
    )
    peer = Peer(process, log)
    readers = [asyncio.create_task(peer.read()), asyncio.create_task(peer.read_stderr())]
    try:
        yield peer
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 12)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise AssertionError(f"the engine did not end: {peer.stderr[-2000:]!r}") from None
        finally:
            await asyncio.wait(readers, timeout=5)
            for task in (*readers, *peer._serving):
                task.cancel()


def environment(tmp_path: Path, additions: dict[str, str] | None = None) -> dict[str, str]:
    """A clean environment whose temporary directory is the test's own."""
    scratch = tmp_path / "tmp"
    scratch.mkdir(exist_ok=True)
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "XDG_CACHE_HOME", "LANG") if name in os.environ}
    return {**keep, "TMPDIR": str(scratch), **(additions or {})}
