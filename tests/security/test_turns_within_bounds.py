"""What a turn may keep of an agent's words while nobody reads them."""

from helpers.conversation import Conversation, running, until
from helpers.loopback import loopback_settings

from antigravity_acp.acp import AgentText
from antigravity_acp.limits import MAX_FRAME_BYTES, MAX_QUEUED_UPDATES
from antigravity_acp.turns.mailbox import Mailbox


def test_updates_that_wait_are_bounded_in_bytes() -> None:
    mailbox = Mailbox(MAX_QUEUED_UPDATES)
    text = "x" * MAX_FRAME_BYTES
    count = 0
    while not mailbox.full and count < MAX_QUEUED_UPDATES:
        mailbox.put(AgentText(text))
        count += 1
    assert count * MAX_FRAME_BYTES <= 4 * MAX_FRAME_BYTES


async def test_failed_exchanges_that_nobody_continues_do_not_pile_up() -> None:
    async with running(loopback_settings(None, maxActiveToolSessions=2)) as adapter:
        for count in range(6):
            chat = Conversation(adapter, session_id=f"s{count}")
            call = {"call": {"name": "bash", "arguments": {}}, "hang_up": 0.01, "direct": True}
            assert (await chat.play(call, {"exit": 3})).kind == "tool-calls"
            await until(lambda: adapter.diagnostics()["processes"] == 0, "the process was given back")
        assert len(list(adapter._turns)) <= 3
