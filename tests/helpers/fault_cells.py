"""The fault matrix: for each stage of a turn and each fault of the agent, what must come of it.

Owns: the table only. How a cell is played is in ``faults.py``, what a fault does in ``agents/faulty.py``.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from .faults import DEADLINE_MS, Cell

#: The stages of a turn at which an agent answers or speaks, in their order.
STARTING: Final = ("spawn", "initialize", "authenticate", "session/new", "set_config_option")
SPEAKING: Final = ("prompt", "first update", "mid-stream", "permission", "tools/call", "parked", "after the result")
STAGES: Final = (*STARTING, *SPEAKING, "final response")
ALL_STAGES: Final = (*STAGES, "after the end", "cancel", "shutdown")

#: The deadline that bounds a stage, and its code.
_DEADLINES: Final = {
    "spawn": ("startupTimeoutMs", "ACP_STARTUP_TIMEOUT"),
    "initialize": ("startupTimeoutMs", "ACP_STARTUP_TIMEOUT"),
    "authenticate": ("authTimeoutMs", "ACP_TIMEOUT"),
    "session/new": ("requestTimeoutMs", "ACP_TIMEOUT"),
    "set_config_option": ("requestTimeoutMs", "ACP_TIMEOUT"),
}
TIME: Final = "deadline"
#: Short names of codes, so that the rows below fit.
RPC, QUOTA, AUTH, PROTOCOL = "ACP_RPC_ERROR", "ACP_QUOTA", "ACP_AUTH_REQUIRED", "ACP_PROTOCOL_ERROR"
GONE, MODEL, NATIVE, VERSION = (
    "ACP_DISCONNECTED",
    "ACP_INVALID_MODEL",
    "ACP_NATIVE_TOOLS_UNSUPPORTED",
    "ACP_VERSION_MISMATCH",
)
UNKNOWN_STOP, EMPTY = "ACP_UNKNOWN_STOP", "EMPTY_RESPONSE"


class Group(NamedTuple):
    """Faults of one kind, shown as one table."""

    name: str
    cells: tuple[Cell, ...]


def cell(stage: str, fault: str, outcome: str, settings: Mapping[str, Any] = {}, **more: Any) -> Cell:
    """A cell; the outcome ``deadline`` stands for the code of the deadline of its stage, which is shortened."""
    if outcome == TIME:
        setting, outcome = _DEADLINES.get(stage, ("timeoutMs", "ACP_TIMEOUT"))
        settings = {**settings, setting: DEADLINE_MS}
    options = {"auth": True} if stage == "authenticate" else {}
    return Cell(stage, fault, outcome, settings=settings, options=options, **more)


def everywhere(faults: tuple[str, ...], outcome: str, stages: tuple[str, ...] = STAGES) -> list[Cell]:
    """The same outcome at each stage."""
    return [cell(stage, fault, outcome) for fault in faults for stage in stages]


ENDS = ("exit 0", "exit 1", "exit 139", "SIGKILL", "SIGSEGV", "closes stdout", "half a line")
PROCESS = Group(
    "the process ends or hangs",
    (*everywhere(ENDS, GONE), *everywhere(("hang",), TIME)),
)

FEW = ("initialize", "session/new", "mid-stream", "parked", "final response")
NOISE = Group(
    "lines that are not the protocol",
    (
        *everywhere(("garbage", "42", "null", "[]", "not UTF-8"), "ok"),
        *everywhere(("deep", "no method", "unknown update", "unknown request", "other session"), "ok", FEW),
        *everywhere(("2 MiB stderr",), "ok"),
        *everywhere(("1001 garbage", "40 MiB line"), PROTOCOL, FEW),
    ),
)

#: Answers to requests. Columns: initialize, authenticate, session/new, set_config_option, prompt (in the middle of its
#: text), prompt (while the host has its call), prompt (at its end). ``-`` where a fault makes no sense.
_ANSWERS: Final = {
    "wrong id": (TIME, TIME, TIME, TIME, TIME, TIME, TIME),
    "null id": (TIME, TIME, TIME, TIME, TIME, TIME, TIME),
    "text id": (TIME, TIME, TIME, TIME, TIME, TIME, TIME),
    "twice": ("ok", "ok", "ok", "ok", "-", "-", "ok"),
    "twice, then error": ("ok", "ok", "ok", "ok", "-", "-", "ok"),
    "null result": (VERSION, "ok", PROTOCOL, MODEL, UNKNOWN_STOP, UNKNOWN_STOP, UNKNOWN_STOP),
    "list result": (VERSION, "ok", PROTOCOL, MODEL, UNKNOWN_STOP, UNKNOWN_STOP, UNKNOWN_STOP),
    "no result": (VERSION, "ok", PROTOCOL, MODEL, UNKNOWN_STOP, UNKNOWN_STOP, UNKNOWN_STOP),
    "error no object": (RPC, AUTH, RPC, RPC, RPC, RPC, RPC),
    "-32700": (RPC, AUTH, RPC, RPC, RPC, RPC, RPC),
    "-32600": (RPC, AUTH, RPC, RPC, RPC, RPC, RPC),
    "-32601": (RPC, "ACP_AUTH_UNSUPPORTED", RPC, MODEL, RPC, RPC, RPC),
    "-32602": (RPC, AUTH, RPC, MODEL, RPC, RPC, RPC),
    "-32603": (RPC, AUTH, RPC, RPC, RPC, RPC, RPC),
    "-32002": (RPC, AUTH, RPC, RPC, RPC, RPC, RPC),
    "-32000": (RPC, AUTH, RPC, RPC, RPC, RPC, RPC),
    "auth": (AUTH, AUTH, "ok", AUTH, AUTH, AUTH, AUTH),
    "quota": (QUOTA,) * 7,
    "402": (QUOTA,) * 7,
}
_ANSWERED: Final = (
    *("initialize", "authenticate", "session/new", "set_config_option", "mid-stream", "parked", "final response"),
)
ANSWERS = Group(
    "answers",
    tuple(
        cell(stage, fault, outcome)
        for fault, outcomes in _ANSWERS.items()
        for stage, outcome in zip(_ANSWERED, outcomes, strict=True)
        if outcome != "-"
    ),
)

MEANING = Group(
    "answers with another meaning",
    (
        cell("initialize", "version 2", VERSION),
        cell("initialize", "no version", VERSION),
        cell("initialize", "no HTTP MCP", "ACP_MCP_UNSUPPORTED"),
        cell("session/new", "no session id", PROTOCOL),
        cell("session/new", "early updates", "ok"),
        cell("set_config_option", "old model", MODEL),
        *(cell("final response", fault, UNKNOWN_STOP) for fault in ("unknown stop", "stop is a number")),
        *(cell(stage, "refusal", "ACP_REFUSAL") for stage in ("prompt", "mid-stream", "final response")),
        *(cell(stage, "turn limit", "ACP_TURN_LIMIT") for stage in ("prompt", "mid-stream", "final response")),
        cell("final response", "max tokens", "max-tokens"),
        cell("final response", "cancelled unasked", "ok"),
        cell("final response", "context canceled", RPC),
        cell("final response", "no newline", "ok"),
        cell("final response", "late updates", "ok"),
        cell("prompt", "no contact", "ACP_MCP_UNSUPPORTED", settings={"contactTimeoutMs": DEADLINE_MS}),
        cell("mid-stream", "silence", "ACP_TIMEOUT", settings={"silenceTimeoutMs": DEADLINE_MS}),
        # The whole text is there, and the turn does not end.
        cell("final response", "silence", "ACP_TIMEOUT", settings={"silenceTimeoutMs": DEADLINE_MS}),
        cell("prompt", "end_turn", EMPTY),
        cell("mid-stream", "end_turn", "ok", whole=""),
        # The generation after the host's results holds nothing.
        cell("parked", "end_turn", EMPTY),
    ),
)

_NUMBERS = "".join(f"t{number} " for number in range(300))
_THOUGHTS = "".join(f"h{number} " for number in range(300))
SAYING: Final = ("prompt", "first update", "mid-stream", "permission", "tools/call", "parked", "after the result")
TEXT = Group(
    "text and updates",
    (
        *(cell(stage, "lone surrogate", "ok", text="<\ufffd>") for stage in SAYING),
        *(cell(stage, "text not UTF-8", "ok", text="<\ufffd>") for stage in SAYING),
        *(cell(stage, "text and thoughts", "ok", text=_NUMBERS, thought=_THOUGHTS) for stage in SAYING),
        *(cell(stage, "50000 updates", "ok", text="0123456789" * 50_000) for stage in SAYING),
        *everywhere(("duplicate tool_call",), "ok", ("permission", "tools/call", "parked", "after the result")),
        *everywhere(("native activity",), NATIVE, SPEAKING),
    ),
)

#: A question is for the user, who cannot be asked over this wire.
_UNANSWERED: Final = 'extra {"outcome": {"outcome": "cancelled"}}'
TOOLS = Group(
    "permissions and tool calls",
    (
        *(
            cell("permission", fault, NATIVE)
            for fault in ("no allow_once", "two allow_once", "native tool", "other server", "title only", "malformed")
        ),
        cell("permission", "question", "ok", journal=(_UNANSWERED,)),
        cell("permission", "asks for another session", "ok", journal=(_UNANSWERED,)),
        cell("tools/call", "same id twice", "ok", journal=("same True",), bridge={"calls": 1, "joined_calls": 1}),
        cell("tools/call", "sent again", "ok", bridge={"calls": 1, "joined_calls": 1}),
        cell(
            "tools/call", "fetched late", "ok", bridge={"calls": 1, "undelivered_results": 1, "late_results_fetched": 1}
        ),
        cell("tools/call", "hangs up", "ok", whole="one gave up end", bridge={"calls": 1, "undelivered_results": 1}),
        cell(
            "tools/call", "hangs up, calls on", "ok", whole="one R2 end", bridge={"calls": 2, "undelivered_results": 1}
        ),
        cell("tools/call", "unknown tool", "ok", journal=("refused",), bridge={"calls": 1}),
        cell("tools/call", "invalid arguments", "ok", journal=("refused",), bridge={"calls": 1}),
        cell("after the end", "call after the end", "ok", journal=("refused",)),
    ),
)

LEFT: Final = ("a grandchild", "a holder of stdout", "one in a session of its own", "a daemon")
ENDING = Group(
    "cancel and shutdown",
    (
        *(
            cell("cancel", fault, "ABORTED")
            for fault in (
                *(
                    "nothing wrong",
                    "hang",
                    *ENDS,
                    "end_turn",
                    "context canceled",
                    "-32603",
                    "quota",
                    "wrong id",
                    "twice",
                ),
                *("null result", "refusal", "late updates", "garbage", "40 MiB line", "50000 updates", "2 MiB stderr"),
            )
        ),
        *(
            cell("shutdown", fault, "ok")
            for fault in (
                *("ignores EOF", "ignores SIGTERM", "fails at EOF", "crashes at EOF", "stderr at EOF", "stdout at EOF"),
                *("garbage at EOF", "half a line at EOF", *(f"leaves {what}" for what in LEFT)),
            )
        ),
        *(
            cell(stage, f"exit 1, leaves {what}", GONE)
            for what in LEFT
            for stage in ("initialize", "mid-stream", "parked")
        ),
    ),
)

GROUPS: Final = (PROCESS, NOISE, ANSWERS, MEANING, TEXT, TOOLS, ENDING)
CELLS: Final = tuple(one for group in GROUPS for one in group.cells)
