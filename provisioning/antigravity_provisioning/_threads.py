"""Blocking work of this wing in a thread, which is never left behind.

Owns: how a cancellation meets a thread. A thread cannot be ended from outside, and what it uses (files, the lock, a
staging folder) must not be closed or removed under its hands; so the work is told, and awaited, before the cancellation
goes on. The wait is as long as the work's next step: work that is long asks whether to stop, other work is short.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def off_loop(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run one short call in a thread; a cancellation waits until it is done."""
    return await stoppable(lambda _: call(*args, **kwargs))


async def stoppable(work: Callable[[Callable[[], bool]], T]) -> T:
    """Run work in a thread that can be asked to stop; a cancellation asks it and waits until it is done.

    :param work: takes the question whether to stop.
    """
    stop = threading.Event()
    # No task of its own: a loop that ends cancels all tasks, and the thread would go on unseen.
    running = asyncio.get_running_loop().run_in_executor(None, work, stop.is_set)
    cancelled: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait({running})
        except asyncio.CancelledError as error:
            cancelled = error
            stop.set()
    if cancelled is not None:
        running.exception()  # somebody has looked at it
        raise cancelled
    return running.result()
