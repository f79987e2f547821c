"""What the drafts of JSON Schema know: keywords, identities and where schemas stand inside a schema.

Owns: the tables that judging and exporting share. A walk over a schema goes through positions that hold schemas only,
so data under ``default``, ``enum`` or ``const`` is never mistaken for one.
"""

from collections.abc import Iterator
from typing import Any, Final

import jsonschema_rs

#: Base of references in a schema without an identity of its own; the reserved top-level domain names no host.
BASE: Final = "http://parameters.invalid/"
OLD_DRAFTS: Final = (jsonschema_rs.Draft4, jsonschema_rs.Draft6, jsonschema_rs.Draft7)
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")

#: Keywords whose value is one schema, in any draft.
SCHEMAS: Final = frozenset(
    {"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"}
    | {"propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)
#: Keywords whose value is a list of schemas, in any draft.
LISTS_OF_SCHEMAS: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
#: Keywords whose value maps names to schemas, in any draft.
MAPS_OF_SCHEMAS: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)

_AFTER_7: Final = frozenset(
    {"prefixItems", "unevaluatedItems", "unevaluatedProperties", "dependentSchemas", "dependentRequired"}
    | {"minContains", "maxContains", "contentSchema", "$dynamicRef", "$recursiveRef"}
)
_AFTER_6: Final = _AFTER_7 | {"if", "then", "else"}
_AFTER_4: Final = _AFTER_6 | {"const", "contains", "propertyNames", "examples"}
#: Keywords of other drafts that a draft ignores.
UNKNOWN: Final[dict[int, frozenset[str]]] = {
    jsonschema_rs.Draft4: _AFTER_4,
    jsonschema_rs.Draft6: _AFTER_6,
    jsonschema_rs.Draft7: _AFTER_7,
    jsonschema_rs.Draft201909: frozenset({"prefixItems", "$dynamicRef"}),
    jsonschema_rs.Draft202012: frozenset({"$recursiveRef"}),
}


def identity(schema: dict[str, Any], draft: int) -> str | None:
    """The URI a schema gives itself, ``None`` for none; a mere anchor is none."""
    if draft in OLD_DRAFTS and "$ref" in schema:
        return None
    own = schema.get("id" if draft == jsonschema_rs.Draft4 else "$id")
    return own if isinstance(own, str) and not own.startswith("#") else None


def walk(schema: object) -> Iterator[dict[str, Any]]:
    """Every schema of a document, whether or not anything refers to it."""
    queue = [schema]
    while queue:
        item = queue.pop()
        if isinstance(item, dict):
            yield item
            queue.extend(subschemas(item))


def subschemas(schema: dict[str, Any]) -> Iterator[object]:
    """The schemas that stand directly below this one."""
    for key, value in schema.items():
        if key in MAPS_OF_SCHEMAS and isinstance(value, dict):
            yield from value.values()
        elif key in LISTS_OF_SCHEMAS and isinstance(value, list):
            yield from value
        elif key in SCHEMAS:
            yield value
