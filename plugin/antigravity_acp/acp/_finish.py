"""Tear-down that is not interrupted.

Owns: :func:`finish`. It protects against both ways of being cancelled: a task's ``cancel()`` and a cancelled anyio
scope, which cancels every later ``await`` again. What it runs must be bounded itself.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


async def finish(work: Coroutine[Any, Any, T] | asyncio.Task[T]) -> T:
    """Run ``work`` to its end, whatever happens to the caller, then let the caller's cancellation through.

    :param work: a coroutine, or a task that several callers may wait for.
    :raises asyncio.CancelledError: after the end of the work, when the caller was cancelled meanwhile.
    """
    task = work if isinstance(work, asyncio.Task) else asyncio.get_running_loop().create_task(work)
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # mark it as seen: the cancellation is what the caller hears of
        raise cancelled
    return task.result()


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Wait for ``event`` at most ``seconds``, also while the loop itself is being torn down.

    ``asyncio.run`` cancels every task at its end; an ending process must still be waited for, so a cancellation does
    not cut the wait short. Only for tear-down.

    :returns: whether the event is set.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not event.is_set():
        try:
            async with asyncio.timeout_at(deadline):
                await event.wait()
        except TimeoutError:
            break
        except asyncio.CancelledError:
            if loop.time() >= deadline:
                break
    return event.is_set()
