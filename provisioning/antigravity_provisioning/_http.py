"""One request for the archive: how it is asked, what a good answer is, and what went wrong in our own words.

Owns: the HTTP client, its bounds, and the classification of every fault. No text of a server, a proxy or a library gets
into a message; statuses are numbers. Nothing is written to disk here.

Facts (RFC 9110): §13.1.5 ``If-Range``, §14.2 ``Range``, §14.4 ``Content-Range``, §15.3.7 status 206,
§15.5.17 status 416.
"""

import ipaddress
import os
import re
import socket
import ssl
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ._asset import Asset
from ._part import Validator, validator_of
from .errors import Reason

if TYPE_CHECKING:
    import httpx2

#: Stands in a message for the archive's address, which is known where the message leaves this wing.
ADDRESS: Final = "{address}"
#: What a person can do when the network does not give the archive.
OFFLINE: Final = f"Or fetch {ADDRESS} on another machine and run `antigravity-acp install --from FILE.zip`."


@dataclass(frozen=True, slots=True)
class Patience:
    """Every bound of a download. Seconds, bytes, bytes per second."""

    connect_s: float = 30
    read_s: float = 60
    write_s: float = 30
    #: From the start of a request to the end of the answer's headers, proxy and TLS included.
    headers_s: float = 120
    #: Slower than ``minimum_rate`` over ``window_s`` of waiting counts as a timeout.
    window_s: float = 60
    minimum_rate: float = 2048
    #: So many attempts in a row may bring less than ``progress`` new bytes each (of a small archive, a 64th of it).
    attempts: int = 5
    progress: int = 256 << 10
    #: Pause after a fault: ``pause_s``, doubled for each attempt without progress, at most ``longest_pause_s``.
    pause_s: float = 0.5
    longest_pause_s: float = 30
    #: A report at most this often.
    report_s: float = 0.1
    #: Bytes that are collected before they are written and hashed, in a thread.
    block: int = 1 << 20


class AttemptError(Exception):
    """An attempt that failed. :param again: ``"yes"``, ``"no"``, or ``"moved"``: only if the network worked before.

    :param restart: the kept bytes are of no use with this server; the next attempt asks for everything.
    :param pause: seconds that the server asks to wait.
    """

    def __init__(
        self, reason: Reason, message: str, again: str = "no", *, restart: bool = False, pause: float | None = None
    ) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message
        self.again = again
        self.restart = restart
        self.pause = pause


