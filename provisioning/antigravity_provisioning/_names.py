"""Which names an archive's entries may have, and which clash; the same on every platform.

An archive that is refused on one system only would be tested on none of the others, so the rules of all file systems
hold everywhere: what Windows reserves, what macOS folds, what Linux forbids. Names are judged as they are and as a file
system may fold them (``folded``), since a full-width ``..`` is ``..`` somewhere. Nothing here prints a name.
"""

import re
import unicodedata
from typing import Final

#: Bytes of one component in UTF-8, as most file systems have it; of a whole path; and how deep folders go.
COMPONENT_BYTES: Final = 255
PATH_BYTES: Final = 1024
DEPTH: Final = 16

_RESERVED: Final = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|clock\$|(com|lpt)[0-9¹²³])", re.IGNORECASE)
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_UNWRITABLE: Final = frozenset('<>"|?*')
#: Controls, invisible format characters (bidirectional overrides among them), surrogates, line separators.
_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def folded(name: str) -> str:
    """One spelling for all that some file system takes for the same: compatibility forms and letter case."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def fault_of_path(path: str) -> str:
    """Why a path (``/`` between components, none at its end) cannot be unpacked; ``""`` when it can."""
    if not path:
        return "has no name"
    if "\0" in path:
        return "has a NUL character in its name"
    if path.startswith("/"):
        return "has an absolute path"
    if path.startswith("\\\\"):
        return "has a network path"
    if _DRIVE.match(path):
        return "has a drive letter in its path"
    if "\\" in path:
        return "has a backslash in its path"
    if len(path.encode("utf-8", "surrogatepass")) > PATH_BYTES:
        return "has a path that is too long"
    components = path.split("/")
    if len(components) > DEPTH:
        return "lies too deep in folders"
    return next((fault for component in components if (fault := _fault_of_component(component))), "")


def _fault_of_component(name: str) -> str:
    if not name:
        return "has an empty component in its path"
    if len(name.encode("utf-8", "surrogatepass")) > COMPONENT_BYTES:
        return "has a name that is too long"
    if any(unicodedata.category(character) in _UNPRINTABLE for character in name):
        return "has a control or invisible character in its name"
    return _fault_of_spelling(name) or _fault_of_spelling(folded(name))


def _fault_of_spelling(name: str) -> str:
    if name == "..":
        return "leads out of the folder"
    if name == ".":
        return "has `.` as a component of its path"
    if "/" in name or "\\" in name:
        return "has a disguised separator in its name"
    if ":" in name:
        return "names a stream (`:`)"
    if not _UNWRITABLE.isdisjoint(name):
        return "has a character that some systems cannot write"
    if name[0] == " " or name[-1] in " .":
        return "has a space or dot at the edge of its name"
    # `NUL.txt` and `nul .x` are the device too.
    if _RESERVED.fullmatch(name.partition(".")[0].rstrip()):
        return "has a name that Windows reserves for a device"
    return ""


class Tree:
    """The paths of an archive so far, folded, to find two that some file system takes for one."""

    def __init__(self) -> None:
        self._spelling: dict[str, str] = {}
        self._folders: set[str] = set()
        self._listed: set[str] = set()

    def add(self, path: str, *, folder: bool) -> str:
        """Take in one more; the reason why it clashes with one before, ``""`` when it does not."""
        components = path.split("/")
        for depth in range(1, len(components) + 1):
            part = "/".join(components[:depth])
            last = depth == len(components)
            key = folded(part)
            if self._spelling.setdefault(key, part) != part:
                return "differs from an entry before it only in letter case or Unicode form"
            is_folder = folder or not last
            # A folder that was only in the path of another entry is known without being listed.
            if (key in self._folders) != is_folder and (key in self._folders or key in self._listed):
                return "is a file where another entry has a folder, or a folder where another is a file"
            if key in self._listed and last:
                return "has the same name as an entry before it"
            if is_folder:
                self._folders.add(key)
            if last:
                self._listed.add(key)
        return ""
