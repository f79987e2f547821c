"""The rules that are in force: this plugin's settings, its file of rules, and the vendor's files of the home folder.

Owns: the reading of the setting ``permissions``, where a rule of the rule language and a plain tool name may stand side
by side, and all other scopes: :func:`sources_of` and :func:`project_rules`. A malformed rule in the settings refuses
them; one in a file is left out and reported, as the control wing does it. The vendor's files may make the mode stricter
and never looser: what their own program may do without a question is not what this one may.
Never: puts a rule's text into an error.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from antigravity_acp.contract import LlmError
from antigravity_acp.settings import Settings
from antigravity_control import Rules, RulesError

if TYPE_CHECKING:
    from antigravity_control import Source

_PREFIXES: Final = {"allow": "", "ask": "?", "deny": "!"}
_DEFAULT: Final = "request-review"
_EXPECTED: Final = "expected a rule such as `command(git status)`, a tool name or `*`"


class OwnRules(msgspec.Struct, frozen=True):
    """The setting ``permissions``.

    :param names: rules by tool name. :param data: the rest, as settings files have it.
    """

    names: Rules
    data: Mapping[str, tuple[str, ...]]


def default_rules_file() -> Path:
    """Where rules are kept that a person wrote with an answer: one file of this user, for every workspace."""
    from platformdirs import user_config_path

    return user_config_path("antigravity-acp", appauthor=False) / "permissions.json"


def own_rules(settings: Settings) -> OwnRules:
    """Read the setting ``permissions``.

    :raises LlmError: ``INVALID_SETTINGS``; names the place of the rule and what was expected.
    """
    names: dict[str, frozenset[str]] = {}
    data: dict[str, tuple[str, ...]] = {}
    for kind in _PREFIXES:
        written = getattr(settings.permissions, kind)
        for place, text in enumerate(written):
            _check(kind, place, text)
        names[kind] = frozenset(text.strip() for text in written if "(" not in text)
        data[kind] = tuple(text for text in written if "(" in text)
    return OwnRules(Rules(**names), data)


def sources_of(settings: Settings, rules: OwnRules, home: Path, rules_file: Path) -> "tuple[Source, ...]":
    """Every source of rules that is the same for all workspaces, read now; :func:`project_rules` has the others."""
    # Late: what reads rules knows the grammar of command lines, and that takes a moment.
    from antigravity_control import Source, read_file, standard_sources

    theirs = standard_sources(home)
    permission, sandbox = _mode(settings, theirs)
    values: dict[str, Any] = {
        "permissions": rules.data,
        "toolPermission": permission,
        "enableTerminalSandbox": sandbox,
        # Always said, so that no file of another program opens the hatch.
        "dangerouslySkipPermissions": settings.dangerously_skip_permissions,
    }
    kept = read_file(rules_file, "plugin")
    # Only its rules: a file that answers are written to says nothing about modes.
    kept = Source("plugin", {"permissions": kept.data.get("permissions", {})}, kept.file, kept.faults)
    return (Source("plugin", values), kept, *theirs)


def project_rules(home: Path, workspace: str) -> "tuple[Source, ...]":
    """The grants that belong to the projects of one workspace, read now.

    :param workspace: absolute path.
    """
    from antigravity_control.projects import project_sources

    return project_sources(home, workspace)


def _mode(settings: Settings, theirs: "tuple[Source, ...]") -> tuple[str, bool]:
    from antigravity_control.modes import read_mode

    permission, sandbox = settings.tool_permission, settings.enable_terminal_sandbox
    for source in theirs:
        if source.scope == "global":
            found, _ = read_mode(source.data)
            sandbox = sandbox or found.get("sandbox") is True
            if permission == _DEFAULT and found.get("tool_permission") == "strict":
                permission = "strict"
    return permission, sandbox


def _check(kind: str, place: int, text: str) -> None:
    # The list says what the rule does, so a name may not say it again or hold a second one.
    reason = _rule_fault(kind, text) if "(" in text else _name_fault(_PREFIXES[kind], text)
    if reason is not None:
        raise LlmError("INVALID_SETTINGS", f"Setting `permissions.{kind}[{place}]` is not valid: {reason}.")


def _name_fault(prefix: str, text: str) -> str | None:
    name = text.strip()
    if not name or name[0] in "!?" or "," in name:
        return _EXPECTED
    try:
        Rules.parse(prefix + name)
    except RulesError:
        return _EXPECTED
    return None


def _rule_fault(kind: str, text: str) -> str | None:
    # Late again: settings with plain names need no grammar.
    from antigravity_control.settings import parse_list

    _, faults = parse_list([text], "deny" if kind == "deny" else "ask" if kind == "ask" else "allow", "plugin", "")
    return next((each.reason for each in faults if each.effect != "inert"), None)
