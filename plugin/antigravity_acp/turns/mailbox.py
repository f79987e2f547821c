"""What happened in an exchange, in order, until a stream call reads it.

Owns: one bounded queue between the agent's side (updates, parked calls, the prompt's end, a death) and the one stream
call that reads. Nothing that came while no stream call was running is lost; when too much waits, the writer of updates
waits too, and with it the reading of the agent's stdout. ``seal`` and ``cut`` end that: a waiting writer goes on and
what it brings is dropped.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from ..acp import AgentText, AgentThought, PromptOutcome
from ..bridge import ParkedCall
from ..contract import LlmError
from ..limits import MAX_QUEUED_CHARACTERS


class Calls(msgspec.Struct, frozen=True):
    """Tool calls that came together."""

    calls: Sequence[ParkedCall]


class Failed(msgspec.Struct, frozen=True):
    """The exchange cannot go on."""

    error: LlmError


Item: TypeAlias = AgentText | AgentThought | Calls | PromptOutcome | Failed


class Mailbox:
    """A queue with one reader and, for updates, one writer that can be made to wait."""

    def __init__(self, limit: int, characters: int = MAX_QUEUED_CHARACTERS) -> None:
        self._items: deque[Item] = deque()
        self._limit = limit
        self._most = characters
        self._unread = 0
        self._sealed = False
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def full(self) -> bool:
        """Whether an update must wait: too many are unread, or too long ones."""
        return len(self._items) >= self._limit or self._unread >= self._most

    @property
    def filled(self) -> bool:
        """Whether there is something to take."""
        return bool(self._items)

    def put(self, item: Item) -> None:
        """Add an item without waiting."""
        if not self._sealed:
            self._items.append(item)
            if isinstance(item, AgentText | AgentThought):
                self._unread += len(item.text)
            self._filled.set()

    async def room(self) -> None:
        """Return when an update may be put; at once after the end."""
        while self.full and not self._sealed:
            self._room.clear()
            await self._room.wait()

    def take(self) -> Item | None:
        """The oldest item, or ``None``."""
        if not self._items:
            return None
        item = self._items.popleft()
        if isinstance(item, AgentText | AgentThought):
            self._unread -= len(item.text)
        # Half empty, not one place: otherwise writer and reader would take turns for every single update.
        if not self._room.is_set() and len(self._items) <= self._limit // 2 and self._unread <= self._most // 2:
            self._room.set()
        return item

    async def wait(self) -> None:
        """Return when there is something to take."""
        while not self._items:
            self._filled.clear()
            await self._filled.wait()

    def seal(self) -> None:
        """Take no more; what is unread stays."""
        self._sealed = True
        self._room.set()

    def cut(self, last: Item) -> None:
        """Take no more, and leave ``last`` as the only thing to read."""
        self._items.clear()
        self._unread = 0
        self._items.append(last)
        self._filled.set()
        self.seal()
