"""The conversation with one host: which request does what, in which order, and when it is over.

Owns: dispatch, the requests that are open, and the life of the process: ``initialize`` first, the end with the end of
the input, ``shutdown`` or SIGTERM. Every request is a task of its own or answered at once, so none holds up another,
an acknowledgement or a cancel.
Never: dies of what a host sends. Only a line that is larger than a frame may be ends the conversation.
"""

import asyncio
import logging
import os
import signal
import stat
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from antigravity_acp.contract import LlmError, Notice
from antigravity_acp.limits import MAX_FRAME_BYTES, SIDECAR_FLUSH_S, SIDECAR_REQUESTS
from antigravity_acp.manifest import manifest
from antigravity_acp.settings import Settings

from .backend import Backend, MakeAdapter, Serves, load_adapter
from .control import Control
from .frames import (
    FAILED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PROTOCOL,
    Json,
    RpcError,
    answer,
    check_params,
    decode,
    notification,
    refusal,
)
from .pipes import Inlet, Outlet
from .streams import Streams

_log = logging.getLogger("antigravity_acp.sidecar")

Key: TypeAlias = str | int
#: A request's own work: its result, or what is to be awaited for it.
Handler: TypeAlias = Callable[[Json], Json | Awaitable[Json]]


class NoHostError(Exception):
    """There is no host at the other end."""


_COUNTERS: Final = (
    "sidecar_noise_lines",
    "sidecar_invalid_frames",
    "sidecar_invalid_notifications",
    "sidecar_unknown_notifications",
    "sidecar_unexpected_answers",
)
_NOT_YET: Final = "`initialize` comes first."


