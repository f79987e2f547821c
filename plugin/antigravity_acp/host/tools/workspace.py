"""The workspace directory and what it means to stay inside it.

Owns: turning a path of the model into a path that is inside the workspace once every link is followed.
This is a guard against mistakes, not a sandbox: a command that the user approves can reach whatever the user can, and a
link that is made between the check and the use is not seen.
"""

import os
import stat
from pathlib import Path

from antigravity_acp.hooks.calls import ToolError

#: What a tool says about a path that leads out. It does not repeat the path: the model knows what it asked for.
_OUTSIDE = "The path leads outside the workspace. Use a path below the workspace directory."


class WorkspaceError(ToolError):
    """A path cannot be used; the text is for the model."""


class Workspace:
    """A directory that file tools stay in.

    :param root: the directory.
    :raises WorkspaceError: when it is not there or no directory.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise WorkspaceError(f"The workspace is not a directory: {self.root}")

    def resolve(self, path: str) -> Path:
        """The real place of a path of the model, relative to the workspace or absolute; ``~`` is the home folder, as
        it is to the rules that decided about the call.

        :raises WorkspaceError: when it is outside, or no path at all.
        """
        if not path or "\0" in path:
            raise WorkspaceError("The path is empty or holds a NUL character.")
        if path == "~" or path.startswith("~/"):
            path = os.path.expanduser(path)
        try:
            real = Path(os.path.realpath(self.root / path))
        except (OSError, ValueError):
            raise WorkspaceError("The path cannot be followed.") from None
        if real != self.root and self.root not in real.parents:
            raise WorkspaceError(_OUTSIDE)
        return real

    def refusal(self, path: object) -> str | None:
        """Why no file tool can use a path, whatever rules and people say; ``None`` where it could."""
        if not isinstance(path, str):
            return None
        try:
            self.resolve(path)
        except WorkspaceError as error:
            return str(error)
        return None

    def file(self, path: str) -> Path:
        """A regular file that exists.

        :raises WorkspaceError: when it is outside, missing, or no regular file (a pipe or device would block).
        """
        real = self.resolve(path)
        try:
            mode = real.stat().st_mode
        except OSError as error:
            raise WorkspaceError(f"The file cannot be read: {reason(error)}.") from None
        if stat.S_ISDIR(mode):
            raise WorkspaceError("The path is a directory, not a file.")
        if not stat.S_ISREG(mode):
            raise WorkspaceError("The path is no regular file.")
        return real

    def directory(self, path: str) -> Path:
        """A directory that exists. :raises WorkspaceError: when it is outside, missing or no directory."""
        real = self.resolve(path)
        if not real.is_dir():
            raise WorkspaceError("There is no directory of this path.")
        return real

    def shown(self, path: Path) -> str:
        """A path as the model should see it: relative to the workspace."""
        return path.relative_to(self.root).as_posix()


def reason(error: OSError) -> str:
    """Why the system refused, without the path."""
    return os.strerror(error.errno).lower() if error.errno else type(error).__name__
