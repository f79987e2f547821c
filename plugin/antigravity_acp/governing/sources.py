"""The rules that are in force: the one place that says which files and values hold them.

Owns: the reading of the setting ``permissions``, where a rule of the rule language and a plain tool name may stand side
by side, and :func:`sources_of`: every source of rules of a workspace, for each host and for the command line alike. A
malformed rule in the settings refuses them; one in a file is left out and reported, as the control wing does it. The
vendor's files may make a mode stricter and never looser: what their own program may do without a question is not what
this one may. What holds rules, or the record of what they said, is named as a source even when nothing is read from it,
so that a write there is asked about in every mode.
Never: puts a rule's text into an error.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from antigravity_acp.contract import LlmError
from antigravity_acp.settings import Settings
from antigravity_control import Rules, RulesError

if TYPE_CHECKING:
    from antigravity_control import Source

_PREFIXES: Final = {"allow": "", "ask": "?", "deny": "!"}
_EXPECTED: Final = "expected a rule such as `command(git status)`, a tool name or `*`"


def default_rules_file() -> Path:
    """Where rules are kept that a person wrote with an answer: one file of this user, for every workspace."""
    from platformdirs import user_config_path

    return user_config_path("antigravity-acp", appauthor=False) / "permissions.json"


def check_rules(settings: Settings) -> None:
    """Look at the setting ``permissions``.

    :raises LlmError: ``INVALID_SETTINGS``; names the place of the rule and what was expected.
    """
    for kind in _PREFIXES:
        for place, text in enumerate(getattr(settings.permissions, kind)):
            _check(kind, place, text)


def sources_of(
    settings: Settings,
    workspace: str,
    *,
    home: Path,
    rules_file: Path | None = None,
    settings_files: Sequence[str] = (),
    ledger: Path | None = None,
    confines: bool = True,
) -> "tuple[Source, ...]":
    """Every source of rules of a workspace, read now. The table "Where rules live" in docs/control.md is about this.

    :param settings: this plugin's. :param workspace: absolute path. :param home: the home folder.
    :param rules_file: where answers are kept as rules; this user's own by default.
    :param settings_files: absolute paths of the files that ``settings`` come from, and folders of such.
    :param ledger: the folder of the record; this user's own by default.
    :param confines: the host can run a command in the sandbox; where it cannot, none runs because of one.
    """
    # Late: what reads rules knows the grammar of command lines, and that takes a moment.
    from antigravity_control import Source, read_file, standard_sources
    from antigravity_control.ledger import default_path
    from antigravity_control.sources.projects import project_sources

    values: dict[str, Any] = {
        "permissions": {kind: getattr(settings.permissions, kind) for kind in _PREFIXES},
        "toolPermission": settings.tool_permission,
        "enableTerminalSandbox": settings.enable_terminal_sandbox and confines,
        "allowNonWorkspaceAccess": False,
        "dangerouslySkipPermissions": settings.dangerously_skip_permissions,
    }
    file = settings_files[0] if len(settings_files) == 1 else None
    own = Source("plugin", values, file, names=True)
    # Answers are written to it, so it says nothing about modes.
    kept = replace(read_file(rules_file or default_rules_file(), "plugin"), modes="none")
    theirs = [replace(each, modes="tighten") for each in standard_sources(home)]
    if not confines:
        theirs = [replace(each, data=_without(each, "enableTerminalSandbox")) for each in theirs]
    others = [*settings_files, home / ".gemini" / "config" / "hooks.json", ledger or default_path()]
    guarded = [Source("plugin", file=str(each), kept=True) for each in others]
    return (own, kept, *theirs, *project_sources(home, workspace), *guarded)


def _without(source: "Source", key: str) -> dict[str, Any]:
    return {name: value for name, value in source.data.items() if name != key}


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
    from antigravity_control.sources.settings import parse_list

    _, faults = parse_list([text], "deny" if kind == "deny" else "ask" if kind == "ask" else "allow", "plugin", "")
    return next((each.reason for each in faults if each.effect == "ignored"), None)
