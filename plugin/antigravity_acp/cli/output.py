"""What a command shows while it works: JSON lines for programs, a transcript for people.

Owns: the two forms of one stream of events. An event is a mapping with the key ``event``; those of a turn are the agent
loop's own (`host/events.py`), the others are listed in ``docs/cli.md``. An event is out when ``show`` returns.
Never: lets a model draw on the terminal: control characters and bidirectional overrides are replaced.
"""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

#: Characters of arguments and results that a transcript shows of each call; `--json` has the whole.
_SHOWN: Final = 160

#: C0 but tab and line feed, DEL, C1, bidirectional controls, and halves of surrogate pairs, which cannot be encoded.
_UNSAFE: Final = {
    code: "\ufffd"
    for first, last in ((0, 8), (11, 31), (127, 159), (0x202A, 0x202E), (0x2066, 0x2069), (0xD800, 0xDFFF))
    for code in range(first, last + 1)
}


def plain(text: str) -> str:
    """Text of a model, a tool or an agent without what a terminal would obey."""
    return text.replace("\r\n", "\n").translate(_UNSAFE)


class Output(Protocol):
    """Where events go."""

    def show(self, event: Mapping[str, Any]) -> None:
        """Show one event now."""


class JsonLines:
    """One JSON object a line on stdout."""

    def show(self, event: Mapping[str, Any]) -> None:
        """Write the event as it is; ASCII, so that any encoding and any text goes through."""
        sys.stdout.write(json.dumps(event, separators=(",", ":")) + "\n")
        sys.stdout.flush()


class Transcript:
    """A transcript on a terminal.

    :param aside: where everything but the answer goes: stderr, so that the answer alone can be redirected.
    """

    def __init__(self, *, aside: bool) -> None:
        from rich.console import Console

        self._aside = Console(file=sys.stderr if aside else sys.stdout, highlight=False, emoji=False, soft_wrap=True)
        self._open: str | None = None
        self._refused: set[str] = set()
        self._lines: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "start": self._start,
            "text": self._text,
            "thought": self._thought,
            "tool-start": self._tool_start,
            "tool-decision": self._tool_decision,
            "tool-result": self._tool_result,
            "retry": lambda event: self._line(f"again after {event['code']}, attempt {event['attempt']}", "yellow"),
            "turn-end": self._turn_end,
            "user": lambda event: self._line(f"you: {event['text']}", "bold"),
            "notice": self._notice,
            "note": lambda event: self._line(event["text"], "yellow"),
            "end": lambda event: self._line(event["text"], "green" if event.get("ok") else "red"),
        }

    def show(self, event: Mapping[str, Any]) -> None:
        """Draw the event; kinds that people need not see are passed over."""
        draw = self._lines.get(event["event"])
        if draw is not None:
            draw(event)

    def _text(self, event: Mapping[str, Any]) -> None:
        self._continue("text", event["text"])
        # Not through rich, which would turn tabs into spaces: the answer may be a Makefile on its way into a file.
        sys.stdout.write(plain(event["text"]))
        sys.stdout.flush()

    def _thought(self, event: Mapping[str, Any]) -> None:
        self._continue("thought", event["text"])
        self._aside.print(plain(event["text"]), end="", style="dim italic", markup=False)

    def _continue(self, kind: str, text: str) -> None:
        if self._open not in (None, kind):
            self._close()
        self._open = None if text.endswith("\n") else kind

    def _close(self) -> None:
        """End the line that is being written."""
        stream = sys.stdout if self._open == "text" else self._aside.file
        if self._open is not None:
            self._open = None
            stream.write("\n")
            stream.flush()

    def _line(self, text: str, style: str | None = None) -> None:
        self._close()
        self._aside.print(plain(text), style=style, markup=False)

    def _notice(self, event: Mapping[str, Any]) -> None:
        part = f" ({event['progress']:.0%})" if "progress" in event else ""
        self._line(event["message"] + part, "dim" if event.get("level", "info") == "info" else "yellow")
        if "link" in event:
            self._line(event["link"])

    def _start(self, event: Mapping[str, Any]) -> None:
        self._line(f"{event['model']} in {event['workspace']}", "dim")

    def _tool_start(self, event: Mapping[str, Any]) -> None:
        self._line(f"→ {event['name']} {_short(_arguments(event['arguments']))}".rstrip(), "cyan")

    def _tool_decision(self, event: Mapping[str, Any]) -> None:
        allowed = event["decision"] == "allow"
        self._line(f"  {'allowed' if allowed else 'refused'}: {event['reason']}", "dim" if allowed else "red")
        if not allowed:
            self._refused.add(event["id"])

    def _tool_result(self, event: Mapping[str, Any]) -> None:
        if event["id"] in self._refused:
            # The model is told the reason that stands here already.
            self._refused.discard(event["id"])
            return
        self._line(f"← {_short(event['text'])} ({event['seconds']:.2f} s)", "red" if event["isError"] else "dim")

    def _turn_end(self, event: Mapping[str, Any]) -> None:
        self._close()
        if event["kind"] == "max-tokens":
            self._line("The answer was cut at the model's output limit.", "yellow")


def _arguments(text: str) -> str:
    """Arguments as a person reads them; what is no JSON object stays as it is."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(found, dict):
        return text
    return "; ".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in found.items()
    )


def count(number: int, noun: str) -> str:
    """A number and what there are so many of: ``1 row``, ``2 rows``."""
    return f"{number} {noun}{'s'[: number != 1]}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def open_output(*, as_json: bool, aside: bool = False) -> Output:
    """The output of a command by its flags."""
    return JsonLines() if as_json else Transcript(aside=aside)
