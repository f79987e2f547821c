"""Which place a word names: root, a system folder, home, a raw block device. In every spelling, without looking.

Owns: lexical normalisation (``//``, ``.``, ``..``, trailing ``/*``) and patterns. Pure: no link is followed.
"""

import fnmatch
import posixpath
import re
from collections.abc import Sequence

from ..shell import Word
from ..shell.values.names import plain
from .table import HOME, ROOT, SYSTEM, SYSTEM_FOLDERS, Entry

_EXCEPT = ("!(",)
_HOMES = "/\x01homes"
"""Stands for the folder that holds the home folders: ``~/..``. Where that is root's home it is ``/`` itself."""
_HOME_MARK = _HOMES + "/\x01home"
_VISIBLE = ("bin", "Documents", "etc", "project-1", "z9")
"""A pattern that takes all of these takes everything that does not begin with a dot."""
_HIDDEN = (".bashrc", ".config", ".ssh", ".z9")
_EXTENDED = re.compile(r"([@+?*])\(([^()]*)\)")
_CLASSES = {"[:alpha:]": "a-zA-Z", "[:alnum:]": "a-zA-Z0-9", "[:lower:]": "a-z", "[:upper:]": "A-Z", "[:digit:]": "0-9",
            "[:print:]": " -~", "[:graph:]": "!-~", "[:word:]": "a-zA-Z0-9_"}  # fmt: skip
_PARTS = re.compile(r"/proc/(?:self|thread-self|\d+)/(?:root|task/\d+/root)(?=/|$)")
_USER = re.compile(r"\$\{?(?:USER|LOGNAME)\b|\$\((?:whoami|id -un|logname)\)|`(?:whoami|id -un|logname)`")
_RAW_DEVICE = re.compile(
    r"/dev/(?:(?:sd|vd|xvd)[a-z]{1,3}\d*|hd[a-z]\d*|r?disk\d+(?:s\d+)*|nvme\d+(?:n\d+(?:p\d+)?)?|mmcblk\d+\w*|dm-\d+|md\d+\w*|md/.+|nbd\d+\w*"
    r"|pmem\d+\w*|zd\d+\w*|mapper/(?!control$).+|disk/by-[a-z]+/.+|block/.+)"
)
_RAW_BEGINNING = re.compile(r"/dev/(?:sd|hd|vd|xvd|r?disk\d|nvme|mmcblk|mapper/|disk/by-)")


def deleted(word: Word, cwd: str | None, home: str | None) -> Entry | None:
    """The entry that deleting ``word`` recursively falls under."""
    path = _path(word, cwd)
    if path is None:
        return None
    entries = (_one(each, home) for each in _alternatives(path))
    return next((entry for entry in entries if entry is not None), None)


def _alternatives(path: str) -> list[str]:
    """``/@(etc|usr)`` is one path for each of its parts, where ``extglob`` is on."""
    match = _EXTENDED.search(path)
    if match is None:
        return [path]
    parts = [*match.group(2).split("|")[:16], *([""] if match.group(1) in "?*" else [])]
    return [path[: match.start()] + part + path[match.end() :] for part in parts]


def _one(path: str, home: str | None) -> Entry | None:
    found = _entry(_normal(path), home)
    if found is None and path.startswith(_HOMES):
        # where home is /root, its parent is the root itself
        found = _entry(_normal(path.replace(_HOME_MARK, "/root", 1)), home) if "/.." in path else None
    return found


def _entry(path: str, home: str | None) -> Entry | None:
    if path == "/":
        return ROOT
    if path == _HOME_MARK or (home is not None and path == posixpath.normpath(home) and path != "/"):
        return HOME
    if path == _HOMES:
        return SYSTEM
    if re.fullmatch(rf"(?:/home|/Users|{_HOMES})/\x02", path):
        return HOME
    if path in SYSTEM_FOLDERS:
        return SYSTEM
    return _pattern(path) if any(mark in path for mark in "*?[") else None


