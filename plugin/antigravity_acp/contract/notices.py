"""What the adapter tells its host beside the answers: that something takes long, or that a person has to do something.

Owns: :class:`Notice`. A notice is for people, now; nothing depends on its being read. It holds no prompt, no tool
argument and no credential. The one remote text that it may carry is the address of a sign-in page, apart from the
message, for that is what the person needs.
"""

from collections.abc import Callable
from typing import Literal

import msgspec


class Notice(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One notice.

    :param code: what it is about, a stable word: ``install.download``, ``install.done``, ``install.failed`` …
    :param message: one sentence for a person. :param progress: from 0 to 1, ``None`` where there is none.
    :param link: a page that the person has to open, for their eyes only: it is never logged.
    """

    code: str
    message: str
    level: Literal["info", "warning", "error"] = "info"
    progress: float | None = None
    link: str | None = None


#: Takes notices; called in the event loop of the adapter, must return at once and not raise.
Notify = Callable[[Notice], None]


def ignore(_: Notice) -> None:
    """Takes notices for nobody."""
