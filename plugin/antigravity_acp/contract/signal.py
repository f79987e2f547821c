"""Cancellation that outlives one stream call.

Owns: :class:`AbortSignal` (what a request carries) and :class:`AbortController` (what the caller keeps).
A turn's signal may fire while no stream call is running, for example while the host runs a tool.
Never: crosses threads; abort on the event loop's own thread.
"""

import asyncio
from collections.abc import Callable


class AbortSignal:
    """A flag that is set once, with a reason, and calls its listeners when it is."""

    def __init__(self) -> None:
        self._aborted = False
        self._reason: object = None
        self._listeners: dict[int, Callable[[], None]] = {}
        self._next = 0

    @property
    def aborted(self) -> bool:
        """Whether the signal has fired."""
        return self._aborted

    @property
    def reason(self) -> object:
        """What the controller gave as reason; any object, ``None`` by default."""
        return self._reason

    def add_listener(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` once when the signal fires, at once if it already has.

        :returns: a function that takes the listener back; calling it twice is harmless.
        """
        if self._aborted:
            listener()
            return lambda: None
        key = self._next
        self._next += 1
        self._listeners[key] = listener

        def remove() -> None:
            self._listeners.pop(key, None)

        return remove

    async def wait(self) -> None:
        """Return when the signal fires."""
        fired = asyncio.Event()
        remove = self.add_listener(fired.set)
        try:
            await fired.wait()
        finally:
            remove()


class AbortController:
    """The owner's side of a signal."""

    def __init__(self) -> None:
        self.signal = AbortSignal()

    def abort(self, reason: object = None) -> None:
        """Fire the signal; the second and later calls do nothing."""
        signal = self.signal
        if signal._aborted:
            return
        signal._aborted = True
        signal._reason = reason
        listeners = list(signal._listeners.values())
        signal._listeners.clear()
        for listener in listeners:
            listener()
