"""Lines that a person pastes while something else may end the wait.

Owns: what was read beyond the last line, at most one line of a bound. Nothing is read before somebody asks, and a
question that is cancelled leaves nothing behind: the event loop watches the descriptor, so there is no thread.
Windows cannot watch a console or a pipe: there a daemon thread reads, because a blocked read cannot be cancelled; it
ends with the next line, or with the process, which is the command's own and about to end anyway.
"""

import asyncio
import os
import threading
from contextlib import suppress
from typing import Final

_READ: Final = 4096


class PastedLines:
    """Lines from a file descriptor.

    :param limit: bytes of a line; of a longer one this many and one more are returned, the rest is dropped.
    :param fd: standard input by default; it is not closed. :param watched: whether the event loop can watch it.
    """

    def __init__(self, limit: int, *, fd: int = 0, watched: bool = os.name != "nt") -> None:
        self._fd = fd
        self._keep = limit + 1
        self._watched = watched
        self._line = bytearray()
        self._unread = b""
        self._ended = False

    async def read(self) -> str | None:
        """The next line without its end; ``None`` at the end of the input."""
        while True:
            line, newline, rest = self._unread.partition(b"\n")
            self._line += line[: max(0, self._keep - len(self._line))]
            self._unread = rest
            if newline or (self._ended and self._line):
                text = self._line.decode("utf-8", "replace")
                self._line.clear()
                return text
            if self._ended:
                return None
            self._unread = await (self._watch() if self._watched else self._from_thread())
            self._ended = not self._unread

    async def _watch(self) -> bytes:
        loop = asyncio.get_running_loop()
        while True:
            ready = asyncio.Event()
            try:
                loop.add_reader(self._fd, ready.set)
            except (OSError, ValueError):
                await asyncio.sleep(0)  # a regular file, /dev/null or a closed descriptor: reading returns at once
            else:
                try:
                    await ready.wait()
                finally:
                    loop.remove_reader(self._fd)
            try:
                return os.read(self._fd, _READ)
            except BlockingIOError:
                continue  # another process that shares the descriptor was faster
            except OSError:
                return b""

    async def _from_thread(self) -> bytes:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[bytes] = loop.create_future()

        def settle(data: bytes) -> None:
            if not found.done():
                found.set_result(data)

        def read() -> None:
            try:
                data = os.read(self._fd, _READ)
            except OSError:
                data = b""
            with suppress(RuntimeError):  # the loop is over, and nobody waits for it
                loop.call_soon_threadsafe(settle, data)

        threading.Thread(target=read, name="antigravity-acp.pasted", daemon=True).start()
        return await found
