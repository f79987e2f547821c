"""Models, images and what must never be kept or shown."""

import base64
import json
import logging
import os
from pathlib import Path

import pytest
from helpers.conversation import Conversation, code_of, running, schema
from helpers.loopback import directive, loopback_settings

from antigravity_acp.contract import (
    ImageAttachment,
    ImageBlock,
    LlmError,
    Message,
    TextBlock,
    ToolSchema,
    user,
)

PNG = base64.b64encode(b"\x89PNG not really").decode()


@pytest.mark.requirement("A-008")
@pytest.mark.parametrize("models", ["config", "grouped", "set_model"])
async def test_the_model_is_selected_before_the_prompt(models: str) -> None:
    async with running(models=models, model_ids=["loop-1", "loop-2"]) as adapter:
        reply = await Conversation(adapter, model="loop-2").play({"tell": "requests"})
        methods = json.loads(reply.text)
        selection = "session/set_model" if models == "set_model" else "session/set_config_option"
        assert methods.index(selection) < methods.index("session/prompt")


@pytest.mark.requirement("A-008")
@pytest.mark.parametrize(
    "agent", [{}, {"model_lies": True, "model_ids": ["loop-1", "other"]}], ids=["unknown", "ignored"]
)
async def test_a_model_that_is_not_announced_or_not_selected_is_refused(agent: dict[str, object]) -> None:
    async with running(models="config", **agent) as adapter:
        chat = Conversation(adapter, model="other")
        chat.messages.append(user("x"))
        assert await code_of(adapter.stream(chat.options())) == "ACP_INVALID_MODEL"


@pytest.mark.requirement("A-003")
async def test_the_server_default_selects_nothing() -> None:
    async with running(models="config") as adapter:
        reply = await Conversation(adapter).play({"tell": "requests"})
        assert "session/set_config_option" not in json.loads(reply.text)


async def test_the_catalogue_is_live_and_asked_once_for_several_callers() -> None:
    import asyncio

    async with running(models="config", model_ids=["loop-1", "loop-2"]) as adapter:
        one, two = await asyncio.gather(adapter.list_models("antigravity-acp"), adapter.list_models("antigravity-acp"))
        assert [model.id for model in one] == ["server-default", "loop-1", "loop-2"]
        assert one == two
        assert adapter.diagnostics()["process_starts"] == 1
        resolved = await adapter.resolve_model("antigravity-acp", "loop-2")
        assert (resolved.provider, resolved.id) == ("antigravity-acp", "loop-2")
        assert (await adapter.resolve_model("antigravity-acp", "unlisted")).id == "unlisted"
        assert adapter.diagnostics()["process_starts"] == 1


def with_image() -> Message:
    return Message(
        "user",
        (TextBlock(directive({"tell": "prompt"})), ImageBlock(ImageAttachment(media_type="image/png", data=PNG))),
    )


@pytest.mark.requirement("A-062")
async def test_images_pass_where_the_agent_announces_them() -> None:
    async with running(images=True) as adapter:
        chat = Conversation(adapter)
        chat.messages.append(with_image())
        assert PNG in (await chat.generate()).text


@pytest.mark.requirement("A-062")
async def test_images_fail_where_the_agent_does_not_and_the_second_time_before_a_start() -> None:
    async with running(images=False) as adapter:
        chat = Conversation(adapter)
        chat.messages.append(with_image())
        assert await code_of(adapter.stream(chat.options())) == "UNSUPPORTED_OPTION"
        assert await code_of(adapter.stream(chat.options())) == "UNSUPPORTED_OPTION"
        assert adapter.diagnostics()["process_starts"] == 1


@pytest.mark.requirement("A-062")
@pytest.mark.parametrize(
    "options", [{"temperature": 0.5}, {"max_tokens": 5}, {"stop": ("x",)}, {"reasoning_effort": "high"}]
)
async def test_what_acp_cannot_carry_fails_before_any_process(options: dict[str, object]) -> None:
    async with running() as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user("x"))
        assert await code_of(adapter.stream(chat.options(**options))) == "UNSUPPORTED_OPTION"
        assert adapter.diagnostics()["process_starts"] == 0