class Sidecar:
    """One conversation.

    :param load: loads what makes the adapter; see :mod:`.backend`.
    """

    def __init__(self, load: MakeAdapter = load_adapter) -> None:
        self.inlet = Inlet(self._on_line, self._on_end)
        self.outlet = Outlet(self.end, lambda unread: self.inlet.hold(unread))
        self._load = load
        self._backend: Backend | None = None
        self._control: Control | None = None
        self._attended = False
        self._streams = Streams(self.outlet, self._ready, self._adapter)
        self._open: dict[Key, asyncio.Future[Json]] = {}
        self._names: dict[Key, str] = {}
        self._closing: list[Key] = []
        self._ended = asyncio.Event()
        self._status = 0
        self._counters: Counter[str] = Counter()
        self._requests: dict[str, Handler] = {
            "initialize": self._initialize,
            "settings/update": self._update,
            "models/list": self._list,
            "models/resolve": self._resolve,
            "stream/start": self._streams.start,
            "control/decide": self._decide,
            "control/report": self._report,
            "diagnostics": self._diagnostics,
        }
        self._notifications: dict[str, Callable[[Json], None]] = {
            "stream/ack": lambda params: self._streams.acknowledge(params["stream"], int(params["chunks"])),
            "stream/cancel": lambda params: self._streams.cancel(params["stream"]),
            "$/cancel": lambda params: self._cancel(params["id"]),
        }

    # ---- life ---------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Serve the host until it is done; everything is released then.

        :returns: the exit code: 0, or 1 when the host broke the protocol or something could not be ended.
        """
        await self._ended.wait()
        self._streams.cancel_all()
        if self._backend and not await self._backend.dispose():
            self._status = 1
        await self._end_requests()
        if self._control is not None:
            await self._control.aclose()
        for key in self._closing:
            self.outlet.write(answer(key, {}))
        self.inlet.close()
        await self.outlet.aclose()
        return self._status

    def end(self) -> None:
        """The host is done: end of input, `shutdown`, a signal, or nobody reads any more."""
        self._ended.set()

    async def _end_requests(self) -> None:
        if self._open:
            await asyncio.wait(self._open.values(), timeout=SIDECAR_FLUSH_S)
        self.outlet.hurry()
        for task in self._open.values():
            task.cancel()
        if self._open:
            # Their answers are written by callbacks, which run before whoever waits for the same tasks.
            await asyncio.wait(self._open.values(), timeout=SIDECAR_FLUSH_S)

    def _on_end(self, oversize: bool) -> None:
        if oversize:
            self._status = 1
            error = RpcError(INVALID_REQUEST, f"A line is longer than {MAX_FRAME_BYTES} bytes.", "SIDECAR_PROTOCOL")
            self.outlet.write(refusal(None, error))
        self.end()

    # ---- frames that come in ------------------------------------------------------------------------------------

    def _on_line(self, line: bytes) -> None:
        if not line or line.isspace():
            self._counters["sidecar_noise_lines"] += 1
            return
        key: Key | None = None
        try:
            frame = decode(line)
            key = _key(frame)
            method = frame.get("method")
            if not isinstance(method, str):
                self._on_other(frame)
            elif "id" in frame:
                self._on_request(key, method, frame.get("params", {}))
            else:
                self._on_notification(method, frame.get("params", {}))
        except RpcError as error:
            self._counters["sidecar_invalid_frames"] += 1
            self.outlet.write_answer(refusal(key, error))

    def _on_other(self, frame: Json) -> None:
        if "result" not in frame and "error" not in frame:
            raise RpcError(INVALID_REQUEST, "A frame has no method.", "SIDECAR_PROTOCOL")
        # Nothing was asked, so this answers nothing.
        self._counters["sidecar_unexpected_answers"] += 1

    def _on_notification(self, method: str, params: object) -> None:
        handler = self._notifications.get(method)
        if handler is None:
            self._counters["sidecar_unknown_notifications"] += 1
            return
        try:
            handler(check_params(method, params))
        except RpcError as error:
            # Nobody waits for an answer; the log is where a host's author finds the reason.
            self._counters["sidecar_invalid_notifications"] += 1
            _log.warning("%s is not valid: %s", method, error.message)

    def _on_request(self, key: Key | None, method: str, params: object) -> None:
        if key is None:
            raise RpcError(INVALID_REQUEST, "The id of a request is a string or an integer.", "SIDECAR_PROTOCOL")
        if key in self._open or key in self._closing:
            raise RpcError(INVALID_REQUEST, "A request with this id is open.", "SIDECAR_PROTOCOL")
        if method == "shutdown":
            self._closing.append(key)
            self.end()
            return
        try:
            work = self._begin(method, params)
        except Exception as error:  # noqa: BLE001 - whatever failed, the host is answered
            self._refuse(key, error)
            return
        if isinstance(work, dict):
            self.outlet.write_answer(answer(key, work))
            return
        task = asyncio.ensure_future(work)
        self._open[key] = task
        if method == "stream/start":
            # Checked parameters hold it.
            self._names[key] = params["stream"]  # type: ignore[index]
        task.add_done_callback(partial(self._on_done, key))

    def _begin(self, method: str, params: object) -> Json | Awaitable[Json]:
        handler = self._requests.get(method)
        if handler is None:
            raise RpcError(METHOD_NOT_FOUND, "There is no such method.", "SIDECAR_PROTOCOL")
        if self._ended.is_set():
            raise LlmError("ACP_DISPOSED")
        if self._backend is None and method != "initialize":
            raise RpcError(INVALID_REQUEST, _NOT_YET, "SIDECAR_PROTOCOL", protocol=PROTOCOL)
        if len(self._open) >= SIDECAR_REQUESTS:
            raise RpcError(FAILED, f"More than {SIDECAR_REQUESTS} requests are open.", "SIDECAR_BUSY")
        if method == "initialize":
            _check_protocol(params)
        return handler(check_params(method, params))

    # ---- answers ------------------------------------------------------------------------------------------------

    def _on_done(self, key: Key, task: "asyncio.Future[Json]") -> None:
        del self._open[key]
        self._names.pop(key, None)
        if task.cancelled():
            self._refuse(key, LlmError("ABORTED"))
        elif error := task.exception():
            self._refuse(key, error)
        else:
            self.outlet.write_answer(answer(key, task.result()))

    def _refuse(self, key: Key, error: BaseException) -> None:
        if isinstance(error, LlmError):
            error = RpcError.of(error)
        elif not isinstance(error, RpcError):
            if not isinstance(error, ConnectionError):
                _log.error("a request failed inside the sidecar: %s", type(error).__name__)
            error = RpcError.of(LlmError("UNKNOWN"))
        if error.number in (INVALID_REQUEST, INVALID_PARAMS, METHOD_NOT_FOUND):
            self._counters["sidecar_invalid_frames"] += 1
        self.outlet.write_answer(refusal(key, error))

    def notify(self, notice: Notice) -> None:
        """Send a notice of the adapter."""
        params: Json = {"code": notice.code, "level": notice.level, "message": notice.message}
        if notice.progress is not None:
            params |= {"progress": min(1.0, max(0.0, notice.progress))}
        if notice.link is not None:
            params |= {"link": notice.link}
        self.outlet.write_notice(notification("notice", params))

    def log(self, level: str, message: str) -> None:
        """Send a line of the log, once the host has introduced itself."""
        if self._backend is not None:
            self.outlet.write_notice(notification("log", {"level": level, "message": message}))

    # ---- requests -----------------------------------------------------------------------------------------------

    def _initialize(self, params: Json) -> Json:
        if self._backend is not None:
            raise RpcError(INVALID_REQUEST, "`initialize` comes once.", "SIDECAR_PROTOCOL")
        settings = Settings.from_mapping(params["settings"])
        self._control = Control(settings, params["client"]["name"], params.get("settingsFiles") or ())
        self._attended = params["attended"]
        self._backend = Backend(settings, self.notify, self._load)
        known = manifest()
        return {
            "protocol": PROTOCOL,
            "server": {"name": known.id, "version": known.version},
            "provider": known.provider,
            "defaultModel": known.default_model,
            "displayName": known.name,
        }

    def _update(self, params: Json) -> Json:
        backend, control = self._mounted()
        before, settings = backend.settings, Settings.from_mapping(params["settings"])
        control.update(settings)
        try:
            backend.update(settings)
        except LlmError:
            control.update(before)
            raise
        return {}

    async def _list(self, _params: Json) -> Json:
        adapter = await self._adapter()
        return {"models": msgspec.to_builtins(await adapter.list_models(manifest().provider))}

    async def _resolve(self, params: Json) -> Json:
        adapter = await self._adapter()
        found: Json = msgspec.to_builtins(await adapter.resolve_model(manifest().provider, params["model"]))
        return found

    def _decide(self, params: Json) -> Json | Awaitable[Json]:
        _, control = self._mounted()
        return control.decide(params["call"], attended=params.get("attended", self._attended))

    async def _report(self, params: Json) -> Json:
        _, control = self._mounted()
        await control.report(params["call"], params["outcome"])
        return {}

    async def _diagnostics(self, _params: Json) -> Json:
        adapter = await self._adapter()
        _, control = self._mounted()
        return {
            **adapter.diagnostics(),
            **self._streams.numbers,
            **control.counters,
            **{name: self._counters[name] for name in _COUNTERS},
            "sidecar_open_requests": len(self._open),
            "sidecar_dropped_notices": self.outlet.dropped_notices,
        }

    def _cancel(self, key: Key) -> None:
        # A stream ends by its signal, so that its agent is told and its blocks are closed.
        if (stream := self._names.get(key)) is not None:
            self._streams.cancel(stream)
        elif task := self._open.get(key):
            task.cancel()

    def _ready(self) -> Serves | None:
        return self._backend.ready if self._backend else None

    async def _adapter(self) -> Any:
        backend, _ = self._mounted()
        return await backend.adapter()

    def _mounted(self) -> tuple[Backend, Control]:
        assert self._backend is not None  # noqa: S101 - dispatch lets nothing through before `initialize`
        assert self._control is not None  # noqa: S101 - they come together
        return self._backend, self._control


def _key(frame: Json) -> Key | None:
    key = frame.get("id")
    # A bool is an int in Python, and a long number would be another one in JavaScript.
    if isinstance(key, str) and len(key) <= 128:
        return key
    return key if type(key) is int and abs(key) < 2**53 else None


def _check_protocol(params: object) -> None:
    # Before anything else of the parameters: another version may have others.
    wanted = params.get("protocol") if isinstance(params, dict) else None
    if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted != PROTOCOL:
        raise RpcError(
            FAILED,
            f"The host speaks another version of this protocol than {PROTOCOL}. Install one release on both sides.",
            "SIDECAR_PROTOCOL",
            protocol=PROTOCOL,
        )


async def serve(stdin: Any, stdout: Any, load: MakeAdapter = load_adapter) -> int:
    """Serve the host at the other end of two pipes or sockets until it is done.

    :param stdin: file object to read from, :param stdout: one to write to; both are closed at the end.
    :returns: the exit code.
    :raises NoHostError: when one of them is neither pipe nor socket nor terminal.
    """
    if not (_talks(stdin) and _talks(stdout)):
        raise NoHostError
    loop = asyncio.get_running_loop()
    sidecar = Sidecar(load)
    handler = _LogFrames(loop, sidecar.log)
    # A person's Ctrl-C goes to the whole group; what it means is the host's to say.
    for number, action in ((signal.SIGTERM, sidecar.end), (signal.SIGHUP, sidecar.end), (signal.SIGINT, lambda: None)):
        loop.add_signal_handler(number, action)
    await loop.connect_write_pipe(lambda: sidecar.outlet, stdout)
    await loop.connect_read_pipe(lambda: sidecar.inlet, stdin)
    logging.getLogger("antigravity_acp").addHandler(handler)
    try:
        return await sidecar.run()
    finally:
        logging.getLogger("antigravity_acp").removeHandler(handler)


def _talks(file: Any) -> bool:
    # The loop takes other devices, too, and then waits for ever.
    mode = os.fstat(file.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(file.fileno())


class _LogFrames(logging.Handler):
    """Our own log as ``log`` frames, from whatever thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[str, str], None]) -> None:
        super().__init__(logging.WARNING)
        self._loop = loop
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        try:
            self._loop.call_soon_threadsafe(self._send, level, record.getMessage())
        except RuntimeError:
            self.handleError(record)  # the loop is closed; stderr has the line
