"""Whole turns on Google's harness: what the model is scripted to do is all that is not real."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from helpers.conversation import Conversation, code_of, running, until
from helpers.engine import engine
from helpers.journals import json_lines

from antigravity_acp.contract import ImageAttachment, ImageBlock, Message, TextBlock, ToolSchema, tool_result, user

pytestmark = pytest.mark.requirement("X-001")


def call(name: str = "bash", **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def free(adapter: Any) -> bool:
    found = adapter.diagnostics()
    busy = found["processes"] - found["idle_processes"]
    return (busy, found["active_turns"], found["parked_calls"]) == (0, 0, 0)


def received(folder: Path) -> list[dict[str, Any]]:
    """What the model endpoint received, in order."""
    return json_lines(folder / "model.jsonl")


async def test_text_thoughts_and_real_counters(tmp_path: Path) -> None:
    rules = [{"thoughts": "Hm.", "text": ["Hello ", "there."], "usage": {"input": 40, "output": 7}}]
    async with engine(tmp_path, rules) as adapter:
        chat = Conversation(adapter, tools=())
        reply = await chat.generate_hello()
        assert (reply.kind, reply.thoughts, reply.text) == ("stop", "Hm.", "Hello there.")
        assert reply.usage is not None
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (40, 7)


@pytest.mark.requirement("A-009", "A-010")
async def test_one_call_and_the_result_the_model_sees(tmp_path: Path) -> None:
    rules = [
        {"when": {"round": 0}, "text": "Looking.", "calls": [call("read_file", path="a.txt")]},
        {"when": {"round": 1}, "text": "It says: {{result}}"},
    ]
    async with engine(tmp_path, rules) as adapter:
        chat = Conversation(adapter)
        first = await chat.generate_hello()
        assert first.kind == "tool-calls"
        assert [(one.name, json.loads(one.arguments)) for one in first.calls] == [("read_file", {"path": "a.txt"})]
        second = await chat.answer({first.calls[0].id: "REAL CONTENT"})
        assert second.kind == "stop"
        assert "It says: REAL CONTENT" in second.text
        assert adapter.diagnostics()["process_starts"] == 1


@pytest.mark.requirement("A-013")
async def test_two_calls_of_one_model_message_both_reach_the_host(tmp_path: Path) -> None:
    rules = [
        {"when": {"round": 0}, "calls": [call(command="one"), call(command="two")]},
        {"when": {"round": 1}, "text": "{{result.1}} and {{result.2}}"},
    ]
    async with engine(tmp_path, rules) as adapter:
        chat = Conversation(adapter)
        # The harness runs the calls of one message one after another (measured): two stream calls, one prompt.
        reply = await chat.generate_hello()
        seen = []
        while reply.kind == "tool-calls":
            seen += [json.loads(one.arguments)["command"] for one in reply.calls]
            reply = await chat.answer({one.id: f"<{json.loads(one.arguments)['command']}>" for one in reply.calls})
        assert seen == ["one", "two"]
        assert "<one> and" in reply.text
        assert "<two>" in reply.text
        assert adapter.diagnostics()["process_starts"] == 1


@pytest.mark.requirement("A-013")
async def test_three_rounds_in_one_prompt(tmp_path: Path) -> None:
    rules = [{"when": {"round": n}, "calls": [call(n=n)]} for n in range(3)]
    async with engine(tmp_path, [*rules, {"text": "{{result.1}},{{result.2}},{{result.3}}"}]) as adapter:
        chat = Conversation(adapter)
        reply = await chat.generate_hello()
        for n in range(3):
            assert json.loads(reply.calls[0].arguments) == {"n": n}
            reply = await chat.answer({reply.calls[0].id: f"r{n}"})
        for n in range(3):
            assert f"r{n}" in reply.text
        assert adapter.diagnostics()["process_starts"] == 1


@pytest.mark.requirement("A-012")
async def test_a_denial_is_an_error_for_the_model_and_the_turn_goes_on(tmp_path: Path) -> None:
    rules = [{"when": {"round": 0}, "calls": [call(command="rm -rf /")]}, {"text": "Told: {{result}}"}]
    async with engine(tmp_path, rules) as adapter:
        chat = Conversation(adapter)
        first = await chat.generate_hello()
        one = first.calls[0].id
        second = await chat.answer({one: tool_result(one, "denied by policy", is_error=True)})
        assert second.kind == "stop"
        assert "denied by policy" in second.text


@pytest.mark.requirement("A-044")
async def test_invalid_arguments_of_the_model_come_back_to_it_and_not_to_the_host(tmp_path: Path) -> None:
    rules = [
        {"when": {"round": 0}, "calls": [call("read_file", path=7, surplus=True)]},
        {"when": {"round": 1}, "calls": [call("read_file", path="right")]},
        {"text": "{{result.1}} then {{result.2}}"},
    ]
    async with engine(tmp_path, rules) as adapter:
        chat = Conversation(adapter)
        first = await chat.generate_hello()
        assert [json.loads(one.arguments) for one in first.calls] == [{"path": "right"}]
        second = await chat.answer({first.calls[0].id: "fine"})
        assert "do not fit" in second.text
        assert "then" in second.text
        assert "fine" in second.text


async def test_a_tool_that_takes_seventy_seconds(tmp_path: Path) -> None:
    rules = [{"when": {"round": 0}, "calls": [call()]}, {"text": "{{result}}"}]
    async with engine(tmp_path, rules) as adapter:
        chat = Conversation(adapter)
        first = await chat.generate_hello()
        await asyncio.sleep(70)  # the slow tool itself
        assert "slow" in (await chat.answer({first.calls[0].id: "slow"})).text


async def test_a_result_of_150_kilobytes_reaches_the_model_as_far_as_the_harness_lets_it(tmp_path: Path) -> None:
    # Harness 0.1.22 cuts a text result at 48 KiB, whatever is configured, and tells the model so (measured).
    large = "".join(f"{number:06d}\n" for number in range(150_000 // 7))
    rules = [{"when": {"round": 0}, "calls": [call()]}, {"text": "ok"}]
    async with engine(tmp_path, rules) as adapter:
        chat = Conversation(adapter)
        first = await chat.generate_hello()
        assert (await chat.answer({first.calls[0].id: large})).text == "ok"
    seen = json.dumps(received(tmp_path)[-1])
    assert json.dumps(large[:49_000])[1:-1] in seen
    assert "truncated" in seen


async def test_a_result_of_40_kilobytes_reaches_the_model_whole(tmp_path: Path) -> None:
    large = "".join(f"{number:06d}\n" for number in range(40_000 // 7))
    rules = [{"when": {"round": 0}, "calls": [call()]}, {"text": "ok"}]
    async with engine(tmp_path, rules) as adapter:
        chat = Conversation(adapter)
        first = await chat.generate_hello()
        await chat.answer({first.calls[0].id: large})
    assert json.dumps(large)[1:-1] in json.dumps(received(tmp_path)[-1])


async def test_abort_in_the_middle_of_text(tmp_path: Path) -> None:
    rules = [{"text": ["a ", "b ", "c "], "pause_ms": 20_000}]
    async with engine(tmp_path, rules) as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user("x"))
        stream = adapter.stream(chat.options())
        async with asyncio.timeout(20):
            while (await anext(stream)).to_wire()["type"] != "text-delta":
                pass
        chat.controller.abort()
        assert await code_of(stream, opened=True) == "ABORTED"
        await until(lambda: free(adapter), "all is freed")


async def test_abort_while_a_call_is_parked(tmp_path: Path) -> None:
    rules = [{"when": {"round": 0}, "calls": [call()]}, {"text": "never"}]
    async with engine(tmp_path, rules) as adapter:
        chat = Conversation(adapter)
        await chat.generate_hello()
        chat.controller.abort()
        await until(lambda: free(adapter), "all is freed")


@pytest.mark.requirement("A-021", "A-018")
async def test_a_catalogue_that_changed_between_rounds_starts_anew_from_the_history(tmp_path: Path) -> None:
    rules = [
        {"when": {"user": "OLD-RESULT"}, "text": "fresh"},
        {"when": {"round": 0}, "calls": [call()]},
        {"text": "old prompt"},
    ]
    async with engine(tmp_path, rules) as adapter:
        chat = Conversation(adapter)
        first = await chat.generate_hello()
        added = ToolSchema("new_tool", "New.", {"type": "object"})
        chat.base["tools"] = (*chat.base["tools"], added)
        second = await chat.answer({first.calls[0].id: "OLD-RESULT"})
        assert (second.kind, second.text) == ("stop", "fresh")
        assert adapter.diagnostics()["process_starts"] == 2
    declared = json.dumps(received(tmp_path)[-1])
    assert "new_tool" in declared


@pytest.mark.requirement("A-020")
@pytest.mark.parametrize("kind", ["missing", "duplicate", "forged"])
async def test_wrong_results_fail_explicitly(tmp_path: Path, kind: str) -> None:
    rules = [{"when": {"round": 0}, "calls": [call()]}, {"text": "never"}]
    async with engine(tmp_path, rules) as adapter:
        chat = Conversation(adapter)
        first = await chat.generate_hello()
        one = first.calls[0].id
        chat.messages += {
            "missing": [],
            "duplicate": [tool_result(one, "x")] * 2,
            "forged": [tool_result("call_000000000000000000000000", "x")],
        }[kind]
        assert await code_of(adapter.stream(chat.options())) == "ACP_TOOL_RESULTS_MISSING"
        await until(lambda: free(adapter), "all is freed")


@pytest.mark.requirement("A-008")
async def test_the_chosen_model_answers(tmp_path: Path) -> None:
    rules = [{"when": {"model": "scripted-2"}, "text": "two"}, {"text": "one"}]
    async with engine(tmp_path, rules) as adapter:
        assert [model.id for model in await adapter.list_models("p")] == ["server-default", "scripted", "scripted-2"]
        assert (await Conversation(adapter, model="scripted-2", tools=()).generate_hello()).text == "two"
        assert (await Conversation(adapter, tools=()).generate_hello()).text == "one"
        chat = Conversation(adapter, model="gemini-unknown", tools=())
        chat.messages.append(user("x"))
        assert await code_of(adapter.stream(chat.options())) == "ACP_INVALID_MODEL"


@pytest.mark.requirement("A-062")
async def test_an_image_reaches_the_model(tmp_path: Path) -> None:
    data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    async with engine(tmp_path, [{"text": "seen"}]) as adapter:
        chat = Conversation(adapter, tools=())
        image = ImageBlock(ImageAttachment(media_type="image/png", data=data))
        chat.messages.append(Message("user", (TextBlock("what is this?"), image)))
        assert (await chat.generate()).text == "seen"
    assert data in json.dumps(received(tmp_path)[-1])


@pytest.mark.requirement("A-046", "A-045")
async def test_the_model_sees_the_hosts_tools_and_none_of_the_harness(tmp_path: Path) -> None:
    async with engine(tmp_path, [{"text": "x"}]) as adapter:
        await Conversation(adapter).generate_hello()
    seen = json.dumps(received(tmp_path)[-1])
    for name in ("read_file", "bash", "third_tool"):
        assert name in seen
    for native in ("run_command", "view_file", "write_to_file", "invoke_subagent", "search_web"):
        assert f'"{native}"' not in seen


@pytest.mark.requirement("A-029")
async def test_a_tool_may_call_the_provider_while_its_parent_waits(tmp_path: Path) -> None:
    rules = [
        {"when": {"user": "CHILD-TASK"}, "text": "child done"},
        {"when": {"round": 0}, "calls": [call()]},
        {"text": "parent got {{result}}"},
    ]
    async with engine(tmp_path, rules) as adapter:
        parent = Conversation(adapter, session_id="parent")
        first = await parent.generate_hello()
        child = Conversation(adapter, session_id="child")
        child.messages.append(user("CHILD-TASK"))
        inner = await child.generate()
        assert inner.text == "child done"
        assert "child done" in (await parent.answer({first.calls[0].id: inner.text})).text


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ({"http_error": 429, "retry_delay_s": 7}, "ACP_QUOTA"),
        ({"http_error": 500}, "ACP_RPC_ERROR"),
        ({"garbage": True, "text": "x"}, "ACP_RPC_ERROR"),
    ],
)
async def test_failures_of_the_model_are_typed_and_free_everything(
    tmp_path: Path, rule: dict[str, Any], code: str
) -> None:
    async with engine(tmp_path, [rule]) as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user("x"))
        assert await code_of(adapter.stream(chat.options())) == code
        await until(lambda: free(adapter), "all is freed")


async def test_without_a_back_end_the_engine_asks_for_a_sign_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from antigravity_acp.settings import Settings

    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    async with running(Settings.from_mapping({"engine": "embedded"})) as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user("x"))
        assert await code_of(adapter.stream(chat.options())) in ("ACP_AUTH_REQUIRED", "ACP_AUTH_UNSUPPORTED")


async def test_several_conversations_at_once_do_not_mix(tmp_path: Path) -> None:
    rules: list[dict[str, Any]] = []
    for n in range(4):
        rules += [
            {"when": {"user": f"TASK-{n}", "round": 0}, "calls": [call(n=n)]},
            {"when": {"user": f"TASK-{n}"}, "text": f"answer {n}: {{{{result}}}}"},
        ]
    async with engine(tmp_path, rules) as adapter:

        async def one(n: int) -> str:
            chat = Conversation(adapter, session_id=f"s{n}")
            chat.messages.append(user(f"TASK-{n}"))
            first = await chat.generate()
            assert json.loads(first.calls[0].arguments) == {"n": n}
            return (await chat.answer({first.calls[0].id: f"R{n}"})).text

        for n, text in enumerate(await asyncio.gather(*(one(n) for n in range(4)))):
            assert f"answer {n}:" in text
            assert f"R{n}" in text
