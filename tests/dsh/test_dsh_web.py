"""`dsh web` over its HTTP interface: the catalogue, a chat, a cancel, and settings that change while it runs."""

import base64
import struct
import zlib
from typing import Any

import pytest
from helpers.dsh import ROW, Dsh, Web, gone, sidecar_of, wait_for, web

pytestmark = pytest.mark.dsh

TITLE = {"when": {"user": {"regex": "(?i)session title|title for"}}, "text": "A fine title"}


def picture() -> str:
    """A small PNG in base64."""
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(8 * (b"\0" + 24 * b"\x7f"))),
    ]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in (*parts, (b"IEND", b""))
    )
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


def models(page: Web) -> list[str]:
    catalogue = page.call("session/modelCatalog")
    assert catalogue["failures"] == []
    return [
        model["id"] for group in catalogue["groups"] if group["id"] == "antigravity-acp" for model in group["models"]
    ]


def test_the_catalogue_starts_with_the_default_and_becomes_the_agents_own(dsh: Dsh) -> None:
    with web(dsh.ready("web", [{"text": "heard you"}])) as page:
        assert models(page)[0] == "server-default"
        wait_for(lambda: models(page) == ["server-default", "scripted", "scripted-2"])


def test_the_default_stays_selectable_when_no_agent_can_be_had(dsh: Dsh) -> None:
    dsh.install("web")
    dsh.configure("web", python="/nowhere/python3")
    with web(dsh) as page:
        assert models(page) == ["server-default"]


@pytest.mark.requirement("A-001", "A-002")
def test_a_chat_works_and_a_changed_setting_applies_to_the_next_call(dsh: Dsh) -> None:
    call = {"name": "bash", "arguments": {"command": "echo from-web-$((40+2))", "description": "add"}}
    rules: list[dict[str, Any]] = [TITLE, {"when": {"round": 0}, "calls": [call]}, {"text": "it said {{result.1}}"}]
    with web(dsh.ready("web", rules)) as page:
        first = page.chat(dsh.workspace)
        page.say(first, "go")
        wait_for(lambda: "it said from-web-42" in page.events(first))
        # The title is a side call of the host, with a token limit of its own.
        wait_for(lambda: "A fine title" in page.events(first))
        sidecar = sidecar_of(page.host)

        changed = page.call("settings/update", ns=ROW, patch={"control": True, "permissions": {"deny": ["bash"]}})
        assert changed["value"]["control"] is True
        second = page.chat(dsh.workspace)
        page.say(second, "go")
        wait_for(lambda: "denies this tool" in page.events(second))
        # The same process took the setting over.
        assert sidecar_of(page.host) == sidecar

        for patch, field in (({"timeoutMs": "soon"}, "timeoutMs"), ({"engine": "official"}, "engine")):
            refused = page.call("settings/update", ns=ROW, patch=patch)
            assert refused["code"] == "settings/rejected"
            assert field in refused["message"]
    assert gone([sidecar])


def test_a_cancel_reaches_the_agent_at_once(dsh: Dsh) -> None:
    slow = {"text": [f"piece {number} " for number in range(600)], "pause_ms": 50}
    with web(dsh.ready("web", [TITLE, slow], dsh.desk())) as page:
        chat = page.chat(dsh.workspace)
        page.say(chat, "go")
        wait_for(lambda: len(dsh.seen("piece")) > 5)
        page.call("session/cancel", request={"sessionId": chat})
        wait_for(lambda: '"aborted"' in page.events(chat), 10)
        stopped = len(dsh.seen("piece"))
        assert stopped < 600
        # What was said so far stays; nothing comes after it.
        assert "piece 3 " in page.events(chat)
        assert len(dsh.seen("piece")) == stopped


def test_an_image_of_the_chat_reaches_the_model(dsh: Dsh) -> None:
    rules = [TITLE, {"when": {"images": 1}, "text": "I see it"}, {"text": "I see nothing"}]
    with web(dsh.ready("web", rules)) as page:
        wait_for(lambda: len(models(page)) == 3)
        chat = page.chat(dsh.workspace)
        page.say(chat, "look", {"type": "image", "mediaType": "image/png", "data": picture()})
        wait_for(lambda: "I see" in page.events(chat))
        assert "I see it" in page.events(chat)
