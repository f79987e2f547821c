"""Modes: what happens where no rule speaks.

Owns: :class:`Mode`, read from settings and flags, and its table of defaults. Files inside the workspace may be read;
they may be written where somebody could have been asked; everything else asks, unless a mode opens it. Rules come
before modes. A mode never lifts a deny, an ask or the floor.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from .actions import LINE_ACTIONS, ActionName

ToolPermission = Literal["request-review", "proceed-in-sandbox", "strict", "always-proceed"]
Attendance = Literal["interactive", "headless"]

TOOL_PERMISSIONS: Final[tuple[ToolPermission, ...]] = (
    "request-review", "proceed-in-sandbox", "strict", "always-proceed",
)  # fmt: skip
#: Presets of the app: tool permission, sandbox, reads outside the workspace.
PRESETS: Final[dict[str, tuple[ToolPermission, bool, bool]]] = {
    "default": ("proceed-in-sandbox", True, False),
    "request-review": ("strict", False, False),
    "turbo": ("always-proceed", False, True),
}
#: Folders that other programs take orders from: a write asks even inside the workspace.
SENSITIVE: Final = frozenset({".vscode", ".cache"})
_SKIP: Final = frozenset({"dangerously-skip-permissions", "dangerouslyskippermissions"})
_SANDBOX: Final = frozenset({"sandbox", "enable-terminal-sandbox"})
_AGENT_MODES: Final = ("accept-edits", "plan")
_ON: Final = ("true", "1", "yes", "on")
_OFF: Final = ("false", "0", "no", "off")


@dataclass(frozen=True, slots=True)
class Mode:
    """:param skip: the escape hatch is on.
    :param trusted: the workspace is one of the trusted ones, or none are named. :param trust: where they are named."""

    attendance: Attendance = "interactive"
    tool_permission: ToolPermission = "request-review"
    agent: Literal["", "accept-edits", "plan"] = ""
    sandbox: bool = False
    outside_reads: bool = False
    skip: bool = False
    trusted: bool = True
    trust: str = ""

    @property
    def headless(self) -> bool:
        return self.attendance == "headless"

    @property
    def name(self) -> str:
        """For records: tool permission, the agent's mode and what else is on."""
        parts = [self.tool_permission, self.agent, "sandbox" if self.sandbox else "", "skip" if self.skip else ""]
        return " ".join(part for part in (*parts, "" if self.trusted else "untrusted") if part)

    def opens(self, action: ActionName, *, inside: bool = False, sensitive: bool = False) -> str | None:
        """Why ``action`` needs nobody's word, ``None`` when it does.

        :param inside: the file lies in the workspace. :param sensitive: it lies in a folder that needs a confirmation.
        """
        if action == "read_file" and inside:
            return "Files of the workspace may be read."
        careful = self.tool_permission == "strict" or self.agent == "plan"
        if not self.trusted:
            return None
        if action == "read_file" and self.outside_reads:
            return "The settings open reads outside the workspace."
        if careful:
            return None
        if self.tool_permission == "always-proceed":
            return "The mode `always-proceed` asks about nothing."
        if action == "write_file" and inside and not sensitive:
            return self._write()
        if action == "command" and self.tool_permission == "proceed-in-sandbox" and self.sandbox:
            return "The mode `proceed-in-sandbox` lets commands run inside the sandbox."
        return None

    def _write(self) -> str | None:
        if self.agent == "accept-edits":
            return "The mode `accept-edits` lets files of the workspace be written."
        return None if self.headless else "Files of the workspace may be written."

    def source(self, action: ActionName, *, inside: bool = False) -> str:
        """``default`` where every mode but the careful ones opens the action, else ``mode``."""
        plain = inside and action not in LINE_ACTIONS and self.tool_permission != "always-proceed"
        return "default" if plain and not (action == "write_file" and self.agent) else "mode"


def read_flags(flags: Iterable[str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What command-line switches set, as fields of :class:`Mode`; and those that are not known.

    Switches may have their hyphens or not; ``--mode plan`` may be one text or two. ``--sandbox=false`` switches off.
    """
    found: dict[str, Any] = {}
    unknown: list[str] = []
    words = [word for flag in flags for word in str(flag).split()]
    place = 0
    while place < len(words):
        name, said, value = words[place].partition("=")
        word = name.lstrip("-").lower()
        place += 1
        if word == "mode" and not said and place < len(words):
            value = words[place]
        on = None if said and value.lower() not in {*_ON, *_OFF} else value.lower() not in _OFF
        if word in _SKIP and on is not None:
            found["skip"] = on
        elif word in _SANDBOX and on is not None:
            found["sandbox"] = on
        elif word == "mode" and value.lower() in _AGENT_MODES:
            found["agent"] = value.lower()
            place += not said
        elif word in _AGENT_MODES and not said:
            found["agent"] = word
        else:
            unknown.append(word)
    return found, tuple(unknown)


def read_mode(settings: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[tuple[str, str], ...]]:
    """What settings say about the mode, as fields of :class:`Mode`; and what is wrong, as place and reason."""
    found: dict[str, Any] = {}
    wrong: list[tuple[str, str]] = []
    preset = settings.get("preset")
    if isinstance(preset, str) and (chosen := PRESETS.get(preset.lower().replace(" ", "-"))):
        found["tool_permission"], found["sandbox"], found["outside_reads"] = chosen
    elif preset is not None:
        wrong.append(("preset", f"expected one of {', '.join(PRESETS)}"))
    _choice(settings, "toolPermission", "tool_permission", TOOL_PERMISSIONS, found, wrong)
    _choice(settings, "agentMode", "agent", _AGENT_MODES, found, wrong)
    for key, name in (("enableTerminalSandbox", "sandbox"), ("allowNonWorkspaceAccess", "outside_reads"),
                      ("dangerouslySkipPermissions", "skip")):  # fmt: skip
        value = settings.get(key)
        if isinstance(value, bool):
            found[name] = value
        elif value is not None:
            wrong.append((key, "expected true or false"))
    return found, tuple(wrong)


def tightened(fields: Mapping[str, Any], found: Mapping[str, Any], wrong: Iterable[str] = ()) -> dict[str, Any]:
    """A mode with what other settings say, as far as that is stricter; ``found`` as :func:`read_mode` has it.

    A sandbox confines then and lets no command run that would be asked about without it.

    :param wrong: settings whose value is not known: the strictest is taken for what was meant.
    """
    made = dict(fields)
    unsure = set(wrong)
    if found.get("tool_permission") == "strict" or unsure & {"toolPermission", "preset"}:
        made["tool_permission"] = "strict"
    if found.get("agent") == "plan" or "agentMode" in unsure:
        made["agent"] = "plan"
    if not made.get("sandbox") and (found.get("sandbox") is True or "enableTerminalSandbox" in unsure):
        made["sandbox"] = True
        if made.get("tool_permission") == "proceed-in-sandbox":
            made["tool_permission"] = "request-review"
    return made


def _choice(
    settings: Mapping[str, Any],
    key: str,
    name: str,
    choices: tuple[str, ...],
    found: dict[str, Any],
    wrong: list[tuple[str, str]],
) -> None:
    value = settings.get(key)
    if isinstance(value, str) and value in choices:
        found[name] = value
    elif value is not None:
        wrong.append((key, f"expected one of {', '.join(choices)}"))
