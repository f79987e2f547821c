"""`control decide` and `control floor`: questions and answers as JSON lines, one for one and in order.

Owns: the stream. A line that is no question gets an answer with ``error``, and the next line is read. Memory does not
grow with the number of lines: a line is at most `LINE_LIMIT` bytes, what follows in a longer one is passed over, and
only a few policies are kept for the next question.
"""

import json
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Final, NoReturn

from antigravity_control import Policy, Source
from antigravity_control.jsonl import decide_vector, floor_vector
from antigravity_control.language.modes import Attendance
from antigravity_control.sources.settings import joined

from ._control_files import home_folder
from .failures import FAILED

LINE_LIMIT: Final = 4 * 1024 * 1024
#: The id at the beginning of a line that cannot be read as a whole.
_ID: Final = re.compile(rb'\s*\{\s*"id"\s*:\s*("(?:[^"\\\x00-\x1f]|\\.){0,200}"|-?\d{1,20})\s*[,}]')
_CUT: Final = 1024
_KEPT: Final = 32
#: Characters of settings whose policies are kept: a policy takes about forty times as much memory. One is always kept.
_KEPT_TEXT: Final = 1024 * 1024


def run_decide() -> int:
    """Answer until stdin ends. :returns: 1 when a line was no question."""
    home = home_folder()
    policies = Policies()
    return _run(lambda item: decide_vector(item, home=home, compiled=policies.compile))


def run_floor() -> int:
    """The same for the floor."""
    home = home_folder()
    return _run(lambda item: floor_vector(item, home=home))


class Policies:
    """The policies of the last questions: the same settings come again and again. One whose folders or rules lead
    elsewhere by now, because a link was turned, is made anew."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Any, ...], tuple[Policy, int]] = OrderedDict()
        self._text = 0

    def compile(
        self, sources: Sequence[Source], *, workspace: Sequence[str], mode: Attendance, flags: Sequence[str],
        home: str | None,
    ) -> Policy:  # fmt: skip
        """As ``Policy.compile``, without compiling what is here already.

        :raises ValueError: as there.
        """
        try:
            text = json.dumps([source.data for source in sources])
        except RecursionError:
            return Policy.compile(sources, workspace=workspace, mode=mode, flags=flags, home=home)
        key = (text, tuple(workspace), mode, tuple(flags), home)
        found = self._kept.get(key)
        if found is not None and found[0].holds():
            self._kept.move_to_end(key)
            return found[0]
        if found is not None:
            self._drop(key)
        # Made before the others go, so that a fault of these settings costs nobody else their policy.
        made = Policy.compile(sources, workspace=workspace, mode=mode, flags=flags, home=home)
        self._kept[key] = made, len(text)
        self._text += len(text)
        while len(self._kept) > 1 and (len(self._kept) > _KEPT or self._text > _KEPT_TEXT):
            self._drop(next(iter(self._kept)))
        return made

    def _drop(self, key: tuple[Any, ...]) -> None:
        self._text -= self._kept.pop(key)[1]


def _run(answer: Callable[[object], dict[str, Any]]) -> int:
    questions, bad = sys.stdin.buffer, False
    while line := questions.readline(LINE_LIMIT + 1):
        if len(line) > LINE_LIMIT:
            _pass_over(questions, line)
            said = _error(line, f"a line has at most {LINE_LIMIT} bytes")
        elif not line.strip():
            continue
        else:
            said = _answer(line, answer)
        bad = bad or "error" in said
        # ASCII, so that any encoding and any text goes through.
        sys.stdout.write(json.dumps(said, separators=(",", ":")) + "\n")
        # Whoever asks waits for this answer before the next question.
        sys.stdout.flush()
    return FAILED if bad else 0


def _answer(line: bytes, answer: Callable[[object], dict[str, Any]]) -> dict[str, Any]:
    try:
        item = json.loads(line, parse_constant=_refuse, object_pairs_hook=joined)
    except (ValueError, RecursionError):
        return _error(line, "the line is not JSON")
    try:
        return answer(item)
    except Exception as error:  # noqa: BLE001 - one question must not end the answers to all others
        return _error(line, f"this could not be judged ({type(error).__name__})")


def _refuse(_constant: str) -> NoReturn:
    raise ValueError("NaN and Infinity are not JSON")


def _error(line: bytes, reason: str) -> dict[str, Any]:
    found = _ID.match(line[:_CUT])
    try:
        name = json.loads(found[1]) if found else None
    except ValueError:
        name = None
    return {"id": name, "error": reason}


def _pass_over(questions: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = questions.readline(LINE_LIMIT)
