"""Work that must reach its end although the task that waits for it is cancelled.

Owns: :func:`to_the_end`. What it is given must be bounded by itself; this module only keeps a cancelled caller from
leaving it half done, and passes the cancellation on afterwards.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T], name: str) -> T:
    """Run a bounded coroutine to its end, then raise the cancellation that came meanwhile, if one did."""
    return await wait_through(asyncio.create_task(work, name=name))


async def wait_through(work: "asyncio.Future[T]") -> T:
    """Wait for a future whatever happens to the caller; a cancellation is raised when the future is done."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        # The outcome of the work is looked at, so that a failure is not reported as never retrieved.
        if not work.cancelled():
            work.exception()
        raise cancelled
    return work.result()
