"""How long an agent waits for one tool call: its profile says so, and a process that announces it knows better."""

from typing import Any

import pytest
from helpers.agent import agent

from antigravity_acp.acp import PROFILES, STRICT, profile_for

pytestmark = pytest.mark.requirement("X-011")


def announcing(value: Any) -> dict[str, Any]:
    return {"_meta": {"antigravity-acp": {"mcpCallLimitSeconds": value}}}


def test_every_profile_has_a_limit_and_an_unknown_agent_the_shortest() -> None:
    assert {one.id: one.call_limit_s for one in PROFILES} == {"official": 180, "engine": 1800, "gemini-cli": 600}
    assert profile_for("somebody").call_limit_s == 60
    assert all(one.call_limit_s >= STRICT.call_limit_s for one in PROFILES)


@pytest.mark.parametrize("value", [4, 4.5, 86_400])
def test_an_announced_limit_wins_and_changes_nothing_else(value: float) -> None:
    for name in ("antigravity-engine", "somebody"):
        plain, announced = profile_for(name), profile_for(name, announcing(value))
        assert announced.call_limit_s == value
        assert announced.id == plain.id
        assert announced.allow_option == plain.allow_option
    assert profile_for("antigravity-engine").call_limit_s == 1800


@pytest.mark.parametrize(
    "capabilities",
    [
        *map(announcing, [0, -1, True, "180", None, [1], float("inf"), float("nan"), 10**400]),
        {"_meta": {"antigravity-acp": 5}},
        {"_meta": [1]},
        {"mcpCallLimitSeconds": 5},
    ],
)
def test_what_is_no_limit_is_ignored(capabilities: dict[str, Any]) -> None:
    assert profile_for("antigravity-acp", capabilities).call_limit_s == 180


async def test_the_limit_is_read_from_initialize() -> None:
    capabilities = {"mcpCapabilities": {"http": True}, **announcing(7)}
    result = {"agentInfo": {"name": "antigravity-acp", "version": "1"}, "agentCapabilities": capabilities}
    async with agent({"init_result": result}) as one:
        assert (one.profile.id, one.profile.call_limit_s) == ("official", 7)
        assert one.mcp_http
