"""Each limit ends its turn with its own code, and nothing else."""

import pytest
from helpers.conversation import Conversation, code_of, running
from helpers.loopback import directive, loopback_settings

from antigravity_acp.contract import user

pytestmark = pytest.mark.requirement("A-034")
BASH = {"call": {"name": "bash", "arguments": {}}}


async def fails(agent: dict[str, object], *steps: dict[str, object], tools: bool = True, **settings: object) -> str:
    async with running(loopback_settings({"cancel": "ignore", **agent}, cancelGraceMs=50, **settings)) as adapter:
        chat = Conversation(adapter) if tools else Conversation(adapter, tools=())
        chat.messages.append(user(directive(*steps)))
        return await code_of(adapter.stream(chat.options()))


async def test_an_agent_that_never_asks_for_its_tools_and_says_nothing() -> None:
    assert await fails({"list_at": "call"}, {"wait_cancel": 30}, contactTimeoutMs=200) == "ACP_MCP_UNSUPPORTED"


async def test_an_agent_that_asked_for_its_tools_may_think_longer() -> None:
    code = await fails({}, {"list": True}, {"wait_cancel": 30}, contactTimeoutMs=200, timeoutMs=900)
    assert code == "ACP_TIMEOUT"


async def test_without_tools_there_is_nothing_to_ask_for() -> None:
    code = await fails({}, {"wait_cancel": 30}, tools=False, contactTimeoutMs=100, timeoutMs=500)
    assert code == "ACP_TIMEOUT"


async def test_the_whole_text_and_then_silence() -> None:
    assert await fails({}, {"say": "All there is."}, {"wait_cancel": 30}, silenceTimeoutMs=300) == "ACP_TIMEOUT"


async def test_silence_before_the_answer_is_thinking() -> None:
    async with running(loopback_settings(None, silenceTimeoutMs=100)) as adapter:
        assert (await Conversation(adapter, tools=()).play({"sleep": 0.4}, {"say": "thought"})).text == "thought"


async def test_a_start_that_takes_too_long() -> None:
    assert await fails({"init_hangs": True}, {"say": "x"}, startupTimeoutMs=300) == "ACP_STARTUP_TIMEOUT"


async def test_a_request_that_takes_too_long() -> None:
    assert await fails({"session_hangs": True}, {"say": "x"}, requestTimeoutMs=200) == "ACP_TIMEOUT"


async def test_a_sign_in_that_takes_too_long() -> None:
    agent = {"auth": ["oauth-personal"], "auth_needed": True, "auth_hangs": True}
    code = await fails(agent, {"say": "x"}, authTimeoutMs=200, authMethod="oauth-personal")
    assert code in ("ACP_TIMEOUT", "ACP_AUTH_REQUIRED")
