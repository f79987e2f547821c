"""Whole governed turns on the embedded engine: Google's harness as a process of its own, the Python host, a ledger.

Only the model's words are scripted. Of each turn three witnesses are heard: what the model endpoint received, whether
the command left its mark in the workspace, and every row of the ledger, whose chain verifies.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.conversation import until
from helpers.engine import engine_settings
from helpers.journals import json_lines

from antigravity_acp.contract import AbortController
from antigravity_acp.governing import Governor, Records
from antigravity_acp.hooks import ToolCall, hookimpl
from antigravity_acp.host import (
    AgentLoop,
    Approvals,
    GovernedApprover,
    Host,
    LineReader,
    Selection,
    TerminalApprover,
    TurnResult,
)
from antigravity_acp.host.events import LoopEvent, ToolDecided
from antigravity_control import Decision
from antigravity_control.ledger import read, verify

pytestmark = pytest.mark.requirement("X-006", "X-007")

SECRET = "ghp_" + "Zq7" * 12
#: Of the floor, and harmless wherever it should run all the same: there is no such folder.
FLOORED = "touch made; mkfs.ext4 /nonexistent-folder/disk"
#: What a row says of the mode while the escape hatch is on.
HATCH: dict[str, Any] = {"mode": "request-review skip", "escape_hatch": True}
Row = dict[str, Any]
#: What differs from run to run, and what :meth:`Desk.rows` looks at for every row.
VARIES = {
    *("call", "conversation", "seq", "time", "prev", "duration_us", "arguments_digest", "decision_row", "reason"),
    *("host", "engine", "tier", "v"),
}


def run(line: str) -> dict[str, Any]:
    return {"name": "run_command", "arguments": {"command": line}}


def script(*calls: dict[str, Any]) -> list[dict[str, Any]]:
    """One model message with these calls, and one that repeats every result."""
    return [{"when": {"round": 0}, "calls": list(calls)}, {"text": "Told: {{results}}"}]


class Desk:
    """The host, its workspace, and a person who may sit in front of it."""

    def __init__(self, place: Path, *, attended: bool) -> None:
        self.place, self.attended = place, attended
        self.workspace, self.ledger = place / "workspace", place / "ledger"
        self.rules_file = place / "config" / "permissions.json"
        for each in (self.workspace, place / "home"):
            each.mkdir(exist_ok=True)
        self.screen = ""
        self.events: list[LoopEvent] = []
        self.signal = AbortController()
        self.loop: AgentLoop
        self.keyboard, self._typing = os.pipe()

    def show(self, text: str) -> None:
        self.screen += text

    def type(self, text: str) -> None:
        os.write(self._typing, text.encode())

    def leave(self) -> None:
        os.close(self.keyboard)
        os.close(self._typing)

    async def turn(self) -> TurnResult:
        """One turn, which ends well whatever became of its calls."""
        async with asyncio.timeout(60):
            result = await self.loop.run("go", signal=self.signal.signal)
        assert result.failure is None
        return result

    @property
    def decided(self) -> list[ToolDecided]:
        return [event for event in self.events if isinstance(event, ToolDecided)]

    def told(self) -> str:
        """What the model was sent last, results of its calls included."""
        return json.dumps(json_lines(self.place / "model.jsonl")[-1]["body"], ensure_ascii=False)

    def made(self, name: str = "made") -> bool:
        return (self.workspace / name).exists()

    def rows(self, *, before: int = 0) -> list[Row]:
        """Every row behind the first ``before``, without what differs from run to run once that was looked at."""
        assert verify(self.ledger).ok
        every = [entry.body for entry in read(self.ledger)]
        calls = {body["seq"]: body["call"] for body in every if body["kind"] == "decision"}
        reasons = {event.id: event.reason for event in self.decided}
        for body in every[before:]:
            assert (body["host"], body["engine"]) == ("test", "embedded")
            assert body["conversation"] == self.loop.session_id
            assert type(body["duration_us"]) is int
            if body["kind"] == "decision":
                assert body["tier"] == ("interactive" if self.attended else "background")
                assert body["arguments_digest"]
                # What the model and the person were told; nobody was told of a question that was left open.
                assert body["decision"] == "ask" or body["reason"] == reasons[body["call"]]
            else:
                assert calls[body["decision_row"]] == body["call"]
        return [{name: value for name, value in body.items() if name not in VARIES} for body in every[before:]]


@asynccontextmanager
async def desk_in(
    place: Path,
    rules: list[dict[str, Any]],
    *,
    typed: str | None = None,
    plugins: tuple[object, ...] = (),
    engine: tuple[str, ...] = (),
    **values: Any,
) -> AsyncIterator[Desk]:
    """:param typed: what the person types; ``None`` is a host with nobody in front of it.
    :param engine: further arguments of the engine. Other keywords are settings.
    """
    desk, settings = Desk(place, attended=typed is not None), engine_settings(place, rules, arguments=engine, **values)
    desk.type(typed or "")
    governor = Governor(
        settings, desk.workspace, attended=desk.attended, home=place / "home", confines=True,
        records=Records(settings, host="test", path=desk.ledger), rules_file=desk.rules_file,
    )  # fmt: skip
    person = TerminalApprover(LineReader(desk.keyboard), desk.show, governor) if desk.attended else None
    try:
        async with Host({"antigravity-acp": {"engine": "embedded", "args": list(settings.args)}}) as host:
            host.ctx.effect(governor.aclose, "records")
            host.ctx.provide("governor", governor)
            await host.start(Selection(only=frozenset({"antigravity-acp"})))
            for number, plugin in enumerate(plugins):
                assert await host.mount(f"other-{number}", plugin)
            desk.loop = AgentLoop(
                host.ctx, model=host.choose_model(), workspace=desk.workspace,
                approver=Approvals(GovernedApprover(governor), person), listener=desk.events.append,
            )  # fmt: skip
            yield desk
    finally:
        desk.leave()


def decision(said: str, source: str, **more: Any) -> Row:
    """A decision about ``run_command``, as it stands in the ledger."""
    return {
        "kind": "decision", "tool": "Bash", "native_tool": "run_command", "decision": said, "source": source,
        "mode": "request-review", "soft": False, "escape_hatch": False, **more,
    }  # fmt: skip


def outcome(how: str, **more: Any) -> Row:
    output = {"output": "passed"} if how == "ok" else {}
    return {"kind": "outcome", "tool": "Bash", "native_tool": "run_command", "outcome": how, **output, **more}


async def test_an_allowed_call_runs_and_the_model_is_told_its_output(tmp_path: Path) -> None:
    rules = {"allow": ["command(touch)", "command(echo)"]}
    async with desk_in(tmp_path, script(run("touch made && echo a-word")), permissions=rules) as desk:
        result = await desk.turn()
        assert "a-word" in result.text
        assert "a-word" in desk.told().partition("functionResponse")[2]
        assert desk.made()
        rows = desk.rows()
    # Two rules let the line run; the first of them stands for it.
    assert rows == [decision("allow", "rule", rule="command(touch)", scope="plugin"), outcome("ok")]


@pytest.mark.parametrize(
    ("typed", "ran", "row"),
    [
        ("yes\n", True, decision("allow", "person", approver="terminal:once")),
        ("no\n", False, decision("deny", "person", approver="terminal")),
    ],
    ids=["yes", "no"],
)
async def test_a_question_is_answered_yes_or_no(tmp_path: Path, typed: str, ran: bool, row: Row) -> None:
    async with desk_in(tmp_path, script(run("touch made")), typed=typed) as desk:
        result = await desk.turn()
        assert desk.made() is ran
        assert ("The person did not allow this call." in result.text) is not ran
        assert ("The person did not allow this call." in desk.told()) is not ran
        assert desk.screen.count("wants to run") == 1
        assert desk.rows() == [row, outcome("ok" if ran else "not_run")]


async def test_always_is_a_rule_in_the_file_and_the_next_session_does_not_ask(tmp_path: Path) -> None:
    async with desk_in(tmp_path, script(run("touch one")), typed="always\n") as desk:
        await desk.turn()
        assert desk.made("one")
        first = desk.rows()
    assert first == [
        decision("allow", "person", rule="command(touch)", scope="plugin", approver="terminal:always"), outcome("ok"),
    ]  # fmt: skip
    assert json.loads(desk.rules_file.read_text()) == {"permissions": {"allow": ["command(touch)"]}}
    # Another host, another session, another agent; the same file of rules and the same ledger.
    async with desk_in(tmp_path, script(run("touch two")), typed="no\n") as later:
        assert later.loop.session_id != desk.loop.session_id
        await later.turn()
        assert later.made("two")
        assert later.screen == ""
        rows = later.rows(before=len(first))
    assert rows == [decision("allow", "rule", rule="command(touch)", scope="plugin"), outcome("ok")]


async def test_always_is_not_offered_where_its_rule_would_hold_a_secret(tmp_path: Path) -> None:
    line = f"bash -c 'touch made' {SECRET}"
    async with desk_in(tmp_path, script(run(line)), typed="always\nyes\n") as desk:
        await desk.turn()
        assert desk.made()
        assert "(no always: its rule would hold a secret (github-token))\n" in desk.screen
        assert "[a]lways" not in desk.screen
        assert not desk.rules_file.exists()
        assert desk.rows() == [decision("allow", "person", approver="terminal:once"), outcome("ok")]
        assert SECRET not in str([entry.body for entry in read(desk.ledger)])


@pytest.mark.requirement("B-008")
async def test_headless_a_question_is_a_soft_denial_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with desk_in(tmp_path, script(run("touch made"))) as desk:
        result = await desk.turn()
        assert result.kind == "stop"
        assert "`run_command` needs an approval and nobody can be asked here" in result.text
        assert "needs an approval and nobody can be asked here" in desk.told()
        assert desk.decided[0].remedies == ("command(touch)",)
        assert not desk.made()
        assert desk.rows() == [decision("deny", "headless", soft=True), outcome("not_run")]


@pytest.mark.requirement("B-022", "B-037")
async def test_the_floor_denies_with_the_escape_hatch_on(tmp_path: Path) -> None:
    hatch = {"dangerouslySkipPermissions": True, "permissions": {"allow": ["command(*)"]}}
    async with desk_in(tmp_path, script(run("date; touch other"), run(FLOORED)), typed="yes\nyes\n", **hatch) as desk:
        result = await desk.turn()
        assert "The host denied this call." in result.text
        assert "The host denied this call." in desk.told()
        assert (desk.made("other"), desk.made()) == (True, False)
        assert desk.screen == ""
        first, _, floored, ended = desk.rows()
    assert first == decision("allow", "rule", rule="command(*)", scope="plugin", **HATCH)
    assert floored.pop("floor")
    assert (floored, ended) == (decision("deny", "floor", **HATCH), outcome("not_run"))


async def test_the_escape_hatch_makes_an_allow_of_a_question_and_is_on_record(tmp_path: Path) -> None:
    async with desk_in(tmp_path, script(run("touch made")), dangerouslySkipPermissions=True) as desk:
        await desk.turn()
        assert desk.made()
        assert desk.rows() == [decision("allow", "flag", **HATCH), outcome("ok")]


async def test_a_rule_that_a_person_wrote_with_a_secret_in_it_is_on_record_without_it(tmp_path: Path) -> None:
    rules = {"allow": [f"command(touch made {SECRET})"]}
    async with desk_in(tmp_path, script(run(f"touch made {SECRET}")), permissions=rules) as desk:
        await desk.turn()
        assert desk.made()
        assert verify(desk.ledger).ok
        decided, ended = (dict(entry.body) for entry in read(desk.ledger))
    assert decided["rule"] == "command(touch made [redacted: github-token])"
    assert decided["reason"] == f"The rule `{decided['rule']}` allows this line."
    assert (decided["decision"], ended["outcome"]) == ("allow", "ok")


class Guard:
    """A plugin that denies every call."""

    @hookimpl
    def before_tool(self, call: ToolCall) -> Decision:
        return Decision("deny", f"not on my watch: {SECRET}", "whoever")


@pytest.mark.requirement("B-022")
async def test_a_hook_denies_above_every_rule_and_its_words_are_on_record_without_their_secret(tmp_path: Path) -> None:
    rules = {"allow": ["command(touch)"]}
    async with desk_in(tmp_path, script(run("touch made")), plugins=(Guard(),), permissions=rules) as desk:
        result = await desk.turn()
        assert "not on my watch" in result.text
        assert "not on my watch" in desk.told()
        assert not desk.made()
        bodies = [dict(entry.body) for entry in read(desk.ledger)]
    assert verify(desk.ledger).ok
    assert [body.get("decision") or body["outcome"] for body in bodies] == ["deny", "not_run"]
    assert (bodies[0]["source"], bodies[0].get("rule")) == ("hook:other-0", None)
    assert bodies[0]["reason"] == "not on my watch: [redacted: github-token]"


@pytest.mark.requirement("X-008")
async def test_the_model_is_told_the_output_without_its_secret(tmp_path: Path) -> None:
    rules = {"allow": ["command(cat)", "command(touch)"]}
    calls = script(run("touch made && cat notes.txt"))
    async with desk_in(tmp_path, calls, outputPolicy="redact", permissions=rules) as desk:
        (desk.workspace / "notes.txt").write_text(f"before\ntoken {SECRET}\nafter\n")
        result = await desk.turn()
        assert desk.made()
        for text in (result.text, desk.told()):
            assert "[redacted: github-token]" in text
            assert "after" in text
        assert SECRET not in (desk.place / "model.jsonl").read_text()
        rows = desk.rows()
    assert rows[0]["decision"] == "allow"
    assert rows[1:] == [outcome("ok", output="redacted", findings=["github-token"])]


@pytest.mark.requirement("A-013")
async def test_of_two_calls_of_one_message_one_is_denied_and_each_has_its_own_rows(tmp_path: Path) -> None:
    rules = {"allow": ["command(touch)"], "deny": ["command(mkdir)"]}
    async with desk_in(tmp_path, script(run("mkdir folder"), run("touch made")), permissions=rules) as desk:
        result = await desk.turn()
        assert "The host denied this call." in result.text
        assert (desk.made("folder"), desk.made()) == (False, True)
        asked = [each for each in json_lines(tmp_path / "model.jsonl")[-1]["body"]["contents"] if "parts" in each]
        together = [sum("functionCall" in part for part in each["parts"]) for each in asked]
        assert 2 in together, "the calls came in one message"
        assert len({event.id for event in desk.decided}) == 2
        rows = desk.rows()
    denied = [decision("deny", "rule", rule="command(mkdir)", scope="plugin"), outcome("not_run")]
    allowed = [decision("allow", "rule", rule="command(touch)", scope="plugin"), outcome("ok")]
    # Whichever came first: `Desk.rows` has seen that each outcome belongs to the decision about the same call.
    assert sorted(rows, key=str) == sorted(denied + allowed, key=str)


@pytest.mark.requirement("X-010", "X-011")
async def test_an_answer_later_than_the_agents_own_limit_leaves_one_decision_and_one_outcome(tmp_path: Path) -> None:
    follow = {
        "when": {"result": {"regex": r'"ticket": "(?P<ticket>[^"]+)"\}\s*\Z'}},
        "calls": [{"name": "wait_for_ticket", "arguments": {"ticket": "{{match.ticket}}"}}],
    }
    first, last = script(run("touch made && echo a-word"))
    allowed = {"allow": ["command(echo)"]}
    short = ("--mcp-timeout", "2")
    async with desk_in(tmp_path, [first, follow, last], typed="", engine=short, permissions=allowed) as desk:
        turn = asyncio.create_task(desk.turn())
        # Each wait ends a little before the agent's limit of 2 s; the second one is beyond it.
        await until(lambda: len(json_lines(tmp_path / "model.jsonl")) > 2, "the model waits again")
        assert "ticket" in desk.told()
        assert not desk.made()
        desk.type("yes\n")
        result = await turn
        assert desk.made()
        assert "a-word" in result.text
        assert desk.screen.count("wants to run") == 1
        assert desk.rows() == [decision("allow", "person", approver="terminal:once"), outcome("ok")]
        waited = next(iter(read(desk.ledger))).body["duration_us"]
    assert isinstance(waited, int)
    assert waited > 2_000_000, "the decision took as long as the person did"


@pytest.mark.requirement("A-012")
@pytest.mark.parametrize("how", ["signal", "task"])
async def test_a_turn_that_is_cancelled_under_an_open_question_leaves_the_question_and_how_it_ended(
    tmp_path: Path, how: str
) -> None:
    async with desk_in(tmp_path, script(run("touch made")), typed="") as desk:
        turn = asyncio.create_task(desk.loop.run("go", signal=desk.signal.signal))
        await until(lambda: "Allow run_command?" in desk.screen, "the person is asked")
        if how == "signal":
            desk.signal.abort("enough")
        else:
            turn.cancel()
        async with asyncio.timeout(20):
            await asyncio.wait({turn})
        assert turn.cancelled() or turn.result().kind == "aborted"
        assert not desk.made()
        assert desk.decided == []
        assert desk.rows() == [decision("ask", "default"), outcome("cancelled")]


async def test_a_question_that_nobody_answers_in_time_is_one_denial_and_no_open_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antigravity_acp.host._calls.APPROVAL_TIMEOUT_S", 0.2)
    async with desk_in(tmp_path, script(run("touch made")), typed="") as desk:
        result = await desk.turn()
        assert "Nobody answered within 0.2 s." in result.text
        assert not desk.made()
        assert desk.rows() == [decision("deny", "headless", soft=True), outcome("not_run")]
