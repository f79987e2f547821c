"""Keys of settings that nobody reads.

Owns: :func:`unread`, the faults for them, and :func:`near`, which key may have been meant. A list of denials under a
misspelt key denies nothing, so a fault says whether something that holds calls back may be lost by it. Other programs
keep settings of their own in the same files: at the top of a file only what looks like a key of ours is a fault.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ..language.grammar import RuleFault
from ..language.scopes import KINDS, Scope

#: Where grants are kept, by scope of the file: command line and plugin, all surfaces, a project.
LAYOUTS: Final = (
    ("permissions",),
    ("userSettings", "globalPermissionGrants"),
    ("permissionGrants", "permissionGrants"),
)
#: Keys that set a mode.
MODE_KEYS: Final = (
    "toolPermission", "preset", "agentMode", "enableTerminalSandbox", "allowNonWorkspaceAccess",
    "dangerouslySkipPermissions",
)  # fmt: skip
#: Those of them that can make a mode stricter.
CAREFUL_KEYS: Final = MODE_KEYS[:4]
_TOP: Final = (*(layout[0] for layout in LAYOUTS), *MODE_KEYS, "trustedWorkspaces")
#: Keys of other programs that only look like one of ours.
_OTHERS: Final = frozenset({"agentModel", "agentModels"})
_LIKE: Final = 0.85
_LIKE_SHORT: Final = 0.7
_SHORT: Final = 5
#: Keys that may be shown; another one may hold anything.
_NAME: Final = re.compile(r"[\w.:/-]{1,64}")
_A_RULE: Final = re.compile(r"\w+\s*\(.*\)\s*\Z", re.DOTALL)
_LIMIT: Final = 100


def shown(key: object) -> str:
    """A key as a fault may name it."""
    return key if isinstance(key, str) and _NAME.fullmatch(key) else "(a key)"


def near(key: object, known: Iterable[str]) -> str | None:
    """The known key that ``key`` may be meant to be; ``None`` when it is one itself, or like none."""
    from difflib import get_close_matches  # late: settings are rarely wrong

    names = {name.lower(): name for name in known}
    if not isinstance(key, str) or key in names.values() or key in _OTHERS:
        return None
    word = key.strip().lower()
    if word in names:
        return names[word]
    if len(word) < _SHORT - 2 or len(word) > _LIMIT:
        return None
    likeness = _LIKE if len(word) > _SHORT else _LIKE_SHORT
    found = get_close_matches(word, names, 1, likeness)
    return names[found[0]] if found else None


def unread(data: Mapping[str, Any], scope: Scope, file: str | None) -> list[RuleFault]:
    """The keys of settings that nobody reads although they look as if somebody should; at most 100."""
    found: list[RuleFault] = []
    for key, value in data.items():
        if key in KINDS:
            if value is not None:
                reason = f"has no effect here; expected `permissions.{key}`"
                found.append(RuleFault(file, key, reason, scope, loses=key != "allow" and _says(value)))
        elif len(str(key)) > _SHORT and (meant := near(key, _TOP)) is not None:
            found.append(RuleFault(file, shown(key), _meant(meant), scope, "unknown", _restricts(value, meant)))
    for layout in LAYOUTS:
        found.extend(_below(data, layout, scope, file))
    return found[:_LIMIT]


def _below(data: Mapping[str, Any], layout: tuple[str, ...], scope: Scope, file: str | None) -> Iterator[RuleFault]:
    table: object = data
    for depth, step in enumerate(layout):
        if depth and isinstance(table, Mapping):
            for key, value in table.items():
                if near(key, (step,)) is not None:
                    place = ".".join((*layout[:depth], shown(key)))
                    yield RuleFault(file, place, _meant(step), scope, "unknown", _restricts(value, step))
        table = table.get(step) if isinstance(table, Mapping) else None
    for key, value in table.items() if isinstance(table, Mapping) else ():
        if key in KINDS:
            continue
        meant = _kind(key)
        reason = _meant(meant) if meant is not None else "nobody reads this key; expected allow, ask and deny"
        loses = bool(value) if meant in ("deny", "ask") else meant is None and _holds_rules(value)
        yield RuleFault(file, ".".join((*layout, shown(key))), reason, scope, "unknown", loses)


def _meant(key: str) -> str:
    return f"nobody reads this key; `{key}` may be meant"


def _kind(key: object) -> str | None:
    """The list that a key may be meant to be."""
    word = str(key).strip().lower()
    word = word.removesuffix("ed").removesuffix("s")
    return {"deni": "deny", "denie": "deny"}.get(word) or (word if word in KINDS else near(word, KINDS))


def _holds_rules(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(each, str) and _A_RULE.match(each.strip()) for each in value)


def _restricts(value: object, meant: str) -> bool:
    """Whether what stands under a key that nobody reads would hold something back under the one that was meant."""
    if meant in MODE_KEYS:
        return value in (True, "strict", "plan", "request-review") and meant in CAREFUL_KEYS
    if isinstance(value, Mapping):
        return any(_says(below) and _kind(key) != "allow" for key, below in value.items())
    return _says(value)


def _says(value: object) -> bool:
    return bool(value) and not isinstance(value, (bool, int, float))
