"""Short blocking work beside the event loop.

Owns: :func:`in_thread`. A thread cannot be ended, so a cancelled caller waits until the work is at its end: a file is
never half written by a call that was already reported as cancelled. Only bounded work may be given to it.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from antigravity_acp.host._ending import wait_through

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Run bounded blocking work in the loop's executor; returns only when it has ended."""
    return await wait_through(asyncio.get_running_loop().run_in_executor(None, work))
