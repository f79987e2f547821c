"""Who may talk to whom: introduction, versions, settings, and what is no host at all."""

import asyncio
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import COMMAND
from helpers.sidecar import SCRIPTED, SIDECAR, Host, RemoteError, sidecar

from antigravity_acp.manifest import manifest
from antigravity_acp.sidecar.backend import AHEAD

FIXED = [name for name, field in manifest().settings["properties"].items() if not field.get("x-live")]


async def error_of(host: Host, method: str, params: dict[str, Any]) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        await host.request(method, params)
    return caught.value


@pytest.mark.parametrize("argv", [SIDECAR, [*COMMAND, "sidecar"]], ids=["module", "command"])
async def test_a_host_is_told_what_it_mounts(argv: list[str]) -> None:
    host = await Host.start(argv)
    try:
        assert await host.initialize() == {
            "protocol": 1,
            "server": {"name": "antigravity-acp", "version": manifest().version},
            "provider": "antigravity-acp",
            "defaultModel": "server-default",
            "displayName": manifest().name,
        }
    finally:
        await host.aclose()
    assert host.process.returncode == 0


async def test_another_version_is_refused_before_anything_else_and_may_be_mended() -> None:
    host = await Host.start(SCRIPTED)
    host.keep = False
    try:
        error = await error_of(host, "initialize", {"protocol": 2, "whatever": True})
        assert (error.number, error.data) == (-32000, {"code": "SIDECAR_PROTOCOL", "protocol": 1})
        assert (await host.initialize())["protocol"] == 1
    finally:
        await host.aclose()


async def test_a_wrong_introduction_names_the_field_and_no_value() -> None:
    host = await Host.start(SCRIPTED)
    host.keep = False
    client = {"name": "x", "version": "secret"}
    whole = {"protocol": 1, "client": client, "settings": {}, "attended": True}
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "params.protocol is missing"),
        (whole | {"protocol": "secret"}, "params.protocol must be integer"),
        (whole | {"protocol": True}, "params.protocol must be integer"),
        ({"protocol": 1, "client": client}, "params.settings is missing"),
        (whole | {"client": {"name": "secret"}}, "params.client.version is missing"),
        (whole | {"settings": "secret"}, "params.settings must be object"),
        (whole | {"attended": "secret"}, "params.attended must be boolean"),
    ]
    try:
        for params, words in cases:
            error = await error_of(host, "initialize", params)
            assert (error.number, error.code) == (-32602, "INVALID_REQUEST")
            assert words in error.message
            assert "secret" not in error.message
    finally:
        await host.aclose()


async def test_a_bad_setting_is_named_and_may_be_mended() -> None:
    host = await Host.start(SCRIPTED)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"timeoutMs": "secret"}, "`timeoutMs`"),
        ({"env": {"A_TOKEN": 5}}, "`env.A_TOKEN`"),
        ({"permissions": {"deny": ["bash", "a b secret"]}}, "`permissions.deny[1]`"),
        ({"permissions": {"allow": ["!secret"]}}, "`permissions.allow[0]`"),
        ({"permissions": {"ask": ["a,secret"]}}, "`permissions.ask[0]`"),
        ({"permissions": {"allow": [""]}}, "`permissions.allow[0]`"),
    ]
    try:
        for settings, field in cases:
            with pytest.raises(RemoteError) as caught:
                await host.initialize(settings)
            assert (caught.value.number, caught.value.code) == (-32000, "INVALID_SETTINGS")
            assert field in caught.value.message
            assert "secret" not in caught.value.message
        await host.initialize()
    finally:
        await host.aclose()


async def test_nothing_goes_before_the_introduction_and_it_comes_once() -> None:
    host = await Host.start(SCRIPTED)
    try:
        error = await error_of(host, "models/list", {})
        assert (error.number, error.code) == (-32600, "SIDECAR_PROTOCOL")
        await host.initialize()
        with pytest.raises(RemoteError, match="comes once"):
            await host.initialize()
        assert len((await host.request("models/list"))["models"]) == 2
    finally:
        await host.aclose()


async def test_settings_change_live_and_only_those_that_may() -> None:
    async with sidecar({"timeoutMs": 1000, "control": False}, SCRIPTED) as host:
        await host.request("settings/update", {"settings": {"timeoutMs": 2000, "control": True}})
        assert (await host.request("diagnostics"))["timeout_ms"] == 2000
        asked = {"call": {"id": "c1", "name": "bash"}, "attended": True}
        assert (await host.request("control/decide", asked))["decision"] == "ask"

        error = await error_of(host, "settings/update", {"settings": {"timeoutMs": 3000, "env": {"A": "secret"}}})
        assert error.code == "INVALID_SETTINGS"
        assert "`env`" in error.message
        assert "secret" not in error.message
        error = await error_of(host, "settings/update", {"settings": {"timeoutMs": 0}})
        assert error.code == "INVALID_SETTINGS"
        # Nothing of a refused update has been taken over, the control included.
        assert (await host.request("diagnostics"))["timeout_ms"] == 2000
        assert (await host.request("control/decide", asked))["decision"] == "ask"
    assert FIXED == ["env"]


async def test_settings_may_change_while_the_adapter_is_still_loading() -> None:
    async with sidecar({"timeoutMs": 1000}) as host:
        await host.request("settings/update", {"settings": {"timeoutMs": 2000}})
        with pytest.raises(RemoteError, match="`env`"):
            await host.request("settings/update", {"settings": {"env": {"A": "x"}}})
        assert (await host.request("diagnostics"))["active_turns"] == 0


@pytest.mark.parametrize("path", ["frames", os.devnull])
def test_without_a_host_it_says_so_and_leaves(path: str, tmp_path: Path) -> None:
    (tmp_path / "frames").write_text("{}\n")
    with (tmp_path / path).open() as file:
        done = subprocess.run(SIDECAR, stdin=file, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "started by a host" in done.stderr
    assert "Traceback" not in done.stderr


async def test_the_introduction_is_answered_before_the_adapter_is_loaded() -> None:
    program = (
        "import sys, antigravity_acp.sidecar.backend as b, antigravity_acp.sidecar.__main__ as m\n"
        "def load():\n"
        "    assert not {'mcp', 'acp', 'uvicorn', 'antigravity_acp.adapter'} & set(sys.modules)\n"
        "    sys.stderr.write('loading\\n'); sys.stderr.flush()\n"
        "    return b.load_adapter()\n"
        "sys.exit(m.main(load))\n"
    )
    host = await Host.start([sys.executable, "-c", program], stderr=asyncio.subprocess.PIPE)
    try:
        await host.initialize()
        await host.request("diagnostics")
        assert host.process.stderr is not None
        assert await host.process.stderr.readline() == b"loading\n"
    finally:
        await host.aclose()


async def test_a_broken_installation_fails_requests_and_not_the_process() -> None:
    program = "import sys, antigravity_acp.sidecar.__main__ as m\nsys.exit(m.main(lambda: 1 / 0))\n"
    async with sidecar(argv=[sys.executable, "-c", program], stderr=asyncio.subprocess.DEVNULL) as host:
        error = await error_of(host, "models/list", {})
        assert (error.code, "Install" in error.message) == ("UNKNOWN", True)
        assert (await host.request("control/decide", {"call": {"id": "c", "name": "x"}}))["decision"] == "allow"


def test_what_is_loaded_ahead_is_there() -> None:
    assert all(importlib.util.find_spec(name) for name in AHEAD)
