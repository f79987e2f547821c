"""Typed settings, from the JSON Schema in the manifest.

Owns: validation of what a host or a person configured, and the one place where times are in milliseconds.
Never: shows a value in an error, since ``env`` may hold secrets; the message names the field and what was expected.
"""

import re
from collections.abc import Callable, Mapping, Sequence
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


#: Keys that may be shown; another one may hold anything.
_NAME: Final = re.compile(r"[\w.:/-]{1,64}")
#: What the types of the schema are to a person.
_TYPES: Final = {
    "array": "a list (array)",
    "object": "an object",
    "string": "a text (string)",
    "integer": "a whole number (integer)",
    "boolean": "true or false",
}


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
    if error.rule == "additionalProperties":
        return _unknown(error.path[1:], error.value if len(error.path) > 1 else given, properties)
    field = error.path[1] if len(error.path) > 1 else "settings"
    for part in error.path[2:]:
        field += f"[{part}]" if str(part).isdigit() else f".{part}"
    expected = {
        "type": _TYPES.get(str(error.rule_definition), f"a value of type {error.rule_definition}"),
        "enum": f"one of {', '.join(f'`{each}`' for each in error.definition.get('enum', ()))}",
        "minimum": f"at least {error.rule_definition}",
        "maximum": f"at most {error.rule_definition}",
    }.get(error.rule, f"a value that meets `{error.rule}`")
    if str(field).startswith("permissions.") and error.rule == "type":
        expected = "a list of rules" if error.rule_definition == "array" else "a rule, as text"
    return f"Setting `{field}` is not valid: expected {expected}."


def _unknown(place: Sequence[str], given: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """The message for keys that nobody reads."""
    # Late: only a mistake needs it.
    from difflib import get_close_matches

    known = settings
    for part in place:
        known = known[part].get("properties", {})
    before = "".join(f"{part}." for part in place)
    unknown = sorted(str(key) for key in given if key not in known)
    texts = []
    for key in unknown:
        near = get_close_matches(key[:64], known, n=1, cutoff=0.7)
        shown = f"`{before}{key}`" if _NAME.fullmatch(key) else "a key that is no name"
        texts.append(shown + (f" (did you mean `{before}{near[0]}`?)" if near else ""))
    return f"Unknown setting: {', '.join(texts)}. Known settings: {', '.join(f'{before}{name}' for name in known)}."