class Course:
    """How far a request got, told by the library's own trace, so that a fault can be named."""

    def __init__(self, host: str) -> None:
        self._host = host
        #: What is being handled where the request is made; no part of its fault.
        self.handled = sys.exception()
        self.stage = "connect"
        self.proxied = False
        self.status: int | None = None

    async def __call__(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.started":
            self.proxied = info.get("host") != self._host
        elif event.endswith(".start_tls.started"):
            # A proxy that speaks TLS itself has a handshake of its own before the server's.
            self.stage, self.status = ("proxy-tls" if self.proxied and event.startswith("connection.") else "tls"), None
        elif event.endswith(".start_tls.complete"):
            self.stage = "answer"
        elif event.endswith(".receive_response_headers.complete"):
            self.status = info["return_value"][1]


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine itself."""
    host = host.strip("[]").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def make_client(url: str, patience: Patience) -> "httpx2.AsyncClient":
    """A client that trusts what the system and ``SSL_CERT_FILE``/``SSL_CERT_DIR`` trust and uses the user's proxies.

    Blocks (certificates are read).
    :raises AttemptError: ``tls``, ``proxy``: the user's own configuration cannot be used.
    """
    import httpx2

    try:
        # Without the variables: the system's store, through truststore on macOS and Windows.
        context = httpx2.create_ssl_context()
        folder = os.environ.get("SSL_CERT_DIR")
        if folder and os.environ.get("SSL_CERT_FILE"):
            # The library reads the file alone; OpenSSL's own rule is both.
            context.load_verify_locations(capath=folder)
    except (OSError, ssl.SSLError):
        raise AttemptError(
            "tls", "The certificates that SSL_CERT_FILE or SSL_CERT_DIR name cannot be read. Correct the variable."
        ) from None
    try:
        return httpx2.AsyncClient(
            verify=context,
            # Chosen here: the library refuses to start for any proxy that it does not know, also one for other URLs.
            proxy=_proxy_for(url),
            trust_env=False,
            follow_redirects=False,
            timeout=httpx2.Timeout(
                connect=patience.connect_s, read=patience.read_s, write=patience.write_s, pool=patience.connect_s
            ),
            limits=httpx2.Limits(max_connections=1, max_keepalive_connections=0),
            headers={"User-Agent": "antigravity-acp", "Accept": "application/zip, application/octet-stream"},
        )
    except (ValueError, ImportError, httpx2.InvalidURL):
        raise AttemptError(
            "proxy",
            "The proxy that the environment names cannot be used: it must be a URL with http:// or https://. Correct "
            "HTTPS_PROXY or ALL_PROXY.",
        ) from None


def _proxy_for(url: str) -> str | None:
    """The proxy that the environment, or the system, names for an ``https`` URL, ``None`` for a direct connection."""
    from urllib.request import getproxies, proxy_bypass

    host = urlsplit(url).hostname or ""
    # A proxy can never reach this machine's own loopback.
    if is_loopback(host) or proxy_bypass(host):
        return None
    proxies = getproxies()
    given = proxies.get("https") or proxies.get("all") or ""
    return f"http://{given}" if given and "://" not in given else given or None


def request_headers(offset: int, validator: Validator | None) -> dict[str, str]:
    """Headers of a request for everything after ``offset`` bytes of the version that ``validator`` names."""
    # Anything but the bytes themselves could not be resumed, bounded or hashed.
    headers = {"Accept-Encoding": "identity"}
    if offset and validator is not None:
        headers["Range"] = f"bytes={offset}-"
        headers["If-Range"] = validator.value
    return headers


def judge_answer(response: "httpx2.Response", asset: Asset, offset: int, validator: Validator | None) -> int:
    """Where the bytes of an answer belong: ``offset``, or 0 when the server sends everything.

    :raises AttemptError: it cannot be the archive.
    """
    status, headers = response.status_code, response.headers
    if status not in (200, 206):
        raise _bad_status(status, headers, offset)
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise AttemptError("content", f"The answer is encoded although that was not asked for. {_PORTAL}")
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind.startswith("text/") or kind in ("application/xhtml+xml", "application/json", "application/xml"):
        raise AttemptError("content", f"The answer is a page of text, not an archive. {_PORTAL}")
    start = offset if status == 206 else 0
    if status == 206:
        _judge_range(headers, asset.size, offset, validator)
    length = headers.get("content-length", "")
    if not length.isascii() or not length.isdigit():
        raise AttemptError("content", f"The answer does not say how long it is. {_PORTAL}")
    if int(length[:20]) != asset.size - start:
        raise AttemptError(
            "size",
            f"The archive on the server does not have the pinned size of {asset.size} bytes. It is not the release "
            f"{asset.version} that this version of the package knows: update the package. {OFFLINE}",
        )
    return start


_PORTAL: Final = (
    "Something between this machine and the server answers in its place, often a sign-in page of the network. "
    f"{OFFLINE}"
)
_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})")


def _judge_range(headers: Mapping[str, str], size: int, offset: int, validator: Validator | None) -> None:
    unusable = AttemptError(
        "content", f"The server answers a request for the rest with something else. {OFFLINE}", restart=True
    )
    if not offset:
        raise unusable
    found = _CONTENT_RANGE.fullmatch(headers.get("content-range", "").strip().lower())
    if found is None or tuple(map(int, found.groups())) != (offset, size - 1, size):
        raise unusable
    now = validator_of(headers.get("etag"), headers.get("last-modified"))
    # A server that leaves a validator out of a 206 does nothing wrong; one that names another version does.
    if validator is not None and now is not None and now.kind == validator.kind and now != validator:
        raise unusable


def _bad_status(status: int, headers: Mapping[str, str], offset: int) -> AttemptError:
    if status == 416 and offset:
        return AttemptError("http-status", f"The server answers with HTTP status 416. {OFFLINE}", restart=True)
    if 300 <= status < 400 and status != 304:
        return AttemptError(
            "redirect",
            f"The server answers with a redirect (HTTP status {status}); only the pinned address is trusted. {_PORTAL}",
        )
    if status == 407:
        return _proxy_refuses(status)
    if status in (408, 429) or status >= 500:
        after = headers.get("retry-after", "")
        pause = float(after) if after.isascii() and after.isdigit() and len(after) < 6 else None
        message = f"The server answers with HTTP status {status}, again and again. Try again later. {OFFLINE}"
        return AttemptError("http-status", message, "yes", pause=pause)
    hint = {
        403: "Something refuses the download: a proxy, a filter, or the server for this region.",
        404: "This release is not there any more: update the package.",
        410: "This release is not there any more: update the package.",
    }.get(status, "The release cannot be had there now.")
    return AttemptError("http-status", f"The server answers with HTTP status {status}. {hint} {OFFLINE}")


def name_fault(error: Exception, course: Course, host: str) -> AttemptError:
    """The fault behind an exception that ended a request before its body."""
    import httpx2

    if isinstance(error, (TimeoutError, httpx2.TimeoutException)):
        return AttemptError(
            "timeout", f"{_who(course, host)} does not answer in time. Check the network. {OFFLINE}", "yes"
        )
    if isinstance(error, httpx2.ProxyError):
        status = str(error)[:3]
        return _proxy_refuses(int(status) if status.isascii() and status.isdigit() else None)
    if course.status is not None and 300 <= course.status < 400:
        # The library looks at where a redirect leads even when it is told to follow none.
        return _bad_status(course.status, {}, 0)
    causes = list(_chain(error, course.handled))
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        if course.proxied:
            return AttemptError("proxy", f"The name of the proxy cannot be resolved. {_PROXY_HELP}", "moved")
        return AttemptError(
            "dns", f"The name {host} cannot be resolved. Check the network and its DNS. {OFFLINE}", "moved"
        )
    tls = next((cause for cause in causes if isinstance(cause, ssl.SSLError)), None)
    if tls is not None and not isinstance(tls, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return _tls_fault(tls, course, host)
    if course.stage == "connect" and course.status is None and isinstance(error, httpx2.ConnectError):
        if course.proxied:
            return AttemptError("proxy", f"The proxy cannot be reached. {_PROXY_HELP}", "moved")
        return AttemptError(
            "connect", f"{host} cannot be reached. Check the network and its firewall. {OFFLINE}", "moved"
        )
    if any(type(cause).__module__.startswith("h11") for cause in causes):
        return AttemptError("content", f"The answer is not HTTP. {_PORTAL}")
    return AttemptError(
        "cut", f"{_who(course, host)} ended the connection without an answer. Try again later. {OFFLINE}", "yes"
    )


def name_cut(error: Exception) -> AttemptError:
    """The fault behind an exception that ended a body."""
    import httpx2

    if isinstance(error, httpx2.TimeoutException):
        return AttemptError("timeout", f"The server stopped sending. Run it again to continue. {OFFLINE}", "yes")
    return AttemptError(
        "cut", f"The connection ended too early, again and again. Run it again to continue. {OFFLINE}", "yes"
    )


_PROXY_HELP: Final = f"Check HTTPS_PROXY, ALL_PROXY and NO_PROXY. {OFFLINE}"


def _who(course: Course, host: str) -> str:
    return "The proxy" if course.proxied and course.stage in ("connect", "proxy-tls") else host


def _proxy_refuses(status: int | None) -> AttemptError:
    number = "" if status is None else f" with HTTP status {status}"
    hint = "It wants a user and a password in its URL." if status == 407 else "It does not allow this server."
    return AttemptError("proxy", f"The proxy refuses the connection{number}. {hint} {_PROXY_HELP}", "moved")


def _tls_fault(error: ssl.SSLError, course: Course, host: str) -> AttemptError:
    who = "the proxy" if course.stage == "proxy-tls" else host
    if isinstance(error, ssl.SSLCertVerificationError):
        # X509_V_ERR_…: 9 not yet valid, 10 expired, 62 host name, 64 address. Not every verifier has it.
        code = getattr(error, "verify_code", None)
        if code in (9, 10):
            what = "is not valid at this time. Check the clock of this machine."
        elif code in (62, 64):
            what = "belongs to another name. The network redirects the connection; use another one."
        else:
            what = (
                "is signed by an authority that this machine does not know. Where a company inspects TLS, add its "
                "authority to the system's store or set SSL_CERT_FILE to its certificate."
            )
        return AttemptError("tls", f"The certificate of {who} {what} {OFFLINE}")
    return AttemptError(
        "tls", f"No TLS connection with {who} comes about; what answers there may not speak TLS. {OFFLINE}"
    )


def _chain(error: BaseException, handled: BaseException | None) -> Iterator[BaseException]:
    # The library drops causes on its way up (`from None`), so contexts are followed too, but not into what the caller
    # of the download happens to be handling.
    seen: set[int] = {id(handled)}
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        pending += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            pending += one.exceptions
