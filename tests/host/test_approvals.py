"""Approvals: rules first, then a person, and nobody means no."""

import asyncio
import os
import pty
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from antigravity_acp.governing import GovernedCall, Governor, Records
from antigravity_acp.hooks import ToolCall
from antigravity_acp.host import (
    ApprovalRequest,
    Approvals,
    Context,
    GovernedApprover,
    LineReader,
    PolicyApprover,
    TerminalApprover,
)
from antigravity_acp.settings import Settings
from antigravity_control import Decision, Rules
from antigravity_control.ledger import read

SECRET = "ghp_" + "Zq7" * 12


def request(name: str = "write_file", *, turn: str = "t1", kind: str = "edit", **arguments: object) -> ApprovalRequest:
    return ApprovalRequest(ToolCall(id="c", name=name, arguments=arguments, kind=kind, turn_id=turn))  # type: ignore[arg-type]


class Pipe:
    """Standard input of a person, and what they see."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self.shown = ""
        self.open = True
        self.approver = TerminalApprover(LineReader(self.read_end), self._show)
        self.asked = asyncio.Event()

    def _show(self, text: str) -> None:
        self.shown += text
        self.asked.set()

    def type(self, text: str) -> None:
        os.write(self.write_end, text.encode())

    def end(self) -> None:
        if self.open:
            self.open = False
            os.close(self.write_end)


@pytest.fixture
def person() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.end()
    os.close(pipe.read_end)


@pytest.mark.parametrize(
    ("typed", "allowed"),
    [
        ("o\n", True),
        ("YES\r\n", True),
        ("t\n", True),
        ("n\n", False),
        ("\n\n\n", False),
        ("maybe\n1\nok\n", False),
        ("maybe\no\n", True),
    ],
)
async def test_only_a_clear_yes_allows(person: Pipe, typed: str, allowed: bool) -> None:
    person.type(typed)
    decision = await person.approver.decide(request())
    assert (decision.allowed, decision.source) == (allowed, "person")


async def test_what_is_no_answer_is_said_to_be_none_and_is_no_refusal_of_the_person(person: Pipe) -> None:
    person.type("maybe\n\nok\n")
    decision = await person.approver.decide(request())
    assert person.shown.count("That is none of the answers: type the letter in brackets.\n") == 3
    assert decision.reason == "The person gave 3 answers that are none, so this call is not allowed."
    person.type("n\n")
    assert (await person.approver.decide(request())).reason == "The person did not allow this call."


async def test_the_card_says_how_long_it_waits_and_what_follows(person: Pipe) -> None:
    person.type("n\n")
    await person.approver.decide(request())
    assert person.shown.startswith("\nwrite_file wants to run. No answer within 600 s is a no.\n")


@pytest.mark.parametrize(
    ("sandbox", "typed", "where"), [(False, "s\n", "inside the sandbox"), (True, "u\n", "outside the sandbox")]
)
async def test_an_answer_about_the_sandbox_says_where_the_call_runs(
    tmp_path: Path, person: Pipe, sandbox: bool, typed: str, where: str
) -> None:
    settings = Settings.from_mapping({"enableTerminalSandbox": sandbox})
    rules_file = tmp_path / "permissions.json"
    governor = Governor(settings, tmp_path, home=tmp_path, rules_file=rules_file, confines=True)
    person.type(typed)
    approver = TerminalApprover(LineReader(person.read_end), person._show, governor)
    answer = await approver.decide(request("run_command", kind="execute", command="touch made"))
    assert (answer.allowed, answer.reason) == (True, f"The person allowed this call, {where}.")


async def test_the_end_of_the_input_is_a_no(person: Pipe) -> None:
    person.end()
    decision = await person.approver.decide(request())
    assert decision.decision == "deny"
    assert "input ended" in decision.reason


async def test_once_is_once_and_this_turn_ends_with_the_turn(person: Pipe) -> None:
    person.type("o\nt\n")
    assert (await person.approver.decide(request())).allowed
    assert (await person.approver.decide(request())).allowed
    # Granted for the turn: nothing is read any more.
    assert (await person.approver.decide(request())).allowed
    person.type("n\nn\n")
    assert not (await person.approver.decide(request("edit_file"))).allowed
    assert not (await person.approver.decide(request(turn="t2"))).allowed


async def test_a_command_is_never_granted_for_the_turn(person: Pipe) -> None:
    person.type("t\nt\nt\n")
    assert not (await person.approver.decide(request("run_command", kind="execute"))).allowed
    assert "[t]urn" not in person.shown


async def test_a_hook_that_insists_is_asked_about_in_spite_of_a_grant(person: Pipe) -> None:
    person.type("t\nn\n")
    assert (await person.approver.decide(request())).allowed
    insisting = ApprovalRequest(request().call, Decision("force_ask", "look at this", "hook:guard"))
    assert not (await person.approver.decide(insisting)).allowed
    assert "hook:guard: look at this" in person.shown


async def test_questions_come_one_at_a_time(person: Pipe) -> None:
    first = asyncio.create_task(person.approver.decide(request("one")))
    second = asyncio.create_task(person.approver.decide(request("two")))
    await person.asked.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert "one wants to run" in person.shown
    assert "two wants to run" not in person.shown
    person.type("o\n")
    assert (await first).allowed
    person.type("n\n")
    assert not (await second).allowed


async def test_a_question_that_is_cancelled_leaves_no_reader_and_frees_the_next(person: Pipe) -> None:
    asking = asyncio.create_task(person.approver.decide(request("one")))
    await person.asked.wait()
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not asyncio.get_running_loop().remove_reader(person.read_end)
    person.type("o\n")
    assert (await person.approver.decide(request("two"))).allowed


async def test_the_loop_goes_on_while_a_person_thinks(person: Pipe) -> None:
    asking = asyncio.create_task(person.approver.decide(request()))
    await person.asked.wait()
    for _ in range(100):
        await asyncio.sleep(0)
    assert not asking.done()
    person.type("o\n")
    assert (await asking).allowed


async def test_a_model_cannot_draw_on_the_terminal(person: Pipe) -> None:
    person.type("n\n")
    await person.approver.decide(request(command="ls\x1b[2J\u202e\x9b1A\rrm -rf /\nsecond", big="x" * 10_000))
    assert not [char for char in person.shown if not char.isprintable() and char != "\n"]
    assert "\\u{1b}[2J\\u{202e}\\u{9b}1A\\u{d}rm -rf /" in person.shown
    assert "[8000 characters more, not shown]" in person.shown


@pytest.mark.parametrize("content", [b"", b"o\n"])
async def test_input_from_a_file_is_read_without_being_watched(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "answers").write_bytes(content)
    handle = os.open(tmp_path / "answers", os.O_RDONLY)
    try:
        approver = TerminalApprover(LineReader(handle), lambda text: None)
        assert (await approver.decide(request())).allowed == bool(content)
        assert not (await approver.decide(request())).allowed
    finally:
        os.close(handle)


async def test_what_was_typed_before_the_question_does_not_answer_it() -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"o\n")
        await asyncio.sleep(0)
        asked = asyncio.Event()
        approver = TerminalApprover(LineReader(theirs), lambda text: asked.set())
        deciding = asyncio.create_task(approver.decide(request()))
        await asked.wait()
        os.write(ours, b"n\n")
        async with asyncio.timeout(5):
            assert not (await deciding).allowed
    finally:
        os.close(ours)
        os.close(theirs)


class Yes:
    """A person who allows everything and counts the questions."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []

    async def decide(self, request: ApprovalRequest) -> Decision:
        self.asked.append(request)
        return Decision("allow", "yes", "person")


