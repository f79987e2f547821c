"""Judging a tool call's arguments by the tool's original schema (A-044).

Owns: the choice of the draft, the checks that make a schema safe to compile, and the texts for what is wrong.
The schema is compiled by ``jsonschema-rs`` in the draft it declares; one that declares none is read as 2020-12, or as
draft 7 or 4 where only that makes it valid. A boolean ``required`` inside a property (draft 3, still common in
hand-written tools) means what its author meant: it moves into the ``required`` list around it.
Patterns run on a linear-time engine, which knows neither look-around nor back-references: such a pattern is refused
when the tool is registered, since a constraint is never dropped and never worth a hung host.
Never: fetches a reference, changes the caller's schema, or puts a value of the arguments into a message.

What is left open: a schema whose branches judge the same property twice at every level costs 2^n for arguments nested
n levels deep. It takes a tool definition made for it; definitions come from the host.
"""

import math
import re
from collections.abc import Callable
from decimal import Decimal
from itertools import islice
from typing import Any, Final

import jsonschema_rs

from antigravity_acp.limits import MAX_ARGUMENT_PROBLEMS, MAX_SCHEMA_DEPTH

from ._drafts import LISTS_OF_SCHEMAS, MAPS_OF_SCHEMAS, SCHEMAS, UNKNOWN, walk

Compile = Callable[..., jsonschema_rs.Validator]

#: Draft number of ``jsonschema-rs`` to its validator class.
_CLASSES: Final[dict[int, Compile]] = {
    jsonschema_rs.Draft4: jsonschema_rs.Draft4Validator,
    jsonschema_rs.Draft6: jsonschema_rs.Draft6Validator,
    jsonschema_rs.Draft7: jsonschema_rs.Draft7Validator,
    jsonschema_rs.Draft201909: jsonschema_rs.Draft201909Validator,
    jsonschema_rs.Draft202012: jsonschema_rs.Draft202012Validator,
}
_DECLARED: Final = re.compile(
    r"https?://json-schema\.org/(draft-04|draft-06|draft-07|draft/2019-09|draft/2020-12)/schema#?"
)
_BY_NAME: Final = {
    "draft-04": jsonschema_rs.Draft4,
    "draft-06": jsonschema_rs.Draft6,
    "draft-07": jsonschema_rs.Draft7,
    "draft/2019-09": jsonschema_rs.Draft201909,
    "draft/2020-12": jsonschema_rs.Draft202012,
}
#: Drafts tried for a schema that declares none, in this order.
_UNDECLARED: Final = (jsonschema_rs.Draft202012, jsonschema_rs.Draft7, jsonschema_rs.Draft4)
_MAX_PATH: Final = 200
OUTSIDE: Final = "it has a `$ref` that leads outside the schema or to nothing; references are never fetched"
#: Problems that another draft would not solve but hide.
_FINAL: Final = (jsonschema_rs.ValidationErrorKind.Referencing, jsonschema_rs.ValidationErrorKind.Format)
#: Python writes no longer integer as text unless it is told to (4300 digits).
_MAX_BITS: Final = 14_000


class SchemaError(ValueError):
    """A parameter schema that cannot be used; the message is the reason and names places in the schema only."""


