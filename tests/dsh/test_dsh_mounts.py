"""Mounting and unmounting the bundle leaves nothing in the host."""

import json
import shlex
import sys
from typing import Any

import pytest
from helpers.dsh import BUNDLE, ROOT, ROW, TESTS, Dsh, sdk, wait_for

pytestmark = pytest.mark.dsh

ROUNDS = 8


def test_mounting_and_unmounting_leaves_no_process_listener_or_descriptor(dsh: Dsh) -> None:
    log = dsh.folder / "mounts.jsonl"
    program = dsh.folder / "antigravity-acp"
    agent = [sys.executable, str(ROOT / "bench" / "agents" / "plain_sidecar.py")]
    program.write_text(f"#!/bin/sh\nexec {shlex.join(agent)}\n", encoding="utf-8")
    program.chmod(0o755)
    entry = dsh.profile("sdk") / "node_modules" / BUNDLE / "dsh" / "index.js"
    config = {
        "entry": str(entry),
        "settings": {"python": str(program), "control": True},
        "rounds": ROUNDS,
        "log": str(log),
    }
    dsh.install("sdk")
    path = dsh.profile("sdk") / "cordis.patch.yml"
    mounts = {"id": "mounts", "name": str(TESTS / "plugins" / "mounts.mjs"), "config": config}
    path.write_text(json.dumps([{"id": ROW, "disabled": True}, {"insert": [mounts]}]), encoding="utf-8")

    def lines() -> list[dict[str, Any]]:
        found = log.read_text(encoding="utf-8").split("\n")[:-1] if log.exists() else []
        return [json.loads(line) for line in found]

    with sdk(dsh, provider="deepseek-official", model="deepseek-v4-flash") as host:
        wait_for(lambda: any("done" in line or "error" in line for line in lines()))
        found = lines()
        assert found[-1] == {"done": True}, found
        rounds = found[:-1]
        assert [line["text"] for line in rounds] == ["piece 0 piece 1 piece 2 "] * ROUNDS
        # What the first round loads stays; every further one leaves what it found.
        for what in ("hooks", "files"):
            assert len({line[what] for line in rounds[1:]}) == 1, rounds
        assert not [child for child in host.host.children(recursive=True) if agent[1] in child.cmdline()]
