"""The HTTP side of the scripted model: a loopback server on a random port, for as long as it is open.

Owns its listener and its threads; `close` ends both, bounded, also in the middle of a delay. Listens on 127.0.0.1 only
and, where a key was given, answers nobody who does not send it. Keeps a bounded record of the requests it received in
memory, and on request writes each as one JSON line to a file: requests hold prompts in clear text.
"""

import hmac
import threading
import time
from collections import Counter, deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import msgspec

from antigravity_engine.script.gemini import UnknownToolError, answer_chunks, error_body, holds, observe
from antigravity_engine.script.rules import Rule, Script

#: Requests kept in memory; the oldest go first.
MAX_RECORDS = 1000
#: A request with images and a long history; more is a mistake.
MAX_BODY_BYTES = 64 * 1024 * 1024
#: How long `close` waits for the threads of open requests.
CLOSE_S = 2.0


class ScriptServer:
    """Serves a script.

    key: when given, requests must carry it as `x-goog-api-key` (or `?key=`). log: file that gets one JSON object a
    request: `{"n", "at", "method", "path", "model", "rule", "status", "user", "round", "tools", "system", "body"}`.
    """

    def __init__(self, script: Script, *, key: str | None = None, log: str | Path | None = None) -> None:
        self.script = script
        self.records: deque[dict[str, Any]] = deque(maxlen=MAX_RECORDS)
        self._key = key
        self._log_path = log
        self._log: IO[bytes] | None = None
        self._lock = threading.Lock()
        self._count = 0
        self._used: Counter[int] = Counter()
        self._closing = threading.Event()
        self._server: _Listener | None = None
        self._thread: threading.Thread | None = None

    @property
    def base_url(self) -> str:
        """`http://127.0.0.1:PORT`, without a version path. Only while open."""
        if self._server is None:
            raise RuntimeError("the script server is not open")
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def open(self) -> None:
        """Starts listening. Raises OSError when the log cannot be opened."""
        if self._log_path is not None:
            self._log = Path(self._log_path).open("ab", buffering=0)  # noqa: SIM115 - stays open until `close`
        self._server = _Listener(self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="script-server", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stops listening, cuts delays short and waits a moment for open requests. Idempotent."""
        self._closing.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.end_requests(CLOSE_S)
            self._server.server_close()
        if self._thread is not None:
            self._thread.join(CLOSE_S)
        with self._lock:
            if self._log is not None:
                self._log.close()
                self._log = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- used by the request threads ---------------------------------------------------------------------------------
    def admits(self, sent: str) -> bool:
        return self._key is None or hmac.compare_digest(sent.encode(), self._key.encode())

    def choose(self, model: str, body: dict[str, Any]) -> tuple[int, Rule] | None:
        """The first rule that holds and is not used up, counted as used; its number counts from 1."""
        seen = observe(model, body)
        with self._lock:
            for number, rule in enumerate(self.script.rules, 1):
                if (not rule.times or self._used[number] < rule.times) and holds(rule.when, seen):
                    self._used[number] += 1
                    return number, rule
        return None

    def record(self, **entry: Any) -> None:
        with self._lock:
            self._count += 1
            entry = {"n": self._count, "at": time.time(), **entry}
            self.records.append(entry)
            if self._log is not None:
                self._log.write(msgspec.json.encode(entry) + b"\n")

    def pause(self, seconds: float) -> bool:
        """Waits; False when the server is closing."""
        return not self._closing.wait(seconds)

    @property
    def closing(self) -> bool:
        return self._closing.is_set()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, owner: ScriptServer) -> None:
        self.owner = owner
        self._open: set[threading.Thread] = set()
        self._open_lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(threading.current_thread())
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._open_lock:
                self._open.discard(threading.current_thread())

    def end_requests(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with self._open_lock:
            threads = list(self._open)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is normal here; the base class would print a traceback."""


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    protocol_version = "HTTP/1.1"
    #: An idle connection must not hold a thread for ever.
    timeout = 30

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
        """Requests are recorded, never printed."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        if not self._admitted():
            return
        names = self.server.owner.script.models
        if path.endswith("/models"):
            self._json(200, {"models": [_model(name) for name in names]})
        elif (name := path.rpartition("/")[2]) in names:
            self._json(200, _model(name))
        else:
            self._json(404, error_body(404))

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            self._json(413, error_body(400, message="a Content-Length of at most 64 MiB is needed"))
            return
        raw = self.rfile.read(int(length))
        if not self._admitted():
            return
        target, _, method = self.path.partition("?")[0].rpartition("/")[2].partition(":")
        try:
            body = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            body = None
        if not isinstance(body, dict):
            self._json(400, error_body(400, message="the request is not a JSON object"))
        elif method == "countTokens":
            self._json(200, {"totalTokens": max(1, len(raw) // 4)})
        elif method in ("streamGenerateContent", "generateContent"):
            self._generate(target, method, body)
        else:
            self._json(404, error_body(404))

    def _generate(self, model: str, method: str, body: dict[str, Any]) -> None:
        owner = self.server.owner
        seen = observe(model, body)
        chosen = owner.choose(model, body)
        chunks: list[dict[str, Any]] = []
        status, problem = 200, ""
        if chosen is None:
            status, problem = 400, "no rule of the script matches this request"
        else:
            status = chosen[1].http_error or 200
            try:
                chunks = list(answer_chunks(chosen[1], seen, body))
            except UnknownToolError:
                status, problem = 400, f"rule {chosen[0]} calls a tool that the request does not declare"
        owner.record(
            method=method,
            path=self.path.partition("?")[0],
            model=model,
            rule=chosen[0] if chosen else None,
            status=status,
            problem=problem,
            user=seen.user,
            results=seen.results,
            round=seen.round,
            images=seen.images,
            tools=seen.tools,
            system=seen.system,
            body=body,
        )
        if chosen is None or status != 200:
            rule = chosen[1] if chosen else Rule()
            if owner.pause(rule.delay_ms / 1000):
                self._json(status, error_body(status, retry_delay_s=rule.retry_delay_s, message=problem))
            return
        self._answer(chosen[1], method, chunks)

    def _answer(self, rule: Rule, method: str, chunks: list[dict[str, Any]]) -> None:
        owner = self.server.owner
        self.close_connection = True
        if not owner.pause(rule.delay_ms / 1000):
            return
        if rule.hang:
            while owner.pause(0.05) and not self._gone():
                pass
            return
        if method == "generateContent":
            self._json(200, _joined(chunks))
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        if rule.empty:
            self._event(
                b'{"candidates": [{"content": {"role": "model", "parts": []}, "finishReason": "STOP", "index": 0}]}'
            )
            return
        for index, chunk in enumerate(chunks):
            if index and rule.pause_ms and not owner.pause(rule.pause_ms / 1000):
                return
            if rule.garbage and index == len(chunks) - 1:
                self._event(b'{"candidates": [{"content": ')
                return
            self._event(msgspec.json.encode(chunk))

    def _gone(self) -> bool:
        """Whether the caller has hung up: readable and at its end."""
        import select

        ready, _, _ = select.select([self.connection], [], [], 0)
        if not ready:
            return False
        try:
            return not self.connection.recv(1, 2)  # 2 is MSG_PEEK
        except OSError:
            return True

    def _event(self, data: bytes) -> None:
        self.wfile.write(b"data: " + data + b"\r\n\r\n")
        self.wfile.flush()

    def _admitted(self) -> bool:
        sent = self.headers.get("x-goog-api-key", "")
        if not sent and "key=" in self.path:
            sent = self.path.rpartition("key=")[2].partition("&")[0]
        if self.server.owner.admits(sent):
            return True
        self._json(401, error_body(401, message="wrong or missing key"))
        return False

    def _json(self, status: int, value: dict[str, Any]) -> None:
        data = msgspec.json.encode(value)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _model(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "displayName": name,
        "inputTokenLimit": 1_000_000,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens"],
    }


def _joined(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    """One response of a stream's chunks, for callers that do not stream."""
    last = chunks[-1]
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    candidate = {**last["candidates"][0], "content": {"role": "model", "parts": parts}}
    return {**last, "candidates": [candidate]}