def _path(word: Word, cwd: str | None) -> str | None:
    """The word as an absolute path, home as a mark of its own; None when it begins with something unknown."""
    text = ""
    for piece in word.pieces:
        if piece.kind == "unknown":
            text += "\x02" if _USER.match(piece.text) else "\x03"
        elif piece.kind == "home":
            text += _HOME_MARK if not text else "~"
        elif piece.kind == "glob":
            text += piece.text
        else:
            text += (
                piece.text if not any(mark in piece.text for mark in "*?[") else re.sub(r"[*?[]", "\x04", piece.text)
            )
    text = plain(text).replace("[^", "[!")
    for name, characters in _CLASSES.items():
        text = text.replace(name, characters)
    if text.startswith("/"):
        return text
    if cwd is None or not text or text.startswith("\x03"):
        return None
    return posixpath.join(_folder(cwd), text)


def _folder(cwd: str) -> str:
    return _HOME_MARK + cwd[1:] if cwd == "~" or cwd.startswith("~/") else cwd


def _normal(path: str) -> str:
    """Without ``.``, ``..`` and doubled slashes; a trailing pattern for everything inside is taken off."""
    path = _PARTS.sub("", path, count=1) if path.startswith("/proc/") else path
    while True:
        parts: list[str] = []
        for part in path.split("/"):
            if part == "..":
                parts = parts[:-1]
            elif part not in {"", "."}:
                parts.append(part)
        if parts and _everything(parts):
            path = "/" + "/".join(parts[:-1])
            continue
        return "/" + "/".join(parts)


def _everything(parts: Sequence[str]) -> bool:
    """Whether the last part stands for all that is in the folder before it: ``*``, or ``.*``, which is also ``..``.
    Of a home folder or the root, what begins with a dot is enough."""
    last = parts[-1]
    if last.startswith(_EXCEPT) or last == "{*,.*}" or (last == "*.*" and len(parts) == 1):
        return True
    if not any(mark in last for mark in "*?["):
        return False
    if all(fnmatch.fnmatchcase(name, last) for name in _VISIBLE) or fnmatch.fnmatchcase("..", last):
        return True
    at_home = "/" + "/".join(parts[:-1]) in {"/", _HOME_MARK}
    return at_home and all(fnmatch.fnmatchcase(name, last) for name in _HIDDEN)


def _pattern(path: str) -> Entry | None:
    """The entry of a path with patterns in it: what it could expand to on every system."""
    if fnmatch.fnmatchcase(_HOME_MARK, path):
        return HOME
    if "/*" in path and path.rstrip("/").endswith("/*/*"):
        return _pattern(path.rstrip("/")[:-2]) or (ROOT if path.count("/") <= 2 else None)
    for folder in sorted(SYSTEM_FOLDERS):
        if folder.count("/") == path.count("/") and fnmatch.fnmatchcase(folder, path):
            return SYSTEM
    return None


def raw_device(text: str, *, exact: bool = True) -> bool:
    """Whether ``text`` names a raw block device. ``exact`` False: only its beginning is known."""
    path = plain(text)
    if not path.startswith("/"):
        return False
    path = posixpath.normpath("/" + path.lstrip("/"))
    return bool(_RAW_DEVICE.fullmatch(path)) or (not exact and bool(_RAW_BEGINNING.match(path)))


def device_word(word: Word, prefix: str = "", cwd: str | None = None) -> bool:
    """Whether ``word``, after ``prefix``, names a raw block device, also by a pattern or an unknown end, or by its
    name alone in the folder ``cwd``."""
    if not word.text.startswith(prefix):
        return False
    exact = all(piece.kind == "text" for piece in word.pieces)
    text = word.text.removeprefix(prefix)
    if cwd is not None and cwd.startswith("/dev") and not text.startswith("/"):
        text = posixpath.join(cwd, text)
    return raw_device(text, exact=exact)


def sysrq(word: Word) -> bool:
    """Whether ``word`` is the file by which the kernel is told to stop at once."""
    text = plain(word.text)
    return text.startswith("/") and posixpath.normpath("/" + text.lstrip("/")) == "/proc/sysrq-trigger"