@pytest.mark.parametrize(
    ("rules", "opinion", "decision", "asked"),
    [
        ("write_file", None, "allow", 0),
        ("!write_file", None, "deny", 0),
        ("", None, "allow", 1),
        ("?write_file,*", None, "allow", 1),
        ("write_file", "ask", "allow", 1),
        ("write_file", "force_ask", "allow", 1),
        ("write_file", "deny", "deny", 0),
        ("!write_file", "allow", "deny", 0),
        ("", "allow", "allow", 1),
        ("write_file", "allow", "allow", 0),
    ],
)
async def test_the_strictest_of_rules_and_hooks_counts_and_only_an_ask_reaches_the_person(
    rules: str, opinion: str | None, decision: str, asked: int
) -> None:
    person = Yes()
    approvals = Approvals(PolicyApprover(Rules.parse(rules)), person)
    hooks = Decision(opinion, "because", "hook:x") if opinion else None  # type: ignore[arg-type]  # one of the verdicts
    answer = await approvals.decide(ApprovalRequest(request().call, hooks))
    assert answer.decision == decision
    assert len(person.asked) == asked


@pytest.mark.parametrize("opinion", [None, Decision("ask", "because", "hook:x"), Decision("force_ask", "b", "hook:x")])
async def test_headless_what_asks_is_denied_with_a_reason(opinion: Decision | None) -> None:
    answer = await Approvals().decide(ApprovalRequest(request().call, opinion))
    assert (answer.decision, answer.soft) == ("deny", True)
    assert "nobody can be asked" in answer.reason


