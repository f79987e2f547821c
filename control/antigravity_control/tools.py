"""From tool calls of hosts to what they do.

Owns: the table of tools, as data, and :func:`requests_of`. Known: Antigravity's native tools, the tools of our Python
host, those of the DeepSeek Harness, and the common names that other harnesses share. A call that names its target under
several keys is judged about each of them, since only the host knows which one counts. A tool that is not in the table
is treated like a tool of an MCP server by its name (``mcp__server__tool``, else the server ``host``) and asked about.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from .language.actions import ActionName, Request
from .language.paths import is_windows

_PATH_KEYS: Final = ("path", "file_path", "filePath", "AbsolutePath", "TargetFile", "file", "filename")
_FOLDER_KEYS: Final = (*_PATH_KEYS, "DirectoryPath", "SearchPath", "SearchDirectory", "directory", "dir", "cwd")
_LINE_KEYS: Final = ("command", "CommandLine", "commandLine", "cmd", "Command")
_URL_KEYS: Final = ("url", "Url", "uri", "URL")
_CWD_KEYS: Final = ("cwd", "Cwd", "workdir", "working_directory", "workingDirectory")
_TARGET_LIMIT: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Tool:
    """What a tool does.

    :param keys: arguments that may name its target. :param default: the target when none of them is there.
    :param recursive: it reads what lies below the target.
    :param patterns: arguments with a pattern of names, which may lead elsewhere: ``/etc/*``, ``../x/*``.
    """

    action: ActionName
    keys: tuple[str, ...]
    default: str = ""
    recursive: bool = False
    patterns: tuple[str, ...] = ()


_RUN: Final = Tool("command", _LINE_KEYS)
_READ: Final = Tool("read_file", _PATH_KEYS)
_WRITE: Final = Tool("write_file", _PATH_KEYS)
_LIST: Final = Tool("read_file", _FOLDER_KEYS, ".")
_FIND: Final = Tool("read_file", _FOLDER_KEYS, ".", patterns=("pattern", "Pattern", "glob"))
_SEARCH: Final = Tool("read_file", _FOLDER_KEYS, ".", recursive=True)
_FETCH: Final = Tool("read_url", _URL_KEYS)
#: A search of the web has no address; its name stands for one, so that `read_url(search_web)` may allow it.
_WEB_SEARCH: Final = Tool("read_url", (), "search_web")
_BROWSE: Final = Tool("execute_url", _URL_KEYS)

TOOLS: Final[dict[str, Tool]] = {
    # Antigravity
    "run_command": _RUN, "view_file": _READ, "write_to_file": _WRITE, "replace_file_content": _WRITE,
    "multi_replace_file_content": _WRITE, "grep_search": _SEARCH, "find_by_name": _FIND, "list_dir": _LIST,
    "read_url_content": _FETCH, "search_web": _WEB_SEARCH,
    # the Python host
    "read_file": _READ, "write_file": _WRITE, "edit_file": _WRITE, "search": _SEARCH,
    # the DeepSeek Harness
    "bash": _RUN, "terminal": _RUN, "read": _READ, "read_image": _READ, "write": _WRITE, "edit": _WRITE,
    "grep": _SEARCH, "glob": _FIND, "webfetch": _FETCH, "web_fetch": _FETCH, "websearch": _WEB_SEARCH,
    "web_search": _WEB_SEARCH, "working_directory": _LIST,
    # the vocabulary that several harnesses share
    "Bash": _RUN, "Read": _READ, "Write": _WRITE, "Edit": _WRITE, "MultiEdit": _WRITE, "Grep": _SEARCH,
    "Glob": _FIND, "LS": _LIST, "WebFetch": _FETCH, "WebSearch": _WEB_SEARCH,
}  # fmt: skip


def requests_of(tool_name: str, arguments: Mapping[str, Any], cwd: str | None = None) -> tuple[Request, ...]:
    """What a call does, at least one request. A target that is missing or no text is empty, and asked about.

    :param cwd: the folder that relative paths start from, when it is not the workspace.
    """
    if tool_name == "call_mcp_tool":
        server, tool = _text(arguments, "ServerName"), _text(arguments, "ToolName")
        return (Request("mcp", f"{server}/{tool}" if server and tool else "", tool_name, arguments, cwd),)
    found = TOOLS.get(tool_name) or (_BROWSE if tool_name.startswith("browser_") else None)
    if found is None:
        return (Request("mcp", _mcp_name(tool_name), tool_name, arguments, cwd),)
    folder = _folder(arguments, cwd) if found is _RUN else cwd
    targets = [_text(arguments, key) for key in found.keys if key in arguments] or [found.default]
    led = [_led_to(_text(arguments, key), target) for key in found.patterns for target in targets]
    targets = [*targets, *filter(None, led)]
    return tuple(
        Request(found.action, target, tool_name, arguments, folder, found.recursive)
        for target in dict.fromkeys(targets)
    )


def _led_to(pattern: str, folder: str) -> str:
    """The folder that a pattern of names starts from; empty when it stays below ``folder``."""
    pattern = pattern.replace("\\", "/")
    whole = pattern.startswith(("/", "~")) or is_windows(pattern)
    steps = re.split(r"[/,{}]", pattern)
    if not whole and ".." not in steps:
        return ""
    lead = list(takewhile(lambda part: not set("*?[{") & set(part), pattern.split("/")))
    # Steps up behind a wildcard start somewhere below, so they lead no higher than the same steps from here.
    ups = steps.count("..") - lead.count("..")
    return "/".join([*([] if whole else [folder.rstrip("/") or "/"]), *lead, *[".."] * ups]) or "/"


def _folder(arguments: Mapping[str, Any], cwd: str | None) -> str | None:
    """The folder a command runs in. Relative ones stay relative: they start from the workspace."""
    named = next((text for key in _CWD_KEYS if (text := _text(arguments, key))), None)
    if named is None or cwd is None or named.startswith("/"):
        return named or cwd
    return f"{cwd.rstrip('/')}/{named}"


def _mcp_name(tool_name: str) -> str:
    parts = tool_name.split("__")
    if len(parts) >= 3 and parts[0] == "mcp" and parts[1] and "/" not in parts[1]:
        return f"{parts[1]}/{'__'.join(parts[2:])}"
    return tool_name if "/" in tool_name else f"host/{tool_name}"


def _text(arguments: Mapping[str, Any], key: str) -> str:
    value = arguments.get(key)
    return value if isinstance(value, str) and len(value) <= _TARGET_LIMIT else ""
