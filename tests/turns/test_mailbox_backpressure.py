"""Nothing that came between two stream calls is lost, and a flood makes its writer wait."""

import asyncio

from antigravity_acp.acp import AgentText
from antigravity_acp.contract import LlmError
from antigravity_acp.turns.mailbox import Failed, Mailbox


async def test_writer_waits_when_full_and_goes_on_when_half_is_read() -> None:
    mailbox = Mailbox(4)
    for number in range(4):
        assert not mailbox.full
        mailbox.put(AgentText(str(number)))
    waiting = asyncio.create_task(mailbox.room())
    await asyncio.wait({waiting}, timeout=0)
    assert mailbox.full
    assert mailbox.take() == AgentText("0")
    await asyncio.wait({waiting}, timeout=0)
    assert not waiting.done()
    assert mailbox.take() == AgentText("1")
    await asyncio.wait_for(waiting, 5)


async def test_sealing_frees_the_writer_and_keeps_what_is_unread() -> None:
    mailbox = Mailbox(1)
    mailbox.put(AgentText("kept"))
    waiting = asyncio.create_task(mailbox.room())
    await asyncio.wait({waiting}, timeout=0)
    mailbox.seal()
    await asyncio.wait_for(waiting, 5)
    mailbox.put(AgentText("late"))
    assert mailbox.take() == AgentText("kept")
    assert mailbox.take() is None


async def test_cutting_wakes_the_reader_with_the_failure_alone() -> None:
    mailbox = Mailbox(8)
    reader = asyncio.create_task(mailbox.wait())
    await asyncio.wait({reader}, timeout=0)
    failure = Failed(LlmError("ABORTED"))
    mailbox.put(AgentText("dropped"))
    mailbox.cut(failure)
    await asyncio.wait_for(reader, 5)
    assert mailbox.take() is failure
    assert mailbox.take() is None
