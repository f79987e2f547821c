"""Which place a word names: root, a system folder, home, a raw block device. In every spelling, without looking.

Owns: lexical normalisation (``//``, ``.``, ``..``, trailing ``/*``) and patterns. Pure: no link is followed.
"""

import fnmatch
import posixpath
import re

from ..shell import Word
from ..shell.names import plain
from .table import HOME, ROOT, SYSTEM, SYSTEM_FOLDERS, Entry

_EXCEPT = ("!(",)
_HOME_MARK = "/\x01home"
_USER = re.compile(r"\$\{?(?:USER|LOGNAME)\b|\$\((?:whoami|id -un|logname)\)|`(?:whoami|id -un|logname)`")
_RAW_DEVICE = re.compile(
    r"/dev/(?:(?:sd|hd|vd|xvd)[a-z]{1,3}\d*|r?disk\d+(?:s\d+)*|nvme\d+(?:n\d+(?:p\d+)?)?|mmcblk\d+\w*|dm-\d+|md\d+\w*|nbd\d+\w*"
    r"|pmem\d+\w*|zd\d+\w*|mapper/(?!control$).+|disk/by-[a-z]+/.+|block/.+)"
)
_RAW_BEGINNING = re.compile(r"/dev/(?:sd|hd|vd|xvd|r?disk\d|nvme|mmcblk|mapper/|disk/by-)")


def deleted(word: Word, cwd: str | None, home: str | None) -> Entry | None:
    """The entry that deleting ``word`` recursively falls under."""
    path = _path(word, cwd)
    if path is None:
        return None
    path = _normal(path)
    if path == "/":
        return ROOT
    if path == _HOME_MARK or (home is not None and path == posixpath.normpath(home) and path != "/"):
        return HOME
    if re.fullmatch(r"/home/\x02|/Users/\x02", path):
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
    text = plain(text)
    if text.startswith("/"):
        return text
    if cwd is None or not text or text.startswith("\x03"):
        return None
    base = _HOME_MARK + cwd[1:] if cwd == "~" or cwd.startswith("~/") else cwd
    return posixpath.join(base, text)


def _normal(path: str) -> str:
    """Without ``.``, ``..`` and doubled slashes; a trailing pattern for everything inside is taken off."""
    while True:
        parts: list[str] = []
        for part in path.split("/"):
            if part == "..":
                parts = parts[:-1]
            elif part not in {"", "."}:
                parts.append(part)
        if parts and (
            parts[-1] in {"*", "**", ".*", "{*,.*}", "?*", "*?", "[!.]*", "*.*", ".[!.]*"}
            or parts[-1].startswith(_EXCEPT)
        ):
            if parts[-1] == "*.*" and len(parts) > 1:
                return "/" + "/".join(parts)
            path = "/" + "/".join(parts[:-1])
            if parts[-1] == ".[!.]*" and len(parts) > 1 and parts[0] != _HOME_MARK[1:]:
                return path
            continue
        return "/" + "/".join(parts)


def _pattern(path: str) -> Entry | None:
    """The entry of a path with patterns in it: what it could expand to on every system."""
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


def device_word(word: Word, prefix: str = "") -> bool:
    """Whether ``word``, after ``prefix``, names a raw block device, also by a pattern or an unknown end."""
    if not word.text.startswith(prefix):
        return False
    exact = all(piece.kind == "text" for piece in word.pieces)
    return raw_device(word.text.removeprefix(prefix), exact=exact)
