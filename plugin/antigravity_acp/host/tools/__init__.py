"""Tools of the host: the registry, and the built-in ones for a workspace directory."""

from .command import RunCommand
from .files import EditFile, ListDir, ReadFile, WriteFile
from .registry import Tool, ToolContext, ToolRegistry
from .search import Search
from .workspace import Workspace, WorkspaceError

__all__ = [
    "EditFile",
    "ListDir",
    "ReadFile",
    "RunCommand",
    "Search",
    "Tool",
    "ToolContext",
    "ToolRegistry",
    "Workspace",
    "WorkspaceError",
    "WriteFile",
    "builtin_tools",
]


def builtin_tools() -> tuple[Tool, ...]:
    """read_file, write_file, edit_file, list_dir, search and run_command."""
    return ReadFile(), WriteFile(), EditFile(), ListDir(), Search(), RunCommand()
