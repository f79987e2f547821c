"""How long one stream call waits for its agent.

Owns: the three limits of a stretch of model work: all of it (``timeoutMs``), the first sign of an agent that was lent
tools (``contactTimeoutMs``) and the silence after it has begun to answer (``silenceTimeoutMs``). Agents are on record
that connect and never ask for their tools, and that send the whole text and never end the turn. The clock stands while
the host runs tools, since each stream call has its own.
"""

from ..contract import LlmError
from ..settings import Settings

_WHOLE = "The agent did not finish this stretch of work within {} ms. Raise `timeoutMs`, or ask for less at once."
_CONTACT = (
    "The agent was lent tools and neither asked for them nor said anything within {} ms. Check that it can reach "
    "127.0.0.1 (proxy settings), or raise `contactTimeoutMs`."
)
_SILENCE = (
    "The agent has been silent for {} ms in the middle of its answer. Repeat the request, or raise `silenceTimeoutMs`."
)


class Patience:
    """The limits of one stream call. Times are those of the event loop, in seconds.

    :param first: whether this stream call began the prompt, so that a first sign is still to come.
    """

    def __init__(self, settings: Settings, now: float, *, first: bool) -> None:
        self._settings = settings
        self._whole = now + settings.timeout_ms / 1000
        self._contact = now + settings.contact_timeout_ms / 1000 if first else None
        self._sign = now

    def heard(self, now: float) -> None:
        """The agent gave a sign of life."""
        self._sign = now
        self._contact = None

    def contacted(self) -> None:
        """The agent asked for its tools: a first sign, and none of its answer."""
        self._contact = None

    def until(self, *, answering: bool) -> float:
        """When to look again, if nothing happens."""
        times = [self._whole]
        if self._contact is not None:
            times.append(self._contact)
        if answering:
            times.append(self._sign + self._settings.silence_timeout_ms / 1000)
        return min(times)

    def overdue(self, now: float, *, answering: bool) -> LlmError | None:
        """The limit that has passed, as the error that ends the turn."""
        if now >= self._whole:
            return LlmError("ACP_TIMEOUT", _WHOLE.format(self._settings.timeout_ms))
        if self._contact is not None and now >= self._contact:
            return LlmError("ACP_MCP_UNSUPPORTED", _CONTACT.format(self._settings.contact_timeout_ms))
        if answering and now >= self._sign + self._settings.silence_timeout_ms / 1000:
            return LlmError("ACP_TIMEOUT", _SILENCE.format(self._settings.silence_timeout_ms))
        return None
