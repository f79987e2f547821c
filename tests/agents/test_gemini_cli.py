"""The real Gemini CLI behind the adapter, started as `gemini --acp`; the model alone is scripted.

The agent is cut off from the network: its connections are noted, other hosts are refused, and the proxies of its
environment lead nowhere. Versions and times are in docs/agents.md.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers import gemini_cli as installed
from helpers.conversation import TOOLS, Conversation, code_of, running, schema, until
from helpers.gemini_cli import documented_policy, gemini_cli, pinned

from antigravity_acp.acp import AgentClient, PermissionAnswer, PermissionRequest
from antigravity_acp.acp.permissions import Allow
from antigravity_acp.contract import LlmError, tool_result, user
from antigravity_acp.turns import guard

pytestmark = [pytest.mark.agents, pytest.mark.requirement("X-004")]


@pytest.fixture(autouse=True)
def no_key_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, projects and a key ring of whoever runs the tests are not the agent's business here."""
    for name in os.environ:
        if name.startswith(("GEMINI_", "GOOGLE_")) or name == "DBUS_SESSION_BUS_ADDRESS":
            monkeypatch.delenv(name)


@pytest.fixture
def permissions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[PermissionRequest, PermissionAnswer]]:
    """What the agent asked for and what it was told, in order."""
    seen: list[tuple[PermissionRequest, PermissionAnswer]] = []
    real = guard.NativeToolGuard.on_permission

    def watched(self: guard.NativeToolGuard, request: PermissionRequest) -> tuple[PermissionAnswer, LlmError | None]:
        answer, error = real(self, request)
        seen.append((request, answer))
        return answer, error

    monkeypatch.setattr(guard.NativeToolGuard, "on_permission", watched)
    return seen


