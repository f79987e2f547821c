"""Signing in happens when the agent asks for it, by the method that was chosen, and never otherwise."""

import json
from typing import Any

import pytest
from helpers.agent import agent, play
from helpers.journals import json_lines

from antigravity_acp.contract import LlmError

OFFICIAL = {"name": "antigravity-acp", "auth": ["oauth-business", "oauth-personal", "gemini-api-key"]}


async def methods_after_a_session(options: dict[str, Any], **settings: Any) -> list[str]:
    async with agent(options, **settings) as one:
        seen = await play(await one.new_session(), {"tell": "requests"})
        told: list[str] = json.loads(seen.text)
        return told


async def sign_in_fails(options: dict[str, Any], **settings: Any) -> LlmError:
    async with agent(options, **settings) as one:
        with pytest.raises(LlmError) as caught:
            await one.new_session()
        return caught.value


@pytest.mark.requirement("A-007")
async def test_a_signed_in_agent_is_never_asked_to_sign_in() -> None:
    assert await methods_after_a_session(OFFICIAL) == ["initialize", "session/new", "session/prompt"]


@pytest.mark.requirement("A-007")
async def test_a_refused_session_leads_to_one_sign_in_and_one_more_session() -> None:
    told = await methods_after_a_session({**OFFICIAL, "auth_needed": True})
    assert told == ["initialize", "session/new", "authenticate", "session/new", "session/prompt"]


@pytest.mark.requirement("A-007")
@pytest.mark.parametrize(
    ("name", "configured", "expected"),
    [
        ("antigravity-acp", "", "oauth-personal"),
        ("antigravity-acp", "gemini-api-key", "gemini-api-key"),
        ("gemini-cli", "", "gemini-api-key"),
        ("unheard-of", "oauth-business", "oauth-business"),
    ],
)
async def test_the_method_is_the_configured_one_or_the_profiles(
    name: str, configured: str, expected: str, tmp_path: Any
) -> None:
    record = tmp_path / "record"
    options = {**OFFICIAL, "name": name, "auth_needed": True, "record": str(record)}
    await methods_after_a_session(options, authMethod=configured)
    sent = json_lines(record)
    assert [item["params"] for item in sent if item.get("method") == "authenticate"] == [{"methodId": expected}]


async def test_a_second_refusal_is_final() -> None:
    error = await sign_in_fails({**OFFICIAL, "auth_needed": True, "auth_useless": True})
    assert error.code == "ACP_AUTH_REQUIRED"


async def test_a_failed_sign_in_tells_nothing_of_the_agents_text() -> None:
    error = await sign_in_fails({**OFFICIAL, "auth_needed": True, "auth_fails": True})
    assert error.code == "ACP_AUTH_REQUIRED"
    assert "example" not in str(error)
    assert "somebody" not in repr(error.__cause__)


async def test_a_method_that_is_not_announced_is_not_tried() -> None:
    configured = await sign_in_fails({**OFFICIAL, "auth_needed": True}, authMethod="agent-platform")
    assert configured.code == "ACP_AUTH_UNSUPPORTED"
    assert "agent-platform" not in configured.message
    usual = await sign_in_fails({**OFFICIAL, "auth": ["oauth-business"], "auth_needed": True})
    assert usual.code == "ACP_AUTH_UNSUPPORTED"


async def test_an_unknown_agent_without_a_chosen_method_is_not_signed_in_by_guess() -> None:
    error = await sign_in_fails({"name": "unheard-of", "auth": ["only-one"], "auth_needed": True})
    assert error.code == "ACP_AUTH_REQUIRED"
    assert "authMethod" in error.message


async def test_a_sign_in_that_never_ends_is_bounded_by_its_own_limit() -> None:
    error = await sign_in_fails({**OFFICIAL, "auth_needed": True, "auth_hangs": True}, authTimeoutMs=200)
    assert error.code == "ACP_TIMEOUT"
    assert "authTimeoutMs" in error.message
    assert "authenticate" in error.message


async def test_a_plain_server_error_with_the_same_number_starts_no_sign_in() -> None:
    broken = {"code": -32000, "message": "upstream exploded"}
    error = await sign_in_fails({**OFFICIAL, "session_error": broken})
    assert error.code == "ACP_RPC_ERROR"
