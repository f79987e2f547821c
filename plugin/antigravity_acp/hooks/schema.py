"""Validation against JSON Schemas that are not ours: settings of foreign plugins, arguments of tools.

Owns: :class:`Schema`. Any draft, no remote or file reference is ever fetched, patterns run in linear time, and messages
name the field and what was expected, never a value.
"""

from typing import Any, Final

#: Faults named in one message; more would bury the first.
_MAX_FAULTS: Final = 5
#: Characters of one fault; a schema may hold an enum of any length.
_MAX_FAULT_CHARS: Final = 300


def _refuse(uri: str) -> Any:
    raise ValueError("a schema may not refer to other documents")


class Schema:
    """A compiled JSON Schema.

    :raises ValueError: when it is no valid schema, or refers to another document.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        import jsonschema_rs

        try:
            self._validator = jsonschema_rs.validator_for(
                schema, retriever=_refuse, pattern_options=jsonschema_rs.RegexOptions(), mask="the value"
            )
        except Exception as error:  # noqa: BLE001 - the library raises several unrelated types for schemas it cannot compile
            raise ValueError(f"it is not a JSON Schema that can be used ({type(error).__name__})") from None

    def faults(self, value: object) -> list[str]:
        """What is wrong with a value, a few sentences at most; empty when it is valid."""
        found: list[str] = []
        for error in self._validator.iter_errors(value):
            place = ".".join(str(part) for part in error.instance_path)
            text = error.message if len(error.message) <= _MAX_FAULT_CHARS else error.message[:_MAX_FAULT_CHARS] + "…"
            found.append(f"`{place}`: {text}" if place else text)
            if len(found) == _MAX_FAULTS:
                break
        return found
