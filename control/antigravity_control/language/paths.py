"""What a path means: as it is written, and where it leads.

Owns: :class:`Paths`, which reads a target into :class:`Spellings`. *Lexical* spellings drop ``.`` and ``..`` as text;
*resolved* ones are what the kernel would open: links of every existing ancestor are followed, ``..`` is taken from
where a link leads. Deny and ask are tested on all of them, an allow has to hold for every resolved one. Paths that
nobody can follow from here (links that lead into each other, another process's folders, an open descriptor, a short
Windows name, a Windows device) are *opaque*: never allowed by a rule or a default, only asked about.
:class:`Links` remembers what links said, so that whoever keeps what was made of it can see whether it still holds.
Reads names and links of the file system, never a file. Never raises for any text.
"""

import os
import posixpath
import re
import stat
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

PATH_LIMIT: Final = 16_384
LINK_LIMIT: Final = 40
_WINDOWS: Final = re.compile(
    r"(?:[\\/]{2}[?.][\\/])?(?:(?P<drive>[A-Za-z]):(?=[\\/]|$)|(?=[\\/]{2}[^\\/?.]))(?P<rest>.*)", re.DOTALL
)
#: Names that the kernel of Windows takes as they are: a server's share, else a volume or a device.
_DEVICE: Final = re.compile(r"(?:\\\\[?.]|\\\?\?)[\\/]")
_UNC: Final = re.compile(r"(?:\\\\[?.]|\\\?\?)[\\/]UNC[\\/]+", re.IGNORECASE)
#: The share that every machine gives of each of its drives.
_DRIVE_SHARE: Final = re.compile(r"(?P<drive>[A-Za-z])\$")
_PROC: Final = re.compile(r"/proc/(?P<id>self|thread-self|\d+)(?:/task/\d+)?\Z")
_ALIASES: Final = frozenset({"root", "cwd", "exe", "fd", "map_files", "mem"})
_ON_DRIVE: Final = re.compile(r"[A-Za-z]:(?![\\/])")
_SHORT_NAME: Final = re.compile(r"~\d")

Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """An absolute path as its components. :param drive: lower case letter of a Windows drive."""

    parts: Parts
    drive: str | None = None

    @property
    def posix(self) -> str:
        return "/" + "/".join(self.parts)

    def within(self, other: "Place", *, folded: bool = False) -> bool:
        """Whether it is ``other`` or lies below it."""
        if self.drive and other.drive and self.drive != other.drive:
            return False
        mine, theirs = (fold(self.parts), fold(other.parts)) if folded else (self.parts, other.parts)
        return mine[: len(theirs)] == theirs


@dataclass(frozen=True, slots=True)
class Spellings:
    """:param opaque: why nobody can say where it leads, ``None`` when it can be said.
    :param folded: the volume takes upper and lower case for the same.
    :param identity: device and inode when the file has other names as well."""

    lexical: tuple[Place, ...]
    resolved: tuple[Place, ...]
    opaque: str | None = None
    folded: bool = False
    identity: tuple[int, int] | None = None

    @property
    def every(self) -> tuple[Place, ...]:
        return tuple(dict.fromkeys((*self.lexical, *self.resolved)))


def fold(parts: Parts) -> Parts:
    """Components as a volume compares them that ignores case and composition of letters."""
    return tuple(unicodedata.normalize("NFC", unicodedata.normalize("NFC", part).casefold()) for part in parts)


def split(path: str) -> Parts:
    """The components of a path, without empty ones and single dots, ``..`` dropped as text."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return tuple(parts)


def case_folds(path: str) -> bool:
    """Whether the volume that holds an existing ``path`` takes upper and lower case for the same."""
    probe = path
    while len(probe) > 1:
        head, name = posixpath.split(probe)
        other = name.swapcase()
        if other != name:
            try:
                here = os.lstat(probe)
                twin = os.lstat(posixpath.join(head, other))
            except OSError:
                # The twin is missing, or the path is: then its folder tells.
                if os.path.lexists(probe):
                    return False
            else:
                return (here.st_dev, here.st_ino) == (twin.st_dev, twin.st_ino)
        probe = head
    return False


class Links:
    """What links said, each looked up once: a consistent picture for what is made at one time."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[str, str | None] = {}

    def read(self, path: str) -> str | None:
        """As the file system says it, or said it before."""
        if path not in self._seen:
            self._seen[path] = _read_link(path)
        return self._seen[path]

    def hold(self) -> bool:
        """Whether every link that was looked up still says the same. Costs one look-up for each."""
        return all(_read_link(path) == said for path, said in self._seen.items())


