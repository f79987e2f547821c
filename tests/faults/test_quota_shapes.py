"""How a used-up quota really looks on the wire, and when it says that it ends.

The shapes follow what users of the official server, of Gemini and of other ACP agents have reported; ids and amounts
are made up. What only looks like a quota is below.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from antigravity_acp.acp.errors import classify

HOUR = 3_600_000


def google(message: str, *details: dict[str, Any], code: int = 429) -> dict[str, Any]:
    """An error of a Google API."""
    return {"error": {"code": code, "message": message, "status": "RESOURCE_EXHAUSTED", "details": list(details)}}


def info(reason: str, **metadata: str) -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": "cloudcode-pa.googleapis.com",
        "metadata": {"uiMessage": "true", "model": "some-model", **metadata},
    }


def retry(delay: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def after(**delta: float) -> str:
    return (datetime.now(UTC) + timedelta(**delta)).strftime("%Y-%m-%dT%H:%M:%SZ")


FULL = google(
    "Individual quota reached. Resets in 71h15m27s.",
    info("QUOTA_EXHAUSTED", quotaResetDelay="71h15m27.79s", quotaResetTimeStamp="2001-01-01T00:00:00Z"),
    retry("256527.79s"),
)
USAGE = '402 {"detail":"You have reached your 5-hour usage limit (resets in 3h 21min)","status":402}'

#: Number, message and data of the answer; HTTP status and milliseconds that must come of it.
SHAPES = [
    pytest.param(-32603, "Internal error", FULL, 429, 256_527_790, id="google-full"),
    pytest.param(-32603, "Internal error", {"details": json.dumps(FULL)}, 429, 256_527_790, id="google-as-text"),
    pytest.param(
        -32603, "Internal error: " + json.dumps(json.dumps(FULL)), None, 429, 256_527_790, id="google-quoted-twice"
    ),
    pytest.param(
        -32603,
        "Internal error",
        google("Slow down", info("RATE_LIMIT_EXCEEDED", quotaResetDelay="479.417207ms")),
        429,
        479,
        id="delay-in-milliseconds",
    ),
    pytest.param(
        -32603, "Internal error", google("Resource has been exhausted (e.g. check quota)."), 429, None, id="no-time"
    ),
    pytest.param(-32603, "RESOURCE_EXHAUSTED (code 429): Resets in 108h48m29s.", None, 429, 391_709_000, id="words"),
    pytest.param(
        -32603, "You have exhausted your capacity on this model. Your quota will reset after 0s.", None, 429, 0, id="0s"
    ),
    pytest.param(-32603, f"Agent error: {json.dumps(USAGE)}", None, 402, 3 * HOUR + 21 * 60_000, id="402-in-a-message"),
    pytest.param(-32603, "Internal error", {"message": USAGE}, 402, 3 * HOUR + 21 * 60_000, id="402-in-the-data"),
    pytest.param(-32603, "Internal error", {"status": "402", "title": "Payment Required"}, 402, None, id="402-text"),
    pytest.param(402, "", None, 402, None, id="402-as-number"),
    pytest.param(429, "Rate limit exceeded. Try again later.", None, 429, None, id="gemini-cli"),
    pytest.param(-32603, "HTTP 429 Too Many Requests", None, 429, None, id="http-line"),
    pytest.param(
        -32603,
        "x",
        {"info": "usage_limit_exceeded", "m": "try again in 3 hours 12 minutes."},
        429,
        11_520_000,
        id="words-2",
    ),
    pytest.param(-32603, "x", {"reason": "INSUFFICIENT_G1_CREDITS_BALANCE"}, 429, None, id="credits"),
    pytest.param(-32603, "x", {"type": "quota", "retryAfterMs": 1500}, 429, 1500, id="our-engine"),
    pytest.param(-32603, "x", {"type": "quota", "retryAfter": "7 days"}, 429, 7 * 24 * HOUR, id="a-week"),
    pytest.param(-32603, "x", {"type": "quota", "retryAfter": "8 days"}, 429, None, id="longer-than-a-week"),
    pytest.param(-32603, "x", {"type": "quota", "retryAfter": "7 " * 40}, 429, None, id="no-delay-at-all"),
]


@pytest.mark.requirement("A-063")
@pytest.mark.parametrize(("number", "text", "data", "status", "expected"), SHAPES)
def test_every_known_shape_is_a_quota_with_its_time(
    number: int, text: str, data: Any, status: int, expected: int | None
) -> None:
    error = classify("session/prompt", number, text, data)
    assert (error.code, error.status, error.retry_after_ms) == ("ACP_QUOTA", status, expected)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(lambda: after(hours=2), id="rfc-3339"),
        pytest.param(lambda: datetime.now(UTC).timestamp() + 7200, id="seconds"),
        pytest.param(lambda: (datetime.now(UTC).timestamp() + 7200) * 1000, id="milliseconds"),
    ],
)
def test_a_moment_becomes_a_delay(moment: Any) -> None:
    error = classify("session/prompt", -32603, "x", {"type": "quota", "quotaResetTimeStamp": moment()})
    assert error.retry_after_ms is not None
    assert abs(error.retry_after_ms - 2 * HOUR) < 60_000


@pytest.mark.parametrize(
    "moment", ["2001-01-01T00:00:00Z", "soon", "9999-12-31T23:59:59Z", "1" * 400, True, None, [], float("nan"), 1e300]
)
def test_a_moment_that_says_nothing_is_none(moment: Any) -> None:
    error = classify("session/prompt", -32603, "x", {"type": "quota", "quotaResetTimeStamp": moment})
    assert (error.code, error.retry_after_ms) == ("ACP_QUOTA", None)


@pytest.mark.parametrize(
    "text",
    [
        "Disk quota exceeded",
        "line 429 of the log",
        "port 402 is in use",
        "quota.py: no such file",
        "the answer has 429 tokens",
        '{"code": 404, "message": "not found"}',
        '{"code": 500, "message": "Internal error encountered.", "status": "INTERNAL"}',
    ],
)
def test_what_only_looks_like_a_quota_is_none(text: str) -> None:
    for error in (classify("session/prompt", -32603, text, None), classify("session/prompt", -32603, "x", {"m": text})):
        assert (error.code, error.retry_after_ms) == ("ACP_RPC_ERROR", None)
