"""The bridge's HTTP application (ASGI): one POST in, one answer out.

Owns: reading a bounded body, the form of an answer (plain JSON when it is quick; after a second an event stream, or
JSON with white space before it, so that headers and signs of life reach the client however long the host takes), and
noticing that a client has hung up.
A request ends with its answer, with its client, or with its endpoint.
Never: answers anything that the guard did not let in, keeps a session, or logs what passes.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from antigravity_acp.limits import BODY_TIMEOUT_S, KEEP_ALIVE_S, MAX_BODY_BYTES, STREAM_AFTER_S

from ._core import Core, Reply, error_reply, result_reply
from ._envelope import MalformedError, Message, ToolCall, read_cancelled, read_message, read_params, read_tool_call
from ._guard import TOO_LARGE, Admitted, Guard, Refusal, Scope
from ._listener import ADMITTED
from ._requests import Reading, RequestKey
from ._waiting import WAIT_TOOL, read_ticket, wait_tool
from .calls import Desk
from .catalogue import Catalogue
from .results import CallResult, error_result

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

#: Bytes of a refused body that are read and dropped, so that its sender gets to read the answer.
_DRAIN_BYTES: Final = 8 * MAX_BODY_BYTES
_DRAIN_S: Final = 1.0

_JSON: Final = (b"content-type", b"application/json")
_STREAM: Final = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform"))


class Served(Protocol):
    """What the application needs of an endpoint."""

    catalogue: Catalogue
    desk: Desk
    contacted: bool

    def definitions(self) -> list[dict[str, Any]]: ...


class _HungUpError(Exception):
    """The client closed its connection."""


class App:
    """The ASGI application of one listener."""

    def __init__(self, guard: Guard[Any], core: Core, counters: Counter[str]) -> None:
        self._guard = guard
        self._core = core
        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        admitted = self._guard.judge(scope)
        if isinstance(admitted, Refusal):
            await self._refuse(admitted, receive, send)
            return
        scope["state"][ADMITTED]()
        endpoint: Served = admitted.endpoint
        with contextlib.suppress(_HungUpError), endpoint.desk.arrival() as arrived:
            body = await _read(receive)
            if isinstance(body, Refusal):
                await self._refuse(body, receive, send)
                return
            exchange = _Exchange(endpoint, admitted, arrived, _Answer(admitted, receive, send))
            await exchange.run(self._core, body)

    async def _refuse(self, refusal: Refusal, receive: Receive, send: Send) -> None:
        self._counters["refused_requests"] += 1
        text = (refusal.text + "\n").encode()
        head = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(text)), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": refusal.status, "headers": [*head, *refusal.headers]})
        await send({"type": "http.response.body", "body": text, "more_body": True})
        # Closing with unread bytes resets the connection, and the answer is lost with it.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                drained, more = 0, True
                while more and drained < _DRAIN_BYTES:
                    event = await receive()
                    more = event["type"] == "http.request" and event.get("more_body", False)
                    drained += len(event.get("body", b""))
        await send({"type": "http.response.body", "body": b""})


class _Exchange:
    """One admitted request: what the core needs to know of it (:class:`~._core.Subject`)."""

    def __init__(
        self,
        endpoint: Served,
        admitted: Admitted[Any],
        arrived: Callable[[], None],
        answer: "_Answer",
    ) -> None:
        self._endpoint = endpoint
        self._headers = admitted.headers
        self._arrived = arrived
        self._answer = answer
        self._call = ToolCall("", "{}", None)
        self._id_key = ""
        self._reading: Reading | None = None

    async def run(self, core: Core, body: bytes) -> None:
        try:
            message = read_message(body)
            if message.method is None or message.request_id is None:
                self._notice(message)
                await self._answer.accepted()
            elif message.method == "tools/call":
                self._call, self._id_key = read_tool_call(message.params), message.id_key
                params = {"name": self._call.name, "arguments": {}}
                if self._call.meta is not None:
                    params["_meta"] = self._call.meta
                work = core.answer(self, message.request_id, message.method, params, self._headers)
                await self._when_ready(work)
            else:
                params = read_params(message.params)
                reply = await core.answer(self, message.request_id, message.method, params, self._headers)
                await self._answer.reply(reply)
        except MalformedError as problem:
            await self._answer.reply(_malformed(problem))

    def _notice(self, message: Message) -> None:
        if message.method == "notifications/cancelled" and (key := read_cancelled(message.params)) is not None:
            self._endpoint.desk.cancel(key)

    async def _when_ready(self, work: Awaitable[Reply]) -> None:
        delivered = False
        try:
            delivered = await self._answer.when_ready(work)
        finally:
            if self._reading is not None:
                self._endpoint.desk.done(self._reading, delivered=delivered)

    # What the core asks for.

    def list_tools(self) -> list[dict[str, Any]]:
        self._endpoint.contacted = True
        return self._endpoint.definitions()

    async def call_tool(self) -> CallResult | None:
        call, desk = self._call, self._endpoint.desk
        waits = call.name == WAIT_TOOL and desk.patience_s is not None
        tool = wait_tool() if waits else self._endpoint.catalogue.find(call.name)
        if tool is None:
            return error_result("There is no tool of this name. Use one of the listed tools.")
        judged = tool.judge(call.arguments)
        if judged.text is None:
            return error_result(_mend(judged.problems))
        key = RequestKey(self._id_key, call.name, call.arguments)
        if waits:
            self._reading = await desk.wait(key, read_ticket(judged.text), self._arrived)
        else:
            self._reading = await desk.call(key, tool.name, judged.text, self._arrived)
        return self._reading.result


class _Answer:
    """The way back to one client."""

    def __init__(self, admitted: Admitted[Any], receive: Receive, send: Send) -> None:
        self._takes_json = admitted.takes_json
        self._takes_stream = admitted.takes_stream
        self._receive = receive
        self._send = send

    async def accepted(self) -> None:
        """202 for a message that has no answer."""
        await self._start(202, ((b"content-length", b"0"),))
        await self._body(b"", last=True)

    async def reply(self, reply: Reply) -> None:
        """An answer that is ready."""
        if not self._takes_json:
            await self._start(200, _STREAM)
            await self._body(_event(reply.body), last=True)
            return
        await self._start(reply.status, (_JSON, (b"content-length", b"%d" % len(reply.body))))
        await self._body(reply.body, last=True)

    async def when_ready(self, work: Awaitable[Reply]) -> bool:
        """An answer that may take as long as the host does.

        :returns: whether it was written while the client was still there.
        """
        ready = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(self._hung_up())
        try:
            await asyncio.wait((ready, gone), timeout=STREAM_AFTER_S, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                return False
            if ready.done():
                await self.reply(ready.result())
                return True
            return await self._stream(ready, gone)
        finally:
            await _end(ready, gone)

    async def _stream(self, ready: "asyncio.Future[Reply]", gone: "asyncio.Future[None]") -> bool:
        """Headers now, a sign of life every few seconds, the answer when it comes."""
        await self._start(200, _STREAM if self._takes_stream else (_JSON,))
        while not ready.done():
            await self._body(b": waiting\n\n" if self._takes_stream else b" ")
            await asyncio.wait((ready, gone), timeout=KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                return False
        body = ready.result().body
        await self._body(_event(body) if self._takes_stream else body, last=True)
        return True

    async def _hung_up(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _start(self, status: int, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def _body(self, body: bytes, *, last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": not last})


async def _end(*futures: "asyncio.Future[Any]") -> None:
    for future in futures:
        future.cancel()
    # Their ends are waited for, so that no task of a request outlives it; neither of them can be held up.
    await asyncio.gather(*futures, return_exceptions=True)


async def _read(receive: Receive) -> bytes | Refusal:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            more = True
            while more:
                event = await receive()
                if event["type"] == "http.disconnect":
                    raise _HungUpError
                body += event.get("body", b"")
                if len(body) > MAX_BODY_BYTES:
                    return Refusal(413, TOO_LARGE)
                more = event.get("more_body", False)
    except TimeoutError:
        return Refusal(408, "The body did not arrive in time.")
    return bytes(body)


def _event(body: bytes) -> bytes:
    return b"event: message\ndata: %b\n\n" % body


def _mend(problems: tuple[str, ...]) -> str:
    return "The arguments do not fit the tool's parameters. Mend them and call again.\n" + "\n".join(problems)


def _malformed(problem: MalformedError) -> Reply:
    if problem.tool_call:
        return result_reply(problem.request_id, error_result(_mend(("the arguments cannot be read as JSON",))))
    return error_reply(problem.request_id, problem.code, problem.text)