class Paths:
    """Reads paths for one workspace.

    :param workspace: absolute path that relative ones start from.
    :param home: absolute path that ``~`` stands for; without it ``~`` is asked about.
    :param folds: says of an absolute path whether its volume ignores case; the file system is asked by default.
    """

    def __init__(self, workspace: str, home: str | None = None, folds: Callable[[str], bool] | None = None) -> None:
        self._workspace = workspace
        self._home = home
        self._folds = folds or case_folds
        self._volumes: dict[int, bool] = {}
        self._asks_system = folds is None

    def read(self, target: str, cwd: str | None = None, *, home: bool = True, links: Links | None = None) -> Spellings:
        """The spellings of ``target``.

        :param cwd: the folder a relative path starts from. :param home: ``~`` may be the home folder.
        :param links: what links said so far, for a path that is kept; then only names and links are looked at.
        """
        if not _readable(target) or len(target) > PATH_LIMIT:
            return Spellings((), (), opaque="the path is missing or cannot be one")
        base = cwd or self._workspace
        windows = is_windows(target) or (is_windows(base) and not target.startswith("/"))
        if windows:
            return self._windows(target, base)
        written = [target if target.startswith("/") else posixpath.join(self._plain(base), target)]
        opaque = None
        if home and (target == "~" or target.startswith("~/")):
            if self._home is None:
                opaque = "the home folder is not known"
            else:
                written.append(posixpath.join(self._home, target[2:]))
        elif home and target.startswith("~"):
            opaque = "the home folder of another user"
        return self._spell(written, opaque, links)

    def folder(self, text: str, links: Links | None = None) -> Spellings:
        """The path of a rule: ``~`` means the home folder only."""
        if self._home is not None and (text == "~" or text.startswith("~/")):
            return self._spell([posixpath.join(self._home, text[2:])], None, links)
        return self.read(text, home=False, links=links)

    def _plain(self, base: str) -> str:
        if base == "~" or base.startswith("~/"):
            return posixpath.join(self._home, base[2:]) if self._home else base
        return base if base.startswith("/") else posixpath.join(self._workspace, base)

    def _spell(self, written: list[str], opaque: str | None, links: Links | None) -> Spellings:
        lexical: dict[Place, None] = {}
        resolved: dict[Place, None] = {}
        identity = None
        folded = False
        for path in written:
            plain = split(path)
            lexical[Place(plain)] = None
            # Tools differ: some drop `..` as text before they open, some leave it to the kernel.
            for reading in dict.fromkeys((path, "/" + "/".join(plain))):
                where, why, there = _follow(reading, links)
                opaque = opaque or why
                resolved[Place(where)] = None
                if links is not None:
                    continue
                folded = folded or self._folded(where, there)
                if there == len(where):
                    identity = identity or _many_names("/" + "/".join(where))
        return Spellings(tuple(lexical), tuple(resolved), opaque, folded, identity)

    def _windows(self, target: str, base: str) -> Spellings:
        target, why = _plain_windows(target)
        drive, rest = _drive(target)
        if drive is None and not rest.startswith("/"):
            drive, folder = _drive(base)
            rest = posixpath.join(folder, rest)
        parts = tuple(_windows_name(part) for part in split(rest))
        place = Place(tuple(part for part in parts if part), drive)
        places = [place]
        if _ON_DRIVE.match(target) or any(_SHORT_NAME.search(part) for part in place.parts):
            why = "a Windows name that depends on the machine"
        share = _DRIVE_SHARE.match(place.parts[1]) if rest.startswith("//") and len(place.parts) > 1 else None
        if share is not None and drive is None:
            why = "a share that may be a drive of this machine"
            places.append(Place(place.parts[2:], share.group("drive").lower()))
        return Spellings(tuple(places), tuple(places), why, folded=True)

    def _folded(self, parts: Parts, there: int) -> bool:
        """Whether the volume of a path ignores case; its first components that are ``there`` tell."""
        if not self._asks_system:
            return self._folds("/" + "/".join(parts))
        probe = "/" + "/".join(parts[:there])
        try:
            device = os.lstat(probe).st_dev
        except OSError:
            return False
        if device not in self._volumes:
            self._volumes[device] = case_folds(probe)
        return self._volumes[device]


