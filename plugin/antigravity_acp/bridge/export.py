"""A tool's parameters in the form that a real agent survives.

Google's harness passes a schema to the model almost verbatim, drops a tool that is not valid by the 2020-12
meta-schema, and ends the session one turn later (measured on 0.1.22). So what is exported is one flat 2020-12 schema:
root ``type: object`` with ``properties``, every reference a local ``#/$defs/…``, older spellings rewritten in their
own draft's meaning. It also takes ``toolAction`` and ``toolSummary`` as its own and strips their values: a tool's
properties of these names are exported under others and mapped back on every call.

What is exported only informs the model. Calls are judged by the original (:mod:`.validation`), so an adaptation can
never let through or drop anything.
Never: fetches a reference, or returns a part of the caller's schema by reference.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin

import jsonschema_rs

from antigravity_acp.limits import MAX_FLAT_BYTES, MAX_FLAT_SCHEMAS, MAX_REPEATED_CHECKS

from ._drafts import (
    BASE,
    LISTS_OF_SCHEMAS,
    MAPS_OF_SCHEMAS,
    OLD_DRAFTS,
    REFERENCES,
    SCHEMAS,
    UNKNOWN,
    identity,
    subschemas,
)
from .validation import OUTSIDE, SchemaError

_TOO_LARGE: Final = "its parameters refer to the same parts in so many ways that they cannot be written out"
#: Property names whose values Google's harness keeps for itself.
RESERVED: Final = frozenset({"toolAction", "toolSummary"})

_ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
#: Keywords that name things; every name is resolved here, so none of them has a meaning in the flat form. The last one
#: would make clients copy argument values into HTTP headers.
_NAMES: Final = frozenset(
    {"$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$defs", "definitions"}
    | {"$comment", "x-mcp-header"}
)


class Exported(NamedTuple):
    """What the agent is shown, and how the names of its arguments lead back.

    ``aliases`` maps an exported top-level property to the original one.
    """

    schema: dict[str, Any]
    aliases: Mapping[str, str]


def export(schema: dict[str, Any], draft: int) -> Exported:
    """Adapt a compiled tool's parameters for the agent.

    :param schema: parameters that :class:`~antigravity_acp.bridge.validation.ArgumentValidator` accepted.
    :param draft: the draft they are judged in.
    :raises SchemaError: when they describe no object, or cannot be adapted; the message is the reason.
    """
    try:
        return _export(schema, draft)
    except RecursionError:
        raise SchemaError("its references lead on from one another too often") from None


def _export(schema: dict[str, Any], draft: int) -> Exported:
    flat = _Flattener(schema, draft)
    root = _object_root(flat.root, flat.definitions)
    root, aliases = _rename_reserved(root, flat.definitions)
    if used := _reachable(root, flat.definitions):
        root["$defs"] = {name: flat.definitions[name] for name in used}
    if len(json.dumps(root, default=str)) > MAX_FLAT_BYTES:
        raise SchemaError(_TOO_LARGE)
    _check_repetition(root)
    try:
        jsonschema_rs.Draft202012Validator(root, offline=True, mask="…")
    except ValueError:  # ValidationError is one
        raise SchemaError("its parameters have no valid form in JSON Schema 2020-12") from None
    return Exported(root, aliases)


class _Flattener:
    """Rewrites a schema so that every target of a reference stands once, under its own name, in ``definitions``."""

    def __init__(self, schema: dict[str, Any], draft: int) -> None:
        self._draft = draft
        base = urljoin(BASE, identity(schema, draft) or "")
        try:
            self._registry = jsonschema_rs.Registry([(base, schema)], draft=draft, retriever=_deny)
        except ValueError:
            raise SchemaError(OUTSIDE) from None
        self._names: dict[tuple[str, str], str] = {}
        self._count = 0
        self.definitions: dict[str, Any] = {}
        self.root = self._schema(schema, self._registry.resolver(base), entered=True)

    def _schema(self, schema: Any, scope: jsonschema_rs.Resolver, *, entered: bool = False) -> Any:
        """One schema, flat; ``entered`` says that the scope already knows the schema's own identity."""
        if not isinstance(schema, dict):
            return schema
        self._count += 1
        if self._count > MAX_FLAT_SCHEMAS:
            raise SchemaError(_TOO_LARGE)
        unknown = UNKNOWN[self._draft]
        reference = next((key for key in REFERENCES if isinstance(schema.get(key), str) and key not in unknown), None)
        if reference is not None and self._draft in OLD_DRAFTS:
            # Up to draft 7 nothing beside a reference counts, an identity included.
            kept = {key: schema[key] for key in schema if key in _ANNOTATIONS}
            return {**kept, "$ref": self._target(schema[reference], scope)}
        scope = scope if entered else self._enter(schema, scope)
        target = None if reference is None else self._target(schema[reference], scope)
        out = {} if target is None else {"$ref": target}
        for key, value in schema.items():
            if key in _NAMES or key in REFERENCES or key in unknown:
                continue
            if key in _REWRITTEN:
                self._rewrite(key, schema, out, scope)
            else:
                out[key] = self._below(key, value, scope)
        return out

    def _below(self, key: str, value: Any, scope: jsonschema_rs.Resolver) -> Any:
        if key in MAPS_OF_SCHEMAS and isinstance(value, dict):
            return {name: self._schema(member, scope) for name, member in value.items()}
        if key in LISTS_OF_SCHEMAS and isinstance(value, list):
            return [self._schema(member, scope) for member in value]
        return self._schema(value, scope) if key in SCHEMAS else value

    def _rewrite(self, key: str, schema: dict[str, Any], out: dict[str, Any], scope: jsonschema_rs.Resolver) -> None:
        value = schema[key]
        if key == "items" and isinstance(value, list):
            # An empty list says nothing in older drafts and is not valid in 2020-12.
            out.update({"prefixItems": [self._schema(item, scope) for item in value]} if value else {})
            if "additionalItems" in schema:
                out["items"] = self._schema(schema["additionalItems"], scope)
        elif key == "items":
            out["items"] = self._schema(value, scope)
        elif key == "dependencies" and isinstance(value, dict):
            for name, member in value.items():
                group = "dependentRequired" if isinstance(member, list) else "dependentSchemas"
                kept = member if isinstance(member, list) else self._schema(member, scope)
                out.setdefault(group, {})[name] = kept
        elif key in ("exclusiveMinimum", "exclusiveMaximum") and not isinstance(value, bool):
            out[key] = value
        elif key in ("minimum", "maximum"):
            exclusive = "exclusiveMinimum" if key == "minimum" else "exclusiveMaximum"
            out[exclusive if schema.get(exclusive) is True else key] = value

    def _enter(self, schema: dict[str, Any], scope: jsonschema_rs.Resolver) -> jsonschema_rs.Resolver:
        own = identity(schema, self._draft)
        return scope if own is None else self._registry.resolver(urljoin(scope.base_uri, own))

    def _target(self, reference: str, scope: jsonschema_rs.Resolver) -> str:
        key = (scope.base_uri, reference)
        if key not in self._names:
            try:
                found = scope.lookup(reference)
            except (jsonschema_rs.ReferencingError, ValueError):
                raise SchemaError(OUTSIDE) from None
            # The name stands before its target is walked: a target may lead back to itself.
            self._names[key] = name = self._fresh(reference)
            self.definitions[name] = {}
            self.definitions[name] = self._schema(found.contents, found.resolver, entered=True)
        return f"#/$defs/{self._names[key]}"

    def _fresh(self, reference: str) -> str:
        last = reference.rstrip("/#").rpartition("/")[2].rpartition("#")[2]
        stem = "".join(char if char.isascii() and (char.isalnum() or char in "_-") else "_" for char in last) or "root"
        name, count = stem, 1
        while name in self.definitions:
            count += 1
            name = f"{stem}_{count}"
        return name


