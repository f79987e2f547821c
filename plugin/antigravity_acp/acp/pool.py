"""The agent processes of one adapter.

Owns: every process from its start to its end; :meth:`AgentPool.aclose` ends those that are left. A process serves one
exchange at a time and is ended afterwards.
Never: starts a process that nobody asked for.
"""

import asyncio

from ..contract import LlmError
from ..settings import Settings
from .client import AgentClient


class AgentPool:
    """Starts, counts and ends agent processes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clients: set[AgentClient] = set()
        self._closed = False
        #: Processes started so far.
        self.starts = 0
        #: Whether the agent announced image input when it was last started; ``None`` before the first start.
        self.images: bool | None = None

    @property
    def live(self) -> int:
        """Processes that are owned now."""
        return len(self._clients)

    async def checkout(self) -> AgentClient:
        """A process for exclusive use, initialised.

        :raises LlmError: any code of a start; ``ACP_DISPOSED`` after :meth:`aclose`.
        """
        if self._closed:
            raise LlmError("ACP_DISPOSED")
        self.starts += 1
        client = await AgentClient.start(self._settings)
        self._clients.add(client)
        self.images = client.images
        return client

    async def give_back(self, client: AgentClient, *, healthy: bool) -> None:
        """Take a process back; returns when it has ended.

        :param healthy: whether its last prompt ended properly, so that it could serve another.
        """
        await client.aclose()
        self._clients.discard(client)

    async def aclose(self) -> None:
        """End what is left."""
        self._closed = True
        await asyncio.gather(*(self.give_back(client, healthy=False) for client in list(self._clients)))
