"""From rules to the sandbox of a command.

Owns: :func:`plan_for`, and :data:`confined`, what a person said about the call of the running task. A sandbox shows
whole folders, so a granted folder in which something is denied or asked about is not shown. In the workspace, which is
shown, a file that must not be read is hidden and one that must not be written is read-only, as far as it is there when
the command starts; a rule that asks about a file does not reach into a command. The network is one thing: only a rule
for every address opens it.
"""

import posixpath
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final

from antigravity_control import Request

if TYPE_CHECKING:
    from antigravity_control import Policy
    from antigravity_control.sandbox import SandboxPlan

#: Whether the call of this task runs in the sandbox, when a person said so; ``None`` leaves it to settings and rules.
#: Calls that run at the same time are tasks of their own, so none takes another's answer.
confined: Final[ContextVar[bool | None]] = ContextVar("confined", default=None)

_FILES: Final = ("read_file", "write_file")


def plan_for(policy: "Policy", command: str, workspace: Path) -> "SandboxPlan | None":
    """The plan for a command line; ``None`` where the settings want no sandbox, or a rule lets it run without one."""
    said = confined.get()
    if said is False or (said is None and not is_confined(policy, command)):
        return None
    from antigravity_control.sandbox import SandboxPlan

    held = [_place(rule.parsed, workspace) for rule in policy.rules if rule.action in _FILES and rule.kind != "allow"]
    granted: dict[str, list[Path]] = {"read_file": [], "write_file": []}
    for rule in policy.rules:
        if rule.kind == "allow" and rule.action in _FILES and isinstance(rule.parsed, str):
            place = _place(rule.parsed, workspace)
            if not any(_within(each, place) or _within(place, each) for each in held):
                granted[rule.action].append(Path(place))
    network = any(
        rule.kind == "allow" and rule.action == "read_url" and rule.parsed is None for rule in policy.rules
    ) and not any(rule.kind != "allow" and rule.action == "read_url" for rule in policy.rules)
    return SandboxPlan(
        workspace=workspace,
        readable=tuple(granted["read_file"]),
        writable=tuple(granted["write_file"]),
        network=network,
        hidden=_denied(policy, "read_file", workspace),
        kept=(*_denied(policy, "write_file", workspace), *map(Path, policy.own)),
    )


def _denied(policy: "Policy", action: str, workspace: Path) -> tuple[Path, ...]:
    places = (_place(each.parsed, workspace) for each in policy.rules if (each.kind, each.action) == ("deny", action))
    return tuple(map(Path, dict.fromkeys(places)))


def is_confined(policy: "Policy", command: str) -> bool:
    """Whether settings want a command line in the sandbox, and no rule exempts it."""
    if not policy.mode.sandbox:
        return False
    made = policy.decide(Request("unsandboxed", command))
    return not (made.allowed and made.source == "rule")


def _place(parsed: object, workspace: Path) -> str:
    if not isinstance(parsed, str):
        return "/"
    return posixpath.normpath(posixpath.join(workspace.as_posix(), posixpath.expanduser(parsed)))


def _within(place: str, folder: str) -> bool:
    return place == folder or place.startswith(f"{folder.rstrip('/')}/")
