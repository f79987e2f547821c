"""One GET to an agent's own listener on this machine: the redirect of a sign-in, on behalf of a browser elsewhere.

Owns: one connection to a loopback address, bounded in time and size. Written by hand because everything a client
library would add is unwanted: there is no proxy, no redirect, no name lookup, and the answer is not kept.
Never: asks without a redirect to deliver. A bare request ends the sign-in of the official server (field report), so the
listener is never probed.
"""

import asyncio
import re
from typing import Final

#: Seconds for the whole exchange. The agent may redeem the code with its provider before it answers.
FORWARD_S: Final = 20.0
#: Bytes of the answer that are read before the connection is closed.
_MAX_ANSWER: Final = 64 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})[ \r\n]")


async def forward(host: str, port: int, target: str) -> int | None:
    """Send it.

    :param host: ``127.0.0.1``, ``::1`` or ``localhost``, which stands for the two. :param target: path and query.
    :returns: the HTTP status, ``None`` when the listener answered nothing that has one, or not in time.
    :raises OSError: when nothing listens there.
    """
    answer = bytearray()
    try:
        async with asyncio.timeout(FORWARD_S):
            reader, writer = await _connect(host, port)
            try:
                name = f"[{host}]" if ":" in host else host
                head = f"GET {target} HTTP/1.1\r\nHost: {name}:{port}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
                writer.write(head.encode("ascii"))
                await _read(reader, answer)
            finally:
                writer.transport.abort()
    except TimeoutError:
        pass  # what has come says whether it was taken
    found = _STATUS.match(answer)
    return int(found[1]) if found else None


async def _connect(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    # Addresses, not the name: a hosts file could send it elsewhere.
    if host != "localhost":
        return await asyncio.open_connection(host, port)
    try:
        return await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return await asyncio.open_connection("::1", port)


async def _read(reader: asyncio.StreamReader, answer: bytearray) -> None:
    try:
        # To its end: a listener may look at whether its page was taken.
        while len(answer) < _MAX_ANSWER and (data := await reader.read(4096)):
            answer += data
    except OSError:
        pass  # cut off after what it had to say
