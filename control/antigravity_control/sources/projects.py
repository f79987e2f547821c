"""Which grants of a home folder belong to a workspace.

Owns: :func:`project_sources`. The vendor keeps one file for each of a person's projects, and a file says which folders
are its project's: in ``projectResources``, at any depth, under ``folderUri``, or as its ``name`` when that is a path.
Folders are compared by where they lead. A file that cannot be read may belong to any workspace and hold a deny, so it
counts as missing rules. Reads files; writes none.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..judging.remote import files_of
from ..language.grammar import RuleFault
from ..language.paths import Paths, Place, fold, is_windows
from .settings import Source, read_file

#: Files that are looked at, and values of one of them.
PROJECT_LIMIT: Final = 1_000
_VALUE_LIMIT: Final = 10_000


class _TooManyError(Exception):
    """Nobody can say whose grants these are."""


def project_sources(home: str | os.PathLike[str], workspace: str | Sequence[str]) -> tuple[Source, ...]:
    """The grants of the projects whose folder is one of the workspace's, in the order of the files' names; before them
    the folder of all projects, which holds no rules itself but must not get new ones unasked.

    :param workspace: absolute path, or several.
    """
    folder = Path(home) / ".gemini" / "config" / "projects"
    wanted = {place for each in ((workspace,) if isinstance(workspace, str) else workspace) for place in _places(each)}
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except OSError:
        return (_missing(folder, "the folder cannot be read"),)
    found = [read_file(folder / name, "project") for name in names[:PROJECT_LIMIT]]
    kept = [Source("project", file=str(folder))]
    for each in found:
        try:
            kept += [each] if _is_unreadable(each) or _is_of(each.data, wanted) else []
        except _TooManyError:
            kept.append(_missing(Path(each.file or folder), "it holds more values than are looked through"))
    if len(names) > PROJECT_LIMIT:
        kept.append(_missing(folder, f"the folder has more than {PROJECT_LIMIT} projects"))
    return tuple(kept)


def _is_unreadable(source: Source) -> bool:
    return any(fault.effect == "unreadable" for fault in source.faults)


def _is_of(data: Mapping[str, Any], wanted: set[Place]) -> bool:
    return any(not wanted.isdisjoint(_places(folder)) for folder in _folders(data))


def _places(folder: str) -> set[Place]:
    """Where a folder is, without regard to case where its volume has none."""
    if not folder.startswith("/") and not is_windows(folder):
        return set()
    spelled = Paths(folder).read(folder, home=False)
    return {Place(fold(place.parts) if spelled.folded else place.parts, place.drive) for place in spelled.resolved}


def _folders(data: Mapping[str, Any]) -> Iterator[str]:
    name = data.get("name")
    if isinstance(name, str):
        yield name
    waiting: list[Any] = [data.get("projectResources")]
    for _ in range(_VALUE_LIMIT):
        if not waiting:
            return
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict):
            waiting.extend(each for each in value.values() if isinstance(each, (list, dict)))
            address = value.get("folderUri")
            if isinstance(address, str):
                yield from files_of(address) if address.lower().startswith("file:") else (address,)
    raise _TooManyError


def _missing(folder: Path, reason: str) -> Source:
    return Source("project", {}, str(folder), (RuleFault(str(folder), "$", reason, "project", "unreadable"),))
