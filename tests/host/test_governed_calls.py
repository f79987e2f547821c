"""Whole turns with a governor: what is asked, what runs, what the model sees of it, and what is on record."""

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.loopback import directive, loopback_settings

from antigravity_acp.contract import AbortController, OpaqueBlock, ReasoningBlock, TextBlock
from antigravity_acp.governing import GovernedCall, Governor, Records
from antigravity_acp.hooks import ToolCall, ToolResult, hookimpl
from antigravity_acp.hooks.own import AntigravityPlugin
from antigravity_acp.host import (
    AgentLoop,
    ApprovalRequest,
    Approvals,
    GovernedApprover,
    Host,
    LineReader,
    ModelChoice,
    TerminalApprover,
    ToolRegistry,
    builtin_tools,
)
from antigravity_acp.host.events import LoopEvent, ToolDecided, ToolEnded
from antigravity_acp.settings import Settings
from antigravity_control import Decision, Rules
from antigravity_control.ledger import read, verify
from antigravity_control.sandbox import SandboxPlan

SECRET = "ghp_" + "Zq7" * 12
Step = dict[str, Any]


def call(name: str, **arguments: Any) -> Step:
    return {"call": {"name": name, "arguments": arguments}}


class Desk:
    """A host that governs its calls, a workspace, a home of its own, and a person who types."""

    def __init__(self, place: Path) -> None:
        self.workspace, self.home = place / "workspace", place / "home"
        self.ledger = place / "ledger"
        self.rules_file = place / "config" / "permissions.json"
        for each in (self.workspace, self.home):
            each.mkdir()
        self.shown = ""
        self.planned: list[bool] = []
        self.events: list[LoopEvent] = []
        self.governor: Governor
        self.tools: ToolRegistry
        self.loop: AgentLoop
        self.approver: Approvals

    def sandbox_for(self, command: str, cwd: Path) -> SandboxPlan | None:
        plan = self.governor.sandbox_for(command, cwd)
        self.planned.append(plan is not None)
        return plan

    async def turn(self, *steps: Step) -> None:
        """One turn; it ends well, whatever became of its calls."""
        result = await self.loop.run(directive(*steps, {"say": "done"}))
        assert result.failure is None

    @property
    def decisions(self) -> list[ToolDecided]:
        return [event for event in self.events if isinstance(event, ToolDecided)]

    @property
    def results(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, ToolEnded)]

    def rows(self) -> list[dict[str, Any]]:
        """What is on record, and that nobody changed it."""
        assert verify(self.ledger).ok
        return [entry.body for entry in read(self.ledger)]

    def keeps(self) -> list[str]:
        found: list[str] = json.loads(self.rules_file.read_text())["permissions"]["allow"]
        return found


def settings_of(**values: Any) -> Settings:
    return loopback_settings(None, **values)


@asynccontextmanager
async def desk_in(
    place: Path, *, typed: str | None = None, names: str = "", plugins: tuple[object, ...] = (), **values: Any
) -> AsyncIterator[Desk]:
    """:param typed: what the person types; ``None`` is a host with nobody in front of it."""
    desk, settings = Desk(place), settings_of(**values)
    if typed is not None:
        (place / "typed").write_text(typed)
    keyboard = os.open(os.devnull if typed is None else place / "typed", os.O_RDONLY)
    desk.governor = Governor(
        settings, desk.workspace, attended=typed is not None, home=desk.home, names=Rules.parse(names),
        records=Records(settings, host="test", path=desk.ledger), rules_file=desk.rules_file, confines=True,
    )  # fmt: skip

    def show(text: str) -> None:
        desk.shown += text

    person = TerminalApprover(LineReader(keyboard), show, desk.governor)
    try:
        async with Host({"antigravity-acp": {"command": settings.command, "args": list(settings.args)}}) as host:
            host.ctx.effect(desk.governor.aclose, "records")
            host.ctx.provide("governor", desk.governor)
            desk.tools = host.ctx.tools
            for tool in builtin_tools(desk.sandbox_for):
                host.ctx.tools.register(tool)
            assert await host.mount("antigravity-acp", AntigravityPlugin())
            for number, plugin in enumerate(plugins):
                assert await host.mount(f"other-{number}", plugin)
            desk.approver = Approvals(GovernedApprover(desk.governor), None if typed is None else person)
            desk.loop = AgentLoop(
                host.ctx,
                model=ModelChoice("antigravity-acp", "server-default"),
                workspace=desk.workspace,
                approver=desk.approver,
                listener=desk.events.append,
            )
            yield desk
    finally:
        os.close(keyboard)


