"""Repositories: the one that a workspace's ``.git`` file stands for, and those further down.

Owns: :func:`repository_of` and :func:`repositories_below`. A ``.git`` file may come from a stranger's archive and name
any directory, so it is believed only when that directory names the workspace in return, as ``git worktree add`` writes
it (gitrepository-layout).
"""

import os
from collections import deque
from pathlib import Path
from typing import Final

#: Bytes of such a file that are read.
_MAX_BYTES: Final = 4096
#: Directories that are looked into before each command, the upper ones first: some ten milliseconds. And repositories.
_MOST_LOOKED_AT: Final = 2_000
_MOST_BELOW: Final = 64
#: A directory that holds these is a repository by itself.
_BARE: Final = frozenset({"HEAD", "objects", "refs"})
#: What else of one git obeys or reads; git takes orders from `config` and `hooks`.
_PARTS: Final = (*sorted(_BARE), "config", "hooks", "info", "logs", "modules", "packed-refs", "worktrees")


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


def repositories_below(root: Path) -> tuple[Path, ...]:
    """What belongs to repositories in a real directory, beside its own ``.git``: nested ones, submodules' ``.git``
    files, bare ones, and the parts of one that the directory is itself. Links are not followed."""
    found: list[Path] = []
    todo = deque([root])
    looked_at = 0
    while todo and looked_at < _MOST_LOOKED_AT and len(found) < _MOST_BELOW:
        place = todo.popleft()
        looked_at += 1
        try:
            with os.scandir(place) as listing:
                entries = {each.name: each.is_dir(follow_symlinks=False) for each in listing if not each.is_symlink()}
        except OSError:
            continue
        if entries.keys() >= _BARE:
            found += [place] if place != root else [place / name for name in _PARTS if name in entries]
            continue
        if ".git" in entries and place != root:
            found.append(place / ".git")
        todo.extend(place / name for name, below in sorted(entries.items()) if below and name != ".git")
    return tuple(found)


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