def is_windows(path: str) -> bool:
    """Whether a path is written as Windows writes it: with a drive letter, or with two backslashes before a server or a
    device."""
    match = _WINDOWS.match(path)
    if match is not None and (match.group("drive") is not None or path.startswith("\\\\")):
        return True
    return _DEVICE.match(path) is not None


def _plain_windows(path: str) -> tuple[str, str | None]:
    """A Windows path without the prefix that keeps it from being tidied, and why nobody can say what it is."""
    path = _UNC.sub(lambda _: "\\\\", path, count=1)
    if _DEVICE.match(path) is None or _WINDOWS.match(path) is not None:
        return path, None
    rest = _DEVICE.sub("", path, count=1)
    if _WINDOWS.match(rest) is not None:
        return rest, None
    return "\\" + rest, "a name of a Windows device"


def resolve(path: str) -> tuple[Parts, str | None]:
    """Where the kernel would arrive, and why that is not sure. What does not exist stays as it is written."""
    parts, why, _ = _follow(path)
    return parts, why


def _read_link(path: str) -> str | None:
    """Where a link leads; an empty text when nothing is there, ``None`` when it is no link."""
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""
    except OSError:
        return None


def _follow(path: str, links: Links | None = None) -> tuple[Parts, str | None, int]:
    """As :func:`resolve`, and how many of the first components are there."""
    look = _read_link if links is None else links.read
    waiting = [part for part in reversed(path.split("/")) if part not in {"", "."}]
    here: list[str] = []
    followed = 0
    there = PATH_LIMIT  # below this many components nothing exists, so there is nothing to look up
    while waiting:
        part = waiting.pop()
        if part == "..":
            del here[-1:]
            there = PATH_LIMIT if len(here) < there else there
            continue
        here.append(part)
        if part in _ALIASES and (process := _PROC.match("/" + "/".join(here[:-1]))):
            if part != "root":
                return (*here, *reversed(waiting)), "a name that another process gives", len(here)
            here.clear()
            if process.group("id") not in {"self", "thread-self", str(os.getpid())}:
                return split("/".join(reversed(waiting))), "the root folder of another process", 0
            continue
        if len(here) > there:
            continue
        try:
            to = look("/" + "/".join(here))
        except ValueError:
            return (*here, *reversed(waiting)), "the path cannot be one", 0
        if to == "":
            there = len(here) - 1
        if not to:
            continue
        followed += 1
        if followed > LINK_LIMIT:
            return (*here, *reversed(waiting)), "links that lead into each other", 0
        here = [] if to.startswith("/") else here[:-1]
        waiting.extend(each for each in reversed(to.split("/")) if each not in {"", "."})
    return tuple(here), None, min(there, len(here))


def _readable(text: str) -> bool:
    """Whether the text can be a path at all."""
    try:
        return bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _many_names(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) and found.st_nlink > 1 else None


def _drive(path: str) -> tuple[str | None, str]:
    match = _WINDOWS.match(path)
    drive = match.group("drive") if match else None
    rest = match.group("rest") if match else path
    return drive.lower() if drive else None, rest.replace("\\", "/")


def _windows_name(part: str) -> str:
    """A component without what Windows drops: a stream's name, dots and blanks at the end."""
    return part.partition(":")[0].rstrip(". ")
