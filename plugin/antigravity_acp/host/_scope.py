"""What a registry needs of the context that it is used through: that its registrations can end with it.

The registries know this much and no more; the context knows the registries.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

#: Undoes something; a plain or a coroutine function.
Disposer = Callable[[], object]


class Scope(Protocol):
    """A life that things can be tied to."""

    def effect(self, disposer: Disposer, label: str = "") -> Callable[[], Awaitable[None]]:
        """Have ``disposer`` called when the scope ends; the returned function calls it now instead."""
