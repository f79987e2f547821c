"""What a fork must not copy: an open SQLite database.

Owns: the hooks around ``os.fork``. A child that inherits a connection inherits SQLite's belief to hold locks that the
system gave to the parent only; its commits may then go into a log that the parent has removed. So every ledger of this
process closes its database before a fork and opens it again, in parent and child, with the next row. A program that is
started (``subprocess``) is no such fork. Never: waits for another process; only for a row that is being written.
"""

import os
import threading
import weakref
from typing import Final, Protocol


class Forkable(Protocol):
    """What is told about a fork."""

    def before_fork(self) -> None:
        """Keep other threads out and let go of what must not be copied."""

    def after_fork(self, *, child: bool) -> None:
        """Let them in again."""


_LIVE: "Final[weakref.WeakSet[Forkable]]" = weakref.WeakSet()
#: One fork at a time: two threads that fork would each wait for what the other one holds.
_GATE: Final = threading.Lock()
_held: list[Forkable] = []


def watch(each: Forkable) -> None:
    """Tell an object about forks for as long as it lives."""
    _LIVE.add(each)


def _before() -> None:
    _GATE.acquire()
    for each in list(_LIVE):
        each.before_fork()
        _held.append(each)


def _after(*, child: bool) -> None:
    while _held:
        _held.pop().after_fork(child=child)
    _GATE.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(child=False),
        after_in_child=lambda: _after(child=True),
    )
