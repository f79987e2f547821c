"""What the control answers, and that it never lets an argument out."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from helpers.sidecar import SCRIPTED, RemoteError, sidecar

from antigravity_control.ledger import read, verify


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the sidecar of this test has its ledger; its rules are of this test, too."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "state" / "antigravity-acp" / "ledger"


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


# ---- what the calls do ----------------------------------------------------------------------------------------------


async def decided(host: Any, name: str, cwd: Path, attended: bool = True, **arguments: Any) -> dict[str, Any]:
    call = {"id": "c1", "name": name, "arguments": arguments, "cwd": str(cwd), "sessionId": "s1"}
    found: dict[str, Any] = await host.request("control/decide", {"call": call, "attended": attended})
    return found


async def test_rules_of_the_rule_language_the_workspace_and_the_floor_decide(tmp_path: Path, ledger: Path) -> None:
    settings = {
        "control": True,
        "permissions": {"allow": ["command(git status)", "*"], "deny": ["command(curl)", "write_file(secrets/)"]},
    }
    async with sidecar(settings, SCRIPTED) as host:
        assert (await decided(host, "bash", tmp_path, command="git status -s"))["rule"] == "command(git status)"
        assert (await decided(host, "bash", tmp_path, command="true && curl x.y"))["decision"] == "deny"
        assert (await decided(host, "write", tmp_path, path="secrets/key"))["decision"] == "deny"
        # The floor is above every rule, `*` included.
        floor = await decided(host, "bash", tmp_path, command="rm -rf /")
        assert (floor["decision"], "rule" in floor) == ("deny", False)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("arguments", ["rm -rf /", ["ls"], 5, True, ""])
async def test_arguments_that_are_no_object_are_denied_whatever_the_rules_say(
    tmp_path: Path, ledger: Path, arguments: Any, recorded: bool
) -> None:
    """A rule by name would allow the call, and what the tool makes of them nobody knows."""
    settings = {"control": True, "ledger": recorded, "permissions": {"allow": ["bash", "read_file", "*"]}}
    async with sidecar(settings, SCRIPTED) as host:
        for _ in range(2):
            call = {"id": "c1", "name": "bash", "arguments": arguments, "cwd": str(tmp_path)}
            found = await host.request("control/decide", {"call": call, "attended": True})
            assert (found["decision"], "no object" in found["reason"]) == ("deny", True)
        for call in ({"id": "c2", "name": "read_file"}, {"id": "c3", "name": "read_file", "arguments": None}):
            assert (await host.request("control/decide", {"call": call}))["decision"] == "allow"


async def test_no_mode_allows_a_command_in_a_sandbox_that_the_host_does_not_have(tmp_path: Path, ledger: Path) -> None:
    settings = {"control": True, "toolPermission": "proceed-in-sandbox", "enableTerminalSandbox": True}
    async with sidecar(settings, SCRIPTED) as host:
        assert (await decided(host, "bash", tmp_path, command="true"))["decision"] == "ask"
        assert (await decided(host, "bash", tmp_path, False, command="true"))["decision"] == "deny"


@pytest.mark.requirement("X-007")
async def test_ends_that_were_never_begun_or_come_twice_leave_no_row(tmp_path: Path, ledger: Path) -> None:
    async with sidecar({"control": True, "permissions": {"allow": ["command(ls)"]}}, SCRIPTED) as host:
        report = {"call": {"id": "c1", "name": "bash", "sessionId": "s1"}, "outcome": "ok"}
        await host.request("control/report", report)
        await decided(host, "bash", tmp_path, command="ls")
        for _ in range(3):
            await host.request("control/report", report)
    rows = [entry.body for entry in read(ledger)]
    assert [row.get("decision", row.get("outcome")) for row in rows] == ["allow", "ok"]
    assert verify(ledger).ok


@pytest.mark.requirement("X-007")
async def test_every_decision_and_every_end_is_on_record(tmp_path: Path, ledger: Path) -> None:
    async with sidecar({"control": True, "permissions": {"allow": ["command(ls)"]}}, SCRIPTED) as host:
        await decided(host, "bash", tmp_path, command="ls the-folder")
        await host.request("control/report", {"call": {"id": "c1", "name": "bash", "sessionId": "s1"}, "outcome": "ok"})
        await decided(host, "bash", tmp_path, command="touch it")
        report = {"call": {"id": "c1", "name": "bash", "sessionId": "s1"}, "outcome": "denied"}
        await host.request("control/report", report)
    rows = [entry.body for entry in read(ledger)]
    assert [row.get("decision", row.get("outcome")) for row in rows] == ["allow", "ok", "ask", "not_run"]
    assert {row["conversation"] for row in rows} == {"s1"}
    assert (rows[0]["tool"], rows[0]["native_tool"], rows[0]["rule"]) == ("Bash", "bash", "command(ls)")
    assert "the-folder" not in json.dumps(rows)
    assert verify(ledger).ok


async def test_what_cannot_be_recorded_is_asked_about_and_denied_where_nobody_is(tmp_path: Path, ledger: Path) -> None:
    ledger.parent.mkdir(parents=True)
    ledger.write_text("this is no folder")
    async with sidecar({"control": True, "permissions": {"allow": ["command(ls)"]}}, SCRIPTED) as host:
        for attended, decision in ((True, "ask"), (False, "deny")):
            found = await decided(host, "bash", tmp_path, attended, command="ls")
            assert found["decision"] == decision
            assert "ledger" in found["reason"]
    async with sidecar({"control": True, "ledger": False, "permissions": {"allow": ["command(ls)"]}}, SCRIPTED) as host:
        assert (await decided(host, "bash", tmp_path, command="ls"))["decision"] == "allow"


async def test_settings_that_change_count_from_the_next_decision(tmp_path: Path, ledger: Path) -> None:
    async with sidecar({"control": True, "permissions": {"allow": ["command(ls)"]}}, SCRIPTED) as host:
        assert (await decided(host, "bash", tmp_path, command="ls"))["decision"] == "allow"
        settings = {"control": True, "permissions": {"deny": ["command(ls)"]}}
        await host.request("settings/update", {"settings": settings})
        assert (await decided(host, "bash", tmp_path, command="ls"))["decision"] == "deny"
        with pytest.raises(RemoteError, match=r"permissions\.deny\[0\]"):
            await host.request("settings/update", {"settings": {**settings, "permissions": {"deny": ["launch(x)"]}}})
        # What was refused changed nothing.
        assert (await decided(host, "bash", tmp_path, command="ls"))["decision"] == "deny"
    assert os.path.isdir(ledger)
