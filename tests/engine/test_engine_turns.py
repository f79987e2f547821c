"""Turns of the real engine on the real harness, with a scripted model and a real MCP server."""

import base64
import sys
from pathlib import Path

import pytest
from helpers.engine_peer import engine, reject
from helpers.engine_tools import ToolFailed, ToolServer

SCRIPT = """
models: [small, large]
rules:
  - when: {user: two calls, round: 0}
    text: "I ask twice. "
    calls:
      - {name: echo, arguments: {text: A, nested: {n: 1.5, list: [1, null, "ü"]}}}
      - {name: echo, arguments: {text: B}}
  - when: {user: three rounds, round: 0}
    calls: [{name: echo, arguments: {text: "1"}}]
  - when: {user: three rounds, round: 1}
    calls: [{name: echo, arguments: {text: "{{result}}2"}}]
  - when: {user: three rounds, round: 2}
    calls: [{name: echo, arguments: {text: "{{result}}3"}}]
  - when: {user: one call, round: 0}
    calls: [{name: echo, arguments: {text: hello}}]
  - when: {user: failing, round: 0}
    calls: [{name: fail}]
  - when: {user: big, round: 0}
    calls: [{name: big}]
  - when: {user: stdio, round: 0}
    calls: [{name: where}]
  - when: {tool: echo}
    text: ["Results: ", "{{results}}"]
  - when: {tool: fail}
    text: "It failed: {{result}}"
  - when: {result: "end-of-big"}
    text: "all of it"
  - when: {tool: where}
    text: "{{result}}"
  - when: {images: 1}
    text: I see one image
  - thoughts: [Let me, " think"]
    text: [Hello, " from ", "{{model}}"]
    usage: {input: 100, output: 7, thoughts: 3, cached: 20}
"""


def echo_server() -> ToolServer:
    server = ToolServer(name="dsh1a2b3c4d")
    server.add("echo", lambda arguments: str(arguments["text"]))
    return server


