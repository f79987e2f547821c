"""Whether a request continues an unfinished exchange.

Owns: the proof. A continuation is accepted only on the same history prefix, provider, model, system and catalogue, the
assistant message with exactly the calls that were exposed, and exactly one result for each of them. Pure functions.

What is compared of a message is what the model sees: role, blocks, call id and error flag. Ids and provenance are the
host's bookkeeping and may be rebuilt. Thoughts of the assistant may be left out of the host's history.
"""

import json
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from enum import Enum

import msgspec

from ..contract import GenerateOptions, Message, ReasoningBlock, TextBlock, ToolCallBlock, ToolSchema


class Verdict(Enum):
    """What a request is to an unfinished exchange."""

    CONTINUES = "continues"
    #: Calls match and results do not: missing, duplicate or foreign.
    RESULTS_WRONG = "results wrong"
    #: The context is another one: the exchange is to be closed and the request starts anew.
    CHANGED = "changed"


class Suspension(msgspec.Struct, frozen=True):
    """What an exchange remembers while the host runs its tools; gone with the exchange.

    :param prefix: the messages of the generation that ended with the calls, as the host gave them. Held, not digested:
        a host in this process gives the same objects again, so that a turn of many rounds does not get slower.
    :param text: visible text that was streamed in that generation.
    :param calls: the exposed calls.
    """

    provider: str
    model: str
    system: str | None
    session_id: str | None
    tools: tuple[ToolSchema, ...]
    prefix: tuple[Message, ...]
    text: str
    calls: tuple[ToolCallBlock, ...]

    @classmethod
    def of(cls, options: GenerateOptions, text: str, calls: Sequence[ToolCallBlock]) -> "Suspension":
        """Remember a generation."""
        return cls(
            provider=options.provider,
            model=options.model,
            system=options.system,
            session_id=options.session_id,
            tools=options.tools,
            prefix=options.messages,
            text=text,
            calls=tuple(calls),
        )


def judge_continuation(suspension: Suspension, options: GenerateOptions) -> Verdict:
    """Hold a request against a suspended exchange."""
    if not _same_context(suspension, options):
        return Verdict.CHANGED
    added = options.messages[len(suspension.prefix) :]
    if not added or not _same_answer(suspension, added[0]):
        return Verdict.CHANGED
    results = added[1:]
    if any(message.role != "tool" for message in results):
        return Verdict.CHANGED
    wanted = Counter(call.id for call in suspension.calls)
    given = Counter(message.tool_call_id for message in results)
    return Verdict.CONTINUES if wanted == given else Verdict.RESULTS_WRONG


def _same_context(before: Suspension, options: GenerateOptions) -> bool:
    return (
        options.purpose is None
        and before.provider == options.provider
        and before.model == options.model
        and before.system == options.system
        and before.session_id == options.session_id
        and _by_name(before.tools) == _by_name(options.tools)
        and len(options.messages) >= len(before.prefix)
        and all(map(_same_message, before.prefix, options.messages))
    )


def _by_name(tools: Sequence[ToolSchema]) -> list[ToolSchema]:
    return sorted(tools, key=lambda tool: tool.name)


def _same_answer(before: Suspension, message: Message) -> bool:
    exposed = {call.id: call for call in before.calls}
    calls = message.tool_calls
    text = "".join(block.text for block in message.content if isinstance(block, TextBlock))
    return (
        message.role == "assistant"
        and len(calls) == len(exposed)
        and {call.id for call in calls} == exposed.keys()
        and all(_same_call(call, exposed[call.id]) for call in calls)
        and text.strip() == before.text.strip()
    )


def _same_call(one: ToolCallBlock, other: ToolCallBlock) -> bool:
    if one.name != other.name:
        return False
    if one.arguments == other.arguments:
        return True
    try:
        # A host may have parsed the arguments and written them again.
        return _same_json(*(json.loads(call.arguments, parse_float=Decimal) for call in (one, other)))
    except (ValueError, RecursionError):
        return False


def _same_json(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same_json(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same_json, one, other))
    # In Python True equals 1; in JSON it does not.
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _same_message(one: Message, other: Message) -> bool:
    return one is other or _seen(one) == _seen(other)


def _seen(message: Message) -> tuple[object, ...]:
    content = [block for block in message.content if not isinstance(block, ReasoningBlock)]
    return message.role, message.tool_call_id, message.is_error, content