@pytest.mark.requirement("A-044", "A-042")
@pytest.mark.parametrize(
    "tools",
    [
        pytest.param((ToolSchema("a", "", {"$ref": "http://127.0.0.1:9/x"}),), id="remote reference"),
        pytest.param((schema("a"), schema("a")), id="same name twice"),
        pytest.param(tuple(schema(f"t{n}") for n in range(257)), id="too many"),
        pytest.param((ToolSchema("a", "x" * 200_000, {"type": "object"}),), id="too large"),
    ],
)
async def test_a_bad_catalogue_fails_before_any_process(tools: tuple[ToolSchema, ...]) -> None:
    async with running() as adapter:
        chat = Conversation(adapter, tools=tools)
        chat.messages.append(user("x"))
        assert await code_of(adapter.stream(chat.options())) == "ACP_TOOL_CATALOG_INVALID"
        assert adapter.diagnostics()["process_starts"] == 0


async def test_an_agent_without_mcp_over_http_cannot_be_lent_tools_but_can_talk() -> None:
    async with running(http=False) as adapter:
        chat = Conversation(adapter)
        chat.messages.append(user("x"))
        assert await code_of(adapter.stream(chat.options())) == "ACP_MCP_UNSUPPORTED"
        assert (await Conversation(adapter, session_id="s2", tools=()).generate_hello()).text == "ok"


@pytest.mark.requirement("A-007")
async def test_sign_in_happens_only_when_the_agent_asks() -> None:
    async with running(
        loopback_settings({"auth": ["oauth-personal"], "auth_needed": True}, authMethod="oauth-personal")
    ) as a:
        methods = json.loads((await Conversation(a).play({"tell": "requests"})).text)
        assert methods.count("session/new") == 2
        assert methods.index("session/new") < methods.index("authenticate")
    async with running(auth=["oauth-personal"]) as b:
        assert "authenticate" not in json.loads((await Conversation(b).play({"tell": "requests"})).text)


@pytest.mark.requirement("A-063", "A-004")
async def test_nothing_sensitive_is_logged_or_put_into_errors(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with running(loopback_settings(None, env={"MY_TOKEN": "WORD-ENV"})) as adapter:
        chat = Conversation(adapter)
        chat.messages.append(Message("system", (TextBlock("WORD-SYSTEM"),)))
        call = {"call": {"name": "bash", "arguments": {"command": "WORD-ARGUMENT"}}}
        failure = {"error": {"code": -32603, "message": "WORD-REMOTE", "data": {"message": "WORD-DATA"}}}
        noise = {"notify": {"method": "x/y", "params": {"a": "WORD-NOTE"}}}
        first = await chat.play({"say": "WORD-TEXT"}, noise, {"stderr": 10, "text": "WORD-STDERR"}, call, failure)
        chat.messages.append(Message("tool", (TextBlock("WORD-RESULT"),), tool_call_id=first.calls[0].id))
        with pytest.raises(LlmError) as caught:
            async for _ in adapter.stream(chat.options()):
                pass
        assert "WORD-" not in str(caught.value)
        assert caught.value.__cause__ is None or "WORD-" not in repr(caught.value.__cause__)
    assert "WORD-" not in caplog.text


@pytest.mark.requirement("A-023")
async def test_nothing_is_written_outside_the_scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, temp, work = (tmp_path / name for name in ("home", "temp", "work"))
    for folder in (home, temp, work):
        folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(temp))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(work)
    async with running() as adapter:
        chat = Conversation(adapter)
        first = await chat.play({"call": {"name": "bash", "arguments": {}}})
        await chat.answer({first.calls[0].id: "ok"})
    assert [str(path) for path in tmp_path.rglob("*") if path not in (home, temp, work)] == []
    assert os.getcwd() == str(work)
