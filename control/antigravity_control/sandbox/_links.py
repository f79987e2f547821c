"""Following a path, with every link on the way.

Owns: :func:`follow`. ``os.path.realpath`` tells where a path leads; whether a grant can be trusted depends on who may
change the links that lead there, so those are told as well.
"""

import os
import stat
from pathlib import Path
from typing import Final

#: As many as Linux follows.
_MAX_LINKS: Final = 40


def follow(path: Path) -> tuple[Path, tuple[Path, ...]] | None:
    """Where an absolute path leads, and the real places of the links that were followed.

    :returns: ``None`` when it does not exist, may not be looked at, or runs in circles.
    """
    todo = [part for part in reversed(path.parts[1:]) if part != "."]
    place = path.parts[0]
    links: list[Path] = []
    while todo:
        part = todo.pop()
        if part == "..":
            place = os.path.dirname(place)
            continue
        step = os.path.join(place, part)
        try:
            if not stat.S_ISLNK(os.lstat(step).st_mode):
                place = step
                continue
            target = os.readlink(step)
        except (OSError, ValueError):
            return None
        links.append(Path(step))
        if len(links) > _MAX_LINKS:
            return None
        if os.path.isabs(target):
            place = os.path.splitdrive(target)[0] + os.sep
        todo.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
    return Path(place), tuple(links)


def inside(path: Path, roots: tuple[Path, ...]) -> bool:
    """Whether a real path is one of the real directories, or in it."""
    return any(path == root or root in path.parents for root in roots)
