"""The bridge's own tool: how a result outlives the time that an agent gives to one MCP call (X-011).

An agent ends a call at a limit of its own, and nothing moves it: Google's harness cuts at 180 s whatever progress or
signs of life it gets (measured on 0.1.22). So a request that waits for the host is answered shortly before that limit
with a ticket, and the model fetches the result with this tool, whose requests wait in the same way.

Owns: the tool's name and definition, what the model is told, and when.
Never: is a tool of the host. A call of it waits for another call's result and is nothing that the host hears of.
"""

import math
import secrets
from functools import cache
from typing import Final

import msgspec

from antigravity_acp.contract import ToolSchema
from antigravity_acp.limits import CALL_MARGIN_S, CALL_MARGIN_SHARE

from .catalogue import Tool
from .results import CallResult, error_result, text_result

#: Exported as it stands. Every exported name of a host tool ends in at least 8 hex digits (:mod:`._names`), which this
#: does not, so no host tool can have it, whatever the host calls its tools.
WAIT_TOOL: Final = "wait_for_ticket"

_SCHEMA: Final = ToolSchema(
    WAIT_TOOL,
    "Gets the result of a tool call that takes long. Only for a ticket that such a call was answered with.",
    {
        "type": "object",
        "properties": {"ticket": {"type": "string", "description": "The ticket, exactly as it was given."}},
        "required": ["ticket"],
    },
)

NO_TICKET: Final = (
    "No result waits under this ticket. A ticket is good for one result: if you have that already, go on with it. "
    "Otherwise give the ticket exactly as the tool call was answered with it."
)
TAKEN: Final = "Another call with the same ticket gets the result. Go on with what that call is answered."


class _Arguments(msgspec.Struct):
    ticket: str


@cache
def wait_tool() -> Tool:
    """The tool as it is listed and judged."""
    return Tool(_SCHEMA, WAIT_TOOL)


def patience(call_limit_s: float | None, tool_timeout_s: float) -> float | None:
    """Seconds for which a request may wait before it is answered with a ticket.

    :param call_limit_s: the agent's limit for one MCP call, ``None`` for none.
    :param tool_timeout_s: how long the host may take.
    :returns: ``None`` when the agent waits as long as the host may take, so that nobody needs a ticket.
    :raises ValueError: for a limit that is no time.
    """
    if call_limit_s is None:
        return None
    if not math.isfinite(call_limit_s) or call_limit_s <= 0:
        raise ValueError("an agent's limit for one call must be a positive number of seconds")
    if call_limit_s >= tool_timeout_s:
        return None
    return call_limit_s - min(CALL_MARGIN_S, call_limit_s * CALL_MARGIN_SHARE)


def new_ticket() -> str:
    """A ticket. Short, since a model has to copy it; good in one endpoint only, whose bearer is the secret."""
    return "t-" + secrets.token_hex(6)


def read_ticket(arguments: str) -> str:
    """The ticket in arguments that :func:`wait_tool` judged valid; models like to add white space."""
    return msgspec.json.decode(arguments, type=_Arguments).ticket.strip()


def ticket_result(ticket: str) -> CallResult:
    """What a call is answered with when the agent's limit comes before its result."""
    return text_result(
        "The tool is still running or waits for approval. This is not its result. Do not call the tool again: "
        f'to get its result, call `{WAIT_TOOL}` with {{"ticket": "{ticket}"}}'
    )


def still_result(ticket: str) -> CallResult:
    """What a call of the wait tool is answered with when the limit comes before the result again."""
    return text_result(f'Still no result. To go on waiting, call `{WAIT_TOOL}` again with {{"ticket": "{ticket}"}}')


def no_ticket() -> CallResult:
    """The answer to a ticket that is wrong, of another endpoint, or used."""
    return error_result(NO_TICKET)
