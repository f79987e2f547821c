"""The model that was asked for is the one that is set, or the turn does not start."""

from typing import Any

import pytest
from helpers.agent import agent, play

from antigravity_acp.acp.models import read_menu
from antigravity_acp.contract import LlmError


@pytest.mark.requirement("A-008")
@pytest.mark.parametrize("style", ["config", "grouped", "set_model"])
async def test_a_model_is_listed_selected_and_confirmed(style: str) -> None:
    async with agent({"models": style, "model_ids": ["a-low", "weird id\t(High)"]}) as one:
        session = await one.new_session()
        assert [choice.id for choice in session.models] == ["a-low", "weird id\t(High)"]
        assert session.models[0].name == "A-Low"
        assert session.current_model == "a-low"
        await session.select_model("weird id\t(High)")
        assert session.current_model == "weird id\t(High)"
        told = (await play(session, {"tell": "requests"})).text
        assert ("session/set_model" if style == "set_model" else "session/set_config_option") in told


async def test_the_model_that_is_set_already_costs_no_request() -> None:
    async with agent() as one:
        session = await one.new_session()
        await session.select_model("loop-1")
        assert "set_config_option" not in (await play(session, {"tell": "requests"})).text


async def refused(options: dict[str, Any], model: str) -> LlmError:
    async with agent(options) as one:
        session = await one.new_session()
        with pytest.raises(LlmError) as caught:
            await session.select_model(model)
        return caught.value


@pytest.mark.requirement("A-008")
@pytest.mark.parametrize("style", ["config", "set_model", None])
async def test_a_model_that_is_not_announced_is_refused_without_asking(style: str | None) -> None:
    error = await refused({"models": style}, "gpt-secret")
    assert error.code == "ACP_INVALID_MODEL"
    assert "gpt-secret" not in error.message


@pytest.mark.requirement("A-008")
async def test_an_answer_that_names_another_model_is_a_refusal() -> None:
    assert (await refused({"model_lies": True}, "loop-2")).code == "ACP_INVALID_MODEL"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"code": -32602, "message": "not for this account"}, "ACP_INVALID_MODEL"),
        ({"code": -32603, "message": "boom"}, "ACP_RPC_ERROR"),
        ({"code": -32603, "message": "x", "data": {"type": "quota"}}, "ACP_QUOTA"),
    ],
)
async def test_a_refusal_of_the_agent_has_its_own_code(answer: dict[str, Any], code: str) -> None:
    assert (await refused({"model_error": answer}, "loop-2")).code == code


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"configOptions": None},
        {"configOptions": [1, {"id": "mode"}]},
        {"configOptions": [{"id": "model", "options": 5, "currentValue": 7}]},
        {"configOptions": [{"id": "model", "options": [{"name": "x"}, {"value": ""}, {"value": 3}, None]}]},
        {"models": []},
        {"models": {"availableModels": "x", "currentModelId": None}},
    ],
)
def test_malformed_menus_are_empty_ones(result: dict[str, Any]) -> None:
    menu = read_menu(result)
    assert (menu.choices, menu.current) == ((), None)


def test_groups_and_plain_options_may_be_mixed() -> None:
    options = [
        {"value": "a", "name": "A", "description": "first"},
        {"group": "g", "name": "G", "options": [{"value": "b"}, {"value": "c", "name": ""}]},
    ]
    menu = read_menu({"configOptions": [{"id": "model", "currentValue": "b", "options": options}]})
    assert [(choice.id, choice.name, choice.description) for choice in menu.choices] == [
        ("a", "A", "first"),
        ("b", "b", None),
        ("c", "c", None),
    ]
    assert (menu.current, menu.via) == ("b", "config")