async def test_headless_a_tool_without_a_rule_names_every_rule_that_it_takes(tmp_path: Path) -> None:
    """By tool name alone; beside a plugin that asks; and by everything that the governor knows."""
    deploy = ToolCall(id="c", name="deploy", arguments={}, workspace=str(tmp_path))
    by_name = "the rule `deploy` would allow it, among the rules by tool name that the host's approver was given"
    assert by_name in (await Approvals().decide(ApprovalRequest(deploy))).reason
    assert (await Approvals(PolicyApprover(Rules.parse("deploy"))).decide(ApprovalRequest(deploy))).allowed
    governor = governor_in(tmp_path)
    opinion = governor.decide(GovernedCall(id="c", name="deploy", workspace=str(tmp_path)))
    both = (
        "it takes the rule `deploy` among the rules by tool name that the host's approver was given, and a rule under "
        "`permissions.allow` of the settings."
    )
    hooked = ApprovalRequest(deploy, replace(opinion, source="hook:antigravity-acp"))
    for approvals in (Approvals(), Approvals(PolicyApprover(headless=True))):
        answer = await approvals.decide(hooked)
        assert (answer.soft, answer.reason.partition("; ")[2]) == (True, both)
    context = Context()
    context.provide("governor", governor)
    asked = await Approvals.of(context).decide(hooked)
    assert asked.remedies == ("mcp(host/deploy)",)
    ruled = Settings.from_mapping({"permissions": {"allow": list(asked.remedies)}})
    governor.update(ruled)
    assert (await Approvals.of(context).decide(ApprovalRequest(deploy))).allowed


async def test_without_a_governor_approvals_of_a_host_ask_about_everything() -> None:
    person = Yes()
    assert (await Approvals.of(Context(), person).decide(request())).allowed
    assert len(person.asked) == 1
    assert (await Approvals.of(Context()).decide(request())).soft


@pytest.mark.parametrize("settings", [True, False], ids=["in the settings", "of the host"])
async def test_a_rule_that_asks_about_a_tool_by_name_is_named_wherever_it_stands(
    tmp_path: Path, settings: bool
) -> None:
    values = Settings.from_mapping({"permissions": {"ask": ["read_file"]} if settings else {}})
    names = None if settings else Rules.parse("?read_file")
    governor = Governor(
        values, tmp_path, home=tmp_path, rules_file=tmp_path / "permissions.json", attended=False, names=names
    )
    answer = await Approvals(GovernedApprover(governor)).decide(request("read_file", kind="read", path="a.txt"))
    assert (answer.decision, answer.soft) == ("deny", True)
    assert answer.reason == (
        "`read_file` needs an approval and nobody can be asked here; the rule `?read_file` stands in the way."
    )


async def test_a_closed_input_is_a_no() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    os.close(write_end)
    approver = TerminalApprover(LineReader(read_end), lambda text: None)
    assert not (await approver.decide(request())).allowed


# ---- rules that would hold a secret ---------------------------------------------------------------------------------


def governor_in(place: Path, **options: bool) -> Governor:
    return Governor(Settings.from_mapping({}), place, home=place, rules_file=place / "permissions.json", **options)


#: Lines for which the rule is the whole line, and what is found in it.
TELLING = [
    (f"python3 -c '' {SECRET}", "github-token"),
    ("TOKEN=9fK2mQ7xLp0Zr4Tb env", "named-secret"),
    ("bash -c 'curl https://me:hunter2hunter@example.com'", "password-in-url"),
    ("sh -c 'curl -H \"Authorization: Bearer 9fK2mQ7xLp0Zr4Tb\" example.com'", "authorization-header"),
]


