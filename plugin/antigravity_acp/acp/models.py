"""The models of a session: what the agent announces and which one is set.

Owns: reading both ways that agents have (the config option ``model`` of ACP, plain or grouped, and the older
``models`` with ``session/set_model``). Ids are opaque: never parsed, never filtered, never made up (they carry effort
tiers and depend on the sign-in).
"""

from typing import Any, Literal

import msgspec


class ModelChoice(msgspec.Struct, frozen=True):
    """One model as the agent announces it. ``id`` is what it wants back; the rest is for people."""

    id: str
    name: str
    description: str | None = None


class ModelMenu(msgspec.Struct, frozen=True):
    """All models of a session.

    :param current: the id that is set, ``None`` when the agent does not say. :param via: how another one is set.
    """

    choices: tuple[ModelChoice, ...] = ()
    current: str | None = None
    via: Literal["config", "set_model"] | None = None


def read_menu(result: dict[str, Any]) -> ModelMenu:
    """The models in a ``session/new`` or ``session/set_config_option`` result, or in a ``config_option_update``."""
    for option in _objects(result.get("configOptions")):
        if option.get("id") == "model":
            choices = tuple(_choice(item, "value") for item in _flat(option.get("options")) if _has(item, "value"))
            return ModelMenu(choices, _string(option.get("currentValue")), "config")
    models = result.get("models")
    if isinstance(models, dict):
        choices = tuple(
            _choice(item, "modelId") for item in _objects(models.get("availableModels")) if _has(item, "modelId")
        )
        return ModelMenu(choices, _string(models.get("currentModelId")), "set_model")
    return ModelMenu()


def _flat(options: object) -> list[dict[str, Any]]:
    """Options with the groups taken apart."""
    found = []
    for item in _objects(options):
        found += _objects(item["options"]) if isinstance(item.get("options"), list) else [item]
    return found


def _choice(item: dict[str, Any], key: str) -> ModelChoice:
    return ModelChoice(item[key], _string(item.get("name")) or item[key], _string(item.get("description")))


def _has(item: dict[str, Any], key: str) -> bool:
    return isinstance(item.get(key), str) and item[key] != ""


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
