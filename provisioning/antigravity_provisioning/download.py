"""The pinned archive, whole and verified, from the network or from a file.

Owns: one download from the first request to ``<folder>/<sha256>.zip``, its retries, its reports. Ends with the archive,
a `ProvisioningError` or a cancellation; in every case the folder holds either a verified archive, or a part that the
next call continues, or nothing. It never follows a redirect, never believes a length, a name or a type over the pinned
size and hash, and never tells what a server said.

Disk and hashing run in threads, one step at a time, so the event loop stays free. A cancellation ends the step that
runs (at most one block), keeps the part, and goes on as `asyncio.CancelledError`.

The caller holds the lock of the store. Facts: downloads that throw away a part never end on a bad line
(artokun/comfyui-mcp#1447); faults that are not told apart send people to look in the wrong place
(pingdotgg/t3code#9413).
"""

import asyncio
import errno
import os
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from . import _http
from ._asset import Asset
from ._http import AttemptError, Patience
from ._local import Copy, Finished
from ._pace import Drip, Reporter
from ._part import Part, PartInUseError, Validator, validator_of
from ._threads import off_loop
from .errors import ProvisioningError
from .progress import Report, quiet

if TYPE_CHECKING:
    import httpx2

#: The bounds of a download when the caller says nothing; read when a download begins.
PATIENCE: Final = Patience()
#: First bytes of every archive that has an entry.
_MAGIC: Final = b"PK\x03\x04"


async def download(asset: Asset, folder: Path, *, report: Report = quiet, patience: Patience | None = None) -> Path:
    """Fetch an archive, continuing what an earlier call left; an archive that is there is verified and used.

    :param folder: made when it is not there. :returns: ``folder/<sha256>.zip``.
    :raises ProvisioningError: stage ``download``.
    """
    if urlsplit(asset.url).scheme != "https":
        raise ProvisioningError("download", "content", "The archive has no HTTPS address; nothing else is used.")
    patience = patience or PATIENCE
    with _told(asset):
        if (ready := await _already_there(asset, folder, report, patience)) is not None:
            return ready
        part = Part(folder, asset.sha256, asset.url, asset.size)
        try:
            await off_loop(part.open)
            return await _Transfer(asset, part, report, patience).run()
        finally:
            await off_loop(part.close)


async def copy_in(
    asset: Asset, source: Path, folder: Path, *, report: Report = quiet, patience: Patience | None = None
) -> Path:
    """Take the archive from a file that the user has; same checks, same result as `download`. The file stays.

    :raises ProvisioningError: stage ``download``; ``size`` or ``hash`` when it is another file.
    """
    copy = Copy(asset, source, folder)
    pace = Reporter(report, "verify", asset.size, patience or PATIENCE)
    with _told(asset):
        try:
            await off_loop(copy.open)
            while await off_loop(copy.step):
                pace.at(copy.done)
            pace.last(copy.done)
            return await off_loop(copy.finish)
        finally:
            await off_loop(copy.close)


async def _already_there(asset: Asset, folder: Path, report: Report, patience: Patience) -> Path | None:
    """The finished archive when it is there and right; a wrong one is removed."""
    finished = Finished(asset, folder)
    try:
        if not await off_loop(finished.open):
            return None
        pace = Reporter(report, "verify", asset.size, patience)
        while await off_loop(finished.step):
            pace.at(finished.done)
        pace.last(finished.done)
        return finished.path if await off_loop(finished.judge) else None
    finally:
        await off_loop(finished.close)


