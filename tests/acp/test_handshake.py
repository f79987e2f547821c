"""From the start of an agent to its first session."""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

import pytest
from helpers.agent import BOUND, agent, play
from helpers.loopback import loopback_settings

from antigravity_acp.acp import AgentClient, McpEndpoint
from antigravity_acp.contract import LlmError


async def start_fails(options: dict[str, object], **settings: object) -> LlmError:
    with pytest.raises(LlmError) as caught:
        async with asyncio.timeout(BOUND):
            await AgentClient.start(loopback_settings(options, **settings))
    return caught.value


@pytest.mark.requirement("A-005")
async def test_an_agent_of_version_one_is_accepted_and_described() -> None:
    async with agent(
        {"name": "antigravity-acp", "version": "1.3.0", "images": True, "auth": ["oauth-personal"]}
    ) as one:
        assert (one.agent_name, one.agent_version) == ("antigravity-acp", "1.3.0")
        assert one.profile.id == "official"
        assert (one.mcp_http, one.images, one.auth_methods) == (True, True, ("oauth-personal",))
        assert one.alive
        assert one.pid > 0


@pytest.mark.requirement("A-005")
@pytest.mark.parametrize("version", [2, 0, "1", None, True, 1.5])
async def test_another_protocol_version_is_a_typed_error(version: object) -> None:
    assert (await start_fails({"protocol": version})).code == "ACP_VERSION_MISMATCH"


async def test_an_agent_that_describes_itself_wrongly_gets_the_strict_profile() -> None:
    result = {"agentInfo": "x", "agentCapabilities": [], "authMethods": {"a": 1}}
    async with agent({"init_result": result}) as one:
        assert (one.profile.id, one.agent_name, one.auth_methods) == ("unknown", "", ())
        assert (one.mcp_http, one.images) == (False, False)
        with pytest.raises(LlmError) as caught:
            await one.new_session(McpEndpoint("abc", "http://127.0.0.1:1/mcp", ()))
        assert caught.value.code == "ACP_MCP_UNSUPPORTED"


async def test_an_agent_that_never_answers_initialize_is_ended_in_time() -> None:
    error = await start_fails({"init_hangs": True}, startupTimeoutMs=300)
    assert error.code == "ACP_STARTUP_TIMEOUT"
    assert "startupTimeoutMs" in error.message


async def test_an_agent_that_dies_before_initialize_names_its_exit_status() -> None:
    error = await start_fails({"init_exit": 7})
    assert error.code == "ACP_DISCONNECTED"
    assert "exit status 7" in error.message
    assert "initialize" in error.message


async def test_a_megabyte_on_stderr_before_the_answer_blocks_nothing() -> None:
    async with agent({"init_stderr": 1_000_000}) as one:
        assert one.alive
        tail = one.stderr_tail()
        assert len(tail) <= 16 * 1024


async def test_noise_before_the_answer_is_tolerated() -> None:
    async with agent({"init_lines": ["Loading...", "42", "null", '["a"]', "", '{"half'], "init_stderr": 10}) as one:
        assert one.counters.noise_lines == 5


@pytest.mark.requirement("A-045")
async def test_the_agent_gets_no_powers_and_a_private_folder() -> None:
    async with agent() as one:
        session = await one.new_session()
        seen = await play(
            session, {"tell": "initialize"}, {"say": "\n"}, {"tell": "cwd"}, {"say": "\n"}, {"tell": "session"}
        )
        initialize, where, opened = (json.loads(line) for line in seen.text.split("\n"))
        assert initialize["clientCapabilities"] == {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
        }
        assert initialize["protocolVersion"] == 1
        assert initialize["clientInfo"]["name"] == "antigravity-acp"
        assert opened["mcpServers"] == []
        assert where["process"] == where["session"] == opened["cwd"]
        scratch = Path(where["process"]).parent
        assert scratch.name.startswith("antigravity-acp-")
        assert scratch.parent == Path(tempfile.gettempdir()).resolve()
        assert scratch.stat().st_mode & 0o077 == 0
        assert Path(where["tmp"]).parent == scratch
        assert not Path(where["process"]).is_relative_to(Path.cwd())
    assert not scratch.exists()


@pytest.mark.requirement("A-045")
async def test_the_endpoint_is_the_only_server_and_its_headers_are_a_list() -> None:
    async with agent({"list_at": "call"}) as one:
        endpoint = McpEndpoint("abc12345", "http://127.0.0.1:9/mcp", (("Authorization", "Bearer t"),))
        opened = json.loads((await play(await one.new_session(endpoint), {"tell": "session"})).text)
        assert opened["mcpServers"] == [
            {
                "type": "http",
                "name": "abc12345",
                "url": "http://127.0.0.1:9/mcp",
                "headers": [{"name": "Authorization", "value": "Bearer t"}],
            }
        ]
        assert "Bearer" not in repr(endpoint)


async def test_a_program_that_cannot_be_executed_is_named_as_missing(tmp_path: Path) -> None:
    broken = tmp_path / "agent"
    broken.write_bytes(b"\x7fELF nothing")
    broken.chmod(0o755)
    with pytest.raises(LlmError) as caught:
        await AgentClient.start(loopback_settings(command=str(broken), args=[]))
    assert caught.value.code == "ACP_BINARY_MISSING"
    assert str(tmp_path) not in caught.value.message


async def test_a_request_that_is_never_answered_names_the_method_and_the_setting() -> None:
    async with agent({"session_hangs": True}, requestTimeoutMs=200) as one:
        with pytest.raises(LlmError) as caught:
            await one.new_session()
        assert caught.value.code == "ACP_TIMEOUT"
        assert "session/new" in caught.value.message
        assert "requestTimeoutMs" in caught.value.message


async def test_importing_the_room_does_not_import_the_sdk() -> None:
    code = (
        "import sys, antigravity_acp.acp; "
        "print([m for m in ('acp', 'pydantic', 'mcp', 'google.antigravity') if m in sys.modules])"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE, env={**os.environ}
    )
    out, _ = await asyncio.wait_for(process.communicate(), BOUND)
    assert out.decode().strip() == "[]"
