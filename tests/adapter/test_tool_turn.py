"""A tool turn, end to end: a real agent process calls through the real bridge and the same prompt goes on."""

import asyncio
import json
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from helpers.conversation import TOOLS, Conversation, running, schema
from helpers.loopback import directive

from antigravity_acp.contract import Message, TextBlock, tool_result, user


@pytest.mark.requirement("A-009", "A-010", "A-011")
async def test_a_call_surfaces_and_its_result_resumes_the_same_prompt() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        call = {"name": "read_file", "arguments": {"path": "a.txt"}}
        first = await chat.play({"say": "Let me look."}, {"call": call}, {"tell": "requests"})
        assert (first.kind, first.text) == ("tool-calls", "Let me look.")
        assert [(one.name, json.loads(one.arguments)) for one in first.calls] == [("read_file", {"path": "a.txt"})]
        assert adapter.diagnostics()["parked_calls"] == 1
        second = await chat.answer({first.calls[0].id: "content of a"})
        assert second.kind == "stop"
        assert "result:read_file:content of a" in second.text
        assert second.text.count('"session/prompt"') == 1
        assert adapter.diagnostics()["process_starts"] == 1


@pytest.mark.requirement("A-013")
async def test_parallel_calls_all_reach_the_host_and_get_their_own_results() -> None:
    # How many leave in one message depends on the machine's load here; tests/bridge proves that those together do.
    async with running() as adapter:
        chat = Conversation(adapter)
        calls = [{"name": "bash", "arguments": {"command": f"echo {n}"}} for n in range(8)]
        reply = await chat.play({"calls": calls, "parallel": True})
        seen: list[str] = []
        text = ""
        while reply.kind == "tool-calls":
            seen += [call.id for call in reply.calls]
            results = {call.id: f"<{json.loads(call.arguments)['command']}>" for call in reversed(reply.calls)}
            reply = await chat.answer(results)
            text += reply.text
        assert len(set(seen)) == len(seen) == 8
        for n in range(8):
            assert text.count(f"result:bash:<echo {n}>") == 1
        assert adapter.diagnostics()["process_starts"] == 1


@pytest.mark.requirement("A-013")
async def test_three_rounds_share_one_prompt() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        steps = [{"call": {"name": "bash", "arguments": {"n": n}}} for n in range(3)]
        reply = await chat.play(*steps, {"tell": "requests"})
        for n in range(3):
            assert reply.kind == "tool-calls"
            assert json.loads(reply.calls[0].arguments) == {"n": n}
            reply = await chat.answer({reply.calls[0].id: f"r{n}"})
        assert reply.kind == "stop"
        assert reply.text.count('"session/prompt"') == 1
        assert adapter.diagnostics()["process_starts"] == 1


@pytest.mark.requirement("A-012")
async def test_a_denial_reaches_the_agent_as_an_error_result() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        first = await chat.play({"call": {"name": "bash", "arguments": {"command": "rm -rf /"}}})
        call = first.calls[0].id
        second = await chat.answer({call: tool_result(call, "denied by policy", is_error=True)})
        assert "error:bash:denied by policy" in second.text


@pytest.mark.requirement("A-044")
async def test_invalid_arguments_never_reach_the_host() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        reply = await chat.play({"call": {"name": "read_file", "arguments": {"path": 7}}}, {"say": " done"})
        assert reply.kind == "stop"
        assert "error:read_file:" in reply.text
        assert reply.text.endswith(" done")


async def test_arguments_arrive_without_loss() -> None:
    async with running() as adapter:
        chat = Conversation(adapter, tools=(schema("third.tool", x={}),))
        value = {"x": [12345678901234567890123, 1.0, 1e-7, "é\u2028\\", {"": None, "a b": [True]}]}
        reply = await chat.play({"call": {"name": "third.tool", "arguments": value}})
        assert reply.calls[0].name == "third.tool"
        assert json.loads(reply.calls[0].arguments) == value
        assert "12345678901234567890123" in reply.calls[0].arguments
        assert "1.0" in reply.calls[0].arguments


@pytest.mark.requirement("A-014")
async def test_repeated_announcements_execute_nothing() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        call = {"name": "bash", "arguments": {}}
        first = await chat.play({"call": call, "announce": 3}, {"say": " end"})
        assert len(first.calls) == 1
        second = await chat.answer({first.calls[0].id: "once"})
        assert second.kind == "stop"
        assert second.text.count("result:bash:once") == 1


@pytest.mark.requirement("A-014")
async def test_an_announced_call_without_an_mcp_request_is_no_call() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user(directive({"ask": "official", "tool": "bash"}, {"say": " and done"})))
        reply = await chat.generate()
        assert reply.kind == "stop"
        assert reply.calls == []
        assert "allow_once" in reply.text


