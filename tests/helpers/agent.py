"""One agent on the loopback program, for tests of the room ``acp``."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from antigravity_acp.acp import (
    AgentClient,
    AgentEvent,
    AgentSession,
    AgentText,
    AgentThought,
    Cancelled,
    PermissionAnswer,
    PermissionRequest,
    PromptOutcome,
)

from .loopback import loopback_settings, prompt_of

#: Every wait of a test has a bound, in seconds.
BOUND = 20.0


@asynccontextmanager
async def agent(options: dict[str, Any] | None = None, **settings: Any) -> AsyncIterator[AgentClient]:
    """A started client; ended within the bound."""
    async with asyncio.timeout(BOUND):
        client = await AgentClient.start(loopback_settings(options, **settings))
    try:
        yield client
    finally:
        async with asyncio.timeout(BOUND):
            await client.aclose()


class Play:
    """What one prompt gave."""

    def __init__(self) -> None:
        self.events: list[AgentEvent] = []
        self.asked: list[PermissionRequest] = []
        self.outcome = PromptOutcome("", None)

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, AgentText))

    @property
    def thoughts(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, AgentThought))


async def play(
    session: AgentSession,
    *steps: dict[str, Any],
    answer: Callable[[PermissionRequest], PermissionAnswer] = lambda _: Cancelled(),
    on_event: Callable[[AgentEvent], Awaitable[None]] | None = None,
) -> Play:
    """Send the steps as a prompt and wait for its end, within the bound."""
    seen = Play()

    async def take(event: AgentEvent) -> None:
        seen.events.append(event)
        if on_event:
            await on_event(event)

    def asked(request: PermissionRequest) -> PermissionAnswer:
        seen.asked.append(request)
        return answer(request)

    async with asyncio.timeout(BOUND):
        seen.outcome = await session.prompt(prompt_of(*steps), on_event=take, on_permission=asked)
    return seen
