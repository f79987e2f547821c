"""The file tools: read_file, write_file, edit_file, list_dir.

Owns: reading, writing and listing inside the workspace, each with a bound and a note of what was left out. Files are
written atomically: beside the target, then renamed over it. Text is UTF-8; bytes that are not are shown as the
replacement character when read, and a file that holds such bytes is not edited, since that would destroy them.
"""

import os
import secrets
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

from antigravity_acp.hooks.calls import ToolError, ToolResult
from antigravity_acp.limits import MAX_DIR_ENTRIES, MAX_EDIT_BYTES, MAX_TOOL_TEXT_BYTES

from ._threads import in_thread
from .registry import ToolContext
from .workspace import Workspace, reason

_PATH: Final = {"type": "string", "minLength": 1, "description": "Path relative to the workspace."}


def _schema(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


class _OfPath:
    """A tool that stays in the workspace."""

    def refusal(self, arguments: dict[str, Any], context: ToolContext) -> str | None:
        """Why no permission would help: the path leads out."""
        return context.workspace.refusal(arguments.get("path", "."))


class ReadFile(_OfPath):
    """Reads a text file, or some lines of it."""

    name: Final = "read_file"
    kind: Literal["read"] = "read"
    description: Final = (
        "Read a text file of the workspace. Long files are cut with a note; read on with `offset`, a line number."
    )
    parameters: Final = _schema(
        ["path"],
        path=_PATH,
        offset={"type": "integer", "minimum": 1, "description": "First line to read, counted from 1."},
        limit={"type": "integer", "minimum": 1, "description": "Number of lines to read."},
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Read it. :raises ToolError: when it cannot be read."""
        path, offset, limit = arguments["path"], arguments.get("offset", 1), arguments.get("limit")
        return ToolResult.of(await in_thread(lambda: _read(context.workspace, path, offset, limit)))


class WriteFile(_OfPath):
    """Creates or replaces a file."""

    name: Final = "write_file"
    kind: Literal["edit"] = "edit"
    description: Final = "Create or replace a text file of the workspace; missing directories are made."
    parameters: Final = _schema(
        ["path", "content"], path=_PATH, content={"type": "string", "description": "The whole new content."}
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Write it. :raises ToolError: when it cannot be written."""
        data = _encode(arguments["content"])

        def work() -> str:
            target = context.workspace.resolve(arguments["path"])
            existed = target.exists()
            if existed:
                target = context.workspace.file(arguments["path"])
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                _replace(target, data)
            except OSError as error:
                raise ToolError(f"The file cannot be written: {reason(error)}.") from None
            return f"{'Replaced' if existed else 'Created'} {context.workspace.shown(target)} ({len(data)} bytes)."

        return ToolResult.of(await in_thread(work))


class EditFile(_OfPath):
    """Replaces one exact piece of a file."""

    name: Final = "edit_file"
    kind: Literal["edit"] = "edit"
    description: Final = (
        "Replace one piece of a text file. `old` must occur exactly once, character for character, line ends included."
    )
    parameters: Final = _schema(
        ["path", "old", "new"],
        path=_PATH,
        old={"type": "string", "minLength": 1, "description": "The exact text to replace."},
        new={"type": "string", "description": "The text to put there."},
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Edit it. :raises ToolError: when the piece is missing or not unique, or the file cannot be written."""
        old, new = arguments["old"], arguments["new"]
        if old == new:
            raise ToolError("`old` and `new` are the same; nothing would change.")

        def work() -> str:
            target = context.workspace.file(arguments["path"])
            text = _whole_text(target)
            first = text.find(old)
            if first < 0:
                raise ToolError("`old` does not occur in the file. Read it again and copy the text exactly.")
            # Overlapping places count too: which one was meant could not be known.
            if text.find(old, first + 1) >= 0:
                raise ToolError("`old` occurs more than once. Give more of the text around it.")
            try:
                _replace(target, _encode(text[:first] + new + text[first + len(old) :]))
            except OSError as error:
                raise ToolError(f"The file cannot be written: {reason(error)}.") from None
            line = text.count("\n", 0, first) + 1
            return f"Edited {context.workspace.shown(target)} at line {line}."

        return ToolResult.of(await in_thread(work))


class ListDir(_OfPath):
    """Lists a directory."""

    name: Final = "list_dir"
    kind: Literal["read"] = "read"
    description: Final = (
        "List a directory of the workspace: directories end in `/`, links in `@`, files show their size."
    )
    parameters: Final = _schema([], path=_PATH)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """List it. :raises ToolError: when it cannot be listed."""
        return ToolResult.of(await in_thread(lambda: _list(context.workspace, arguments.get("path", "."))))


def _read(workspace: Workspace, path: str, offset: int, limit: int | None) -> str:
    target = workspace.file(path)
    lines: list[bytes] = []
    size = 0
    try:
        with target.open("rb") as file:
            for _ in range(offset - 1):
                if not file.readline(MAX_EDIT_BYTES):
                    return f"[the file ends before line {offset}]"
            while limit is None or len(lines) < limit:
                line = file.readline(MAX_TOOL_TEXT_BYTES - size + 1)
                if not line:
                    break
                size += len(line)
                if size > MAX_TOOL_TEXT_BYTES:
                    return _cut_text(lines, line, offset)
                lines.append(line)
            rest = file.read(1)
    except OSError as error:
        raise ToolError(f"The file cannot be read: {reason(error)}.") from None
    text = b"".join(lines).decode("utf-8", "replace")
    if rest:
        text += f"\n[more follows; read on with offset {offset + len(lines)}]"
    return text or "[the file is empty]"


def _cut_text(lines: list[bytes], last: bytes, offset: int) -> str:
    if lines:
        text = b"".join(lines).decode("utf-8", "replace")
        return f"{text}\n[cut after {MAX_TOOL_TEXT_BYTES} bytes; read on with offset {offset + len(lines)}]"
    text = last.decode("utf-8", "replace")
    return f"{text}\n[cut: line {offset} alone is longer than {MAX_TOOL_TEXT_BYTES} bytes]"


def _list(workspace: Workspace, path: str) -> str:
    target = workspace.directory(path)
    shown: list[str] = []
    try:
        with os.scandir(target) as entries:
            # One more than is shown tells that there are more; a directory of millions is not read to its end.
            some = list(islice(entries, MAX_DIR_ENTRIES + 1))
    except OSError as error:
        raise ToolError(f"The directory cannot be listed: {reason(error)}.") from None
    for entry in sorted(some[:MAX_DIR_ENTRIES], key=lambda each: each.name):
        name = entry.name.encode("utf-8", "replace").decode("utf-8")
        if entry.is_symlink():
            shown.append(f"{name}@")
        elif entry.is_dir(follow_symlinks=False):
            shown.append(f"{name}/")
        else:
            with suppress(OSError):  # it vanished meanwhile
                shown.append(f"{name}  {entry.stat(follow_symlinks=False).st_size}")
    if len(some) > MAX_DIR_ENTRIES:
        shown.append(f"[cut: more than {MAX_DIR_ENTRIES} entries; these are some of them]")
    return "\n".join(shown) or "[the directory is empty]"


def _whole_text(target: Path) -> str:
    try:
        with target.open("rb") as file:
            data = file.read(MAX_EDIT_BYTES + 1)
    except OSError as error:
        raise ToolError(f"The file cannot be read: {reason(error)}.") from None
    if len(data) > MAX_EDIT_BYTES:
        raise ToolError(f"The file is larger than {MAX_EDIT_BYTES} bytes and is not edited here.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError("The file is not UTF-8; an edit would destroy bytes of it.") from None


def _encode(text: str) -> bytes:
    # JSON may carry half of a surrogate pair, which has no encoding.
    data = text.encode("utf-8", "replace")
    if len(data) > MAX_EDIT_BYTES:
        raise ToolError(f"The content is larger than {MAX_EDIT_BYTES} bytes.")
    return data


def _replace(target: Path, data: bytes) -> None:
    """Write beside the target and rename over it, so that a reader sees the old or the new content, never a part."""
    beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    # Plain `open` applies the umask, as any editor's new file would; an existing file keeps its own mode.
    mode = target.stat().st_mode & 0o7777 if target.exists() else None
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if mode is not None:
                os.chmod(beside, mode)
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
