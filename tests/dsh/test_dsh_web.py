"""`dsh web` over its HTTP interface: the catalogue, a chat, a cancel, and settings that change while it runs."""

import base64
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.dsh import ROW, Dsh, Web, gone, home, sidecar_of, wait_for, web

pytestmark = pytest.mark.dsh

TITLE = {"when": {"user": {"regex": "(?i)session title|title for"}}, "text": "A fine title"}
CALL = {"name": "bash", "arguments": {"command": "echo from-web-$((40+2))", "description": "add"}}
#: Runs until somebody makes the file.
WAIT = {"name": "bash", "arguments": {"command": "until [ -e go ]; do sleep 0.1; done; cat go", "description": "wait"}}
SLOW = [f"piece {number} " for number in range(600)]
#: What the model does, by what the person says.
RULES: list[dict[str, Any]] = [
    TITLE,
    {"when": {"user": "call it", "round": 0}, "calls": [CALL]},
    {"when": {"user": "call it"}, "text": "it said {{result.1}}"},
    {"when": {"user": "very slowly"}, "text": SLOW, "pause_ms": 50},
    {"when": {"user": "wait for it", "round": 0}, "calls": [WAIT]},
    {"when": {"user": "wait for it"}, "text": "it waited for {{result.1}}"},
    {"when": {"images": 1}, "text": "I see it"},
    {"text": "I see nothing"},
]


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


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Dsh, Web]]:
    """One host for all tests; each has a chat of its own."""
    with home(tmp_path_factory.mktemp("web") / "dsh") as dsh, web(dsh.ready("web", RULES, dsh.desk())) as page:
        yield dsh, page


def test_the_catalogue_starts_with_the_default_and_becomes_the_agents_own(shared: tuple[Dsh, Web]) -> None:
    _, page = shared
    assert models(page)[0] == "server-default"
    wait_for(lambda: models(page) == ["server-default", "scripted", "scripted-2"])


def test_an_image_of_the_chat_reaches_the_model(shared: tuple[Dsh, Web]) -> None:
    dsh, page = shared
    wait_for(lambda: len(models(page)) == 3)
    chat = page.chat(dsh.workspace)
    page.say(chat, "look", {"type": "image", "mediaType": "image/png", "data": picture()})
    wait_for(lambda: "I see" in page.events(chat))
    assert "I see it" in page.events(chat)


def test_a_cancel_reaches_the_agent_at_once(shared: tuple[Dsh, Web]) -> None:
    dsh, page = shared
    dsh.forget()
    chat = page.chat(dsh.workspace)
    page.say(chat, "very slowly")
    wait_for(lambda: len(dsh.seen("piece")) > 5)
    page.call("session/cancel", request={"sessionId": chat})
    wait_for(lambda: '"aborted"' in page.events(chat), 10)
    stopped = len(dsh.seen("piece"))
    assert stopped < len(SLOW)
    # What was said so far stays; nothing comes after it.
    assert "piece 3 " in page.events(chat)
    assert len(dsh.seen("piece")) == stopped


@pytest.mark.requirement("A-001", "A-002")
def test_a_chat_works_and_a_changed_setting_applies_to_the_next_call(shared: tuple[Dsh, Web]) -> None:
    dsh, page = shared
    first = page.chat(dsh.workspace)
    page.say(first, "call it")
    wait_for(lambda: "it said from-web-42" in page.events(first))
    # The title is a side call of the host, with a token limit of its own.
    wait_for(lambda: "A fine title" in page.events(first))
    sidecar = sidecar_of(page.host)

    changed = page.call("settings/update", ns=ROW, patch={"control": True, "permissions": {"deny": ["bash"]}})
    assert changed["value"]["control"] is True
    try:
        second = page.chat(dsh.workspace)
        page.say(second, "call it")
        wait_for(lambda: "denies this tool" in page.events(second))
        # The same process took the setting over.
        assert sidecar_of(page.host) == sidecar

        for patch, field in (({"timeoutMs": "soon"}, "timeoutMs"), ({"python": "other"}, "python")):
            refused = page.call("settings/update", ns=ROW, patch=patch)
            assert refused["code"] == "settings/rejected"
            assert field in refused["message"]
    finally:
        page.call("settings/update", ns=ROW, patch={"control": False, "permissions": {}})


def test_a_setting_that_changes_while_a_turn_waits_for_a_tool_does_not_disturb_the_turn(
    shared: tuple[Dsh, Web],
) -> None:
    dsh, page = shared
    dsh.forget()
    chat = page.chat(dsh.workspace)
    page.say(chat, "wait for it")
    wait_for(lambda: dsh.seen("run"))
    try:
        page.call(
            "settings/update", ns=ROW, patch={"timeoutMs": 400_000, "control": True, "permissions": {"deny": ["*"]}}
        )
        # A call is asked about before it runs; this one runs already.
        (dsh.workspace / "go").write_text("a change", encoding="utf-8")
        wait_for(lambda: "it waited for a change" in page.events(chat))
    finally:
        (dsh.workspace / "go").unlink(missing_ok=True)
        page.call("settings/update", ns=ROW, patch={"control": False, "permissions": {}})


def test_a_setting_that_takes_another_sidecar_leaves_the_running_turn_its_own(shared: tuple[Dsh, Web]) -> None:
    dsh, page = shared
    dsh.forget()
    chat = page.chat(dsh.workspace)
    page.say(chat, "wait for it")
    wait_for(lambda: dsh.seen("run"))
    first = sidecar_of(page.host)
    try:
        # The official server needs less of Python than the embedded engine; it is not on this machine.
        page.call("settings/update", ns=ROW, patch={"engine": "official", "autoInstall": False})
        (dsh.workspace / "go").write_text("another sidecar", encoding="utf-8")
        wait_for(lambda: "it waited for another sidecar" in page.events(chat))
        missing = page.chat(dsh.workspace)
        page.say(missing, "look")
        wait_for(lambda: "ACP_BINARY_MISSING" in page.events(missing))
        assert gone([first])
        assert sidecar_of(page.host) != first
    finally:
        (dsh.workspace / "go").unlink(missing_ok=True)
        page.call("settings/update", ns=ROW, patch={"engine": "embedded", "autoInstall": True})
    back = page.chat(dsh.workspace)
    page.say(back, "look")
    wait_for(lambda: "I see nothing" in page.events(back))


def test_the_default_stays_selectable_when_no_agent_can_be_had(dsh: Dsh) -> None:
    dsh.install("web")
    dsh.configure("web", python="/nowhere/python3")
    with web(dsh) as page:
        assert models(page) == ["server-default"]
