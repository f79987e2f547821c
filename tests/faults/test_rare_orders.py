"""Orders of events that the matrix meets once in a thousand cells, played on purpose."""

import asyncio
import sys

from antigravity_acp.acp import AgentCommand, AgentProcess

WAITS = "import os; os.read(0, 1)"


async def test_pipes_that_are_closed_twice_in_one_pass_of_the_loop_end_once() -> None:
    """The agent's exit is heard before the end of its stdin, so both are closed at once."""
    failures: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    process = await AgentProcess.start(AgentCommand((sys.executable, "-I", "-S", "-c", WAITS)), dispose_grace_ms=100)
    process._pipes.close_stdin()
    process._pipes.close()
    async with asyncio.timeout(10):
        await process._pipes.closed.wait()
    await process.aclose()
    assert failures == []