def brief(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Of decisions what decided and who approved it, of outcomes how the call ended."""
    return [
        (row["decision"], row["source"], row.get("approver", ""))
        if row["kind"] == "decision"
        else (row["outcome"], row.get("output", ""))
        for row in rows
    ]


@pytest.mark.requirement("X-006", "X-007", "B-021")
async def test_an_allowed_call_runs_and_both_rows_say_so(tmp_path: Path) -> None:
    async with desk_in(tmp_path, permissions={"allow": ["command(echo)"]}) as desk:
        await desk.turn(call("run_command", command="echo a-word"))
        assert "a-word" in desk.results[0]
    decided, ended = desk.rows()
    assert (decided["decision"], decided["rule"], decided["scope"]) == ("allow", "command(echo)", "plugin")
    assert (decided["tool"], decided["native_tool"], decided["host"]) == ("Bash", "run_command", "test")
    assert (decided["tier"], decided["mode"], decided["escape_hatch"]) == ("background", "request-review", False)
    assert (ended["outcome"], ended["decision_row"], ended["call"]) == ("ok", decided["seq"], decided["call"])
    # Arguments are a digest; the word is nowhere.
    assert "arguments_digest" in decided
    assert "a-word" not in str(desk.rows())


@pytest.mark.requirement("X-007")
async def test_the_decision_is_on_record_before_the_call_runs(tmp_path: Path) -> None:
    seen: list[int] = []

    class Looks:
        name = "look"
        description = "counts the rows"
        parameters: dict[str, Any] = {"type": "object"}  # noqa: RUF012 - as tools declare it

        async def run(self, arguments: dict[str, Any], context: Any) -> ToolResult:
            seen.append(len(list(read(tmp_path / "ledger"))))
            return ToolResult.of("looked")

    class Tools:
        @hookimpl
        def register(self, ctx: Any) -> None:
            ctx.tools.register(Looks())

    async with desk_in(tmp_path, names="look", plugins=(Tools(),)) as desk:
        await desk.turn(call("look"))
    assert seen == [1]
    assert brief(desk.rows()) == [("allow", "rule", ""), ("ok", "passed")]


@pytest.mark.requirement("X-007")
@pytest.mark.parametrize(
    ("typed", "ran", "row"),
    [
        ("o\n", True, ("allow", "person", "terminal:once")),
        ("n\n", False, ("deny", "person", "terminal")),
        ("", False, ("deny", "person", "terminal")),
    ],
)
async def test_a_person_says_yes_or_no(tmp_path: Path, typed: str, ran: bool, row: tuple[str, ...]) -> None:
    async with desk_in(tmp_path, typed=typed) as desk:
        await desk.turn(call("run_command", command="touch made"))
        assert (desk.workspace / "made").exists() is ran
    assert brief(desk.rows()) == [row, ("ok", "passed") if ran else ("not_run", "")]


async def test_this_turn_ends_with_the_turn_and_is_the_exact_line(tmp_path: Path) -> None:
    async with desk_in(tmp_path, typed="t\nn\nn\n") as desk:
        await desk.turn(*(call("run_command", command=line) for line in ("touch made", "touch made", "touch other")))
        assert [each.source for each in desk.decisions] == ["person", "rule", "person"]
        assert [each.decision for each in desk.decisions] == ["allow", "allow", "deny"]
        await desk.turn(call("run_command", command="touch made"))
        assert desk.decisions[-1].decision == "deny"
    assert "  this turn: command(touch made)\n" in desk.shown
    rows = desk.rows()
    assert brief(rows)[0::2][:2] == [("allow", "person", "terminal:turn"), ("allow", "rule", "")]
    assert rows[2]["scope"] == "turn"
    # What was granted is what the call said; no row repeats it.
    assert "touch" not in str(rows)


@pytest.mark.requirement("B-007")
async def test_a_file_may_be_widened_to_its_folder_for_the_turn_and_a_command_never(tmp_path: Path) -> None:
    def reads(name: str, turn: str = "t1") -> ToolCall:
        return ToolCall(id=name, name="view_file", arguments={"path": str(tmp_path / "out" / name)}, turn_id=turn)

    (tmp_path / "out").mkdir()
    async with desk_in(tmp_path, typed="f\nn\nf\nn\n") as desk:
        for name, turn, allowed in (("one", "t1", True), ("two", "t1", True), ("two", "t2", False)):
            decided = await desk.approver.decide(ApprovalRequest(reads(name, turn)))
            assert decided.allowed is allowed, name
        assert f"  folder: read_file({tmp_path}/out/)\n" in desk.shown
        desk.shown = ""
        await desk.turn(call("run_command", command=f"touch {tmp_path}/out/three"))
        assert desk.decisions[0].decision == "deny"
        assert "[f]older" not in desk.shown


async def test_always_shows_the_rule_writes_it_and_has_it_in_force(tmp_path: Path) -> None:
    async with desk_in(tmp_path, typed="a\nn\n") as desk:
        await desk.turn(call("run_command", command="touch one"), call("run_command", command="touch two"))
        assert [each.source for each in desk.decisions] == ["person", "rule"]
        assert (desk.workspace / "two").exists()
        assert "  always: command(touch)\n" in desk.shown
        assert desk.shown.index("command(touch)") < desk.shown.index("[a]lways")
        assert str(desk.rules_file) in desk.shown
    assert desk.keeps() == ["command(touch)"]
    assert stat.S_IMODE(desk.rules_file.stat().st_mode) == 0o600
    assert [each.name for each in desk.rules_file.parent.iterdir() if not each.name.startswith(".")] == [
        "permissions.json"
    ]
    rows = desk.rows()
    assert (rows[0]["approver"], rows[0]["rule"]) == ("terminal:always", "command(touch)")
    assert (rows[2]["source"], rows[2]["scope"]) == ("rule", "plugin")


async def test_an_answer_counts_for_the_calls_that_wait_behind_it(tmp_path: Path) -> None:
    async with desk_in(tmp_path, typed="a\nn\n") as desk:
        calls = [call("run_command", command=f"touch {name}")["call"] for name in ("one", "two")]
        await desk.turn({"calls": calls, "parallel": True})
        assert sorted(each.source for each in desk.decisions) == ["person", "rule"]
        assert desk.shown.count("wants to run") == 1
        assert {each.name for each in desk.workspace.iterdir()} == {"one", "two"}


@pytest.mark.parametrize("line", ["python3 -c 'print(1)'", "bash -c 'touch made'", "env touch made", "xargs touch"])
async def test_always_is_the_exact_line_for_what_runs_other_programs(tmp_path: Path, line: str) -> None:
    async with desk_in(tmp_path, typed="a\nn\n") as desk:
        await desk.turn(call("run_command", command=line))
        await desk.turn(call("run_command", command=line.split()[0] + " other"))
        assert [each.decision for each in desk.decisions] == ["allow", "deny"]
    assert desk.keeps() == [f"command({line})"]


@pytest.mark.parametrize("line", ["regex:.*", "*"])
async def test_words_of_a_call_never_become_a_pattern(tmp_path: Path, line: str) -> None:
    async with desk_in(tmp_path, typed="a\nt\nn\n") as desk:
        await desk.turn(call("run_command", command=line))
        assert [each.decision for each in desk.decisions] == ["deny"]
        assert "[a]lways" not in desk.shown
        assert "[t]urn" not in desk.shown
    assert not desk.rules_file.exists()


async def test_what_else_the_file_of_rules_holds_stays_and_the_lists_are_sorted(tmp_path: Path) -> None:
    rules = tmp_path / "config" / "permissions.json"
    rules.parent.mkdir()
    rules.write_text(json.dumps({"note": "mine", "permissions": {"allow": ["command(zip)"], "deny": ["command(dd)"]}}))
    async with desk_in(tmp_path, typed="a\n") as desk:
        await desk.turn(call("run_command", command="touch one"), call("run_command", command="dd if=a of=b"))
        assert [each.decision for each in desk.decisions] == ["allow", "deny"]
    assert json.loads(rules.read_text()) == {
        "note": "mine",
        "permissions": {"allow": ["command(touch)", "command(zip)"], "deny": ["command(dd)"]},
    }


async def test_a_file_of_rules_that_cannot_be_read_opens_nothing_and_is_not_replaced(tmp_path: Path) -> None:
    rules = tmp_path / "config" / "permissions.json"
    rules.parent.mkdir()
    rules.write_text('{"permissions": {"deny": ["command(tou')
    async with desk_in(tmp_path, permissions={"allow": ["command(touch)"]}) as desk:
        await desk.turn(call("run_command", command="touch made"))
        (decided,) = desk.decisions
        assert (decided.decision, decided.soft) == ("deny", True)
        assert not (desk.workspace / "made").exists()
    assert rules.read_text().endswith("(tou")


@pytest.mark.requirement("B-008")
async def test_headless_a_question_is_a_soft_denial_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await desk.turn(call("run_command", command="touch made"), call("list_dir", path="."))
        first, second = desk.decisions
        assert (first.decision, first.soft, first.remedies) == ("deny", True, ("command(touch)",))
        assert second.decision == "allow"
        assert not (desk.workspace / "made").exists()
    assert brief(desk.rows()) == [
        ("deny", "headless", ""), ("not_run", ""), ("allow", "default", ""), ("ok", "passed"),
    ]  # fmt: skip
    assert desk.rows()[0]["soft"] is True


@pytest.mark.requirement("B-022", "B-037")
@pytest.mark.parametrize("names", ["", "*"])
async def test_the_floor_holds_with_the_escape_hatch_open(tmp_path: Path, names: str) -> None:
    async with desk_in(tmp_path, names=names, dangerouslySkipPermissions=True) as desk:
        lines = ("touch made", "rm -rf /", "bash -c 'rm -rf ~'")
        await desk.turn(*(call("run_command", command=line) for line in lines))
        assert [each.decision for each in desk.decisions] == ["allow", "deny", "deny"]
        assert (desk.workspace / "made").exists()
    rows = [row for row in desk.rows() if row["kind"] == "decision"]
    assert all(row["escape_hatch"] for row in rows)
    assert [row["source"] for row in rows][1:] == ["floor", "floor"]
    assert all(row["floor"] for row in rows[1:])


@pytest.mark.requirement("B-022")
async def test_a_denial_holds_with_the_escape_hatch_open(tmp_path: Path) -> None:
    values: dict[str, Any] = {"dangerouslySkipPermissions": True, "permissions": {"deny": ["command(touch)"]}}
    async with desk_in(tmp_path, **values) as desk:
        await desk.turn(call("run_command", command="touch made"))
        assert (desk.decisions[0].decision, desk.decisions[0].rule) == ("deny", "command(touch)")


class Guard:
    """A plugin that denies, or asks about, every call."""

    def __init__(self, verdict: Any) -> None:
        self.verdict = verdict

    @hookimpl
    def before_tool(self, call: ToolCall) -> Decision:
        return Decision(self.verdict, "not on my watch", "whoever")


@pytest.mark.requirement("B-022")
async def test_a_hook_that_denies_wins_over_every_rule_and_the_hatch(tmp_path: Path) -> None:
    async with desk_in(tmp_path, names="*", plugins=(Guard("deny"),), dangerouslySkipPermissions=True) as desk:
        await desk.turn(call("run_command", command="touch made"))
        assert not (desk.workspace / "made").exists()
        assert "not on my watch" in desk.results[0]
    assert brief(desk.rows()) == [("deny", "hook:other-0", ""), ("not_run", "")]


@pytest.mark.requirement("B-008")
async def test_a_hook_that_asks_where_nobody_is_names_no_rule_that_would_not_help(tmp_path: Path) -> None:
    async with desk_in(tmp_path, plugins=(Guard("ask"),)) as desk:
        await desk.turn(call("run_command", command="touch made"))
        (decided,) = desk.decisions
        assert (decided.decision, decided.soft, decided.remedies) == ("deny", True, ())


async def test_a_rule_by_name_that_asks_offers_nothing_that_would_not_help(tmp_path: Path) -> None:
    async with desk_in(tmp_path, typed="a\nt\no\n", names="?run_command") as desk:
        await desk.turn(call("run_command", command="touch made"))
        assert [each.decision for each in desk.decisions] == ["allow"]
        assert "[a]lways" not in desk.shown
    assert not desk.rules_file.exists()


async def test_a_call_that_the_turns_end_cuts_short_has_an_end_on_record(tmp_path: Path) -> None:
    async with desk_in(tmp_path, names="run_command") as desk:
        signal = AbortController()
        running = asyncio.create_task(
            desk.loop.run(directive(call("run_command", command="touch started; sleep 60")), signal=signal.signal)
        )
        async with asyncio.timeout(20):
            while not (desk.workspace / "started").exists():
                await asyncio.sleep(0.01)
        signal.abort("enough")
        assert (await running).kind == "aborted"
    assert brief(desk.rows()) == [("allow", "rule", ""), ("cancelled", "passed")]


# ---- the sandbox ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("B-020")
@pytest.mark.parametrize(
    ("enabled", "typed", "planned", "approver"),
    [
        (False, "o\n", False, "terminal:once"),
        (False, "s\n", True, "terminal:sandboxed"),
        (True, "o\n", True, "terminal:once"),
        (True, "u\n", False, "terminal:unrestricted"),
    ],
)
async def test_a_person_can_choose_the_sandbox_for_one_call(
    tmp_path: Path, enabled: bool, typed: str, planned: bool, approver: str
) -> None:
    async with desk_in(tmp_path, typed=typed + "o\n", enableTerminalSandbox=enabled) as desk:
        await desk.turn(*(call("run_command", command="true") for _ in range(2)))
        # The choice is for that one call.
        assert desk.planned == [planned, enabled]
        assert ("once in the [s]andbox" in desk.shown, "once [u]nrestricted" in desk.shown) == (not enabled, enabled)
    assert desk.rows()[0]["approver"] == approver


@pytest.mark.requirement("B-020")
async def test_a_rule_exempts_from_the_sandbox_and_the_lists_hold_all_the_same(tmp_path: Path) -> None:
    rules = {"allow": ["unsandboxed(true)", "command(true)", "unsandboxed(touch)"], "deny": ["command(touch)"]}
    async with desk_in(tmp_path, enableTerminalSandbox=True, permissions=rules) as desk:
        await desk.turn(call("run_command", command="true"), call("run_command", command="touch made"))
        assert [each.decision for each in desk.decisions] == ["allow", "deny"]
        assert desk.planned == [False]


async def test_settings_that_change_after_the_decision_take_no_sandbox_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that was allowed because it is confined runs confined, whatever happens before it starts."""
    mode = {"toolPermission": "proceed-in-sandbox"}
    async with desk_in(tmp_path, enableTerminalSandbox=True, **mode) as desk:
        record = desk.governor.record

        async def recorded(*arguments: Any, **more: Any) -> bool:
            written = await record(*arguments, **more)
            desk.governor.update(settings_of(enableTerminalSandbox=False, **mode))
            return written

        monkeypatch.setattr(desk.governor, "record", recorded)
        await desk.turn(call("run_command", command="true"))
        assert [each.decision for each in desk.decisions] == ["allow"]
        assert desk.planned == [True]
        # From the next call on the new ones count.
        await desk.turn(call("run_command", command="true"))
        assert [each.decision for each in desk.decisions] == ["allow", "deny"]


@pytest.mark.parametrize("name", ["run_command", "bash"])
async def test_a_host_without_the_sandbox_lets_no_command_run_because_of_it(tmp_path: Path, name: str) -> None:
    vendor = tmp_path / ".gemini" / "antigravity-cli"
    vendor.mkdir(parents=True)
    (vendor / "settings.json").write_text(json.dumps({"enableTerminalSandbox": True}))
    settings = settings_of(enableTerminalSandbox=True, toolPermission="proceed-in-sandbox")
    for confines, decision in ((True, "allow"), (False, "ask")):
        governor = Governor(settings, tmp_path, home=tmp_path, rules_file=tmp_path / "rules.json", confines=confines)
        made = governor.decide(GovernedCall(id="1", name=name, arguments={"command": "true"}))
        assert made.decision == decision


async def test_what_is_denied_in_the_workspace_is_denied_to_a_sandboxed_command_too(tmp_path: Path) -> None:
    rules = {"deny": ["read_file(.env)", "write_file(generated)", "read_file(~/.ssh)"], "ask": ["read_file(notes)"]}
    settings = settings_of(enableTerminalSandbox=True, permissions=rules)
    governor = Governor(settings, tmp_path, home=tmp_path, rules_file=tmp_path / "rules.json", confines=True)
    plan = governor.sandbox_for("true", tmp_path)
    assert plan is not None
    assert plan.hidden == (tmp_path / ".env", Path("~/.ssh").expanduser())
    assert plan.kept[0] == tmp_path / "generated"
    # What holds the rules is read-only in there, too.
    assert tmp_path / "rules.json" in plan.kept


async def test_a_rule_follows_a_folder_that_leads_elsewhere_by_now(tmp_path: Path) -> None:
    """Rules are compiled once; a link that a command lays afterwards must not leave a denied place open."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    (tmp_path / "link").symlink_to("one")
    settings = settings_of(permissions={"deny": ["read_file(link)"]})
    governor = Governor(settings, tmp_path, home=tmp_path, rules_file=tmp_path / "rules.json")

    def said(folder: str) -> str:
        return governor.decide(GovernedCall(id="1", name="read_file", arguments={"path": f"{folder}/x"})).decision

    assert (said("one"), said("two")) == ("deny", "allow")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("two")
    assert said("two") == "deny"


# ---- results --------------------------------------------------------------------------------------------------------


class Odd:
    """A tool of a plugin that gives what it was told to."""

    name, kind, description = "odd", "other", "Gives anything."

    def __init__(self, gives: Any) -> None:
        self.parameters = {"type": "object"}
        self.gives = gives

    async def run(self, arguments: dict[str, Any], context: Any) -> Any:
        return self.gives


BLOCKS = {
    "a text": TextBlock(f"x {SECRET} y"),
    "a thought": ReasoningBlock(f"x {SECRET} y"),
    "a structure": OpaqueBlock({"type": "json", "value": {"deep": [f"x {SECRET}"]}}),
    "a name and its value": OpaqueBlock({"type": "json", "value": {"password": "Tr0ub4dor&3x"}}),
}


@pytest.mark.requirement("X-008")
@pytest.mark.parametrize("is_error", [False, True])
@pytest.mark.parametrize("what", BLOCKS)
async def test_secrets_are_found_in_every_kind_of_block(tmp_path: Path, what: str, is_error: bool) -> None:
    image = OpaqueBlock({"type": "image", "data": "iVBORw0KGgo="})
    async with desk_in(tmp_path, names="odd", outputPolicy="redact") as desk:
        desk.tools.register(Odd(ToolResult((TextBlock("before"), BLOCKS[what], image), is_error)))
        await desk.turn(call("odd"))
        # What the model gets.
        (result,) = (message for message in desk.loop.history if message.role == "tool")
    assert "redacted" in str(result.content[1])
    assert SECRET not in str(result.content)
    assert "Tr0ub4dor" not in str(result.content)
    assert type(result.content[1]) is type(BLOCKS[what])
    assert (result.content[0], result.content[2], result.is_error) == (TextBlock("before"), image, is_error)


@pytest.mark.parametrize(
    "gives",
    [
        None,
        "text",
        ToolResult(("no block",)),
        ToolResult((TextBlock(5),)),
        ToolResult(None),
        ToolResult([TextBlock("x")]),
    ],  # type: ignore[arg-type]  # what a plugin may do
    ids=["nothing", "text", "no block", "no text", "no blocks", "a list"],
)
async def test_a_result_that_is_none_ends_its_call_and_not_the_turn(tmp_path: Path, gives: Any) -> None:
    async with desk_in(tmp_path, names="odd") as desk:
        desk.tools.register(Odd(gives))
        await desk.turn(call("odd"), call("odd"))
        assert len(desk.results) == 2
        assert all("result" in text for text in desk.results)
    assert [row["outcome"] for row in desk.rows() if row["kind"] == "outcome"] == ["error", "error"]


async def test_a_hook_that_spoils_a_result_ends_its_call_and_not_the_turn(tmp_path: Path) -> None:
    class Spoils:
        @hookimpl
        def after_tool(self, call: ToolCall, result: ToolResult) -> ToolResult:
            return ToolResult((7,))  # type: ignore[arg-type]  # what a plugin may do

    async with desk_in(tmp_path, names="read_file", plugins=(Spoils(),)) as desk:
        await desk.turn(call("read_file", path="missing"))
        assert "cannot be read" in desk.results[0]


@pytest.mark.requirement("X-008")
@pytest.mark.parametrize(
    ("policy", "output", "seen"),
    [("off", "passed", True), ("audit", "audited", True), ("redact", "redacted", False), ("block", "blocked", False)],
)
async def test_secrets_in_a_result_are_withheld_as_the_policy_says(
    tmp_path: Path, policy: str, output: str, seen: bool
) -> None:
    async with desk_in(tmp_path, outputPolicy=policy) as desk:
        (desk.workspace / "notes.txt").write_text(f"before\ntoken {SECRET}\nafter\n")
        await desk.turn(call("read_file", path="notes.txt"))
        (text,) = desk.results
        # What the model was given is in the history.
        given = next(message.text for message in desk.loop.history if message.role == "tool")
        assert (SECRET in text, SECRET in given) == (seen, seen)
        assert ("after" in given) is (policy != "block")
    assert brief(desk.rows()) == [("allow", "default", ""), ("ok", output)]
    assert bool(desk.rows()[1].get("findings")) is (policy != "off")
    assert SECRET not in str(desk.rows())


async def test_a_result_that_cannot_be_looked_at_is_not_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(text: str, **_: Any) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr("antigravity_control.outputs.scan", broken)
    async with desk_in(tmp_path, outputPolicy="redact") as desk:
        (desk.workspace / "notes.txt").write_text(f"token {SECRET}\n")
        await desk.turn(call("read_file", path="notes.txt"))
        assert desk.results == ["The result was withheld: it could not be looked at for secrets."]


# ---- the ledger -----------------------------------------------------------------------------------------------------


def spoil(desk: Desk) -> None:
    """A ledger that no row can go into, whoever runs the test."""
    desk.ledger.write_text("this is no folder")


async def test_what_cannot_be_recorded_does_not_run_where_nobody_can_be_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with desk_in(tmp_path, permissions={"allow": ["command(touch)"]}) as desk:
        spoil(desk)
        await desk.turn(call("run_command", command="touch made"))
        (decided,) = desk.decisions
        assert (decided.decision, decided.source, decided.soft) == ("deny", "ledger", True)
        assert "ledger could not record" in desk.results[0]
        assert not (desk.workspace / "made").exists()
    assert str(desk.ledger) in caplog.text


@pytest.mark.parametrize(("typed", "ran"), [("o\n", True), ("n\n", False), ("t\na\n", False)])
async def test_what_cannot_be_recorded_is_asked_about_where_somebody_is(tmp_path: Path, typed: str, ran: bool) -> None:
    async with desk_in(tmp_path, typed=typed, permissions={"allow": ["command(touch)"]}) as desk:
        spoil(desk)
        await desk.turn(call("run_command", command="touch made"))
        assert (desk.workspace / "made").exists() is ran
        assert "ledger could not record" in desk.shown


async def test_whatever_keeps_a_row_from_being_written_ends_the_call_and_not_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any, **__: Any) -> bool:
        raise RuntimeError("no more threads")

    async with desk_in(tmp_path, permissions={"allow": ["command(touch)"]}) as desk:
        monkeypatch.setattr(desk.governor, "record", broken)
        monkeypatch.setattr(desk.governor, "ended", broken)
        await desk.turn(call("run_command", command="touch made"))
        assert "The ledger could not record this call" in desk.results[0]
        assert not (desk.workspace / "made").exists()


@pytest.mark.parametrize("answer", [None, True, "allow"])
async def test_an_approver_that_gives_no_decision_denies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    async def decide(request: ApprovalRequest) -> Any:
        return answer

    async with desk_in(tmp_path, permissions={"allow": ["command(touch)"]}) as desk:
        monkeypatch.setattr(desk.approver, "decide", decide)
        await desk.turn(call("run_command", command="touch made"))
        assert "The approver failed" in desk.results[0]
        assert not (desk.workspace / "made").exists()


async def test_without_a_ledger_nothing_is_recorded_and_calls_run(tmp_path: Path) -> None:
    async with desk_in(tmp_path, ledger=False, permissions={"allow": ["command(touch)"]}) as desk:
        await desk.turn(call("run_command", command="touch made"))
        assert (desk.workspace / "made").exists()
    assert not desk.ledger.exists()


async def test_arguments_are_kept_only_when_wanted_and_without_their_secrets(tmp_path: Path) -> None:
    async with desk_in(tmp_path, names="run_command", ledgerArguments=True) as desk:
        await desk.turn(call("run_command", command=f"echo the-word {SECRET}"))
    (decided, _) = desk.rows()
    assert "the-word" in decided["arguments"]
    assert SECRET not in str(desk.rows())


# ---- the plugin's own hook ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("control", "decision"), [(False, "allow"), (True, "deny")])
async def test_with_control_on_the_plugin_judges_the_calls_of_any_python_host(
    tmp_path: Path, control: bool, decision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from antigravity_acp.host import PolicyApprover

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    settings = settings_of()
    values = {
        "command": settings.command, "args": list(settings.args), "control": control,
        "permissions": {"deny": ["command(touch)"]},
    }  # fmt: skip
    events: list[LoopEvent] = []
    async with Host({"antigravity-acp": values}) as host:
        for tool in builtin_tools():
            host.ctx.tools.register(tool)
        assert await host.mount("antigravity-acp", AntigravityPlugin())
        loop = AgentLoop(
            host.ctx, model=ModelChoice("antigravity-acp", "server-default"), workspace=tmp_path,
            approver=Approvals(PolicyApprover(Rules.parse("*"))), listener=events.append,
        )  # fmt: skip
        assert (await loop.run(directive(call("run_command", command="touch made"), {"say": "x"}))).failure is None
        assert (host.ctx.get("governor") is not None) is control
    (decided,) = [event for event in events if isinstance(event, ToolDecided)]
    assert decided.decision == decision
    ledger = tmp_path / "state" / "antigravity-acp" / "ledger"
    assert ledger.exists() is control
    if control:
        assert [entry.body.get("source") for entry in read(ledger)] == ["hook:antigravity-acp", None]


class Away:
    """Somebody who is asked and does not answer."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def decide(self, request: ApprovalRequest) -> Decision:
        self.asked.set()
        return await asyncio.get_running_loop().create_future()


async def test_a_question_that_is_open_at_the_turns_end_is_on_record_whoever_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    settings, away, signal = settings_of(), Away(), AbortController()
    values = {"command": settings.command, "args": list(settings.args), "control": True}
    async with Host({"antigravity-acp": values}) as host:
        for tool in builtin_tools():
            host.ctx.tools.register(tool)
        assert await host.mount("antigravity-acp", AntigravityPlugin())
        # An approver of the host's own, which knows nothing of a governor.
        loop = AgentLoop(
            host.ctx, model=ModelChoice("antigravity-acp", "server-default"), workspace=tmp_path, approver=away
        )
        steps = directive(call("run_command", command="touch made"), {"say": "x"})
        running = asyncio.create_task(loop.run(steps, signal=signal.signal))
        async with asyncio.timeout(20):
            await away.asked.wait()
        signal.abort("enough")
        assert (await running).kind == "aborted"
    assert not (tmp_path / "made").exists()
    rows = [entry.body for entry in read(tmp_path / "state" / "antigravity-acp" / "ledger")]
    assert brief(rows) == [("ask", "hook:antigravity-acp", ""), ("cancelled", "")]


async def test_a_malformed_rule_keeps_the_plugin_from_being_mounted_and_is_not_shown() -> None:
    values = {"control": True, "permissions": {"allow": ["command(ls)", "launch(secret)"]}}
    async with Host({"antigravity-acp": values}) as host:
        assert not await host.mount("antigravity-acp", AntigravityPlugin())
        assert "permissions.allow[1]" in host.failures[0].reason
        assert "secret" not in host.failures[0].reason


# ---- the vendor's files ---------------------------------------------------------------------------------------------


async def test_the_vendors_rules_are_in_force_and_its_modes_only_when_stricter(tmp_path: Path) -> None:
    file = tmp_path / "home" / ".gemini" / "antigravity-cli" / "settings.json"
    async with desk_in(tmp_path) as desk:
        file.parent.mkdir(parents=True)
        loose = {"toolPermission": "always-proceed", "dangerouslySkipPermissions": True}
        file.write_text(json.dumps({"permissions": {"deny": ["command(touch)"], "allow": ["command(echo)"]}, **loose}))
        await desk.turn(*(call("run_command", command=line) for line in ("touch made", "echo x", "date")))
        assert [(each.decision, each.soft) for each in desk.decisions] == [
            ("deny", False), ("allow", False), ("deny", True),
        ]  # fmt: skip
    assert [row["scope"] for row in desk.rows() if row.get("rule")] == ["global", "global"]
