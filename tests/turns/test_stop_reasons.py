"""Every stop reason of ACP v1 and one of next year."""

import pytest

from antigravity_acp.acp import PromptOutcome
from antigravity_acp.contract import Finish, LlmError, TokenUsage, Usage
from antigravity_acp.turns.outcome import last_chunks


@pytest.mark.parametrize(
    ("reason", "kind"), [("end_turn", "stop"), ("max_tokens", "max-tokens"), ("cancelled", "stop")]
)
def test_normal_ends(reason: str, kind: str) -> None:
    (finish,) = last_chunks(PromptOutcome(reason, None), 1)
    assert isinstance(finish, Finish)
    assert finish.reason.kind == kind


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("max_turn_requests", "ACP_TURN_LIMIT"),
        ("refusal", "ACP_REFUSAL"),
        ("a_reason_of_next_year", "ACP_UNKNOWN_STOP"),
        ("", "ACP_UNKNOWN_STOP"),
    ],
)
def test_failures(reason: str, code: str) -> None:
    with pytest.raises(LlmError) as caught:
        last_chunks(PromptOutcome(reason, None), 1)
    assert caught.value.code == code
    assert "next_year" not in str(caught.value)


@pytest.mark.requirement("A-061")
def test_usage_comes_before_the_finish_and_only_where_it_was_counted() -> None:
    usage, finish = last_chunks(PromptOutcome("end_turn", TokenUsage(1, 2)), 1)
    assert isinstance(usage, Usage)
    assert isinstance(finish, Finish)


def test_nothing_at_all_is_a_failure() -> None:
    with pytest.raises(LlmError, match="EMPTY_RESPONSE"):
        last_chunks(PromptOutcome("end_turn", None), 0)
