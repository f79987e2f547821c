"""What the control answers, and that it never lets an argument out."""

from typing import Any

import pytest
from helpers.sidecar import SCRIPTED, RemoteError, sidecar


def question(name: str, **more: Any) -> dict[str, Any]:
    return {"call": {"id": "c1", "name": name, "arguments": {"command": "secret"}}, **more}


async def test_a_control_that_is_off_allows_and_says_so() -> None:
    async with sidecar({"permissions": {"deny": ["bash"]}}, SCRIPTED) as host:
        assert await host.request("control/decide", question("bash", attended=True)) == {
            "decision": "allow",
            "reason": "control is off",
        }


async def test_deny_ask_allow_and_the_default_with_their_rules() -> None:
    settings = {"control": True, "permissions": {"allow": ["read_file"], "ask": ["write_file"], "deny": ["bash"]}}
    async with sidecar(settings, SCRIPTED) as host:
        found = {
            name: await host.request("control/decide", question(name, attended=True))
            for name in ("bash", "write_file", "read_file", "other")
        }
        assert {name: one["decision"] for name, one in found.items()} == {
            "bash": "deny",
            "write_file": "ask",
            "read_file": "allow",
            "other": "ask",
        }
        rules = {name: one.get("rule") for name, one in found.items()}
        assert rules == {"bash": "!bash", "write_file": "?write_file", "read_file": "read_file", "other": None}
        assert "secret" not in str(found)
        numbers = await host.request("diagnostics")
        assert (numbers["control_deny"], numbers["control_ask"], numbers["control_allow"]) == (1, 2, 1)


async def test_where_nobody_can_be_asked_an_ask_is_a_denial() -> None:
    async with sidecar({"control": True}, SCRIPTED) as host:
        for attended, decision in ((True, "ask"), (False, "deny")):
            found = await host.request("control/decide", question("bash", attended=attended))
            assert found["decision"] == decision
        # Left out, it is what the host said of itself: a person is there.
        assert (await host.request("control/decide", question("bash")))["decision"] == "ask"


async def test_reports_are_counted() -> None:
    async with sidecar({"control": True}, SCRIPTED) as host:
        for outcome in ("ok", "ok", "denied", "error", "cancelled"):
            await host.request("control/report", {"call": {"id": "c1", "name": "bash"}, "outcome": outcome})
        numbers = await host.request("diagnostics")
        assert [numbers[f"control_outcome_{one}"] for one in ("ok", "denied", "error", "cancelled")] == [2, 1, 1, 1]
        host.keep = False
        with pytest.raises(RemoteError, match=r"params\.outcome must be one of"):
            await host.request("control/report", {"call": {"id": "c1", "name": "bash"}, "outcome": "fine"})
