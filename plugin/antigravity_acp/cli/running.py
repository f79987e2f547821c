"""From a coroutine to an exit code: the event loop, Ctrl-C and SIGTERM.

Owns: the loop of one command and its signal handlers. The first Ctrl-C goes to whoever is at work (a turn that can be
aborted), the next one ends the command; SIGTERM and SIGHUP end it at once. Ending is a cancellation of the command's
task: what it holds is released on the way out, within the bounds of those parts.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from .failures import INTERRUPTED, TERMINATED, explain


class Interrupts:
    """What Ctrl-C does now."""

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self._task = task
        self._first: Callable[[], None] | None = None
        #: The exit code when a signal ended the command.
        self.status = INTERRUPTED

    @contextmanager
    def first(self, action: Callable[[], None]) -> Iterator[None]:
        """Within the block the first Ctrl-C calls ``action``; the second ends the command."""
        self._first = action
        try:
            yield
        finally:
            self._first = None

    def interrupt(self) -> None:
        """Ctrl-C was pressed."""
        action, self._first = self._first, None
        if action is not None:
            action()
        else:
            self._task.cancel()

    def terminate(self) -> None:
        """The process is to end."""
        self.status = TERMINATED
        self._task.cancel()


def run_async(work: Callable[[Interrupts], Coroutine[Any, Any, int]], *, as_json: bool) -> int:
    """Run a command's coroutine to its end.

    :param as_json: a failure is shown as an event, too.
    :returns: its exit code, or that of the signal that ended it.
    :raises CliError: whatever failed, in words that a person may see.
    """
    started: list[Interrupts] = []

    async def guarded() -> int:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs has a task
        interrupts = Interrupts(task)
        started.append(interrupts)
        loop = asyncio.get_running_loop()
        # Windows has neither loop signal handlers nor SIGHUP; there Ctrl-C cancels the task at once.
        with suppress(NotImplementedError, AttributeError):
            loop.add_signal_handler(signal.SIGINT, interrupts.interrupt)
            loop.add_signal_handler(signal.SIGTERM, interrupts.terminate)
            loop.add_signal_handler(signal.SIGHUP, interrupts.terminate)
        return await work(interrupts)

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        return started[0].status
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - every failure becomes a line; none a traceback
        failure = explain(error)
        if as_json:
            from .output import JsonLines

            JsonLines().show({"event": "error", "code": failure.code, "message": failure.message})
        raise failure from None
