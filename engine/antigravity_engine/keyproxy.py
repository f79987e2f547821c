"""A loopback proxy that adds an API key: the SDK's OpenAI path can carry none.

Owns one listener on 127.0.0.1. Forwards to one fixed base URL only, and only for callers that know the secret path, so
that no other local user can spend the key. Streams answers through as they come. Ends with `close`.
"""

import http.client
import secrets
import ssl
import threading
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Until the first byte of an answer and between two; a model may think for long.
UPSTREAM_S = 900
#: A request with images and a long history.
MAX_BODY_BYTES = 64 * 1024 * 1024
_CHUNK = 1 << 16
_PASS_UP = ("content-type", "accept")
_PASS_DOWN = ("content-type", "retry-after")


class KeyProxy:
    """`base_url` is to be used instead of `upstream`."""

    def __init__(self, upstream: str, key: str) -> None:
        self._upstream = upstream.rstrip("/")
        self._key = key
        self._secret = secrets.token_urlsafe(24)
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def base_url(self) -> str:
        """Only while open."""
        if self._server is None:
            raise RuntimeError("the key proxy is not open")
        return f"http://127.0.0.1:{self._server.server_address[1]}/{self._secret}"

    def open(self) -> None:
        handler = type("Handler", (_Handler,), {"upstream": self._upstream, "key": self._key, "secret": self._secret})
        self._server = _Listener(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="key-proxy", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stops listening. Answers that still stream end with the process or with their caller."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        if self._thread is not None:
            self._thread.join(2)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that hangs up is normal; the base class would print a traceback."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    upstream = ""
    key = ""
    secret = ""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Nothing of a request is printed."""

    def do_GET(self) -> None:
        self._forward(None)

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            self.send_error(413)
            return
        self._forward(self.rfile.read(int(length)))

    def _forward(self, body: bytes | None) -> None:
        prefix = f"/{self.secret}/"
        if not secrets.compare_digest(self.path[: len(prefix)].encode(), prefix.encode()):
            self.send_error(404)
            return
        headers = {name: value for name in _PASS_UP if (value := self.headers.get(name))}
        headers["Authorization"] = f"Bearer {self.key}"
        url = f"{self.upstream}/{self.path[len(prefix) :]}"
        request = urllib.request.Request(url, data=body, headers=headers, method=self.command)  # noqa: S310 - http(s) by `backends`
        try:
            response = _OPENER.open(request, timeout=UPSTREAM_S)
        except urllib.error.HTTPError as error:
            response = error
        except (OSError, http.client.HTTPException, ssl.SSLError):
            self.send_error(502)
            return
        with response:
            self.close_connection = True
            self.send_response(response.status)
            for name in _PASS_DOWN:
                if value := response.headers.get(name):
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            while data := response.read1(_CHUNK):
                self.wfile.write(data)
                self.wfile.flush()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)
