"""How a transfer goes: reports that are not too many, and the bound on how slow it may be."""

import time
from typing import Final

from ._http import OFFLINE, AttemptError, Patience
from .progress import Progress, Report, Step

#: Time constant of the smoothed rate, seconds.
_SMOOTHING_S: Final = 3.0


class Drip:
    """Ends an answer that comes so slowly that it would never end, counting only the time spent waiting for it."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._seconds, self._bytes = 0.0, 0

    def took(self, size: int, seconds: float) -> None:
        self._bytes += size
        self._seconds += seconds
        if self._seconds >= self._patience.window_s:
            if self._bytes < self._patience.minimum_rate * self._seconds:
                raise AttemptError(
                    "timeout",
                    f"The server sends too slowly to ever finish. Try another network. {OFFLINE}",
                    "yes",
                )
            self._seconds, self._bytes = 0.0, 0


class Reporter:
    """Reports of one step, not too often, with a rate that does not jump."""

    def __init__(self, report: Report, step: Step, total: int, patience: Patience) -> None:
        self._report, self._step, self._total, self._every = report, step, total, patience.report_s
        self._rate: float | None = None
        self._done, self._when = 0, time.monotonic()

    def start(self, done: int) -> None:
        self._done, self._when = done, time.monotonic()
        self._report(Progress(self._step, done, self._total, self._rate))

    def at(self, done: int) -> None:
        now = time.monotonic()
        passed = now - self._when
        if passed < self._every or passed <= 0:
            return
        rate = max(0, done - self._done) / passed
        weight = min(1.0, passed / _SMOOTHING_S)
        self._rate = rate if self._rate is None else self._rate + weight * (rate - self._rate)
        self._done, self._when = done, now
        self._report(Progress(self._step, done, self._total, self._rate))

    def last(self, done: int) -> None:
        self._report(Progress(self._step, done, self._total, self._rate))
