"""A tool call, and the requests on which its answer can leave.

Owns: :class:`ParkedCall`, one call as the host sees it, and :class:`Request`, one JSON-RPC request that a client holds
open, with the timer that answers it before the agent gives up. A call has one request at a time: the ``tools/call``
that made it, later those that come with its ticket. The same request sent again waits with it, as one more reader.
Never: decides what becomes of either; that is :class:`~antigravity_acp.bridge.calls.Desk`.
"""

import asyncio
import secrets
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from antigravity_acp.contract import ContentBlock

from .results import CallResult, tool_result


class RequestKey(NamedTuple):
    """What makes two requests the same: JSON-RPC id (as canonical JSON), exported tool and argument text."""

    request_id: str
    tool: str
    arguments: str


class Kind(Enum):
    """What an answer is to its call."""

    #: The host's result, or what stands for it: nothing comes after it.
    RESULT = "result"
    #: The ticket by which the result is to be fetched.
    TICKET = "ticket"
    #: Words of ours to the model.
    NOTE = "note"


class Answer(NamedTuple):
    """What a request is answered with."""

    result: CallResult
    kind: Kind


class Request:
    """One request that a client holds open. ``answer`` becomes ``None`` when the client cancelled it.

    ``readers`` counts the connections that wait for it or write its answer; ``delivered`` says that one has written it.
    """

    __slots__ = ("answer", "call", "delivered", "key", "readers", "timer")

    def __init__(self, call: "ParkedCall", key: RequestKey) -> None:
        self.call = call
        self.key = key
        self.answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self.readers = 0
        self.delivered = False
        self.timer: asyncio.TimerHandle | None = None

    @property
    def open(self) -> bool:
        """Whether nothing has answered it yet."""
        return not self.answer.done()

    @property
    def kind(self) -> Kind | None:
        """What it was answered with; ``None`` while it is open and after a cancellation."""
        answer = None if self.open else self.answer.result()
        return None if answer is None else answer.kind

    def settle(self, answer: Answer | None) -> None:
        """Answer it; only while it is open."""
        self.stop_timer()
        self.answer.set_result(answer)

    def stop_timer(self) -> None:
        """The agent's limit no longer counts for it."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class Reading(NamedTuple):
    """One connection's view of a request (``None`` when nothing was parked) and its answer.

    ``answer`` is ``None`` when the client cancelled the request.
    """

    request: Request | None
    answer: Answer | None

    @classmethod
    def note(cls, result: CallResult) -> "Reading":
        """An answer for which nothing was parked."""
        return cls(None, Answer(result, Kind.NOTE))

    @property
    def result(self) -> CallResult | None:
        """What goes out."""
        return None if self.answer is None else self.answer.result


class Settles(Protocol):
    """What a parked call needs of its desk."""

    def settle(self, call: "ParkedCall", result: CallResult) -> bool:
        """Answer the call; whether somebody can still take the result."""


class ParkedCall:
    """One tool call that waits for the host.

    :ivar id: fresh correlation id, ``call_`` and hex digits.
    :ivar name: the host's own name of the tool.
    :ivar arguments: the argument object as the agent wrote it, JSON text.
    """

    __slots__ = (
        "_delivered",
        "_desk",
        "_given_up",
        "_handed_out",
        "_key",
        "_request",
        "_result",
        "_settled",
        "_ticket",
        "arguments",
        "id",
        "name",
    )

    def __init__(self, desk: "Settles", key: RequestKey, name: str, arguments: str) -> None:
        self.id = "call_" + secrets.token_hex(12)
        self.name = name
        self.arguments = arguments
        self._desk = desk
        self._key = key
        #: The request on which the answer can leave now, or is leaving.
        self._request: Request | None = None
        #: The ticket that is out for it.
        self._ticket: str | None = None
        #: The host's result, while a ticket is out and has not brought it.
        self._result: CallResult | None = None
        self._settled = False
        self._handed_out = False
        self._given_up = False
        self._delivered = False

    @property
    def undelivered(self) -> bool:
        """Whether nobody is left to take the result: the client hung up or cancelled, and holds no ticket.

        A repeated request changes that.
        """
        served = self._ticket is not None or (self._request is not None and self._request.readers > 0)
        return self._given_up or not (served or self._delivered)

    def resolve(self, content: Sequence[ContentBlock], *, is_error: bool) -> bool:
        """Answer the call.

        :param content: the host's result; text is added where it has none.
        :param is_error: whether it is an error or a denial.
        :returns: whether somebody can take it: a client that waits, or one that holds a ticket. ``False`` is a recorded
            outcome and no failure: the client had gone, the endpoint was closed, or the call was answered before.
        """
        return self._desk.settle(self, tool_result(content, is_error=is_error))

    @property
    def _held_open(self) -> RequestKey | None:
        """The request that the agent holds open for it, as far as we know."""
        if self._request is not None:
            return self._request.key if self._request.open else None
        return None if self._ticket is not None or self._given_up else self._key
