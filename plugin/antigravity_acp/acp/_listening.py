"""Listening for the link of a sign-in while an agent may print one.

Owns: a finder and one timer. Ends with :meth:`LinkListener.close`.
Never: keeps what it hears, but for the links.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from ._link import LinkFinder, SignInLink

#: Seconds without news on stderr after which a line that has not ended is taken as the agent's last word.
_QUIET_S: Final = 0.5


class LinkListener:
    """Hears stderr in pieces of any size and tells each new link once.

    :param found: called in the event loop; must not raise.
    """

    def __init__(self, found: Callable[[SignInLink], None]) -> None:
        self._found = found
        self._finder = LinkFinder()
        self._quiet: asyncio.TimerHandle | None = None

    def hear(self, data: bytes) -> None:
        """A piece of stderr."""
        self._tell(self._finder.feed(data))
        self.close()
        self._quiet = asyncio.get_running_loop().call_later(_QUIET_S, lambda: self._tell(self._finder.rest()))

    def close(self) -> None:
        """Stop waiting for the rest of a line."""
        if self._quiet is not None:
            self._quiet.cancel()
            self._quiet = None

    def _tell(self, links: list[SignInLink]) -> None:
        for link in links:
            self._found(link)
