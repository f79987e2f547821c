"""The agent loop, with an adapter that has nothing to do with ACP."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers.scripted_adapter import Reply, ScriptedAdapter, call, done, text

from antigravity_acp.contract import (
    AbortController,
    BlockEnd,
    BlockStart,
    Failure,
    Finish,
    FinishReason,
    GenerateOptions,
    LlmError,
    Message,
    ReasoningBlock,
    ReasoningDelta,
    StreamChunk,
    TextDelta,
    TokenUsage,
    Usage,
)
from antigravity_acp.hooks import ToolCall, ToolError, ToolResult, hookimpl
from antigravity_acp.host import (
    AgentLoop,
    ApprovalRequest,
    Approvals,
    Host,
    LoopLimits,
    ModelChoice,
    PolicyApprover,
    ToolContext,
)
from antigravity_acp.host.events import (
    LoopEvent,
    RetryPlanned,
    TextArrived,
    ThoughtArrived,
    ToolDecided,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    UsageReported,
)
from antigravity_control import Decision, Rules


class Probe:
    """A tool made of one function."""

    description = "A probe."

    def __init__(self, name: str, work: Callable[[dict[str, Any], ToolContext], Any], parameters: Any = None) -> None:
        self.name = name
        self.parameters = parameters or {"type": "object"}
        self.work = work
        self.runs: list[dict[str, Any]] = []

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        self.runs.append(arguments)
        result = self.work(arguments, context)
        if asyncio.iscoroutine(result):
            result = await result
        return result  # type: ignore[no-any-return]  # a probe may return nonsense on purpose


class Bench:
    """A host with a scripted adapter, and one conversation in it."""

    def __init__(self, host: Host, place: Path) -> None:
        self.host = host
        self.place = place
        self.events: list[LoopEvent] = []

    def loop(
        self,
        *replies: Reply,
        rules: str = "*",
        approver: Any = None,
        limits: LoopLimits | None = None,
        system: str = "",
    ) -> AgentLoop:
        self.adapter = ScriptedAdapter(*replies)
        self.host.ctx.llm.register_adapter(["scripted"], self.adapter)
        return AgentLoop(
            self.host.ctx,
            model=ModelChoice("scripted", "small"),
            workspace=self.place,
            approver=approver or Approvals(PolicyApprover(Rules.parse(rules))),
            listener=self.events.append,
            limits=limits or LoopLimits(retry_delay_s=0.0),
            system=system,
        )

    def tool(self, name: str, work: Callable[[dict[str, Any], ToolContext], Any], parameters: Any = None) -> Probe:
        probe = Probe(name, work, parameters)
        self.host.ctx.tools.register(probe)
        return probe

    def results(self, number: int) -> list[tuple[str | None, str, bool]]:
        """The tool results that the adapter was given in one of its requests, in order."""
        messages = self.adapter.requests[number].messages
        return [(each.tool_call_id, each.text, each.is_error) for each in messages if each.role == "tool"]

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with Host() as host:
        yield Bench(host, tmp_path)


def assert_history_is_valid(history: tuple[Message, ...]) -> None:
    """Every call is answered exactly once, right after its message, in the order of the calls."""
    expected: list[str] = []
    for message in history:
        if message.role == "tool":
            assert expected, "a result without a call"
            assert message.tool_call_id == expected.pop(0)
        else:
            assert not expected, "a call without a result"
            expected = [each.id for each in message.tool_calls]
    assert not expected, "a call without a result"


@pytest.mark.requirement("A-011")
async def test_a_whole_turn_with_the_hosts_own_tools_and_any_adapter(tmp_path: Path) -> None:
    async with Host() as host:
        from antigravity_acp.host import builtin_tools

        for tool in builtin_tools():
            host.ctx.tools.register(tool)
        bench = Bench(host, tmp_path)
        loop = bench.loop(
            [*call("write_file", '{"path":"a.txt","content":"hello"}'), done("tool-calls")],
            [
                BlockStart(0, "reasoning"),
                ReasoningDelta(0, "hm"),
                BlockEnd(0, ReasoningBlock("hm")),
                *call("read_file", '{"path":"a.txt"}', call_id="c2", index=1),
                *call("run_command", '{"command":"cat a.txt; echo !"}', call_id="c3", index=2),
                Usage(TokenUsage(3, 4)),
                done("tool-calls"),
            ],
            [*text("All is done."), done()],
            system="Be brief.",
        )
        result = await loop.run("Write hello.")
    assert (result.kind, result.text, result.steps) == ("stop", "All is done.", 3)
    assert (tmp_path / "a.txt").read_text() == "hello"
    assert bench.results(2) == [
        ("call_1", "Created a.txt (5 bytes).", False),
        ("c2", "hello", False),
        ("c3", "hello!\n[exit code 0]", False),
    ]
    first, _, last = bench.adapter.requests
    assert [each.role for each in last.messages] == [
        "system", "user", "assistant", "tool", "assistant", "tool", "tool",
    ]  # fmt: skip
    # Each request begins with exactly what the one before it held: a continuation is proved by that.
    assert last.messages[: len(first.messages)] == first.messages
    assert first.messages[0].source == {"kind": "system-prompt"}
    assert {each.session_id for each in bench.adapter.requests} == {loop.session_id}
    assert len({each.signal for each in bench.adapter.requests}) == 1
    assert first.tools == last.tools
    assert [each.name for each in first.tools][:2] == ["read_file", "write_file"]
    assert all(each.id for each in last.messages)
    assert_history_is_valid(loop.history)
    assert bench.of(ThoughtArrived) == [ThoughtArrived("hm")]
    assert bench.of(TextArrived) == [TextArrived("All is done.")]
    assert bench.of(UsageReported) == [UsageReported(TokenUsage(3, 4))]
    assert bench.events[-1] == TurnEnded("stop", 3)
    assert all(json.dumps(event.to_wire()) for event in bench.events)


async def test_calls_of_one_message_really_overlap_and_results_stand_in_call_order(bench: Bench) -> None:
    first_runs, second_runs = asyncio.Event(), asyncio.Event()

    async def first(arguments: Any, context: ToolContext) -> ToolResult:
        first_runs.set()
        await second_runs.wait()
        return ToolResult.of("first, ended last")

    async def second(arguments: Any, context: ToolContext) -> ToolResult:
        await first_runs.wait()
        second_runs.set()
        return ToolResult.of("second")

    bench.tool("first", first)
    bench.tool("second", second)
    loop = bench.loop(
        [*call("first", call_id="a"), *call("second", call_id="b", index=1), done("tool-calls")],
        [*text("ok"), done()],
    )
    async with asyncio.timeout(10):
        await loop.run("go")
    assert bench.results(1) == [("a", "first, ended last", False), ("b", "second", False)]
    assert [event.id for event in bench.of(ToolEnded)] == ["b", "a"]


async def test_no_more_calls_run_at_once_than_the_bound(bench: Bench) -> None:
    running, most = 0, 0

    async def work(arguments: Any, context: ToolContext) -> ToolResult:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return ToolResult.of("ok")

    bench.tool("t", work)
    many = [chunk for index in range(9) for chunk in call("t", call_id=f"c{index}", index=index)]
    loop = bench.loop([*many, done("tool-calls")], [*text("ok"), done()], limits=LoopLimits(max_parallel_tools=3))
    await loop.run("go")
    assert most == 3
    assert len(bench.results(1)) == 9


class Asks:
    """An approver that records and answers from a list."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[ApprovalRequest] = []

    async def decide(self, request: ApprovalRequest) -> Decision:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]  # a list of decisions


