"""Typed settings, from the JSON Schema in the manifest.

Owns: validation of what a host or a person configured, and the one place where times are in milliseconds.
Never: shows a value in an error, since ``env`` may hold secrets; the message names the field and what was expected.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Literal

import msgspec

from .contract import LlmError
from .manifest import manifest


class Permissions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules of the control, as they are written."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Settings(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The plugin's settings. Every field has its title, description and default in ``manifest.json``.

    Times end in ``_ms`` and are whole milliseconds.
    """

    engine: Literal["auto", "official", "embedded"]
    auto_install: bool
    command: str
    args: tuple[str, ...]
    env: dict[str, str]
    auth_method: str
    native_tool_policy: Literal["end", "reject"]
    timeout_ms: int
    tool_timeout_ms: int
    request_timeout_ms: int
    startup_timeout_ms: int
    auth_timeout_ms: int
    cancel_grace_ms: int
    dispose_grace_ms: int
    max_active_tool_sessions: int
    idle_process_timeout_ms: int
    max_sessions_per_process: int
    prepare_sessions: bool
    contact_timeout_ms: int
    silence_timeout_ms: int
    control: bool
    permissions: Permissions
    tool_permission: Literal["request-review", "proceed-in-sandbox", "strict", "always-proceed"]
    enable_terminal_sandbox: bool
    output_policy: Literal["off", "audit", "redact", "block"]
    dangerously_skip_permissions: bool
    ledger: bool
    ledger_arguments: bool

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any] | None = None) -> "Settings":
        """Validate settings as a host gives them (``camelCase``) and fill in the defaults.

        :raises LlmError: ``INVALID_SETTINGS``; names the field and what was expected, never the value.
        """
        given = dict(values or {})
        _validate(given)
        properties = manifest().settings["properties"]
        return msgspec.convert({key: given.get(key, field["default"]) for key, field in properties.items()}, cls)

    def same_agent(self, other: "Settings") -> bool:
        """Whether ``other`` starts the same agent, so that a running process still serves."""
        return all(getattr(self, name) == getattr(other, name) for name in _AGENT)

    def fixed_in(self, other: "Settings") -> str | None:
        """The first setting that differs in ``other`` and that cannot change while the plugin runs.

        :returns: its name as it is configured, ``None`` when ``other`` can take over at once.
        """
        fields: dict[str, dict[str, Any]] = manifest().settings["properties"]
        for name, field in fields.items():
            attribute = _ATTRIBUTES[name]
            if not field.get(LIVE) and getattr(self, attribute) != getattr(other, attribute):
                return name
        return None

    def __repr__(self) -> str:
        return f"Settings(engine={self.engine!r}, command={'set' if self.command else 'unset'})"


#: Marks the settings of the manifest that may change while the plugin runs.
LIVE: Final = "x-live"
#: What says which agent is started, and how it signs in.
_AGENT: Final = ("engine", "command", "args", "env", "auth_method")
_ATTRIBUTES: Final = dict(zip(Settings.__struct_encode_fields__, Settings.__struct_fields__, strict=True))


def _validate(given: Mapping[str, Any]) -> None:
    import fastjsonschema

    try:
        _validator()(dict(given))
    except fastjsonschema.JsonSchemaValueException as error:
        raise LlmError("INVALID_SETTINGS", _explain(error, given)) from None


@cache
def _validator() -> Callable[[dict[str, Any]], Any]:
    import fastjsonschema

    return fastjsonschema.compile(manifest().settings, use_default=False)


def _explain(error: Any, given: Mapping[str, Any]) -> str:
    properties = manifest().settings["properties"]
    if error.rule == "additionalProperties" and len(error.path) == 1:
        unknown = ", ".join(sorted(key for key in given if key not in properties))
        return f"Unknown setting: {unknown}. Known settings: {', '.join(properties)}."
    field = ".".join(str(part) for part in error.path[1:]) or "settings"
    expected = {
        "type": f"a value of type {error.rule_definition}",
        "enum": f"one of {error.rule_definition}",
        "minimum": f"at least {error.rule_definition}",
        "maximum": f"at most {error.rule_definition}",
    }.get(error.rule, f"a value that meets `{error.rule}`")
    return f"Setting `{field}` is not valid: expected {expected}."
