"""search: a regular expression over the files of the workspace.

Owns: the description that the model reads, the bounds, and the shape of the result. The search itself is a process of
its own (``_search_child.py``): a pattern may backtrack for ever or take minutes to compile, and only a process can be
ended.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final, Literal

from antigravity_acp.hooks.calls import ToolError, ToolResult
from antigravity_acp.limits import (
    MAX_EDIT_BYTES,
    MAX_SEARCH_FILES,
    MAX_SEARCH_MATCHES,
    MAX_TOOL_TEXT_BYTES,
    SEARCH_TIMEOUT_S,
)

from ._search_child import BAD_PATTERN
from .process import run_process, scrubbed_environment
from .registry import ToolContext

_CHILD: Final = Path(__file__).with_name("_search_child.py")


class Search:
    """Finds lines."""

    name: Final = "search"
    kind: Literal["read"] = "read"
    description: Final = (
        "Find the lines that match a regular expression (Python syntax) in the files of the workspace. "
        "Binary files, links and `.git` are left out."
    )
    parameters: Final[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "pattern": {"type": "string", "minLength": 1, "description": "The regular expression."},
            "path": {
                "type": "string",
                "minLength": 1,
                "description": "File or directory, the whole workspace by default.",
            },
            "glob": {"type": "string", "minLength": 1, "description": "Only files whose name or path fits, as `*.py`."},
            "ignore_case": {"type": "boolean", "description": "Whether case does not matter."},
        },
        "required": ["pattern"],
        "additionalProperties": False,
    }

    def refusal(self, arguments: dict[str, Any], context: ToolContext) -> str | None:
        """Why no permission would help: the path leads out."""
        return context.workspace.refusal(arguments.get("path", "."))

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Search. :raises ToolError: for a pattern that is none, a path that cannot be used, or too much work."""
        start = context.workspace.resolve(arguments.get("path", "."))
        if not start.exists():
            raise ToolError("There is no file or directory of this path.")
        request = {
            "root": str(context.workspace.root),
            "start": str(start),
            "pattern": arguments["pattern"],
            "glob": arguments.get("glob"),
            "ignore_case": arguments.get("ignore_case", False),
            "max_matches": MAX_SEARCH_MATCHES,
            "max_files": MAX_SEARCH_FILES,
            "max_file_bytes": MAX_EDIT_BYTES,
            "max_bytes": MAX_TOOL_TEXT_BYTES,
        }
        ended = await run_process(
            # -I and -S: nothing of the workspace or of site-packages is imported, and it starts in half the time.
            [sys.executable, "-I", "-S", str(_CHILD)],
            cwd=context.workspace.root,
            env=scrubbed_environment(),
            timeout_s=SEARCH_TIMEOUT_S,
            max_output=4 * MAX_TOOL_TEXT_BYTES,
            stdin=json.dumps(request).encode(),
        )
        if ended.code is None:
            raise ToolError(
                f"The search took longer than {SEARCH_TIMEOUT_S:g} s; narrow the path or simplify the pattern."
            )
        if ended.code == BAD_PATTERN:
            raise ToolError("The pattern is not a regular expression.")
        if ended.code != 0:
            raise ToolError("The search failed.")
        return ToolResult.of(ended.output.decode("utf-8", "replace") or "[no match]")
