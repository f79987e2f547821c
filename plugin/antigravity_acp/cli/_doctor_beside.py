"""The doctor's rows about what stands beside the plugin: the bundle for the DeepSeek Harness, and the control hook.

Owns: two looks at files. Absence is neutral: neither is needed for the model to answer.
Never: starts a program, changes a file, shows a file's content.
"""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ._report import Row

BUNDLE: Final = "dsh-antigravity-acp"
#: Files larger than this are not what they seem.
_MAX_BYTES: Final = 4 * 1024 * 1024
#: Profiles that are looked at; a home has a handful.
_MAX_PROFILES: Final = 64
#: What a command line of a hook of ours holds.
_HOOK_MARKS: Final = ("antigravity-acp hook", "antigravity_control", "antigravity-control")
#: The governance hook that others install under the same name.
_FOREIGN_MARK: Final = ".acp/hooks/antigravity"


def beside_rows(home: Path) -> Iterator[Row]:
    """Both rows. :param home: this user's home directory."""
    yield dsh_row(home)
    yield hook_row(home)


def dsh_row(home: Path) -> Row:
    """Whether a profile of the DeepSeek Harness has the bundle (``node_modules``, or its ``package.json``)."""
    program = shutil.which("dsh") is not None
    root = Path(os.environ.get("DSH_HOME") or home / ".dsh")
    profiles = sorted(_folders(root / "profiles"))[:_MAX_PROFILES]
    states = {profile.name: _in_profile(profile) for profile in profiles}
    complete = [name for name, (present, named) in states.items() if present and named]
    unlisted = [name for name, (present, named) in states.items() if present and not named]
    absent = [name for name, (present, named) in states.items() if named and not present]
    if absent or unlisted:
        half = ", ".join(absent or unlisted)
        fault = "names the bundle, which is not in its node_modules" if absent else "holds the bundle without naming it"
        return Row(
            "dsh",
            "warn",
            f"profile {half} {fault}",
            f"Run `dsh plugin --profile {(absent or unlisted)[0]} add {BUNDLE}`.",
        )
    if complete:
        if program:
            return Row("dsh", "ok", f"bundle in profile {', '.join(complete)}")
        return Row(
            "dsh", "warn", f"bundle in profile {', '.join(complete)}, but no `dsh` on PATH", "Put `dsh` on PATH."
        )
    if program or profiles:
        return Row("dsh", "skip", "the DeepSeek Harness is here, the bundle is not installed (needed only there)")
    return Row("dsh", "skip", "the DeepSeek Harness is not installed (needed only for its own agents)")


def _in_profile(profile: Path) -> tuple[bool, bool]:
    """Whether the bundle lies in a profile, and whether the profile names it."""
    package = _read(profile / "package.json")
    names: set[str] = set()
    if isinstance(package, dict):
        names |= set(_mapping(package.get("dependencies")))
        bundles = _mapping(_mapping(package.get("dsh")).get("profile")).get("bundles")
        names |= {item for item in bundles if isinstance(item, str)} if isinstance(bundles, list) else set()
    return os.path.isfile(profile / "node_modules" / BUNDLE / "package.json"), BUNDLE in names


def hook_row(home: Path) -> Row:
    """Whether Antigravity's own hooks name ours (``~/.gemini/config/hooks.json``, read by all its clients)."""
    path = home / ".gemini" / "config" / "hooks.json"
    if not os.path.exists(path):
        return Row("hook", "skip", "Antigravity has no hooks file; nothing is governed (not needed for a model)")
    content = _read(path)
    if not isinstance(content, dict):
        return Row(
            "hook",
            "warn",
            "Antigravity's hooks file cannot be read as a JSON object; Antigravity then drops it whole",
            "Mend ~/.gemini/config/hooks.json.",
        )
    commands = list(_commands(content))
    if any(mark in command for command, _ in commands for mark in _HOOK_MARKS):
        on = any(enabled and any(mark in command for mark in _HOOK_MARKS) for command, enabled in commands)
        if on:
            return Row("hook", "ok", "Antigravity's hooks name our control hook")
        return Row("hook", "warn", "our control hook is switched off", "Set `enabled` in ~/.gemini/config/hooks.json.")
    others = f"{len(commands)} other hook{'s' if len(commands) != 1 else ''}" if commands else "no hook"
    if any(_FOREIGN_MARK in command.replace("\\", "/") for command, _ in commands):
        others += ", among them a governance hook by another project"
    return Row("hook", "skip", f"our control hook is not installed; Antigravity's hooks file has {others}")


def _commands(content: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Command lines of the file with whether their hook is on: name, event, groups, handlers; either shape."""
    for named in content.values():
        events = _mapping(named)
        enabled = events.get("enabled", True) is True
        for groups in events.values():
            for group in groups if isinstance(groups, list) else ():
                inner = _mapping(group).get("hooks")
                for handler in inner if isinstance(inner, list) else [group]:
                    command = _mapping(handler).get("command")
                    if isinstance(command, str):
                        yield command, enabled


def _folders(root: Path) -> list[Path]:
    try:
        return [entry for entry in root.iterdir() if entry.is_dir()]
    except OSError:
        return []


def _read(path: Path) -> Any:
    """A JSON file; ``None`` when it cannot be read as one."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            return None
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