@pytest.mark.requirement("A-012")
@pytest.mark.parametrize(
    "answer",
    [
        Decision("deny", "Not today.", "person"),
        Decision("ask", "undecided", "person"),
        RuntimeError("hunter2"),
        TimeoutError("hunter2"),
    ],
)
async def test_what_is_not_clearly_allowed_does_not_run_and_the_model_is_told(bench: Bench, answer: Any) -> None:
    probe = bench.tool("t", lambda arguments, context: ToolResult.of("ran"))
    loop = bench.loop([*call("t"), done("tool-calls")], [*text("ok"), done()], approver=Asks(answer))
    assert (await loop.run("go")).kind == "stop"
    assert probe.runs == []
    ((_, words, is_error),) = bench.results(1)
    assert is_error
    assert "denied" in words
    assert "hunter2" not in words
    (decided,) = bench.of(ToolDecided)
    assert decided.decision == "deny"


class Refusing(Probe):
    """A tool that knows what it cannot do."""

    def refusal(self, arguments: dict[str, Any], context: ToolContext) -> object:
        if arguments.get("fails"):
            raise OSError("hunter2")
        return arguments.get("why")


@pytest.mark.parametrize(
    ("arguments", "asked"), [({"why": "Not here."}, 0), ({}, 1), ({"why": ""}, 1), ({"why": 7}, 1), ({"fails": 1}, 1)]
)
async def test_nobody_is_asked_about_what_a_tool_says_it_cannot_do(
    bench: Bench, arguments: dict[str, Any], asked: int, caplog: pytest.LogCaptureFixture
) -> None:
    questions: list[ApprovalRequest] = []

    class Yes:
        async def decide(self, request: ApprovalRequest) -> Decision:
            questions.append(request)
            return Decision("allow", "yes", "person")

    probe = Refusing("t", lambda arguments, context: ToolResult.of("ran"))
    bench.host.ctx.tools.register(probe)
    loop = bench.loop([*call("t", json.dumps(arguments)), done("tool-calls")], [*text("ok"), done()], approver=Yes())
    await loop.run("go")
    assert (len(questions), len(probe.runs)) == (asked, asked)
    (decided,) = bench.of(ToolDecided)
    if not asked:
        assert (decided.decision, decided.soft, decided.remedies) == ("deny", False, ())
        assert bench.results(1)[0][1] == "The host denied this call. Not here."
    assert "hunter2" not in caplog.text


