"""The agent may call the tools it was lent and nothing else; what it does on its own is refused, reported and ends."""

import psutil
import pytest
from helpers.conversation import Conversation, code_of, running, until
from helpers.loopback import directive, loopback_settings

from antigravity_acp.contract import user
from antigravity_acp.limits import MAX_REFUSALS


async def fails_with(settings_overrides: dict[str, object], *steps: dict[str, object]) -> tuple[str, list[int]]:
    async with running(loopback_settings(None, **settings_overrides)) as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user(directive(*steps)))
        before = {child.pid for child in psutil.Process().children()}
        code = await code_of(adapter.stream(chat.options()))
        await until(lambda: adapter.diagnostics()["processes"] == 0, "the process was given back")
        left = [child.pid for child in psutil.Process().children() if child.pid not in before]
        return code, left


FOREIGN = [
    pytest.param({"ask": "title_only"}, id="a title like ours"),
    pytest.param({"ask": "other_server"}, id="another server"),
    pytest.param({"ask": "other_tool"}, id="a tool that is not exported"),
    pytest.param({"ask": "contradiction"}, id="announced as native, asked as ours"),
    pytest.param({"ask": "always_only"}, id="no allow_once"),
    pytest.param({"ask": "two_once"}, id="two allow_once"),
    pytest.param({"ask": "shell"}, id="a native shell under our title"),
    pytest.param({"ask": "malformed"}, id="malformed"),
    pytest.param({"ask": "gemini"}, id="another agent's habits"),
    pytest.param({"native": {"kind": "execute", "status": "in_progress"}}, id="native activity that did not ask"),
]


@pytest.mark.requirement("A-015", "A-046")
@pytest.mark.parametrize("step", FOREIGN)
async def test_foreign_activity_ends_the_turn_and_the_process(step: dict[str, object]) -> None:
    code, left = await fails_with({}, {"say": "first"}, step, {"say": "never seen"})
    assert code == "ACP_NATIVE_TOOLS_UNSUPPORTED"
    assert left == []


@pytest.mark.requirement("A-015")
async def test_our_own_tool_is_allowed_once_and_called() -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        first = await chat.play({"call": {"name": "bash", "arguments": {}}, "permission": "official"})
        assert first.kind == "tool-calls"
        assert "result:bash:ok" in (await chat.answer({first.calls[0].id: "ok"})).text


@pytest.mark.requirement("A-015")
async def test_policy_reject_refuses_one_request_and_goes_on() -> None:
    async with running(loopback_settings(None, nativeToolPolicy="reject")) as adapter:
        reply = await Conversation(adapter).play({"ask": "other_server"}, {"say": " and on"})
        assert reply.kind == "stop"
        assert "reject_once" in reply.text
        assert reply.text.endswith("and on")


@pytest.mark.requirement("A-015")
async def test_policy_reject_does_not_refuse_for_ever() -> None:
    asks = [{"ask": "other_server"}] * (MAX_REFUSALS + 1)
    code, left = await fails_with({"nativeToolPolicy": "reject"}, *asks, {"say": "never seen"})
    assert code == "ACP_NATIVE_TOOLS_UNSUPPORTED"
    assert left == []


@pytest.mark.requirement("A-046")
async def test_policy_reject_still_ends_what_never_asked() -> None:
    code, left = await fails_with(
        {"nativeToolPolicy": "reject"}, {"native": {"kind": "execute", "status": "completed"}}, {"say": "x"}
    )
    assert code == "ACP_NATIVE_TOOLS_UNSUPPORTED"
    assert left == []


async def test_a_question_is_never_answered_for_the_user() -> None:
    async with running() as adapter:
        reply = await Conversation(adapter).play({"ask": "question"}, {"say": " on"})
        assert '"cancelled"' in reply.text
        assert reply.kind == "stop"


async def test_without_tools_every_tool_is_foreign() -> None:
    async with running() as adapter:
        chat = Conversation(adapter, tools=())
        chat.messages.append(user(directive({"native": {"kind": "read", "status": "pending"}}, {"say": "x"})))
        assert await code_of(adapter.stream(chat.options())) == "ACP_NATIVE_TOOLS_UNSUPPORTED"
