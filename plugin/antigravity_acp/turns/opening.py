"""A fresh session, ready for its prompt: endpoint opened, session opened, model selected.

Owns: the one way to get there, for a turn that begins and for a session that is prepared ahead of time; and the key by
which a prepared session and a request find each other. A prepared session is claimed only by a request with the same
provider, model and catalogue; it has never seen a prompt.
"""

from collections.abc import Hashable
from typing import NamedTuple

from ..acp import AgentClient, McpEndpoint, Preparation, Standby
from ..bridge import Bridge, Catalogue, Endpoint
from ..contract import GenerateOptions
from ..manifest import manifest

#: Key of a session that was opened without an endpoint and without choosing a model, as discovery leaves it.
BARE: Hashable = "bare"

OpenSession = Standby[Endpoint | None]


class Wanted(NamedTuple):
    """What a request needs of its session. ``catalogue`` is ``None`` for a request without tools."""

    provider: str
    model: str
    catalogue: Catalogue | None

    @classmethod
    def by(cls, options: GenerateOptions, catalogue: Catalogue | None) -> "Wanted":
        """What this request needs."""
        return cls(options.provider, options.model, catalogue)

    @property
    def key(self) -> Hashable:
        """Equal for requests that may use the same prepared session."""
        if self.catalogue is None:
            return BARE
        return self.provider, self.model, self.catalogue.digest

    def preparation(self, bridge: Bridge) -> Preparation[Endpoint | None]:
        """How to open such a session ahead of time."""
        return Preparation(self.key, lambda client: open_session(client, bridge, self))


async def open_session(client: AgentClient, bridge: Bridge, wanted: Wanted) -> OpenSession:
    """Open an endpoint and a session on a process, and select the model.

    :raises LlmError: any code of these steps; the endpoint is closed then.
    """
    endpoint = None
    if wanted.catalogue is not None:
        endpoint = await bridge.open(wanted.catalogue, call_limit_s=client.profile.call_limit_s)

    def discard() -> None:
        if endpoint is not None:
            endpoint.close()

    try:
        lent = McpEndpoint(endpoint.server_name, endpoint.url, endpoint.headers) if endpoint else None
        opened = Standby(await client.new_session(lent), endpoint, discard)
        await select_model(opened, wanted.model)
    except BaseException:
        discard()
        raise
    return opened


async def select_model(opened: OpenSession, model: str) -> None:
    """Select the model, unless it is the one that leaves the choice to the agent, or is selected already.

    :raises LlmError: ``ACP_INVALID_MODEL`` and the codes of a request.
    """
    if model not in (manifest().default_model, opened.session.current_model):
        await opened.session.select_model(model)
