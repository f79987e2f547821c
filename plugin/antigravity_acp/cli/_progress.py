"""How an installation's progress is shown: a bar on a terminal, plain lines elsewhere, events for programs.

Owns: the three forms of one stream of reports, and where they go: stderr for people, so that stdout holds the result
alone, stdout for ``--json``. Reports may come from another thread and many times a second; what is shown is bounded.
A display is a context: within it reports are shown, and when it ends the terminal is as it was, also after Ctrl-C.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from antigravity_provisioning.progress import Progress, Report

from .output import JsonLines

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

#: Of what is shown of one step without a terminal: at most a line for each tenth of it, and in any case one for each
#: of these seconds, so that a log neither grows nor looks dead.
_EVERY_SHARE: Final = 0.1
_EVERY_S: Final = 5.0
#: Seconds between two events of one step.
_EVENT_S: Final = 0.5

_WORDS: Final = {
    "wait": "waiting for another process that installs the same",
    "check": "checking this machine",
    "download": "downloading",
    "verify": "verifying",
    "unpack": "unpacking",
    "publish": "putting it in place",
    "initialize": "starting it once",
    "done": "done",
}


@contextmanager
def display(*, as_json: bool) -> Iterator[Report]:
    """The report that fits the flags and the terminal; within the block it is shown."""
    if as_json:
        yield Events()
    elif not sys.stderr.isatty():
        yield Lines()
    else:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn
        from rich.progress import Progress as Bars

        with Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            DownloadColumn(),
            TextColumn("{task.fields[speed]}"),
            console=Console(file=sys.stderr, highlight=False, emoji=False),
            transient=True,
        ) as bars:
            yield Bar(bars)


class Lines:
    """Plain lines on stderr.

    :param clock: seconds, monotonic. :param write: takes one line without its end.
    """

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, write: Callable[[str], None] | None = None
    ) -> None:
        self._clock = clock
        self._write = write or _to_stderr
        self._lock = threading.Lock()
        self._step = ""
        self._shown = (0.0, 0.0)

    def __call__(self, report: Progress) -> None:
        with self._lock:
            if self._due(report):
                self._write(describe(report))

    def _due(self, report: Progress) -> bool:
        """Whether enough has happened since the last line; a step's first report and its end are always shown."""
        share = report.done / report.total if report.total else 0.0
        now = self._clock()
        if report.step != self._step:
            self._step, self._shown = report.step, (share, now)
            return report.step != "done"
        before, then = self._shown
        finished = report.total is not None and share >= 1 > before
        if share - before >= _EVERY_SHARE or now - then >= _EVERY_S or finished:
            self._shown = (share, now)
            return True
        return False


class Events:
    """JSON lines on stdout, at most two a second for each step, and each step's first and last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._step = ""
        self._then = 0.0

    def __call__(self, report: Progress) -> None:
        with self._lock:
            now = time.monotonic()
            finished = report.total is not None and report.done >= report.total
            if report.step == self._step and now - self._then < _EVENT_S and not finished:
                return
            self._step, self._then = report.step, now
            JsonLines().show(
                {
                    "event": "progress",
                    "step": report.step,
                    "done": report.done,
                    "total": report.total,
                    "bytesPerSecond": None if report.rate is None else round(report.rate),
                    "secondsLeft": None if report.seconds_left is None else round(report.seconds_left, 1),
                }
            )


class Bar:
    """One bar on the terminal: step, share, bytes, rate and time left."""

    def __init__(self, bars: "Bars") -> None:
        self._lock = threading.Lock()
        self._bars = bars
        self._task: TaskID | None = None
        self._step = ""

    def __call__(self, report: Progress) -> None:
        with self._lock:
            if report.step == "done":
                return
            if report.step != self._step or self._task is None:
                if self._task is not None:
                    self._bars.remove_task(self._task)
                self._step = report.step
                self._task = self._bars.add_task(_WORDS[report.step], total=report.total, speed="")
            self._bars.update(self._task, completed=report.done, total=report.total, speed=_speed(report))


def describe(report: Progress) -> str:
    """One report as a line of text."""
    words = _WORDS[report.step]
    if not report.total:
        return words
    share = f"{words}: {report.done * 100 // report.total} % of {size(report.total)}"
    return f"{share}, {speed}" if (speed := _speed(report)) else share


def _speed(report: Progress) -> str:
    if report.rate is None:
        return ""
    left = report.seconds_left
    return f"{size(report.rate)}/s" + ("" if left is None else f", {_duration(left)} left")


def size(count: float) -> str:
    """Bytes for people, in powers of a thousand as disks and downloads are labelled."""
    if count < 1000:
        return f"{count:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 999.5 or unit == "GB":
            break
    return f"{count:.1f} {unit}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