_REWRITTEN: Final = frozenset(
    {"items", "additionalItems", "dependencies", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
)


def _deny(uri: str) -> Any:
    raise ValueError("references are never fetched")


def _name_of(reference: str) -> str:
    return reference.removeprefix("#/$defs/")


def _object_root(root: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The root as an object schema: a reference that stands alone is replaced by its target."""
    seen: set[str] = set()
    while isinstance(root, dict) and "$ref" in root and root.keys() <= _ANNOTATIONS | {"$ref", "type"}:
        name = _name_of(root["$ref"])
        if name in seen:
            raise SchemaError("its root refers only to itself")
        seen.add(name)
        target, rest = definitions[name], {key: value for key, value in root.items() if key != "$ref"}
        root = {**({} if target is True else target), **rest} if isinstance(target, dict) or target is True else False
    if not isinstance(root, dict):
        raise SchemaError("its parameters allow no arguments at all")
    kind = root.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise SchemaError("its parameters do not describe an object")
    # A null at the root says nothing of an object, and MCP libraries lose it.
    flat = {key: value for key, value in root.items() if value is not None and key != "$ref"}
    if "$ref" in root:
        flat["allOf"] = [{"$ref": root["$ref"]}, *root.get("allOf", [])]
    return {"properties": {}, **flat, "type": "object"}


def _in_place(schema: Any) -> Iterator[Any]:
    """The schemas that judge the same value as this one, references left out."""
    for key in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(key, ())
    for key in ("not", "if", "then", "else"):
        if key in schema:
            yield schema[key]
    yield from schema.get("dependentSchemas", {}).values()


def _mentioned(schema: Any, definitions: Mapping[str, Any], seen: set[str]) -> set[str]:
    """Property names that a schema speaks of for the value it judges."""
    if not isinstance(schema, dict):
        return set()
    names = {*schema.get("properties", ()), *schema.get("required", ()), *schema.get("dependentSchemas", ())}
    for name, needed in schema.get("dependentRequired", {}).items():
        names |= {name, *needed}
    for below in _in_place(schema):
        names |= _mentioned(below, definitions, seen)
    if "$ref" in schema and (name := _name_of(schema["$ref"])) not in seen:
        seen.add(name)
        names |= _mentioned(definitions[name], definitions, seen)
    return names


def _rename_reserved(root: dict[str, Any], definitions: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    mentioned = _mentioned(root, definitions, set())
    renamed: dict[str, str] = {}
    for name in sorted(RESERVED & mentioned):
        alias = f"{name}_"
        while alias in mentioned or alias in renamed.values():
            alias += "_"
        renamed[name] = alias
    if not renamed:
        return root, {}
    return _Renamer(renamed, definitions).rename(root), {alias: name for name, alias in renamed.items()}


class _Renamer:
    """Renames properties of the root object wherever a schema speaks of that object.

    A definition that is used for the root gets a renamed copy, since it may be used for other objects as well.
    """

    def __init__(self, renamed: Mapping[str, str], definitions: dict[str, Any]) -> None:
        self._renamed = renamed
        self._definitions = definitions
        self._copies: dict[str, str] = {}

    def rename(self, schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        return {key: self._member(key, value) for key, value in schema.items()}

    def _member(self, key: str, value: Any) -> Any:
        if key in ("properties", "dependentSchemas"):
            below = self.rename if key == "dependentSchemas" else lambda member: member
            return {self._name(name): below(member) for name, member in value.items()}
        if key == "required":
            return [self._name(name) for name in value]
        if key == "dependentRequired":
            return {self._name(name): [self._name(item) for item in needed] for name, needed in value.items()}
        if key in ("allOf", "anyOf", "oneOf"):
            return [self.rename(member) for member in value]
        if key in ("not", "if", "then", "else"):
            return self.rename(value)
        return self._reference(value) if key == "$ref" else value

    def _name(self, name: str) -> str:
        return self._renamed.get(name, name)

    def _reference(self, reference: str) -> str:
        name = _name_of(reference)
        if name not in self._copies:
            copy = f"{name}_arguments"
            while copy in self._definitions:
                copy += "_"
            self._copies[name] = copy
            self._definitions[copy] = {}
            self._definitions[copy] = self.rename(self._definitions[name])
        return f"#/$defs/{self._copies[name]}"


def _references(schema: Any) -> Iterator[str]:
    queue = [schema]
    while queue:
        item = queue.pop()
        if not isinstance(item, dict):
            continue
        if isinstance(item.get("$ref"), str):
            yield _name_of(item["$ref"])
        queue.extend(subschemas(item))


def _reachable(root: dict[str, Any], definitions: Mapping[str, Any]) -> list[str]:
    found: dict[str, None] = {}
    queue: list[Any] = [root]
    while queue:
        for name in _references(queue.pop()):
            if name not in found:
                found[name] = None
                queue.append(definitions[name])
    return list(found)


def _check_repetition(root: dict[str, Any]) -> None:
    """Refuse a schema that names shared branches so often that judging one value never ends."""
    definitions = root.get("$defs", {})
    costs: dict[str, int] = {}

    def cost(schema: Any) -> int:
        if not isinstance(schema, dict):
            return 1
        total = 1 + sum(cost(below) for below in _in_place(schema))
        if "$ref" in schema:
            total += named(_name_of(schema["$ref"]))
        return total

    def named(name: str) -> int:
        if name not in costs:
            costs[name] = 0  # A reference that leads back to itself in place is cut by the validator.
            costs[name] = cost(definitions[name])
        return costs[name]

    if max((cost(root), *map(named, definitions))) > MAX_REPEATED_CHECKS:
        raise SchemaError("its parameters refer to the same parts so often that a check would not end")
