"""From an agent's error to a code of ours, without a word of its text."""

from typing import Any

import pytest
from helpers.agent import agent, play

from antigravity_acp.acp.errors import classify, describe_exit, disconnected
from antigravity_acp.contract import LlmError

SECRET = "user@example.com token=abc"


def code(number: int, text: str, data: Any = None) -> str:
    error = classify("session/prompt", number, text, data)
    assert SECRET not in str(error)
    assert text == "" or text not in error.message
    return error.code


@pytest.mark.requirement("A-063")
@pytest.mark.parametrize(
    ("number", "text", "data"),
    [
        (-32603, "Internal error", {"type": "quota"}),
        (-32603, "x", {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}),
        (-32603, 'got {"error":{"code":429,"message":"slow down"}}', None),
        (-32000, "HTTP 402: payment", None),
        (-32603, "RESOURCE_EXHAUSTED: out", None),
        (-32603, "Quota exceeded for metric", None),
        (429, "", None),
        (-32603, "x", {"details": "You have hit a rate limit"}),
        (-32603, "x", [{"nested": [{"statusCode": 429}]}]),
    ],
)
def test_used_up_quotas_are_seen_in_every_shape(number: int, text: str, data: Any) -> None:
    assert code(number, text, data) == "ACP_QUOTA"


@pytest.mark.parametrize(
    ("data", "text", "expected"),
    [
        ({"type": "quota", "retryAfterMs": 1500}, "", 1500),
        ({"type": "quota", "retry_after": 2}, "", 2000),
        ({"type": "quota", "retryDelay": "30s"}, "", 30_000),
        ({"type": "quota", "quotaResetDelay": "1h2m3.5s"}, "", 3_723_500),
        ({"error": {"code": 429, "details": [{"@type": "RetryInfo", "retryDelay": "0.25s"}]}}, "", 250),
        ({"type": "quota"}, "retry in 12.5s please", 12_500),
        ({"type": "quota"}, "quota resets after 1h0m5s", 3_605_000),
        ({"type": "quota"}, "", None),
        ({"type": "quota", "retryAfterMs": -5}, "", None),
        ({"type": "quota", "retryAfterMs": True}, "", None),
        ({"type": "quota", "retryDelay": "soon"}, "", None),
        ({"type": "quota", "retryDelay": float("inf")}, "", None),
        ({"type": "quota", "retryDelay": "9999999h"}, "", None),
    ],
)
def test_a_retry_delay_is_read_when_it_is_a_number(data: Any, text: str, expected: int | None) -> None:
    error = classify("session/prompt", -32603, text, data)
    assert (error.code, error.status, error.retry_after_ms) == ("ACP_QUOTA", 429, expected)


@pytest.mark.parametrize(
    ("number", "text", "data", "expected"),
    [
        (-32000, "Authentication required", None, "ACP_AUTH_REQUIRED"),
        (-32000, "error", {"message": "Please sign in"}, "ACP_AUTH_REQUIRED"),
        (-32000, "Gemini API key is missing or not configured.", None, "ACP_AUTH_REQUIRED"),
        (-32000, "the author of this is unknown", None, "ACP_RPC_ERROR"),
        (-32603, "Internal error", {"type": "context_limit"}, "ACP_CONTEXT_LIMIT"),
        (-32603, "The input token count (1048577) exceeds the maximum number of tokens", None, "ACP_CONTEXT_LIMIT"),
        (-32603, "x", {"error": {"code": "context_length_exceeded"}}, "ACP_CONTEXT_LIMIT"),
        (-32603, "the request exceeds the available context size", None, "ACP_CONTEXT_LIMIT"),
        (-32603, "context canceled", None, "ACP_RPC_ERROR"),
        (-32603, "no limit of the context is known", None, "ACP_RPC_ERROR"),
        (-32603, "Authentication required", None, "ACP_RPC_ERROR"),
        (-32002, "not found: quotas.md", None, "ACP_RPC_ERROR"),
        (-32603, "line 429 of the log", None, "ACP_RPC_ERROR"),
        (-32603, SECRET, {"deep": SECRET}, "ACP_RPC_ERROR"),
    ],
)
def test_words_alone_decide_nothing(number: int, text: str, data: Any, expected: str) -> None:
    assert code(number, text, data) == expected


def test_hostile_data_is_searched_only_so_far() -> None:
    deep: Any = {"type": "quota"}
    for _ in range(5000):
        deep = {"x": deep}
    assert code(-1, "", deep) == "ACP_RPC_ERROR"
    assert code(-1, "", [{"a": n} for n in range(100_000)]) == "ACP_RPC_ERROR"
    assert code(-1, "{" * 100_000) == "ACP_RPC_ERROR"
    assert code(-1, '{"a":' * 5000 + "}" * 5000) == "ACP_RPC_ERROR"


@pytest.mark.requirement("A-063")
async def test_a_prompt_that_fails_tells_method_and_number_only() -> None:
    async with agent() as one:
        error = {"code": -32011, "message": SECRET, "data": {"message": SECRET, "stack": [SECRET]}}
        with pytest.raises(LlmError) as caught:
            await play(await one.new_session(), {"stderr": 1, "text": SECRET}, {"error": error})
        shown = caught.value
        assert shown.code == "ACP_RPC_ERROR"
        assert "session/prompt" in shown.message
        assert "-32011" in shown.message
        for part in SECRET.split():
            assert part not in str(shown)
        # Nothing that a traceback would print holds it either.
        assert shown.__cause__ is None
        assert shown.__suppress_context__


@pytest.mark.parametrize(
    ("returncode", "words"),
    [
        (0, "exit status 0"),
        (3, "exit status 3"),
        (-9, "SIGKILL"),
        (-4, "AVX"),
        (132, "AVX"),
        (143, "SIGTERM"),
        (4294967295, "exit status -1"),
        (0xC000001D, "AVX"),
        (0xC0000135, "0xC0000135"),
        (None, "still running"),
        (-200, "exit status -200"),
    ],
)
def test_how_a_process_ended_is_said_in_words(returncode: int | None, words: str) -> None:
    assert words in describe_exit(returncode)
    assert disconnected(returncode).code == "ACP_DISCONNECTED"
