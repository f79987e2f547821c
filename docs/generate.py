"""Writes the tables of the docs from their sources: `python docs/generate.py`.

With `--check` it writes nothing and fails when a file is not up to date.

`docs/settings.md`, `dsh/settings.js` and `dsh/locale/` come from `manifest.json`, `docs/errors.md` from
`plugin/antigravity_acp/contract/codes.py`; in `README.md` the parts between marks are the settings in short and
the first example.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dsh_settings import locale, settings_module

from antigravity_acp.contract import ERRORS
from antigravity_acp.manifest import manifest
from antigravity_acp.settings import LIVE

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "adapter_in_30_lines.py"


def settings_page() -> str:
    """Every setting with its type, default and description."""
    head = (
        "# Settings\n\n"
        "Written by `docs/generate.py` from `manifest.json`; do not edit here.\n\n"
        "A host gives them to the plugin as one object; on the command line `--settings FILE` reads the same\n"
        "object from a JSON file. Unknown names and wrong types are refused with `INVALID_SETTINGS` before anything\n"
        "is registered; the message names the field and what was expected, never the value. Times are whole\n"
        "milliseconds. *Live* settings take effect while the plugin runs, for what begins afterwards; the others need\n"
        "the plugin to be mounted again.\n"
    )
    return head + "".join(_setting(name, field) for name, field in manifest().settings["properties"].items())


def _setting(name: str, field: dict[str, Any]) -> str:
    kind = " or ".join(f"`{json.dumps(value)}`" for value in field["enum"]) if "enum" in field else _type(field)
    return (
        f"\n## `{name}`\n{field['title']}. {field['description']}\n\n- Type: {kind}\n- Default: `{_default(field)}`\n"
        f"- Live: {'yes' if field.get(LIVE) else 'no'}\n"
    )


def _type(field: dict[str, Any]) -> str:
    if field["type"] == "array":
        return f"list of {field['items']['type']}s"
    if field["type"] == "object" and "properties" in field:
        return f"object with {', '.join(f'`{name}` ({_type(part)})' for name, part in field['properties'].items())}"
    if field["type"] == "object":
        return f"object with {field['additionalProperties']['type']} values"
    bounds = [f"{word} {field[key]}" for key, word in (("minimum", "at least"), ("maximum", "at most")) if key in field]
    return ", ".join([str(field["type"]), *bounds])


def _default(field: dict[str, Any]) -> str:
    return json.dumps(field["default"])


def errors_page() -> str:
    """Every code: what happened, what to do, and whether the same request may be repeated as it is."""
    head = (
        "# Error codes\n\n"
        "Written by `docs/generate.py` from `plugin/antigravity_acp/contract/codes.py`; do not edit here.\n\n"
        "Route on the code, never on a message. A message may say more than this table (which tool, which\n"
        "setting), but never remote text, stderr, tokens, prompts or tool arguments.\n\n"
        "| code | what happened | what to do | may be repeated as it is |\n|---|---|---|---|\n"
    )
    rows = (
        f"| `{code}` | {row.happened} | {row.remedy} | {'yes' if row.retryable else 'no'} |\n"
        for code, row in ERRORS.items()
    )
    return head + "".join(rows)


def readme(text: str) -> str:
    """The README with its generated parts renewed."""
    properties = manifest().settings["properties"].items()
    rows = "".join(f"| `{name}` | {field['title']} | `{_default(field)}` |\n" for name, field in properties)
    text = _between(text, "settings", f"| setting | what it is | default |\n|---|---|---|\n{rows}")
    return _between(text, "example", f"```python\n{EXAMPLE.read_text(encoding='utf-8')}```\n")


def _between(text: str, name: str, content: str) -> str:
    pattern = re.compile(rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)", re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"README.md has no part `{name}`")
    return pattern.sub(lambda found: f"{found[1]}{content}{found[2]}", text)


def pages() -> Iterator[tuple[Path, str]]:
    """Each generated file with what it should hold."""
    yield ROOT / "docs" / "settings.md", settings_page()
    yield ROOT / "docs" / "errors.md", errors_page()
    yield ROOT / "dsh" / "settings.js", settings_module()
    yield ROOT / "dsh" / "locale" / "en.json", locale()
    path = ROOT / "README.md"
    yield path, readme(path.read_text(encoding="utf-8"))


def main(arguments: list[str]) -> int:
    """Write what has changed, or with `--check` name it."""
    old = [(path, text) for path, text in pages() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path, text in old:
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}: {'not up to date' if '--check' in arguments else 'written'}\n")
    return 1 if old and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
