"""An agent that begins a sign-in by itself: in a turn the person is told where to go, and a look ends it at once."""

import asyncio
import logging
import time
from pathlib import Path

import pytest
from helpers.agent import BOUND
from helpers.conversation import Conversation, code_of
from helpers.signing_in import Scene, address_of, visit

from antigravity_acp.acp.launch import AgentCommand, without_browser
from antigravity_acp.acp.sign_in import standing_of
from antigravity_acp.adapter import AntigravityAdapter
from antigravity_acp.contract import LlmError, Notice, user
from antigravity_acp.hooks.own import _log_notice


class Told:
    """The host's side of the notices."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.link: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def __call__(self, notice: Notice) -> None:
        self.notices.append(notice)
        if notice.link is not None and not self.link.done():
            self.link.set_result(notice.link)


@pytest.mark.requirement("A-007")
@pytest.mark.parametrize("by_itself", [True, False], ids=["session/new signs in", "authenticate"])
async def test_a_turn_tells_the_link_and_goes_on_once_it_was_followed(
    tmp_path: Path, by_itself: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="antigravity_acp")
    told = Told()
    # A request may take a moment only; a sign-in takes as long as a person needs.
    settings = Scene(tmp_path, {"session_signs_in": by_itself}).settings(requestTimeoutMs=2_000)
    adapter = AntigravityAdapter(settings, notify=told)
    try:
        chat = Conversation(adapter, tools=())
        chat.messages.append(user("hello"))
        asking = asyncio.create_task(chat.generate())
        async with asyncio.timeout(BOUND):
            link = await told.link
            if by_itself:
                await asyncio.sleep(2.2)  # the person's own time, longer than a request's
            assert not asking.done()
            await visit(address_of(link))
            with pytest.raises(LlmError) as caught:
                await asking
        # The stand-in answers every prompt without a word.
        assert caught.value.code == "EMPTY_RESPONSE"
    finally:
        await adapter.dispose()
    assert [notice.code for notice in told.notices] == ["sign-in.link"]
    assert "http" not in told.notices[0].message
    assert link not in caplog.text


async def test_a_sign_in_that_nobody_finishes_is_named_as_what_it_is(tmp_path: Path) -> None:
    told = Told()
    scene = Scene(tmp_path, {"session_signs_in": True})
    adapter = AntigravityAdapter(scene.settings(authTimeoutMs=100), notify=told)
    try:
        chat = Conversation(adapter, tools=())
        chat.messages.append(user("hello"))
        assert await code_of(adapter.stream(chat.options())) == "ACP_AUTH_REQUIRED"
    finally:
        await adapter.dispose()
    assert "authenticate" not in scene.methods()


async def test_a_look_ends_it_as_soon_as_it_begins(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"session_signs_in": True})
    began = time.monotonic()
    async with asyncio.timeout(BOUND), scene.started(requestTimeoutMs=60_000, authTimeoutMs=60_000) as client:
        found = await standing_of(client)
    assert (found.signed_in, found.code) == ("no", "ACP_AUTH_REQUIRED")
    assert time.monotonic() - began < BOUND / 2
    assert scene.visits() == []
    assert scene.methods() == ["initialize", "session/new"]


def test_a_look_opens_nothing_on_the_persons_screen() -> None:
    command = without_browser(AgentCommand(("agent",), {"BROWSER": "firefox", "A": "b"}))
    assert command.env == {"BROWSER": "true", "DISPLAY": "", "WAYLAND_DISPLAY": "", "A": "b"}


def test_a_host_without_a_place_for_notices_logs_no_link(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="antigravity_acp")
    _log_notice(Notice("sign-in.link", "Open its page.", "warning", link="https://accounts.example.com/secret"))
    assert "Open its page." in caplog.text
    assert "secret" not in caplog.text
