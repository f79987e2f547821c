"""A workspace whose ``.git`` is a file: where its repository is.

Owns: :func:`repository_of`. Such a file may come from a stranger's archive and name any directory, so it is believed
only when that directory names the workspace in return, as ``git worktree add`` writes it (gitrepository-layout).
"""

from pathlib import Path
from typing import Final

#: Bytes of such a file that are read.
_MAX_BYTES: Final = 4096


def repository_of(git_file: Path) -> tuple[Path, ...]:
    """The directories that a worktree's ``.git`` file stands for: its own part and the repository, both real paths."""
    pointed = _pointer(git_file, "gitdir:")
    if pointed is None:
        return ()
    back = _pointer(pointed / "gitdir", "")
    common = _pointer(pointed / "commondir", "")
    if back != git_file or common is None:
        return ()
    # `worktrees/NAME` in the repository: anything else was not written by git.
    if pointed.parent != common / "worktrees" or not (common / "HEAD").is_file():
        return ()
    return (common,)


def _pointer(file: Path, before: str) -> Path | None:
    try:
        with file.open("rb") as stream:
            text = stream.read(_MAX_BYTES).decode()
        if not text.startswith(before):
            return None
        written = text.removeprefix(before).strip()
        return (file.parent / written).resolve(strict=True) if written and "\n" not in written else None
    except (OSError, ValueError, RuntimeError):
        return None
