"""Tools of the host: the registry, and the built-in ones for a workspace directory."""

from .command import RunCommand, SandboxFor
from .files import EditFile, ListDir, ReadFile, WriteFile
from .registry import Tool, ToolContext, ToolRegistry
from .search import Search
from .workspace import Workspace, WorkspaceError

__all__ = [
    "EditFile",
    "ListDir",
    "ReadFile",
    "RunCommand",
    "SandboxFor",
    "Search",
    "Tool",
    "ToolContext",
    "ToolRegistry",
    "Workspace",
    "WorkspaceError",
    "WriteFile",
    "builtin_tools",
]


def builtin_tools(sandbox_for: SandboxFor | None = None) -> tuple[Tool, ...]:
    """read_file, write_file, edit_file, list_dir, search and run_command.

    :param sandbox_for: the sandbox of each command line; none is sandboxed when left out.
    """
    return ReadFile(), WriteFile(), EditFile(), ListDir(), Search(), RunCommand(sandbox_for)
