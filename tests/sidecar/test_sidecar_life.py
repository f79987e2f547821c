"""However the host goes, the sidecar ends, and no agent is left."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from helpers.conversation import BOUND
from helpers.loopback import directive
from helpers.sidecar import SCRIPTED, Host, RemoteError, Stream, on_loopback, sidecar, talk, until_gone

from antigravity_acp.contract import user

PARENT = Path(__file__).parents[1] / "helpers" / "agents" / "sidecar_parent.py"
#: Agents that do not end by themselves; the graces are short, since each test waits for them.
SETTINGS = on_loopback({"cancel": "ignore", "ignore_eof": True}, cancelGraceMs=100, disposeGraceMs=200)
pytestmark = pytest.mark.requirement("A-036")


def endless(host: Host) -> Stream:
    chat = talk(host, tools=())
    chat.messages.append(user(directive({"say": "begun"}, {"sleep": 600})))
    return host.stream(chat.options())


@pytest.mark.parametrize("how", ["end of input", "shutdown"])
async def test_every_end_in_mid_stream_disposes_everything_and_is_exit_code_0(how: str) -> None:
    async with sidecar(SETTINGS) as host:
        stream = endless(host)
        parked = talk(host, session_id="s2")
        assert (await parked.play({"call": {"name": "bash", "arguments": {}}})).kind == "tool-calls"
        await stream.until(2)
        family = host.family()
        assert len(family) >= 3
        assert host.process.stdin is not None
        if how == "end of input":
            host.process.stdin.close()
        else:
            asked = host.ask("shutdown")
            refused = host.ask("models/list")
            async with asyncio.timeout(BOUND):
                assert await asked == {}
                # The answer comes when the agents are gone.
                assert not any(one.is_running() for one in family[1:])
                with pytest.raises(RemoteError, match="disposed"):
                    await refused
        assert await host.exit_code() == 0
        await until_gone(family)
        assert await stream.code() in ("ABORTED", "ACP_DISPOSED")


@pytest.mark.parametrize("how", ["SIGTERM", "SIGHUP", "nobody reads"])
async def test_a_signal_and_a_host_that_closes_what_it_reads_are_ends_too(how: str) -> None:
    async with sidecar(argv=SCRIPTED) as host:
        chat = talk(host)
        chat.messages.append(user(json.dumps([{"say": "begun"}, {"wait": True}])))
        stream = host.stream(chat.options())
        await stream.until(2)
        if how != "nobody reads":
            host.process.send_signal(getattr(signal, how))
            assert await stream.code() == "ABORTED"
        else:
            host.process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
        assert await host.exit_code() == 0


async def test_a_persons_ctrl_c_is_the_hosts_business() -> None:
    async with sidecar(argv=SCRIPTED) as host:
        host.process.send_signal(signal.SIGINT)
        assert (await host.request("diagnostics"))["sidecar_streams"] == 0


async def test_the_end_of_input_while_the_adapter_loads_is_an_end() -> None:
    host = await Host.start()
    await host.initialize(SETTINGS)
    listing = host.ask("models/list")
    await host.aclose()
    assert host.process.returncode == 0
    with pytest.raises(Exception, match=r"cancelled|disposed"):
        await listing


async def test_a_host_that_is_killed_takes_the_sidecar_and_its_agents_with_it() -> None:
    options = {
        "provider": "antigravity-acp",
        "model": "server-default",
        "messages": [{"role": "user", "content": directive({"say": "begun"}, {"sleep": 600})}],
    }
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, str(PARENT), json.dumps(SETTINGS), json.dumps(options)), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    async with asyncio.timeout(BOUND):
        pid = int(await parent.stdout.readline())
    one = psutil.Process(pid)
    family = [one, *one.children(recursive=True)]
    assert len(family) >= 2
    os.kill(parent.pid, signal.SIGKILL)
    await until_gone(family)
    await parent.communicate()