@pytest.mark.requirement("A-060")
async def test_thoughts_and_text_keep_their_order_and_blocks() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        reply = await chat.play({"think": ["a", "b"]}, {"say": ["c", "d"]}, {"think": "e"}, {"say": "f"})
        assert [type(block).__name__ for block in reply.blocks] == [
            "ReasoningBlock",
            "TextBlock",
            "ReasoningBlock",
            "TextBlock",
        ]
        assert (reply.text, reply.thoughts) == ("cdf", "abe")


@pytest.mark.requirement("A-061")
async def test_usage_is_passed_on_and_never_invented() -> None:
    async with running() as adapter:
        occupancy = {"sessionUpdate": "usage_update", "used": 900, "size": 1000}
        silent = await Conversation(adapter).play({"update": occupancy}, {"say": "x"})
        assert silent.usage is None
        counted = await Conversation(adapter, session_id="s2").play(
            {"say": "x"}, {"usage": {"inputTokens": 11, "outputTokens": 5, "totalTokens": 16}}
        )
        assert counted.usage is not None
        assert (counted.usage.input_tokens, counted.usage.output_tokens) == (11, 5)


@pytest.mark.requirement("A-016", "A-018")
async def test_each_generation_is_a_fresh_session_with_the_whole_history() -> None:
    async with running(steps=[{"tell": "prompt"}]) as adapter:
        chat = Conversation(adapter, tools=())
        chat.messages += [Message("system", (TextBlock("SYSTEM-WORD"),)), user("FIRST-WORD")]
        first = await chat.generate()
        chat.messages.append(user("SECOND-WORD"))
        second = await chat.generate()
        for word in ("SYSTEM-WORD", "FIRST-WORD", "SECOND-WORD"):
            assert word in second.text
        assert "SECOND-WORD" not in first.text


@pytest.mark.requirement("A-006", "A-025", "A-040")
async def test_each_turn_has_its_own_endpoint_and_it_dies_with_the_turn() -> None:
    async with running(steps=[{"tell": "session"}]) as adapter:
        told = [
            json.loads(reply.text)
            for reply in [await Conversation(adapter, session_id=f"s{n}").generate_hello() for n in range(2)]
        ]
        endpoints = [one["mcpServers"][0] for one in told]
        assert endpoints[0]["name"] != endpoints[1]["name"]
        assert endpoints[0]["headers"] != endpoints[1]["headers"]
        assert all(one["url"].startswith("http://127.0.0.1:") for one in endpoints)
        dead = endpoints[0]
        request = urllib.request.Request(
            dead["url"],
            data=b"{}",
            method="POST",
            headers={item["name"]: item["value"] for item in dead["headers"]} | {"Content-Type": "application/json"},
        )

        def post() -> int:
            try:
                with urllib.request.urlopen(request, timeout=5) as response:
                    return int(response.status)
            except urllib.error.HTTPError as error:
                error.close()
                return error.code

        assert await asyncio.to_thread(post) == 401


@pytest.mark.requirement("A-045")
async def test_the_agent_gets_a_scratch_folder_no_client_powers_and_only_our_endpoint() -> None:
    tells = [step for what in ("cwd", "initialize", "session") for step in ({"tell": what}, {"say": "\n"})]
    async with running(steps=tells) as adapter:
        reply = await Conversation(adapter).generate_hello()
        folders, initialize, session = (json.loads(line) for line in reply.text.strip().split("\n"))
        assert folders["process"] == folders["session"] == session["cwd"]
        assert Path(folders["tmp"]).parent == Path(folders["process"]).parent
        assert Path(tempfile.gettempdir()).resolve() in Path(folders["process"]).parents
        capabilities = initialize.get("clientCapabilities", {})
        assert not capabilities.get("terminal")
        assert not any((capabilities.get("fs") or {}).values())
        assert len(session["mcpServers"]) == 1


@pytest.mark.requirement("A-046")
async def test_the_catalogue_the_agent_sees_is_the_hosts() -> None:
    async with running(steps=[{"list": True}]) as adapter:
        reply = await Conversation(adapter).generate_hello()
        # An agent whose own limit for a call is short is lent the bridge's tool for late results, too.
        names = [name for name in json.loads(reply.text.removeprefix("tools:")) if name != "wait_for_ticket"]
        assert len(names) == len(TOOLS)
        assert [
            name.startswith(stem) for name, stem in zip(sorted(names), ("bash", "read_file", "third_tool"), strict=True)
        ]
