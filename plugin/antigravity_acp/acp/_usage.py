"""Token counters of a prompt's answer.

Owns: reading ACP's ``usage`` into the host's disjoint counters. Nothing is estimated: a malformed usage is none, and
``usage_update`` (how full the context is) never comes here.
"""

from itertools import product

import msgspec

from ..contract import TokenUsage


class _Wire(msgspec.Struct, rename="camel"):
    """ACP v1, ``PromptResponse.usage``: numbers of tokens, all at least 0."""

    input_tokens: int
    output_tokens: int
    total_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    thought_tokens: int | None = None


def read_usage(value: object) -> TokenUsage | None:
    """The counters as the host wants them, ``None`` when there are none or they are not plausible.

    The host's input is uncached input and its output is without thoughts. ACP does not say whether an agent counts
    cached tokens as input and thoughts as output, but its total does: the reading whose parts add up to it is taken.
    """
    try:
        wire = msgspec.convert(value, _Wire, strict=True)
    except msgspec.ValidationError:
        return None
    read, write, thought = wire.cached_read_tokens or 0, wire.cached_write_tokens or 0, wire.thought_tokens or 0
    if min(wire.input_tokens, wire.output_tokens, wire.total_tokens or 0, read, write, thought) < 0:
        return None
    inner_cache, inner_thought = 0, 0
    for inside_input, inside_output in product((0, read, read + write), (0, thought)):
        parts = wire.input_tokens + wire.output_tokens + read + write + thought - inside_input - inside_output
        if parts == wire.total_tokens and inside_input <= wire.input_tokens and inside_output <= wire.output_tokens:
            inner_cache, inner_thought = inside_input, inside_output
            break
    return TokenUsage(
        input_tokens=wire.input_tokens - inner_cache,
        output_tokens=wire.output_tokens - inner_thought,
        total_tokens=wire.total_tokens,
        cache_read_tokens=wire.cached_read_tokens,
        cache_write_tokens=wire.cached_write_tokens,
        reasoning_tokens=wire.thought_tokens,
    )
