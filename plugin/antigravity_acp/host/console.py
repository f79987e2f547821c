"""Lines from a terminal or pipe without blocking the event loop.

Owns: what was read beyond the last line. No thread where the system can tell that input is there, so a question that is
cancelled leaves nothing behind. Use one reader for each descriptor: two would take each other's lines.
"""

import asyncio
import os
from contextlib import suppress
from typing import Final

#: Bytes of one read, and of a line that is still taken as one; a longer line is cut there.
_READ: Final = 4096
_MAX_LINE: Final = 64 * 1024


class LineReader:
    """Reads lines from a file descriptor.

    :param fd: the descriptor, standard input by default; it is not closed.
    """

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._buffer = bytearray()
        self._ended = False

    def forget_typed(self) -> None:
        """Drop what a person typed before a question was there to be answered. A pipe's lines are kept."""
        if os.isatty(self._fd):
            import termios

            self._buffer.clear()
            with suppress(OSError, termios.error):
                termios.tcflush(self._fd, termios.TCIFLUSH)

    async def readline(self) -> str | None:
        """The next line without its end; ``None`` at the end of the input."""
        while b"\n" not in self._buffer and len(self._buffer) < _MAX_LINE and not self._ended:
            await self._readable()
            try:
                data = os.read(self._fd, _READ)
            except BlockingIOError:
                continue  # another process that shares the descriptor was faster
            except OSError:
                data = b""
            self._buffer += data
            self._ended = not data
        if not self._buffer:
            return None
        line, _, rest = self._buffer.partition(b"\n")
        self._buffer = rest
        return line.rstrip(b"\r").decode("utf-8", "replace")

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_reader(self._fd, ready.set)
        except (OSError, ValueError):
            return  # a regular file, /dev/null, or a closed descriptor: reading returns at once
        except NotImplementedError:
            # Windows: its loop cannot watch a console. The read blocks; there is no better way without a thread.
            return
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._fd)
