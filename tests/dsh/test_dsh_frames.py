"""What the bundle and the sidecar say to each other in the real host holds against the schema, frame by frame."""

import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.dsh import ROW, Dsh, wait_for, web
from helpers.sidecar import check

pytestmark = pytest.mark.dsh


class Wire:
    """A sidecar whose frames are written down on their way."""

    def __init__(self, folder: Path) -> None:
        self._sides = {"host": folder / "host.jsonl", "sidecar": folder / "sidecar.jsonl"}
        self.program = folder / "antigravity-acp"
        into, out = (shlex.quote(str(path)) for path in self._sides.values())
        python = shlex.quote(sys.executable)
        self.program.write_text(
            f"#!/bin/sh\ntee {into} | {python} -m antigravity_acp.sidecar | tee {out}\n", encoding="utf-8"
        )
        self.program.chmod(0o755)

    def frames(self, side: str, method: str | None = None) -> list[dict[str, Any]]:
        """All whole frames of a side so far, or those of one method."""
        path = self._sides[side]
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        return [frame for frame in map(json.loads, lines) if method is None or frame.get("method") == method]


def test_every_frame_is_valid_and_a_cancel_between_two_calls_is_sent_at_once(dsh: Dsh) -> None:
    wait = {"name": "bash", "arguments": {"command": "sleep 30", "description": "wait"}}
    rules = [
        {"when": {"user": {"regex": "(?i)session title|title for"}}, "text": "A fine title"},
        {"when": {"user": "a long wait", "round": 0}, "calls": [wait]},
        {"text": [f"piece {number} " for number in range(700)]},
    ]
    wire = Wire(dsh.folder)
    settings = {"control": True, "permissions": {"allow": ["*"]}, "python": str(wire.program)}
    dsh.install("web")
    dsh.configure("web", dsh.desk(), **{**dsh.scripted(rules), **settings})
    with web(dsh) as page:
        wait_for(lambda: len(page.call("session/modelCatalog")["groups"][0]["models"]) == 3)
        first = page.chat(dsh.workspace)
        page.say(first, "a long text")
        wait_for(lambda: "piece 699 " in page.events(first))
        page.call("settings/update", ns=ROW, patch={"timeoutMs": 500_000})

        second = page.chat(dsh.workspace)
        page.say(second, "a long wait")
        wait_for(lambda: dsh.seen("run"))
        assert wire.frames("host", "stream/cancel") == []
        since = time.monotonic()
        page.call("session/cancel", request={"sessionId": second})
        wait_for(lambda: wire.frames("host", "stream/cancel"), 5)
        assert time.monotonic() - since < 3
        wait_for(lambda: wire.frames("host", "control/report"))
        asked = {frame["params"]["stream"]: frame["params"] for frame in wire.frames("host", "stream/start")}
        cancelled = wire.frames("host", "stream/cancel")[0]["params"]["stream"]
        assert asked[cancelled]["options"]["sessionId"] == second
    methods = {frame.get("id"): frame["method"] for frame in wire.frames("host") if "id" in frame}
    for frame in wire.frames("host"):
        check("host", frame)
    for frame in wire.frames("sidecar"):
        check("sidecar", frame)
        if "result" in frame:
            check(f"{methods[frame['id']].replace('/', '.')}.result", frame["result"])
    # `models/resolve` is not among them: the catalogue has told of the model already.
    wanted = {"initialize", "models/list", "stream/start", "stream/ack", "stream/cancel"}
    wanted |= {"settings/update", "control/decide", "control/report"}
    assert wanted <= {frame.get("method") for frame in wire.frames("host")}
    assert [frame["params"]["outcome"] for frame in wire.frames("host", "control/report")] == ["cancelled"]
    assert any(
        frame["params"]["options"].get("purpose") == "session-title" for frame in wire.frames("host", "stream/start")
    )
