"""JSON-RPC 2.0 over stdin and stdout, one object a line: ACP's stdio transport, seen from the agent.

Owns the two streams and the requests sent to the client. Ends with the end of stdin. Reading happens in a daemon
thread with a plain `os.read`, so that any kind of stdin works and the exit of the process never waits for it; writing
happens in one worker thread, in order, so that a client that does not read slows only its writer. Whatever is printed
to stdout by anybody else goes to stderr. Never logs a frame.

Written by hand and not taken from `agent-client-protocol`: that costs a second to import, of which the client would
wait before `initialize` is answered, ends the connection at a line such as `null`, and logs frames.
"""

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from antigravity_engine import errors, limits
from antigravity_engine.errors import EngineError

log = logging.getLogger("antigravity_engine.wire")

Handler = Callable[[str, dict[str, Any]], Awaitable[Any]]
_READ_BYTES = 1 << 18


class ClientGoneError(ConnectionError):
    """stdin has ended, or stdout is closed."""


class ClientError(Exception):
    """The client answered one of our requests with an error. Its text stays out."""


def take_stdio() -> tuple[int, int]:
    """Private descriptors of stdin and stdout; afterwards fd 0 is empty and fd 1 is stderr, for us and our children."""
    stdin, stdout = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return stdin, stdout


class Wire:
    """One connection. `handler(method, params)` answers a request (its result) or takes a notification."""

    def __init__(self, stdin: int, stdout: int, handler: Handler) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="wire-writer")
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._next_id = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self.noise = 0

    async def run(self) -> None:
        """Serves until stdin ends."""
        threading.Thread(target=self._read, name="wire-reader", daemon=True).start()
        await self._ended.wait()

    def end(self) -> None:
        """Makes `run` return."""
        self._ended.set()

    async def aclose(self) -> None:
        """Ends what is still running for the client. Bounded: a writer that is stuck in a full pipe is left behind."""
        self._ended.set()
        for future in self._pending.values():
            if not future.done():
                future.set_exception(ClientGoneError())
        self._pending.clear()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)
        self._writer.shutdown(wait=False, cancel_futures=True)

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        """Sends a notification; returns when it is written. Raises `ClientGoneError`."""
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def request(self, method: str, params: dict[str, Any]) -> Any:
        """Sends a request and waits for its result, as long as it takes: a person may have to decide.

        Raises `ClientGoneError` or `ClientError`.
        """
        self._next_id += 1
        number = self._next_id
        future: asyncio.Future[Any] = self._loop.create_future()
        self._pending[number] = future
        try:
            await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            return await future
        finally:
            self._pending.pop(number, None)

    # ---- reading -----------------------------------------------------------------------------------------------------
    def _read(self) -> None:
        buffer = bytearray()
        scanned = 0
        with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: the loop has gone while we were reading
            while data := os.read(self._stdin, _READ_BYTES):
                buffer += data
                while (end := buffer.find(b"\n", scanned)) >= 0:
                    line = bytes(buffer[:end])
                    del buffer[: end + 1]
                    scanned = 0
                    if line.strip():
                        self._loop.call_soon_threadsafe(self._take, line)
                scanned = len(buffer)
                if scanned > limits.MAX_FRAME_BYTES:
                    log.error("a frame of the client is larger than %d bytes; giving up", limits.MAX_FRAME_BYTES)
                    break
            if buffer.strip():
                self._loop.call_soon_threadsafe(self._take, bytes(buffer))
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._ended.set)

    def _take(self, line: bytes) -> None:
        try:
            message = msgspec.json.decode(line)
        except msgspec.DecodeError:
            self._spawn(self._reject(errors.PARSE_ERROR, "not a JSON object"))
            return
        if not isinstance(message, dict):
            self.noise += 1
            self._spawn(self._reject(errors.INVALID_REQUEST, "not a JSON object"))
        elif isinstance(message.get("method"), str):
            # Tasks start in the order in which they are made: a cancel always finds the prompt that came before it.
            self._spawn(self._serve(message))
        else:
            self._settle(message)

    async def _reject(self, code: int, message: str) -> None:
        with contextlib.suppress(ClientGoneError):
            await self._send({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}})

    def _settle(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        future = self._pending.get(number) if isinstance(number, int) else None
        if future is None or future.done():
            self.noise += 1
        elif "error" in message:
            future.set_exception(ClientError())
        else:
            future.set_result(message.get("result"))

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        reply: dict[str, Any]
        try:
            result = await self._handler(message["method"], params if isinstance(params, dict) else {})
            reply = {"result": result if result is not None else {}}
        except EngineError as error:
            reply = {"error": error.to_wire()}
        except ClientGoneError:
            return
        except Exception as error:  # noqa: BLE001 - a fault of ours must answer the request, not end the process
            log.error("%s failed: %s", message["method"], type(error).__name__)
            reply = {"error": EngineError("internal", "internal error of the engine").to_wire()}
        if "id" in message:
            with contextlib.suppress(ClientGoneError):
                await self._send({"jsonrpc": "2.0", "id": message["id"], **reply})

    # ---- writing -----------------------------------------------------------------------------------------------------
    async def _send(self, message: dict[str, Any]) -> None:
        if self._ended.is_set():
            raise ClientGoneError
        data = msgspec.json.encode(message) + b"\n"
        try:
            await self._loop.run_in_executor(self._writer, self._write, data)
        except (OSError, RuntimeError):
            self._ended.set()
            raise ClientGoneError from None

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._stdout, view) :]
