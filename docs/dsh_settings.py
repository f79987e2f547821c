"""Writes `dsh/settings.js` and `dsh/locale/`, the settings and the name of the DSH bundle, from the plugin's manifest.

Owns: the translation of the JSON Schema that `manifest.json` uses into the host's schema language. A construct that the
manifest does not use today is an error, so that nothing is left out in silence.
"""

import json
from typing import Any

from antigravity_acp.manifest import manifest
from antigravity_acp.settings import LIVE

#: The one setting that only the bundle has: the Python side runs already when settings reach it.
PYTHON = {
    "title": "Python",
    "description": "Path or name of a Python 3.11 or newer that has `dsh-antigravity-acp`, or of an `antigravity-acp` "
    "program. Empty: one on PATH if its version matches, else a private environment that is made on first use.",
    "type": "string",
    "default": "",
}


def settings_module() -> str:
    """The module's text."""
    fields = manifest().settings["properties"]
    rows = "".join(f"  {name}: {_field(name, field)},\n" for name, field in {"python": PYTHON, **fields}.items())
    facts = {
        "provider": manifest().provider,
        "defaultModel": manifest().default_model,
        "displayName": manifest().name,
        "version": manifest().version,
    }
    return (
        "// Written by `python docs/generate.py` from manifest.json; do not edit here.\n"
        "import z from '@deepseek-ai/schemastery'\n\n"
        "/** What names the plugin. */\n"
        f"export const manifest = Object.freeze({_literal(facts)})\n\n"
        "/** The host's schema of all settings; volatile ones may change while the plugin runs. */\n"
        f"export const Config = z.object({{\n{rows}}})\n"
    )


def locale() -> str:
    """What the host's page of plugins shows as the bundle's title and description."""
    shown = {"meta": {"title": manifest().name, "description": manifest().description}}
    return json.dumps(shown, ensure_ascii=False, indent=2) + "\n"


def _field(name: str, field: dict[str, Any]) -> str:
    if ". " in field["title"]:
        raise SystemExit(f"manifest.json: the title of `{name}` must not hold a full stop: dsh/client.js splits there.")
    text = f"{field['title']}. {field['description']}"
    live = ".volatile()" if field.get(LIVE) else ""
    return f"{_kind(name, field)}.default({_literal(field['default'])}).description({_literal(text)}){live}"


def _kind(name: str, field: dict[str, Any]) -> str:
    if "enum" in field:
        return f"z.union([{', '.join(f'z.const({_literal(value)})' for value in field['enum'])}])"
    match field["type"]:
        case "integer":
            bounds = "".join(
                f".{method}({field[key]})" for key, method in (("minimum", "min"), ("maximum", "max")) if key in field
            )
            return f"z.number().step(1){bounds}"
        case "array":
            return f"z.array({_kind(name, field['items'])})"
        case "object" if isinstance(field["additionalProperties"], dict):
            return f"z.dict({_kind(name, field['additionalProperties'])})"
        case "object":
            inner = ", ".join(f"{key}: {_kind(name, value)}" for key, value in field["properties"].items())
            return f"z.object({{ {inner} }})"
        case "string" | "boolean" as kind:
            return f"z.{kind}()"
    raise SystemExit(f"manifest.json: setting `{name}` has a shape that docs/dsh_settings.py cannot translate.")


def _literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
