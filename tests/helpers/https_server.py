"""A local HTTPS server with a certificate authority of its own, that serves one archive and can misbehave on demand.

    with serve(data) as server:                      # GET server.url gives the bytes, with Range, ETag, Last-Modified
        server.script(cut_after(1000), status(503))  # the next two requests misbehave; what follows is served well
        server.always(redirect(302))                 # from now on all of them do
        monkeypatch.setenv("SSL_CERT_FILE", server.ca_file)
        server.requests                              # [Request(method, path, headers, range_start)] so far

One thread with an event loop of its own runs it, so tests may block, be async, or start processes. A behaviour is an
async function of an `Exchange`; it may send what it likes, byte for byte, and hang: leaving the block ends everything.
"""

import asyncio
import contextlib
import datetime as dt
import functools
import hashlib
import re
import socket
import ssl
import struct
import tempfile
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import trustme

LAST_MODIFIED = "Thu, 01 Oct 2026 10:00:00 GMT"


class Request(NamedTuple):
    """A request as it came. :param headers: names in lower case. :param range_start: of a ``Range``, else 0."""

    method: str
    path: str
    headers: dict[str, str]
    range_start: int


class Exchange:
    """One request and the raw way to answer it."""

    def __init__(self, server: "Server", request: Request, writer: asyncio.StreamWriter) -> None:
        self.server, self.request, self._writer = server, request, writer

    @property
    def data(self) -> bytes:
        return self.server.data

    async def send(self, data: bytes, piece: int = 1 << 16) -> None:
        for start in range(0, len(data), piece):
            self._writer.write(data[start : start + piece])
            # Only between turns of the loop does `drain` learn that the client is gone.
            await asyncio.sleep(0)
            await self._writer.drain()

    async def head(self, status: int, **headers: str | int | None) -> None:
        """Status line and headers; ``content_length`` becomes ``Content-Length``, ``None`` leaves one out."""
        lines = [f"HTTP/1.1 {status} Some Words Of The Server"]
        headers = {"connection": "close", **headers}
        lines += [f"{name.replace('_', '-').title()}: {value}" for name, value in headers.items() if value is not None]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    def reset(self) -> None:
        """End the connection with RST, losing what is under way."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def good(
        self,
        *,
        data: bytes | None = None,
        etag: str | None = "",
        last_modified: str | None = LAST_MODIFIED,
        ranges: bool = True,
        stop: int | None = None,
        **headers: str | int | None,
    ) -> None:
        """The right answer, or one with a single thing changed.

        :param etag: ``""`` for the strong one of the data, ``None`` for none. :param ranges: whether ``Range`` counts.
        :param stop: end the connection before this byte of the archive. :param headers: replace or (``None``) remove.
        """
        data = self.data if data is None else data
        etag = f'"{hashlib.sha256(data).hexdigest()[:16]}"' if etag == "" else etag
        start, condition = self.request.range_start, self.request.headers.get("if-range")
        partial = bool(start) and ranges and condition in (None, etag, last_modified)
        if partial and start >= len(data):
            await self.head(416, content_range=f"bytes */{len(data)}", content_length=0)
            return
        start = start if partial else 0
        span = {"content_range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if partial else {}
        fields: dict[str, str | int | None] = {
            "content_type": "application/zip",
            "content_length": len(data) - start,
            "accept_ranges": "bytes" if ranges else None,
            "etag": etag,
            "last_modified": last_modified,
            **span,
            **headers,
        }
        await self.head(206 if partial else 200, **fields)
        await self.send(data[start : len(data) if stop is None else max(stop, start)])


Behaviour = Callable[[Exchange], Awaitable[None]]


def changed(**options: Any) -> Behaviour:
    """The right answer with something changed; see `Exchange.good`."""
    return lambda exchange: exchange.good(**options)


def cut_after(count: int, **options: Any) -> Behaviour:
    """Ends the connection before this byte of the archive."""
    return changed(stop=count, **options)


def status(code: int, **headers: str | int) -> Behaviour:
    """A bare status with some words that nobody may repeat."""

    async def behave(exchange: Exchange) -> None:
        body = b"<html>words of the server</html>"
        await exchange.head(code, content_type="text/html", content_length=len(body), **headers)
        await exchange.send(body)

    return behave


def redirect(code: int, location: str | None = None) -> Behaviour:
    """A redirect, to the same archive when left out."""
    return lambda exchange: status(code, location=location or exchange.server.url)(exchange)


class Server:
    """See the module. :param data: the archive. :param url: where it is. :param ca_file: PEM of the authority."""

    def __init__(self, data: bytes, ca: trustme.CA, folder: Path, host: str, path: str) -> None:
        self.data, self.ca, self.host = data, ca, host
        self.ca_file = str(folder / "ca.pem")
        ca.cert_pem.write_to_path(self.ca_file)
        self.requests: list[Request] = []
        #: Connections so far, also those that never became a request.
        self.connections = 0
        self.port = 0
        self._path = path
        self._script: deque[Behaviour] = deque()
        self._always: Behaviour = changed()

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}{self._path}"

    def script(self, *behaviours: Behaviour) -> None:
        """How the next requests are answered, one each; then as before."""
        self._script.extend(behaviours)

    def always(self, behaviour: Behaviour) -> None:
        """How every request is answered that has no behaviour of its own."""
        self._always = behaviour

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            request = _parse(await _head(reader, writer))
            self.requests.append(request)
            behaviour = self._script.popleft() if self._script else self._always
            await behaviour(Exchange(self, request, writer))
        except (OSError, EOFError, ValueError):
            # The client went, or spoke no HTTP.
            pass
        finally:
            writer.close()


async def _head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    first = await reader.readexactly(1)
    if first == b"\x16":
        # A TLS handshake on a port without TLS: what every HTTP server says to that.
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        raise EOFError
    return first + await reader.readuntil(b"\r\n\r\n")


def _parse(head: bytes) -> Request:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    found = re.fullmatch(r"bytes=(\d+)-", headers.get("range", ""))
    return Request(method, path, headers, int(found[1]) if found else 0)


@functools.cache
def _authority() -> trustme.CA:
    # One for the whole run: keys are the slow part.
    return trustme.CA()


def server_context(ca: trustme.CA, *names: str, expired: bool = False) -> ssl.SSLContext:
    """TLS of a server with a certificate for these names."""
    now = dt.datetime.now(dt.UTC)
    when = {"not_before": now - dt.timedelta(days=9), "not_after": now - dt.timedelta(days=1)} if expired else {}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(*names, **when).configure_cert(context)
    return context


@contextlib.contextmanager
def listening(handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any], **options: Any) -> Iterator[int]:
    """A loopback port on which a thread runs this handler; everything it has under way ends with the block."""
    started = threading.Event()
    port, loop, stop = 0, asyncio.new_event_loop(), asyncio.Event()
    writers: set[asyncio.StreamWriter] = set()

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        await handle(reader, writer)

    async def main() -> None:
        nonlocal port
        server = await asyncio.start_server(keep, "127.0.0.1", 0, **options)
        port = server.sockets[0].getsockname()[1]
        started.set()
        await stop.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()
        closing = [asyncio.wait_for(writer.wait_closed(), 1) for writer in writers]
        await asyncio.gather(*closing, return_exceptions=True)

    def run() -> None:
        loop.set_exception_handler(lambda *_: None)  # clients that break off are what these tests are about
        try:
            loop.run_until_complete(main())
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()
            started.set()

    thread = threading.Thread(target=run, name="https-server", daemon=True)
    thread.start()
    try:
        assert started.wait(10)
        assert port
        yield port
    finally:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        assert not thread.is_alive()


@contextlib.contextmanager
def serve(
    data: bytes,
    *,
    host: str = "localhost",
    path: str = "/releases/archive.zip",
    context: ssl.SSLContext | None = None,
    plain: bool = False,
) -> Iterator[Server]:
    """Serve an archive on a free loopback port.

    :param host: name in the URL and the certificate. :param context: another certificate. :param plain: no TLS at all.
    """
    ca = _authority()
    with tempfile.TemporaryDirectory(prefix="https-server-") as folder:
        server = Server(data, ca, Path(folder), host, path)
        tls = None if plain else context or server_context(ca, host, "127.0.0.1")
        # ssl_shutdown_timeout: a client that is gone does not answer a goodbye.
        options = {} if tls is None else {"ssl": tls, "ssl_shutdown_timeout": 0.2}
        with listening(server._handle, **options) as server.port:
            yield server


class Proxy(NamedTuple):
    """A forward proxy. :param url: for ``HTTPS_PROXY``. :param targets: what it was asked to connect to."""

    url: str
    targets: list[str]


@contextlib.contextmanager
def proxy(port: int, *, refuse: int | None = None, silent: bool = False, tls: bool = False) -> Iterator[Proxy]:
    """A proxy that leads every ``CONNECT`` to this loopback port, or refuses with a status, or never answers.

    :param tls: it speaks TLS itself, with a certificate of the same authority as the servers.
    """
    targets: list[str] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            targets.append(head.split()[1].decode())
            if silent:
                await reader.read()
            elif refuse is not None:
                writer.write(f"HTTP/1.1 {refuse} Words Of The Proxy\r\nContent-Length: 0\r\n\r\n".encode())
                await writer.drain()
            else:
                onward, upward = await asyncio.open_connection("127.0.0.1", port)
                try:
                    writer.write(b"HTTP/1.1 200 Go\r\n\r\n")
                    await asyncio.gather(pump(reader, upward), pump(onward, writer))
                finally:
                    upward.close()
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    options = {"ssl": server_context(_authority(), "127.0.0.1"), "ssl_shutdown_timeout": 0.2} if tls else {}
    with listening(handle, **options) as own:
        yield Proxy(f"{'https' if tls else 'http'}://127.0.0.1:{own}", targets)