async def test_without_an_approver_nobody_is_there_to_be_asked(bench: Bench) -> None:
    bench.adapter = ScriptedAdapter([*call("t"), done("tool-calls")], [*text("ok"), done()])
    bench.host.ctx.llm.register_adapter(["scripted"], bench.adapter)
    probe = bench.tool("t", lambda arguments, context: ToolResult.of("ran"))
    loop = AgentLoop(bench.host.ctx, model=ModelChoice("scripted", "small"), workspace=bench.place)
    assert (await loop.run("go")).kind == "stop"
    assert probe.runs == []
    assert "nobody can be asked here" in bench.results(1)[0][1]


async def test_nobody_answering_in_time_is_a_denial(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antigravity_acp.host._calls.APPROVAL_TIMEOUT_S", 0.05)

    class Silent:
        async def decide(self, request: ApprovalRequest) -> Decision:
            await asyncio.Event().wait()
            raise AssertionError

    probe = bench.tool("t", lambda arguments, context: ToolResult.of("ran"))
    loop = bench.loop([*call("t"), done("tool-calls")], [*text("ok"), done()], approver=Silent())
    await loop.run("go")
    assert probe.runs == []
    assert "Nobody answered" in bench.results(1)[0][1]


@pytest.mark.requirement("A-011")
async def test_hooks_judge_before_and_see_after_and_a_denial_never_reaches_the_approver(bench: Bench) -> None:
    seen: list[tuple[str, bool]] = []

    class Guard:
        @hookimpl
        async def before_tool(self, call: ToolCall) -> Decision | None:
            assert call.workspace == str(bench.place.resolve())
            return Decision("deny", "The guard says no.", "?") if call.arguments.get("bad") else None

        @hookimpl
        def after_tool(self, call: ToolCall, result: ToolResult) -> ToolResult | None:
            seen.append((call.id, result.is_error))
            return None if result.is_error else ToolResult.of(result.text.replace("hunter2", "[cut]"))

    await bench.host.mount("guard", Guard())
    probe = bench.tool("t", lambda arguments, context: ToolResult.of("it is hunter2"))
    approver = Asks(Decision("allow", "fine", "person"))
    loop = bench.loop(
        [*call("t", '{"bad":true}', call_id="a"), *call("t", "{}", call_id="b", index=1), done("tool-calls")],
        [*text("ok"), done()],
        approver=approver,
    )
    await loop.run("go")
    assert bench.results(1) == [
        ("a", "The host denied this call. The guard says no.", True),
        ("b", "it is [cut]", False),
    ]
    assert probe.runs == [{}]
    assert len(approver.requests) == 1
    assert sorted(seen) == [("a", True), ("b", False)]
    assert {each.id: each.source for each in bench.of(ToolDecided)} == {"a": "hook:guard", "b": "person"}


STRICT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("unknown", "{}", "no tool of this name"),
        ("t", "{", "not a JSON object"),
        ("t", "[1]", "not a JSON object"),
        ("t", '"x"', "not a JSON object"),
        ("t", "[" * 100_000, "not a JSON object"),
        ("t", '{"n":"hunter2"}', "not valid: `n`: the value is not of type"),
        ("t", "", '"n" is a required property'),
    ],
)
async def test_a_call_that_makes_no_sense_is_an_error_result_and_never_runs(
    bench: Bench, name: str, arguments: str, words: str
) -> None:
    probe = bench.tool("t", lambda arguments, context: ToolResult.of("ran"), STRICT)
    approver = Asks()
    loop = bench.loop([*call(name, arguments), done("tool-calls")], [*text("ok"), done()], approver=approver)
    assert (await loop.run("go")).kind == "stop"
    ((_, told, is_error),) = bench.results(1)
    assert is_error
    assert words in told
    assert "hunter2" not in told
    assert (probe.runs, approver.requests) == ([], [])


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (ToolError("The disk is full."), "The disk is full."),
        (RuntimeError("hunter2"), "failed with RuntimeError"),
        (TimeoutError("hunter2"), "timed out"),
        (None, "gave no result"),
        ("text", "gave no result"),
    ],
)
async def test_a_tool_that_fails_is_an_error_result_without_foreign_text(
    bench: Bench, outcome: Any, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    def work(arguments: Any, context: ToolContext) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    bench.tool("t", work)
    loop = bench.loop([*call("t"), done("tool-calls")], [*text("ok"), done()])
    await loop.run("go")
    ((_, told, is_error),) = bench.results(1)
    assert is_error
    assert words in told
    assert "hunter2" not in told + caplog.text


async def test_a_tool_that_never_ends_is_ended_at_its_limit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antigravity_acp.host._calls.TOOL_RUN_TIMEOUT_S", 0.05)
    bench.tool("t", lambda arguments, context: asyncio.Event().wait())
    loop = bench.loop([*call("t"), done("tool-calls")], [*text("ok"), done()])
    await loop.run("go")
    assert "took longer than 0.05 s" in bench.results(1)[0][1]


async def test_a_result_without_end_is_cut(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antigravity_acp.host._calls.MAX_RESULT_CHARS", 10)
    bench.tool("t", lambda arguments, context: ToolResult.of("x" * 25))
    loop = bench.loop([*call("t"), done("tool-calls")], [*text("ok"), done()])
    await loop.run("go")
    assert bench.results(1)[0][1] == "xxxxxxxxxx\n[15 characters cut here]"


async def test_a_model_that_never_stops_calling_meets_the_bound(bench: Bench) -> None:
    probe = bench.tool("t", lambda arguments, context: ToolResult.of("again"))
    replies = [[*call("t", call_id=f"c{number}"), done("tool-calls")] for number in range(3)]
    loop = bench.loop(*replies, [*text("ok"), done()], limits=LoopLimits(max_steps=3))
    result = await loop.run("go")
    assert (result.kind, result.steps) == ("step-limit", 3)
    assert result.failure is not None
    assert result.failure.code == "ACP_TURN_LIMIT"
    assert len(probe.runs) == 2
    assert "was not run" in loop.history[-1].text
    assert_history_is_valid(loop.history)
    # The adapter is told, so that it does not wait for results that will not come.
    signal = bench.adapter.requests[-1].signal
    assert signal is not None
    assert signal.aborted
    # The conversation can go on.
    assert (await loop.run("more")).kind == "stop"


async def test_a_signal_ends_running_and_waiting_calls_and_every_call_has_its_result(bench: Bench) -> None:
    controller = AbortController()
    ended = asyncio.Event()

    async def long(arguments: Any, context: ToolContext) -> ToolResult:
        controller.abort({"kind": "user"})
        try:
            await asyncio.Event().wait()
        finally:
            assert context.signal.aborted
            assert context.signal.reason == {"kind": "user"}
            ended.set()
        raise AssertionError

    judged: list[str] = []

    class Watches:
        @hookimpl
        def before_tool(self, call: ToolCall) -> None:
            judged.append(call.id)

    await bench.host.mount("watches", Watches())
    bench.tool("long", long)
    waiting = bench.tool("waiting", lambda arguments, context: ToolResult.of("ran"))
    approver = Asks(Decision("allow", "fine", "person"))
    loop = bench.loop(
        [*call("long", call_id="a"), *call("waiting", call_id="b", index=1), done("tool-calls")],
        limits=LoopLimits(max_parallel_tools=1),
        approver=approver,
    )
    async with asyncio.timeout(10):
        result = await loop.run("go", signal=controller.signal)
    assert result.kind == "aborted"
    assert ended.is_set()
    assert waiting.runs == []
    # Nobody is bothered with a question whose answer no longer matters.
    assert judged == ["a"]
    assert len(approver.requests) == 1
    assert [(each.tool_call_id, each.is_error) for each in loop.history if each.role == "tool"] == [
        ("a", True),
        ("b", True),
    ]
    assert_history_is_valid(loop.history)
    assert controller.signal._listeners == {}


async def test_a_signal_reaches_the_process_of_a_command(bench: Bench) -> None:
    from antigravity_acp.host.tools import RunCommand

    controller = AbortController()
    bench.host.ctx.tools.register(RunCommand())
    loop = bench.loop([*call("run_command", '{"command":"echo $$ > pid; sleep 300"}'), done("tool-calls")])
    running = asyncio.create_task(loop.run("go", signal=controller.signal))
    async with asyncio.timeout(15):
        while not (bench.place / "pid").exists() or not (bench.place / "pid").read_text().strip():
            await asyncio.sleep(0.01)
        controller.abort()
        assert (await running).kind == "aborted"
    assert not psutil.pid_exists(int((bench.place / "pid").read_text()))


async def test_a_signal_ends_an_open_question_as_well(bench: Bench) -> None:
    controller = AbortController()

    class Thinking:
        async def decide(self, request: ApprovalRequest) -> Decision:
            controller.abort()
            await asyncio.Event().wait()
            raise AssertionError

    probe = bench.tool("t", lambda arguments, context: ToolResult.of("ran"))
    loop = bench.loop([*call("t"), done("tool-calls")], approver=Thinking())
    async with asyncio.timeout(10):
        assert (await loop.run("go", signal=controller.signal)).kind == "aborted"
    assert probe.runs == []
    assert_history_is_valid(loop.history)


async def test_a_signal_ends_a_stream_and_what_the_user_saw_is_kept(bench: Bench) -> None:
    controller = AbortController()

    async def reply(options: GenerateOptions) -> AsyncIterator[StreamChunk]:
        yield BlockStart(0, "text")
        yield TextDelta(0, "half a")
        assert options.signal is not None
        controller.abort()
        await options.signal.wait()
        raise LlmError("ABORTED")

    loop = bench.loop(reply)
    result = await loop.run("go", signal=controller.signal)
    assert (result.kind, result.text) == ("aborted", "half a")
    assert [each.role for each in loop.history] == ["user", "assistant"]


async def test_a_cancelled_task_leaves_a_valid_history_and_tells_the_adapter(bench: Bench) -> None:
    reached = asyncio.Event()

    async def long(arguments: Any, context: ToolContext) -> ToolResult:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    bench.tool("t", long)
    loop = bench.loop([*call("t"), done("tool-calls")], [*text("ok"), done()])
    running = asyncio.create_task(loop.run("go"))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert_history_is_valid(loop.history)
    signal = bench.adapter.requests[0].signal
    assert signal is not None
    assert signal.aborted
    assert (await loop.run("again")).kind == "stop"


def failing(code: str, *before: Any, retry_after_ms: int | None = None) -> list[Any]:
    return [*before, Finish(FinishReason("error", Failure("m", code, None, retry_after_ms)))]


@pytest.mark.parametrize("code", ["ACP_DISCONNECTED", "EMPTY_RESPONSE", "RATE_LIMIT"])
async def test_a_failure_that_may_be_repeated_is_repeated_within_a_bound(bench: Bench, code: str) -> None:
    loop = bench.loop(failing(code), failing(code), [*text("ok"), done()])
    assert (await loop.run("go")).text == "ok"
    assert [event.code for event in bench.of(RetryPlanned)] == [code, code]
    first, second, third = bench.adapter.requests
    assert first.messages == second.messages == third.messages
    loop = AgentLoop(
        bench.host.ctx,
        model=ModelChoice("scripted", "small"),
        workspace=bench.place,
        approver=Approvals(),
        limits=LoopLimits(retry_delay_s=0.0),
    )
    bench.adapter.replies = [failing(code) for _ in range(5)]
    assert (await loop.run("go")).kind == "error"
    assert len(bench.adapter.replies) == 2


@pytest.mark.parametrize(
    "reply",
    [
        failing("ACP_QUOTA"),
        failing("SOMETHING_ELSE"),
        failing("ACP_DISCONNECTED", BlockStart(0, "text"), TextDelta(0, "a")),
        failing("ACP_DISCONNECTED", BlockStart(0, "text")),
    ],
)
@pytest.mark.requirement("A-038")
async def test_nothing_else_is_repeated_least_of_all_a_partial_answer(bench: Bench, reply: list[Any]) -> None:
    loop = bench.loop(reply, [*text("twice"), done()])
    result = await loop.run("go")
    assert result.kind == "error"
    assert result.failure is not None
    assert len(bench.adapter.requests) == 1


async def test_waiting_for_a_repeat_ends_with_the_signal(bench: Bench) -> None:
    controller = AbortController()
    loop = bench.loop(failing("ACP_DISCONNECTED", retry_after_ms=20_000), [*text("late"), done()])
    running = asyncio.create_task(loop.run("go", signal=controller.signal))
    async with asyncio.timeout(10):
        while not bench.of(RetryPlanned):
            await asyncio.sleep(0)
        assert bench.of(RetryPlanned)[0].delay_s == 20
        controller.abort()
        assert (await running).kind == "aborted"
    assert len(bench.adapter.requests) == 1


async def test_calls_that_were_cut_short_do_not_run_and_do_not_stay_in_the_history(bench: Bench) -> None:
    probe = bench.tool("t", lambda arguments, context: ToolResult.of("ran"))
    loop = bench.loop([*text("so"), *call("t", index=1), done("max-tokens")])
    result = await loop.run("go")
    assert (result.kind, result.text) == ("max-tokens", "so")
    assert probe.runs == []
    assert_history_is_valid(loop.history)


async def test_a_second_turn_at_the_same_time_is_refused_and_harms_nothing(bench: Bench) -> None:
    gate = asyncio.Event()
    loop = bench.loop([gate, *text("ok"), done()])
    running = asyncio.create_task(loop.run("go"))
    while not bench.adapter.requests:
        await asyncio.sleep(0)
    with pytest.raises(LlmError, match="ACP_SESSION_BUSY"):
        await loop.run("too soon")
    gate.set()
    assert (await running).text == "ok"
    assert [each.role for each in loop.history] == ["user", "assistant"]


async def test_a_listener_that_fails_does_not_end_the_turn(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    loop = bench.loop([*text("ok"), done()])

    def broken(event: LoopEvent) -> None:
        raise RuntimeError("hunter2")

    loop._listener = broken
    assert (await loop.run("go")).text == "ok"
    assert "listener failed with RuntimeError" in caplog.text
    assert "hunter2" not in caplog.text


async def test_a_tool_may_ask_the_same_provider_while_its_parent_waits(bench: Bench) -> None:
    async def subagent(arguments: Any, context: ToolContext) -> ToolResult:
        child = AgentLoop(
            bench.host.ctx, model=ModelChoice("scripted", "small"), workspace=bench.place, approver=Approvals()
        )
        return ToolResult.of((await child.run("a part", signal=context.signal)).text)

    bench.tool("subagent", subagent)
    loop = bench.loop([*call("subagent"), done("tool-calls")], [*text("from the child"), done()], [*text("ok"), done()])
    async with asyncio.timeout(10):
        assert (await loop.run("go")).text == "ok"
    assert bench.results(2) == [("call_1", "from the child", False)]
    assert bench.adapter.requests[1].session_id != bench.adapter.requests[0].session_id


async def test_an_unknown_route_ends_the_turn_with_its_code(bench: Bench) -> None:
    loop = AgentLoop(bench.host.ctx, model=ModelChoice("nobody", "m"), workspace=bench.place, approver=Approvals())
    result = await loop.run("go")
    assert result.failure is not None
    assert result.failure.code == "NO_ADAPTER"


async def test_events_tell_a_call_from_its_start_to_its_end(bench: Bench) -> None:
    bench.tool("t", lambda arguments, context: ToolResult.of("r"))
    loop = bench.loop([*call("t", '{"a":1}'), done("tool-calls")], [*text("ok"), done()], rules="t")
    await loop.run("go")
    started, decided, ended = (bench.of(kind)[0] for kind in (ToolStarted, ToolDecided, ToolEnded))
    assert bench.events.index(started) < bench.events.index(decided) < bench.events.index(ended)
    assert (started.name, started.arguments) == ("t", '{"a":1}')
    assert (decided.decision, decided.source, decided.rule) == ("allow", "rule", "t")
    assert (ended.text, ended.is_error) == ("r", False)
    assert ended.seconds >= 0
