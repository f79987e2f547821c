"""How the end of a prompt becomes the end of a stream.

Owns: the meaning of ACP's stop reasons. An agent's word is not always right: some answer ``cancelled`` to a prompt that
nobody cancelled, and then the text that came is the answer.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ..acp import PromptOutcome
from ..contract import Finish, FinishReason, LlmError, StreamChunk, Usage

#: ACP v1 ``StopReason``, with the code of those that are failures.
_STOP_REASONS: Final[Mapping[str, str | None]] = {
    "end_turn": None,
    "max_tokens": None,
    "cancelled": None,
    "max_turn_requests": "ACP_TURN_LIMIT",
    "refusal": "ACP_REFUSAL",
}


def last_chunks(outcome: PromptOutcome, blocks: int) -> Sequence[StreamChunk]:
    """Usage, where the agent counted, and the finish.

    :param blocks: how many blocks this stream call has yielded.
    :raises LlmError: ``ACP_REFUSAL``, ``ACP_TURN_LIMIT``, ``ACP_UNKNOWN_STOP``, ``EMPTY_RESPONSE``.
    """
    code = _STOP_REASONS.get(outcome.stop_reason, "ACP_UNKNOWN_STOP")
    if code is not None:
        raise LlmError(code)
    if blocks == 0:
        raise LlmError("EMPTY_RESPONSE")
    usage = [Usage(outcome.usage)] if outcome.usage else []
    return [*usage, Finish(FinishReason("max-tokens" if outcome.stop_reason == "max_tokens" else "stop"))]