@pytest.fixture
def started() -> Callable[[], list[psutil.Process]]:
    """The processes that this test has started and that are still there."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    return lambda: [child for child in psutil.Process().children(recursive=True) if child.pid not in before]


def call(name: str = "bash", **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def rounds(*calls: dict[str, Any], text: str = "It says: {{result}}") -> list[dict[str, Any]]:
    """One call in each round, then a text."""
    return [*({"when": {"round": n}, "calls": [one]} for n, one in enumerate(calls)), {"text": text}]


def free(adapter: Any) -> bool:
    found = adapter.diagnostics()
    return (found["processes"], found["active_turns"], found["parked_calls"]) == (0, 0, 0)


def gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# ---- the stage itself -----------------------------------------------------------------------------------------------
def test_a_missing_package_fails_with_the_command_that_installs_it(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"found: nothing.*make test-agents.*install\.py --agents"):
        installed.program(tmp_path)


async def test_the_profile_is_the_one_that_was_measured_on_this_version() -> None:
    with gemini_cli([{"text": "x"}]) as cli:
        client = await AgentClient.start(cli.settings())
        try:
            assert (client.agent_name, client.agent_version) == ("gemini-cli", pinned())
            assert client.profile.id == "gemini-cli"
            assert client.profile.measured == pinned()
            assert client.profile.auth_method in client.auth_methods
            assert client.mcp_http
        finally:
            await client.aclose()


# ---- turns ----------------------------------------------------------------------------------------------------------
@pytest.mark.requirement("A-009", "A-010", "A-014", "A-015")
async def test_a_tool_turn_asks_each_time_and_quotes_what_the_host_said(
    permissions: list[tuple[PermissionRequest, PermissionAnswer]],
) -> None:
    # An argument named `command` becomes the title of the permission request, whatever tool it is for.
    script = rounds(call(command="rm -rf /"), call(command="ls -l"), text="First {{result.1}}, then {{result.2}}")
    script[0]["text"] = "Looking."
    with gemini_cli(script) as cli:
        async with running(cli.settings()) as adapter:
            chat = Conversation(adapter)
            first = await chat.generate_hello()
            assert (first.kind, first.text) == ("tool-calls", "Looking.")
            assert [(one.name, json.loads(one.arguments)) for one in first.calls] == [("bash", {"command": "rm -rf /"})]
            second = await chat.answer({first.calls[0].id: "ONE"})
            assert [json.loads(one.arguments) for one in second.calls] == [{"command": "ls -l"}]
            third = await chat.answer({second.calls[0].id: "TWO"})
            assert third.kind == "stop"
            assert "ONE" in third.text
            assert "TWO" in third.text
            assert adapter.diagnostics()["process_starts"] == 1
        # Asked both times: the first answer put the agent into no mode that asks no more.
        assert [request.title for request, _ in permissions] == ["rm -rf /", "ls -l"]
        assert [answer for _, answer in permissions] == [Allow("proceed_once"), Allow("proceed_once")]
        assert all(("proceed_always_server", "allow_always") in request.options for request, _ in permissions)
        # The guard of the network did watch: the model's endpoint and ours, and nothing else.
        assert len(cli.connections()) == 2
        assert cli.server.base_url.removeprefix("http://") in cli.connections()


@pytest.mark.requirement("A-013")
async def test_two_calls_of_one_message_and_a_title_of_our_own_making(
    permissions: list[tuple[PermissionRequest, PermissionAnswer]],
) -> None:
    script = [
        {"when": {"round": 0}, "calls": [call("third.tool"), call(n=2)]},
        {"text": "{{result.1}} and {{result.2}}"},
    ]
    with gemini_cli(script) as cli:
        async with running(cli.settings()) as adapter:
            chat = Conversation(adapter)
            reply = await chat.generate_hello()
            names = []
            while reply.kind == "tool-calls":
                names += [one.name for one in reply.calls]
                reply = await chat.answer({one.id: f"R-{one.name}" for one in reply.calls})
            assert names == ["third.tool", "bash"]
            assert "R-third.tool" in reply.text
            assert "R-bash" in reply.text
    assert len(permissions) == 2
    assert all(request.title.endswith(" MCP Server)") for request, _ in permissions)


@pytest.mark.requirement("A-012")
async def test_a_denial_is_an_error_for_the_model_and_the_turn_goes_on() -> None:
    with gemini_cli(rounds(call(command="rm -rf /"), text="Told: {{result}}")) as cli:
        async with running(cli.settings()) as adapter:
            chat = Conversation(adapter)
            one = (await chat.generate_hello()).calls[0].id
            reply = await chat.answer({one: tool_result(one, "denied by policy", is_error=True)})
            assert reply.kind == "stop"
            assert "denied by policy" in reply.text
            assert "error" in reply.text.lower()


@pytest.mark.requirement("A-043")
async def test_a_name_that_is_too_long_for_the_agent_is_called_all_the_same() -> None:
    # The CLI cuts the middle out of a name of more than 63 characters, its own prefix counted.
    long = "a_tool_whose_name_goes_on_and_on_" * 4
    with gemini_cli(rounds(call(long, x="1"))) as cli:
        async with running(cli.settings()) as adapter:
            chat = Conversation(adapter, tools=(*TOOLS, schema(long, x={"type": "string"})))
            first = await chat.generate_hello()
            assert [one.name for one in first.calls] == [long]
            assert "DONE" in (await chat.answer({first.calls[0].id: "DONE"})).text


@pytest.mark.requirement("A-008")
async def test_the_chosen_model_is_set_by_set_model_and_answers() -> None:
    with gemini_cli([{"text": "{{model}} says hello"}]) as cli:
        async with running(cli.settings()) as adapter:
            listed = [model.id for model in await adapter.list_models("p")]
            assert listed[:2] == ["server-default", "auto"]
            assert "gemini-2.5-pro" in listed
            reply = await Conversation(adapter, model="gemini-2.5-pro", tools=()).generate_hello()
            assert reply.text == "gemini-2.5-pro says hello"
            assert [entry["model"] for entry in cli.asked()] == ["gemini-2.5-pro"]
            chat = Conversation(adapter, model="gemini-of-next-year", tools=())
            chat.messages.append(user("x"))
            assert await code_of(adapter.stream(chat.options())) == "ACP_INVALID_MODEL"


async def test_without_a_key_the_agent_asks_for_a_sign_in_and_nothing_is_left() -> None:
    with gemini_cli([{"text": "never"}]) as cli:
        async with running(cli.settings(key=None)) as adapter:
            chat = Conversation(adapter)
            chat.messages.append(user("x"))
            assert await code_of(adapter.stream(chat.options())) == "ACP_AUTH_REQUIRED"
            await until(lambda: free(adapter), "all is freed")
        assert not cli.server.records


# ---- native tools ---------------------------------------------------------------------------------------------------
@pytest.mark.requirement("A-015", "A-036", "A-046")
async def test_a_native_shell_is_refused_reported_and_the_process_is_gone(
    tmp_path: Path,
    started: Callable[[], list[psutil.Process]],
    permissions: list[tuple[PermissionRequest, PermissionAnswer]],
) -> None:
    proof = tmp_path / "executed"
    with gemini_cli(rounds(call("run_shell_command", command=f"touch {proof}"))) as cli:
        async with running(cli.settings()) as adapter:
            chat = Conversation(adapter)
            chat.messages.append(user("go"))
            assert await code_of(adapter.stream(chat.options())) == "ACP_NATIVE_TOOLS_UNSUPPORTED"
            await until(lambda: free(adapter), "all is freed")
            assert started() == []
    assert [(request.title, isinstance(answer, Allow)) for request, answer in permissions] == [
        (f"touch {proof}", False)
    ]
    assert not proof.exists()


@pytest.mark.requirement("A-046")
async def test_a_native_tool_that_does_not_ask_ends_the_turn(started: Callable[[], list[psutil.Process]]) -> None:
    with gemini_cli(rounds(call("list_directory", dir_path="."))) as cli:
        async with running(cli.settings(nativeToolPolicy="reject")) as adapter:
            chat = Conversation(adapter)
            chat.messages.append(user("go"))
            assert await code_of(adapter.stream(chat.options())) == "ACP_NATIVE_TOOLS_UNSUPPORTED"
            await until(lambda: free(adapter), "all is freed")
            assert started() == []


@pytest.mark.requirement("A-015")
async def test_policy_reject_refuses_the_shell_and_the_turn_goes_on(tmp_path: Path) -> None:
    proof = tmp_path / "executed"
    script = rounds(call("run_shell_command", command=f"touch {proof}"), call(command="ls"), text="{{results}}")
    with gemini_cli(script) as cli:
        async with running(cli.settings(nativeToolPolicy="reject")) as adapter:
            chat = Conversation(adapter)
            first = await chat.generate_hello()
            assert [one.name for one in first.calls] == ["bash"]
            reply = await chat.answer({first.calls[0].id: "LISTED"})
            assert "canceled" in reply.text
            assert "LISTED" in reply.text
    assert not proof.exists()


@pytest.mark.parametrize("by", ["the user's folder", "an argument"])
async def test_the_documented_policy_file_takes_every_native_tool_from_the_model(
    by: str, tmp_path: Path, permissions: list[tuple[PermissionRequest, PermissionAnswer]]
) -> None:
    file = tmp_path / "host.toml"
    file.write_text(documented_policy(), encoding="utf-8")
    with gemini_cli(rounds(call(command="ls"))) as cli:
        args = ["--acp", "--policy", str(file)]
        if by == "the user's folder":
            policies = cli.home / ".gemini" / "policies"
            policies.mkdir()
            file.rename(policies / file.name)
            args = ["--acp"]
        async with running(cli.settings(args=args)) as adapter:
            chat = Conversation(adapter)
            first = await chat.generate_hello()
            assert "LISTED" in (await chat.answer({first.calls[0].id: "LISTED"})).text
        for entry in cli.asked():
            assert len(entry["tools"]) == len(TOOLS)
            assert all(name.startswith("mcp_") for name in entry["tools"])
    assert [answer for _, answer in permissions] == [Allow("proceed_once")]


# ---- the end --------------------------------------------------------------------------------------------------------
@pytest.mark.requirement("A-035", "A-036")
@pytest.mark.parametrize("processes", [1, 2], ids=["one process", "with a relaunched child"])
async def test_abort_while_a_call_is_parked_leaves_nothing(
    processes: int, started: Callable[[], list[psutil.Process]]
) -> None:
    # Our profile forbids the relaunch; the child must go too where somebody allows it again.
    env = {"GEMINI_CLI_NO_RELAUNCH": ""} if processes == 2 else {}
    with gemini_cli(rounds(call(command="ls"))) as cli:
        async with running(cli.settings(env=env)) as adapter:
            chat = Conversation(adapter)
            assert (await chat.generate_hello()).kind == "tool-calls"
            alive = started()
            assert len(alive) == processes
            chat.controller.abort()
            await until(lambda: free(adapter), "all is freed")
            await until(lambda: all(gone(one) for one in alive), "every process of the agent has ended")
