"""How far an installation is, as data; whoever shows it decides how."""

from collections.abc import Callable
from typing import Literal, NamedTuple

Step = Literal["wait", "check", "download", "verify", "unpack", "publish", "initialize", "done"]


class Progress(NamedTuple):
    """One report.

    :param step: what is being done. ``wait``: another process installs the same, ``verify``: hashes are computed.
    :param done: bytes so far. :param total: bytes in all, ``None`` where that has no meaning.
    :param rate: bytes per second, smoothed; ``None`` while unknown.
    """

    step: Step
    done: int = 0
    total: int | None = None
    rate: float | None = None

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the time left in this step, seconds."""
        if self.total is None or not self.rate:
            return None
        return max(0, self.total - self.done) / self.rate


#: Receives reports, possibly in another thread than the caller's; must return quickly and not raise.
Report = Callable[[Progress], None]


def quiet(_: Progress) -> None:
    """A report for nobody."""
