"""ACP's ``authenticate``, and the links of a sign-in that an agent prints while something waits for it.

Owns: which method is asked for, and what its refusals mean.
Never: reads, keeps or copies a credential; starts a sign-in that nobody asked for.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from ..contract import LlmError, Notice, Notify
from ..settings import Settings
from ._link import SignInLink
from ._listening import LinkListener
from .errors import METHOD_NOT_FOUND, AgentError
from .profiles import AgentProfile

if TYPE_CHECKING:
    from .connection import AgentConnection


class _Heard(Protocol):
    def hearing_stderr(self, listener: Callable[[bytes], None]) -> AbstractContextManager[None]: ...


@contextmanager
def telling_links(agent: _Heard, notify: Notify, begun: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Within the block the links of a sign-in that the agent prints are told.

    :param begun: called with each of them, after it was told.
    """

    def found(link: SignInLink) -> None:
        notify(Notice("sign-in.link", "The agent waits for a sign-in. Open its page.", "warning", link=link.url))
        begun()

    listener = LinkListener(found)
    with agent.hearing_stderr(listener.hear):
        try:
            yield
        finally:
            listener.close()


async def authenticate(
    connection: "AgentConnection", settings: Settings, profile: AgentProfile, announced: Collection[str]
) -> None:
    """Sign in with the configured method, else with the one that this agent usually takes.

    :param announced: ids of the methods that the agent has. :raises LlmError: see ``AgentClient.authenticate``.
    """
    from .connection import authenticate_params

    method = settings.auth_method or profile.auth_method
    if not method:
        raise LlmError(
            "ACP_AUTH_REQUIRED",
            "The agent wants a sign-in and no method is chosen. Sign in with the agent itself, or set `authMethod` "
            "to one it announces (`antigravity-acp probe` lists them).",
        )
    if method not in announced:
        chosen = "The configured `authMethod`" if settings.auth_method else "This agent's usual sign-in method"
        raise LlmError(
            "ACP_AUTH_UNSUPPORTED",
            f"{chosen} is not among those that the agent announces. `antigravity-acp probe` lists them.",
        )
    try:
        await connection.request(
            "authenticate",
            authenticate_params(method),
            timeout_ms=settings.auth_timeout_ms,
            setting="authTimeoutMs",
        )
    except AgentError as error:
        if error.number == METHOD_NOT_FOUND:
            raise LlmError("ACP_AUTH_UNSUPPORTED") from None
        if error.code == "ACP_QUOTA":
            raise
        raise LlmError(
            "ACP_AUTH_REQUIRED",
            "The sign-in did not succeed. Sign in with the agent itself, then repeat the request.",
        ) from None