@pytest.mark.parametrize(("line", "kind"), TELLING)
async def test_always_is_not_offered_for_a_rule_that_holds_a_secret_and_the_card_says_why(
    tmp_path: Path, person: Pipe, line: str, kind: str
) -> None:
    approver = TerminalApprover(LineReader(person.read_end), person._show, governor_in(tmp_path))
    person.type("a\na\no\n")
    answer = await approver.decide(request("run_command", kind="execute", command=line))
    assert (answer.allowed, answer.rule) == (True, None)
    assert f"\n  (no always: its rule would hold a secret ({kind}))\n" in person.shown
    assert "[a]lways" not in person.shown
    assert "always writes into" not in person.shown
    assert not (tmp_path / "permissions.json").exists()
    # The grant for the turn is kept in memory and is still there.
    assert "this [t]urn" in person.shown


@pytest.mark.parametrize("line", [f"touch {SECRET}", "python3 -c 'print(1)'", "git status --token $TOKEN"])
async def test_always_is_offered_where_the_rule_itself_says_nothing_secret(
    tmp_path: Path, person: Pipe, line: str
) -> None:
    approver = TerminalApprover(LineReader(person.read_end), person._show, governor_in(tmp_path))
    person.type("a\n")
    answer = await approver.decide(request("run_command", kind="execute", command=line))
    assert (answer.allowed, bool(answer.rule)) == (True, True)
    assert "no always" not in person.shown
    assert SECRET not in (tmp_path / "permissions.json").read_text()


async def test_a_rule_that_cannot_be_looked_at_in_time_is_not_offered(
    tmp_path: Path, person: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antigravity_control.judging.suggest._LOOK_S", -1.0)
    approver = TerminalApprover(LineReader(person.read_end), person._show, governor_in(tmp_path))
    person.type("a\nn\n")
    assert not (await approver.decide(request("run_command", kind="execute", command="touch made"))).allowed
    assert "(no always: its rule is too long to be looked at for secrets)" in person.shown


@pytest.mark.parametrize("by_hook", [False, True])
@pytest.mark.parametrize(("line", "kind"), TELLING)
async def test_where_nobody_is_no_rule_with_a_secret_is_named(
    tmp_path: Path, line: str, kind: str, by_hook: bool
) -> None:
    asked = request("run_command", kind="execute", command=line)
    if by_hook:
        # As our own plugin asks where the host has approvals of its own.
        opinion = Decision("ask", "because", "hook:x", remedies=(f"command({line})",))
        answer = await Approvals(PolicyApprover(Rules.parse("*"))).decide(ApprovalRequest(asked.call, opinion))
    else:
        answer = await Approvals(GovernedApprover(governor_in(tmp_path, attended=False))).decide(asked)
    assert (answer.decision, answer.soft, answer.remedies) == ("deny", True, ())
    assert answer.reason == (
        "`run_command` needs an approval and nobody can be asked here; a rule for this very call would hold a secret "
        f"({kind})."
    )


async def test_where_nobody_is_a_rule_without_a_secret_is_named(tmp_path: Path) -> None:
    approvals = Approvals(GovernedApprover(governor_in(tmp_path, attended=False)))
    answer = await approvals.decide(request("run_command", kind="execute", command=f"touch {SECRET}"))
    assert (answer.soft, answer.remedies) == (True, ("command(touch)",))


async def test_a_text_that_cannot_be_looked_at_stays_out_of_its_row_and_the_row_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(text: str, **_: object) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr("antigravity_control.outputs.scan", broken)
    settings = Settings.from_mapping({})
    governor = Governor(
        settings, tmp_path, home=tmp_path, records=Records(settings, host="x", path=tmp_path / "ledger")
    )
    made = Decision("allow", f"because {SECRET}", "rule", f"command(echo {SECRET})")
    assert await governor.record(GovernedCall(id="c", name="run_command"), made)
    await governor.aclose()
    (row,) = read(tmp_path / "ledger")
    assert (row.text("rule"), row.text("reason")) == ("[left out]", "[left out]")
