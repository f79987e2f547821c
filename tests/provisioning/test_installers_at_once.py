"""Many processes that install at the same moment download once."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from helpers.https_server import changed, serve
from helpers.installs import Release, asset_of, left_over, release

from antigravity_provisioning.errors import ProvisioningError
from antigravity_provisioning.install import install
from antigravity_provisioning.progress import Progress
from antigravity_provisioning.store import Store

pytestmark = pytest.mark.skipif(os.name == "nt", reason="SSL_CERT_FILE")
PROCESSES = 8
#: One installer as a process of its own; says when it is ready, starts with the others, tells what it did.
INSTALLER = """
import asyncio, json, sys
from pathlib import Path
from antigravity_provisioning.install import install
from antigravity_provisioning import Asset
from antigravity_provisioning.store import Store

asset = Asset(*json.loads(sys.argv[1]))
asset = asset._replace(args=tuple(asset.args), siblings=tuple(asset.siblings))
steps, proved = [], []

async def prove(server):
    proved.append(str(server.path))
    return "antigravity-acp", "1.3.0"

print("ready", flush=True)
sys.stdin.readline()
store = Store(Path(sys.argv[2]))
server = asyncio.run(install(asset=asset, store=store, prove=prove, report=lambda now: steps.append(now.step)))
print(json.dumps({"path": str(server.path), "proved": len(proved), "steps": list(dict.fromkeys(steps))}), flush=True)
"""


@pytest.fixture
def given(tmp_path: Path) -> Release:
    return release(tmp_path / "archives", padding=500_000)


@pytest.mark.requirement("A-050", "A-052")
async def test_eight_processes_download_once_and_find_the_same_server(tmp_path: Path, given: Release) -> None:
    data = given.archive.read_bytes()
    root = tmp_path / "root"
    with serve(data) as server:
        asset = asset_of(data, url=server.url)
        processes = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", INSTALLER, json.dumps(asset), str(root)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "SSL_CERT_FILE": server.ca_file},
            )
            for _ in range(PROCESSES)
        ]
        async with asyncio.timeout(90):
            for process in processes:
                assert process.stdout is not None
                assert await process.stdout.readline() == b"ready\n"
            told = [json.loads(out) for out, _ in await asyncio.gather(*(p.communicate(b"go\n") for p in processes))]
        assert [process.returncode for process in processes] == [0] * PROCESSES
        assert [request.method for request in server.requests] == ["GET"]
    store = Store(root)
    assert {each["path"] for each in told} == {str(store.folder(asset) / asset.command)}
    assert sum(each["proved"] for each in told) == 1
    assert sum("download" in each["steps"] for each in told) == 1
    assert (store.verify(asset), store.health(asset), left_over(store)) == ([], "proven", [])


@pytest.mark.requirement("A-050", "X-005")
async def test_a_cancelled_installation_goes_on_where_it_stopped(
    tmp_path: Path, given: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = given.archive.read_bytes()
    store = Store(tmp_path / "root")
    half = len(data) // 2
    waiting = asyncio.Event()
    loop = asyncio.get_running_loop()

    def report(progress: Progress) -> None:
        if progress.step == "download" and progress.done >= half:
            loop.call_soon_threadsafe(waiting.set)

    with serve(data) as server:
        monkeypatch.setenv("SSL_CERT_FILE", server.ca_file)
        asset = asset_of(data, url=server.url)
        server.script(changed(stop=half))
        task = asyncio.create_task(install(asset=asset, store=store, report=report))
        await asyncio.wait_for(waiting.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (store.health(asset), left_over(store) != []) == ("partial", True)
        await install(asset=asset, store=store)
        assert server.requests[-1].range_start > 0
        assert (store.verify(asset), left_over(store)) == ([], [])


@pytest.mark.requirement("A-050", "A-052")
async def test_a_download_of_something_else_installs_nothing(
    tmp_path: Path, given: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = given.archive.read_bytes()
    store = Store(tmp_path / "root")
    with serve(data[:-1] + b"?") as server:
        monkeypatch.setenv("SSL_CERT_FILE", server.ca_file)
        asset = asset_of(data, url=server.url)
        with pytest.raises(ProvisioningError) as caught:
            await install(asset=asset, store=store)
    assert (caught.value.stage, caught.value.reason) == ("download", "hash")
    assert (store.find(asset), [left for left in left_over(store) if not left.endswith((".part", ".json"))]) == (
        None,
        [],
    )