class ArgumentValidator:
    """One tool's parameters, compiled.

    :raises SchemaError: not JSON, too deep, an unknown draft, not valid in its draft, a reference that leaves the
        schema, or a pattern that the linear engine does not take.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        check_json(schema)
        #: The schema as it is judged: the original with draft-3 ``required`` moved to where later drafts expect it.
        self.schema: dict[str, Any] = _lift_required(schema)
        self.draft, self._validator = _compile(self.schema)

    def problems(self, arguments: object) -> list[str]:
        """What is wrong with the arguments, as lines for the model: a path and the keyword that failed.

        :param arguments: as :func:`~antigravity_acp.bridge._json.read_strictly` gives them.
        """
        try:
            return [_describe(error) for error in islice(self._validator.iter_errors(arguments), MAX_ARGUMENT_PROBLEMS)]
        except ValueError:
            return ["they are nested too deeply"]


def check_json(value: object) -> None:
    """Prove that a definition is JSON of bounded depth, without recursion.

    :raises SchemaError: names what is no JSON, or the depth.
    """
    queue: list[tuple[object, int]] = [(value, 0)]
    while queue:
        item, depth = queue.pop()
        if depth > MAX_SCHEMA_DEPTH:
            raise SchemaError(f"its parameters are nested more than {MAX_SCHEMA_DEPTH} levels deep")
        if isinstance(item, dict):
            if not all(isinstance(key, str) for key in item):
                raise SchemaError("its parameters have a key that is not a text")
            queue.extend((key, depth) for key in item)
            queue.extend((member, depth + 1) for member in item.values())
        elif isinstance(item, list | tuple):
            queue.extend((member, depth + 1) for member in item)
        elif (reason := _scalar_problem(item)) is not None:
            raise SchemaError(reason)


def _scalar_problem(item: object) -> str | None:
    if item is None or isinstance(item, bool):
        return None
    if isinstance(item, str):
        halved = not item.isascii() and any("\ud800" <= char <= "\udfff" for char in item)
        return "its definition holds half of a surrogate pair" if halved else None
    if isinstance(item, int):
        return "its parameters hold a number beyond all bounds" if item.bit_length() > _MAX_BITS else None
    if isinstance(item, float | Decimal):
        return None if math.isfinite(item) else "its parameters hold NaN or Infinity"
    return "its parameters hold something that is not JSON"


def _compile(schema: dict[str, Any]) -> tuple[int, jsonschema_rs.Validator]:
    declared = schema.get("$schema")
    if declared is None:
        drafts: tuple[int, ...] = _UNDECLARED
    elif isinstance(declared, str) and (match := _DECLARED.fullmatch(declared)):
        drafts = (_BY_NAME[match[1]],)
    else:
        raise SchemaError("its `$schema` is not one of draft 4, 6, 7, 2019-09 and 2020-12")
    problems = []
    for draft in drafts:
        try:
            compiled = _CLASSES[draft](schema, offline=True, pattern_options=jsonschema_rs.RegexOptions(), mask="…")
        except jsonschema_rs.ValidationError as error:
            problems.append(_reason(error))
            if isinstance(error.kind, _FINAL):
                break
        except ValueError:
            raise SchemaError("its parameters are nested or referenced too deeply") from None
        else:
            if problems and any(not UNKNOWN[draft].isdisjoint(below) for below in walk(schema)):
                raise SchemaError("it mixes keywords of several drafts of JSON Schema; declare `$schema`")
            return draft, compiled
    raise SchemaError(problems[0])


def _reason(error: jsonschema_rs.ValidationError) -> str:
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Referencing):
        return OUTSIDE
    where = _path(error.instance_path)
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Format):
        return (
            f"the pattern at {where} does not compile (patterns run in linear time: no look-around, no back-reference)"
        )
    return f"its parameters are not a valid JSON Schema at {where} (`{error.kind.name}`)"


def _describe(error: jsonschema_rs.ValidationError) -> str:
    kind, where = error.kind, _path(error.instance_path)
    kinds = jsonschema_rs.ValidationErrorKind
    if isinstance(kind, kinds.Required):
        return f"{where}: the property {_clip(kind.property)} is missing (`required`)"
    if isinstance(kind, kinds.Type):
        return f"{where}: expected {' or '.join(kind.types)} (`type`)"
    if isinstance(kind, kinds.AdditionalProperties | kinds.UnevaluatedProperties):
        return f"{where}: has a property that the schema does not allow (`{kind.name}`)"
    return f"{where}: does not meet `{kind.name}`"


def _path(parts: list[str | int]) -> str:
    return _clip("/" + "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in parts))


def _clip(text: str) -> str:
    return text if len(text) <= _MAX_PATH else text[: _MAX_PATH - 1] + "…"


def _lift_required(schema: Any) -> Any:
    """A copy in which a boolean ``required`` of a property became an entry of the list around it.

    Only positions that hold schemas are walked, so data under ``default``, ``enum`` or ``const`` stays as it is.
    """
    if not isinstance(schema, dict):
        return schema
    copy = {key: _lift_below(key, value) for key, value in schema.items()}
    properties = copy.get("properties")
    listed = copy.get("required", [])
    if not isinstance(properties, dict) or not isinstance(listed, list):
        return copy
    lifted = [name for name, value in properties.items() if isinstance(value, dict) and value.get("required") is True]
    for name, value in properties.items():
        if isinstance(value, dict) and isinstance(value.get("required"), bool):
            properties[name] = {key: member for key, member in value.items() if key != "required"}
    if lifted:
        copy["required"] = list(dict.fromkeys([*listed, *lifted]))
    return copy


def _lift_below(key: str, value: Any) -> Any:
    if key in MAPS_OF_SCHEMAS and isinstance(value, dict):
        return {name: _lift_required(member) for name, member in value.items()}
    if key in SCHEMAS and isinstance(value, dict):
        return _lift_required(value)
    if key in LISTS_OF_SCHEMAS and isinstance(value, list):
        return [_lift_required(member) for member in value]
    return value