class _Transfer:
    """The attempts of one download."""

    def __init__(self, asset: Asset, part: Part, report: Report, patience: Patience) -> None:
        self._asset, self._part, self._patience, self._report = asset, part, patience, report
        self._host = urlsplit(asset.url).hostname or ""
        self._pace = Reporter(report, "download", asset.size, patience)
        #: Whether this call has received anything: a network that worked a moment ago is given time.
        self._received = False

    async def run(self) -> Path:
        await self._absorb()
        if not self._part.is_right():
            if self._part.offset == self._asset.size:
                # Complete and wrong, from an earlier call: it costs no request to know.
                await off_loop(self._part.restart, None)
            client = await off_loop(_http.make_client, self._asset.url, self._patience)
            async with client:
                await self._until_right(client)
        self._pace.last(self._asset.size)
        return await off_loop(self._part.finish)

    async def _absorb(self) -> None:
        kept = self._part.kept
        if kept:
            verify = Reporter(self._report, "verify", kept, self._patience)
            while await off_loop(self._part.absorb):
                verify.at(self._part.offset)
            verify.last(self._part.offset)
        self._pace.start(self._part.offset)

    async def _until_right(self, client: "httpx2.AsyncClient") -> None:
        again = True
        while True:
            await self._until_complete(client)
            if self._part.is_right():
                return
            mended = self._part.mended
            await off_loop(self._part.restart, None)
            self._pace.start(0)
            if not (mended and again):
                raise AttemptError(
                    "hash",
                    f"The archive from {self._host} does not have the pinned SHA-256, so it was thrown away. Something "
                    f"changes it on the way, or it is another release: update the package or use another network. "
                    f"{_http.OFFLINE}",
                )
            # What was put together from several answers may be a mix; one answer in one piece settles it.
            again = False

    async def _until_complete(self, client: "httpx2.AsyncClient") -> None:
        fruitless, restarted, furthest = 0, False, self._part.offset
        enough = max(1, min(self._patience.progress, self._asset.size // 64))
        while self._part.offset < self._asset.size:
            try:
                await self._attempt(client)
            except AttemptError as fault:
                if fault.restart and not restarted:
                    restarted = True
                    await off_loop(self._part.restart, None)
                    continue
                # Measured from the furthest byte so far: a server that always starts over makes no progress.
                ahead = self._part.offset - furthest
                fruitless = 0 if ahead >= enough else fruitless + 1
                furthest = max(furthest, self._part.offset)
                wanted = fault.again == "yes" or (fault.again == "moved" and self._received)
                if not wanted or fruitless >= self._patience.attempts:
                    raise
                await asyncio.sleep(self._pause(fault, fruitless))

    def _pause(self, fault: AttemptError, fruitless: int) -> float:
        pause = self._patience.pause_s * 2.0 ** max(0, fruitless - 1)
        return min(max(pause, fault.pause or 0), self._patience.longest_pause_s)

    async def _attempt(self, client: "httpx2.AsyncClient") -> None:
        import httpx2

        offset, validator = self._part.offset, self._part.validator
        if offset and validator is None:
            # A server without a validator: its bytes cannot be told from those of another version.
            offset = 0
        course = _http.Course(self._host)
        request = client.build_request(
            "GET", self._asset.url, headers=_http.request_headers(offset, validator), extensions={"trace": course}
        )
        try:
            async with asyncio.timeout(self._patience.headers_s):
                response = await client.send(request, stream=True)
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise _http.name_fault(error, course, self._host) from None
        try:
            start = _http.judge_answer(response, self._asset, offset, validator)
            version = validator_of(response.headers.get("etag"), response.headers.get("last-modified"))
            await self._receive(response, start, version)
        finally:
            await response.aclose()

    async def _receive(self, response: "httpx2.Response", start: int, version: Validator | None) -> None:
        import httpx2

        body = _Body(self._part, start, version)
        drip = Drip(self._patience)
        self._part.mended |= bool(start)
        async with aclosing(response.aiter_raw()) as chunks:
            try:
                while True:
                    began = time.monotonic()
                    chunk = await anext(chunks, None)
                    if chunk is None:
                        break
                    # Before the disk takes its time: only the network is judged.
                    waited = time.monotonic() - began
                    self._received = True
                    body.add(chunk, self._asset.size)
                    if len(body.waiting) >= self._patience.block:
                        await body.flush()
                    self._pace.at(body.position)
                    drip.took(len(chunk), waited)
                await body.flush()
            except asyncio.CancelledError:
                with suppress(AttemptError, OSError):
                    await body.flush()
                raise
            except AttemptError as fault:
                if fault.reason == "timeout":
                    await body.flush()
                raise
            except httpx2.HTTPError as error:
                await body.flush()
                raise _http.name_cut(error) from None


class _Body:
    """Bytes of one answer on their way to the part, which is only touched when they look like the archive."""

    def __init__(self, part: Part, start: int, version: Validator | None) -> None:
        self._part, self._version = part, version
        self._fresh = start == 0
        self.position = start
        self.waiting = bytearray()

    def add(self, chunk: bytes, size: int) -> None:
        if self.position + len(chunk) > size:
            raise AttemptError("size", f"The server sends more than the pinned {size} bytes. {_http.OFFLINE}")
        self.position += len(chunk)
        self.waiting += chunk

    async def flush(self) -> None:
        if self._fresh:
            if len(self.waiting) < len(_MAGIC):
                return
            if not self.waiting.startswith(_MAGIC):
                self.waiting.clear()
                raise AttemptError("content", f"The answer is not a ZIP archive. {_http.OFFLINE}")
            await off_loop(self._part.restart, self._version)
            self._fresh = False
        data, self.waiting = self.waiting, bytearray()
        if data:
            await off_loop(self._part.write, data)


@contextmanager
def _told(asset: Asset) -> Iterator[None]:
    """Faults of the network and of the disk, as the error of this wing."""
    try:
        yield
    except AttemptError as fault:
        message = fault.message.replace(_http.ADDRESS, asset.url)
        raise ProvisioningError("download", fault.reason, message) from None
    except PartInUseError:
        raise ProvisioningError(
            "download", "busy", "Another process downloads the same archive. Wait for it, or end it."
        ) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG):
            raise ProvisioningError(
                "download",
                "disk-full",
                "The disk is full, or the quota is used up. Free space and run it again; what is there is continued.",
            ) from error
        named = error.filename or "The download folder"
        raise ProvisioningError(
            "download",
            "disk",
            f"{named} cannot be used ({os.strerror(error.errno) if error.errno else 'error'}). Check its rights.",
        ) from error
