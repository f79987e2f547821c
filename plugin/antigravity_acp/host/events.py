"""What the agent loop tells its listener while it works.

Owns: the closed union :data:`LoopEvent`. Each has ``to_wire()`` for ``--json``. Events come in order; a listener is
called on the loop's thread and must not block.
"""

from typing import Any, Literal, TypeAlias

import msgspec

from antigravity_acp.contract import Failure, TokenUsage


class _Event(msgspec.Struct, frozen=True, rename="camel", tag_field="event", omit_defaults=True):
    def to_wire(self) -> dict[str, Any]:
        """The event as JSON."""
        wire: dict[str, Any] = msgspec.to_builtins(self)
        return wire


class TextArrived(_Event, frozen=True, tag="text"):
    """More text for the end user."""

    text: str


class ThoughtArrived(_Event, frozen=True, tag="thought"):
    """More of the model's reasoning."""

    text: str


class ToolStarted(_Event, frozen=True, tag="tool-start"):
    """The model asked for a call. ``arguments`` is the raw JSON text; it may be invalid."""

    id: str
    name: str
    arguments: str


class ToolDecided(_Event, frozen=True, tag="tool-decision"):
    """Whether the call may run, and what decided. ``remedies`` are rules that would allow what is softly denied."""

    id: str
    name: str
    decision: str
    reason: str
    source: str
    rule: str | None = None
    soft: bool = False
    remedies: tuple[str, ...] = ()


class ToolEnded(_Event, frozen=True, tag="tool-result"):
    """How the call ended; ``seconds`` from the model's request to the result, approval included."""

    id: str
    name: str
    text: str
    is_error: bool
    seconds: float


class UsageReported(_Event, frozen=True, tag="usage"):
    """Counters of one model call."""

    usage: TokenUsage


class StepEnded(_Event, frozen=True, tag="step-end"):
    """One model call ended; ``step`` counts from 1."""

    step: int
    kind: str


class RetryPlanned(_Event, frozen=True, tag="retry"):
    """A model call failed before anything was streamed and is repeated after ``delay_s`` seconds."""

    attempt: int
    code: str
    delay_s: float


TurnKind = Literal["stop", "max-tokens", "aborted", "error", "step-limit"]


class TurnEnded(_Event, frozen=True, tag="turn-end"):
    """The turn is over."""

    kind: TurnKind
    steps: int
    failure: Failure | None = None


LoopEvent: TypeAlias = (
    TextArrived
    | ThoughtArrived
    | ToolStarted
    | ToolDecided
    | ToolEnded
    | UsageReported
    | StepEnded
    | RetryPlanned
    | TurnEnded
)
