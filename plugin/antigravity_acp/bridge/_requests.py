"""Requests that a client holds open, and what answers them.

Owns: :class:`Request`, one JSON-RPC request on which an answer can leave, with the timer that ends it before the agent
does. The same request sent again waits with it: one request may have several readers.
Never: decides what an answer is; see :mod:`.calls`.
"""

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from .results import CallResult

if TYPE_CHECKING:
    from .calls import ParkedCall


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
