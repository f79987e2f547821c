"""Settings that change while the adapter runs hold for what begins afterwards, and for nothing that has begun."""

import msgspec
import pytest
from helpers.conversation import Conversation, code_of, running, until
from helpers.loopback import loopback_settings

from antigravity_acp.contract import LlmError, user
from antigravity_acp.manifest import manifest
from antigravity_acp.settings import LIVE, Settings

CALL = {"call": {"name": "bash", "arguments": {"n": 1}}}


@pytest.mark.requirement("A-002")
async def test_another_agent_answers_from_the_next_turn_on_and_the_unfinished_one_stays_with_its_own() -> None:
    async with running(loopback_settings({"name": "first"})) as adapter:
        chat, other = Conversation(adapter), Conversation(adapter, session_id="s2")
        half = await chat.play(CALL, {"say": "done"})
        assert (await other.play({"say": "warm"})).kind == "stop"
        assert adapter.diagnostics()["idle_processes"] == 1
        adapter.update(loopback_settings({"name": "second", "images": True}))
        await until(lambda: adapter.diagnostics()["processes"] == 1, "the waiting process of the old settings ends")
        starts = adapter.diagnostics()["process_starts"]
        rest = await chat.answer({half.calls[0].id: "one"})
        assert rest.text.endswith("done")
        assert adapter.diagnostics()["process_starts"] == starts
        await until(lambda: adapter.diagnostics()["processes"] == 0, "its process is not lent again")
        assert (await chat.play({"say": "new"})).text == "new"
        assert adapter.diagnostics()["process_starts"] == starts + 1
        (model, *_) = await adapter.list_models("antigravity-acp")
        assert model.input_modalities == ("text", "image")


async def test_a_bound_that_changes_holds_for_the_next_turn() -> None:
    settings = loopback_settings({})
    async with running(settings) as adapter:
        chat, other = Conversation(adapter), Conversation(adapter, session_id="s2")
        half = await chat.play(CALL)
        adapter.update(msgspec.structs.replace(settings, max_active_tool_sessions=1))
        other.messages.append(user("hello"))
        assert await code_of(adapter.stream(other.options())) == "ACP_SESSION_LIMIT"
        assert (await chat.answer({half.calls[0].id: "one"})).kind == "stop"
        assert (await other.generate()).kind == "stop"
        # The same agent: its process went on serving.
        assert adapter.diagnostics()["process_starts"] == 1


async def test_what_may_not_change_is_refused_and_nothing_of_it_applies() -> None:
    settings = loopback_settings({})
    async with running(settings) as adapter:
        changed = msgspec.structs.replace(settings, env={"A": "hidden"}, max_active_tool_sessions=1)
        with pytest.raises(LlmError) as caught:
            adapter.update(changed)
        assert caught.value.code == "INVALID_SETTINGS"
        assert "`env`" in caught.value.message
        assert "hidden" not in caught.value.message
        chat, other = Conversation(adapter), Conversation(adapter, session_id="s2")
        for each in (chat, other):
            assert (await each.play(CALL)).kind == "tool-calls"


def test_every_setting_but_the_environment_is_live() -> None:
    properties = manifest().settings["properties"]
    assert [name for name, field in properties.items() if not field.get(LIVE)] == ["env"]
    assert Settings.from_mapping().fixed_in(Settings.from_mapping({"env": {"A": "b"}, "engine": "embedded"})) == "env"