@pytest.mark.requirement("X-001")
async def test_text_thoughts_and_real_usage_of_a_plain_turn_and_no_native_tool_is_offered(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        answer = await peer.initialize()
        assert answer["protocolVersion"] == 1
        assert answer["agentInfo"]["name"] == "antigravity-engine"
        assert answer["agentCapabilities"]["mcpCapabilities"]["http"] is True
        session = await peer.new_session()
        result = await peer.prompt(session, "say hello")
        assert result["stopReason"] == "end_turn"
        assert result["usage"] == {
            "inputTokens": 100,
            "outputTokens": 7,
            "thoughtTokens": 3,
            "cachedReadTokens": 20,
            "totalTokens": 110,
        }
        assert peer.text() == "Hello from small"
        assert peer.thoughts() == "Let me think"
        seen = peer.seen()[-1]
        assert seen["tools"] == []
        assert "Work only with the functions that are declared" in seen["system"]
        assert "Antigravity" not in seen["system"]
        again = await peer.prompt(session, "and again")
        assert again["usage"]["totalTokens"] == 110, "usage is of the turn, not of the session"
        assert peer.noise == []


@pytest.mark.requirement("X-001")
async def test_a_call_is_announced_asked_about_run_once_and_its_real_output_comes_back(tmp_path: Path) -> None:
    async with echo_server().serve() as tools, engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session(tools.descriptor())
        result = await peer.prompt(session, "one call please")
        assert result["stopReason"] == "end_turn"
        assert tools.calls == [("echo", {"text": "hello"})]
        assert peer.text() == "Results: hello"
        meta = {"mcp": {"server": "dsh1a2b3c4d", "tool": "echo"}}
        (call,) = peer.of("tool_call")
        assert call["_meta"] == meta
        assert call["rawInput"] == {"text": "hello"}
        (permission,) = peer.permissions
        assert permission["toolCall"]["toolCallId"] == call["toolCallId"]
        assert permission["toolCall"]["_meta"] == meta
        assert [option["kind"] for option in permission["options"]] == ["allow_once", "reject_once"]
        updates = peer.of("tool_call_update")
        assert [update["status"] for update in updates] == ["in_progress", "completed"]
        assert {update["toolCallId"] for update in updates} == {call["toolCallId"]}
        assert updates[-1]["content"][0]["content"]["text"] == "hello"
        assert peer.updates.index((session, call)) < peer.updates.index((session, updates[0]))


async def test_two_calls_in_one_model_message_both_run_and_three_rounds_build_on_each_other(tmp_path: Path) -> None:
    async with echo_server().serve() as tools, engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session(tools.descriptor())
        await peer.prompt(session, "two calls")
        assert tools.calls == [
            ("echo", {"text": "A", "nested": {"n": 1.5, "list": [1, None, "ü"]}}),
            ("echo", {"text": "B"}),
        ]
        assert peer.text() == "I ask twice. Results: A\nB"
        assert len({call["toolCallId"] for call in peer.of("tool_call")}) == 2
        tools.calls.clear()
        peer.updates.clear()
        await peer.prompt(session, "three rounds")
        assert [arguments["text"] for _, arguments in tools.calls] == ["1", "12", "123"]
        assert peer.text() == "Results: 1\n12\n123"
        assert [u["status"] for u in peer.of("tool_call_update")] == ["in_progress", "completed"] * 3


async def test_a_rejected_call_never_runs_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with echo_server().serve() as tools, engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session(tools.descriptor())
        peer.on_permission = lambda params: (
            reject(params)
            if params["toolCall"]["rawInput"]["text"] == "A"
            else {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        )
        result = await peer.prompt(session, "two calls")
        assert result["stopReason"] == "end_turn"
        assert tools.calls == [("echo", {"text": "B"})]
        first, second = peer.of("tool_call")
        ends = {u["toolCallId"]: u["status"] for u in peer.of("tool_call_update")}
        assert ends == {first["toolCallId"]: "failed", second["toolCallId"]: "completed"}
        assert "refused" in peer.text()


async def test_a_tool_that_fails_and_results_of_forty_kilobytes_of_text_and_two_megabytes_of_image(
    tmp_path: Path,
) -> None:
    server = echo_server()
    server.add("big", lambda _: "x" * 40_000 + "end-of-big", image=b"\x89PNG" + b"i" * 2_000_000)

    def fail(_: object) -> str:
        raise ToolFailed("disk on fire")

    server.add("fail", fail)
    async with server.serve() as tools, engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        session = await peer.new_session(tools.descriptor())
        await peer.prompt(session, "failing")
        assert "disk on fire" in peer.text()
        assert peer.of("tool_call_update")[-1]["status"] == "failed"
        peer.updates.clear()
        await peer.prompt(session, "big")
        assert peer.text() == "all of it"
        parts = peer.seen()[-1]["body"]["contents"][-1]["parts"]
        (media,) = parts[0]["functionResponse"]["parts"]
        assert len(base64.b64decode(media["inlineData"]["data"])) == 2_000_004


async def test_sub_agents_and_native_tools_are_not_declared_beside_mcp_tools(tmp_path: Path) -> None:
    async with echo_server().serve() as tools, engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        await peer.prompt(await peer.new_session(tools.descriptor()), "hello")
        # list_resources and read_resource come with any MCP server; calls of them are refused unseen.
        assert set(peer.seen()[-1]["tools"]) == {"mcp_dsh1a2b3c4d_echo", "list_resources", "read_resource"}


@pytest.mark.requirement("X-001")
async def test_native_tools_on_request_are_asked_about_and_still_without_sub_agents(tmp_path: Path) -> None:
    target = tmp_path / "made.txt"
    script = f"""
rules:
  - when: {{round: 0}}
    calls:
      - name: write_to_file
        arguments:
          {{TargetFile: "{target}", CodeContent: made, Overwrite: true, Description: d, Complexity: 1,
            toolAction: a, toolSummary: s, IsArtifact: false}}
  - text: done
"""
    async with engine(tmp_path, "--native-tools", "all", script=script) as peer:
        await peer.initialize()
        session = await peer.new_session(cwd=str(tmp_path))
        peer.on_permission = reject
        await peer.prompt(session, "make it")
        declared = set(peer.seen()[0]["tools"])
        assert {"run_command", "view_file", "write_to_file"} <= declared
        assert not declared & {"invoke_subagent", "define_subagent", "manage_subagents", "send_message", "run_workflow"}
        assert peer.permissions[0]["toolCall"]["_meta"] == {"native": {"tool": "create_file"}}
        assert peer.permissions[0]["toolCall"]["kind"] == "edit"
        assert not target.exists()


@pytest.mark.requirement("X-001")
async def test_an_image_reaches_the_model_as_it_is(tmp_path: Path) -> None:
    png = base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    data = base64.b64encode(png).decode()
    async with engine(tmp_path, script=SCRIPT) as peer:
        answer = await peer.initialize()
        assert answer["agentCapabilities"]["promptCapabilities"]["image"] is True
        session = await peer.new_session()
        await peer.prompt(session, "what is it", {"type": "image", "mimeType": "image/png", "data": data})
        parts = [part for content in peer.seen()[-1]["body"]["contents"] for part in content["parts"]]
        assert [part["inlineData"] for part in parts if "inlineData" in part] == [
            {"mimeType": "image/png", "data": data}
        ]
        assert peer.text() == "I see one image"


async def test_a_model_change_answers_with_the_new_value_and_keeps_the_context(tmp_path: Path) -> None:
    async with engine(tmp_path, script=SCRIPT) as peer:
        await peer.initialize()
        created = await peer.request("session/new", {"cwd": "/", "mcpServers": []})
        (option,) = created["configOptions"]
        assert (option["id"], option["type"], option["currentValue"]) == ("model", "select", "small")
        assert [choice["value"] for choice in option["options"]] == ["small", "large"]
        session = created["sessionId"]
        await peer.prompt(session, "my name is Ada")
        answer = await peer.request(
            "session/set_config_option", {"sessionId": session, "configId": "model", "value": "large"}
        )
        assert answer["configOptions"][0]["currentValue"] == "large"
        peer.updates.clear()
        await peer.prompt(session, "who am I")
        assert peer.text() == "Hello from large"
        assert peer.seen()[-1]["model"] == "large"
        assert "my name is Ada" in peer.last_bodies_text()


async def test_a_stdio_server_gets_its_arguments_the_real_home_and_no_key(tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(
        """
import anyio, os, sys
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

async def tools(ctx, params):
    return types.ListToolsResult(tools=[types.Tool(name="where", input_schema={"type": "object"})])

async def call(ctx, params):
    text = f"{os.environ['HOME']} {os.environ.get('GEMINI_API_KEY')} {os.environ['MARK']} {sys.argv[1]}"
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

async def main():
    server = Server("local", on_list_tools=tools, on_call_tool=call)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
"""
    )
    entry = {
        "name": "local",
        "command": sys.executable,
        "args": [str(server), "one"],
        "env": [{"name": "MARK", "value": "marked"}],
    }
    env = {"HOME": str(tmp_path), "GEMINI_API_KEY": "secret-key"}
    async with engine(tmp_path, script=SCRIPT, env=env) as peer:
        await peer.initialize()
        session = await peer.new_session(entry)
        await peer.prompt(session, "stdio")
        assert peer.text() == f"{tmp_path} None marked one"
        assert peer.permissions[0]["toolCall"]["_meta"] == {"mcp": {"server": "local", "tool": "where"}}
