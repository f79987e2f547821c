"""Finding an official Antigravity server that is already on the machine.

Owns: the order of the search and what makes a server usable. Pure functions of the file system and the environment;
starts nothing, downloads nothing. It is loaded when a plugin starts, so it loads nothing heavy itself.

Facts about the server: the archive holds two programs that must stay side by side, ``agy_acp_server.par`` (Windows:
``.exe``) and ``localharness_external``; on Linux it is started with ``--uid=`` (ACP registry, entry
``antigravity-acp``).
"""

import glob
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from .store import Store

#: The environment variable that names a server; users of other clients already set it.
VARIABLE: Final = "AGY_ACP_BIN"
_STEM: Final = "agy_acp_server"
_HARNESS: Final = "localharness_external"
_CACHE: Final = "the cache of `antigravity-acp install`"
_AGY_ON_PATH: Final = " The program `agy` on PATH is Antigravity's command line, which does not speak ACP."
_HALF: Final = f" A copy that lies there was passed over: `{_HARNESS}` must lie beside the server, both executable."

Source = Literal["explicit", "environment", "path", "folder", "cache"]


class OfficialServer(NamedTuple):
    """A usable server.

    :param path: the program. :param harness: its sibling. :param args: arguments that this platform needs.
    :param source: how it was found; ``cache`` is what :mod:`.install` put there.
    """

    path: Path
    harness: Path
    args: tuple[str, ...]
    source: Source


class LocateError(Exception):
    """No usable server.

    :param explicit: somebody named one and it is broken, so nothing else was tried.
    :param searched: the places that were looked at, as a person would write them.
    :param halves: servers that are there and incomplete: their sibling is missing, or one of the two is no program.
    """

    def __init__(self, message: str, *, explicit: bool, searched: tuple[str, ...] = (), halves: int = 0) -> None:
        super().__init__(message)
        self.explicit = explicit
        self.searched = searched
        self.halves = halves


def is_server_name(name: str) -> bool:
    """Whether a file name is that of the official server, in any of its spellings."""
    return name.lower() in (_STEM, f"{_STEM}.par", f"{_STEM}.exe")


def locate(
    explicit: str = "",
    *,
    environ: Mapping[str, str] | None = None,
    platform: str = sys.platform,
    home: Path | None = None,
    store: "Store | None" = None,
    proven: bool = False,
) -> OfficialServer:
    """Find a server: ``explicit``, ``AGY_ACP_BIN``, ``PATH``, the user folders that installers use, our own cache.

    :param explicit: path of a server or of the directory it lies in. :param environ: the process's own when left out.
    :param home: another user's home; then only a ``store`` that is given is looked into as the cache.
    :param proven: of our own cache only a server that has answered `initialize` from there, for who would install it.
    :raises LocateError: with what was searched and what to do; an explicit one that is broken is not replaced.
    """
    environment = os.environ if environ is None else environ
    for value, source, label in (
        (explicit, "explicit", "The configured server"),
        (environment.get(VARIABLE, ""), "environment", f"The server that {VARIABLE} names"),
    ):
        if value.strip():
            path = Path(os.path.expanduser(value.strip()))
            if fault := _wrong_program(path):
                raise LocateError(f"{label} {fault}", explicit=True)
            if fault := _fault(path := _inside(path, platform), platform):
                raise LocateError(f"{label} {fault}", explicit=True, halves=int(os.path.isfile(path)))
            return _server(path, platform, "explicit" if source == "explicit" else "environment")
    user = Path(os.path.expanduser("~")) if home is None else home
    halves = 0
    for path, found_by in _candidates(environment, platform, user):
        if not os.path.isfile(path):
            continue
        if not _fault(path, platform):
            return _server(path, platform, found_by)
        halves += 1
    cached, damage = _cached(store, proven) if store is not None or home is None else (None, "")
    if cached is not None:
        return cached
    searched = (
        VARIABLE,
        f"PATH ({', '.join(_names(platform))})",
        *(label for label, _ in _folders(environment, platform, user)),
        _CACHE,
    )
    hints = (_AGY_ON_PATH if shutil.which("agy", path=environment.get("PATH", "")) else "") + (_HALF if halves else "")
    raise LocateError(
        f"none was found in {'; '.join(searched)}.{hints}{damage} Run `antigravity-acp install`; or set `command` "
        f"or {VARIABLE} to a server that is on this machine (ACP registry, entry `antigravity-acp`; its two files must "
        "stay together).",
        explicit=False,
        searched=searched,
        halves=halves,
    )


def _names(platform: str) -> tuple[str, ...]:
    return (f"{_STEM}.exe",) if platform == "win32" else (_STEM, f"{_STEM}.par")


def _folders(environ: Mapping[str, str], platform: str, home: Path) -> list[tuple[str, list[Path]]]:
    """Folders of the user where installers and guides put the archive, with the name to show."""
    if platform == "win32":
        local = Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
        return [(rf"%LOCALAPPDATA%\{_STEM}", [local / _STEM]), (r"%LOCALAPPDATA%\agy\bin", [local / "agy" / "bin"])]
    opt = home / ".local" / "opt"
    unpacked = sorted((Path(path) for path in glob.glob(f"{glob.escape(str(opt))}/agy-acp-server*/")), reverse=True)
    return [
        ("~/.local/bin", [home / ".local" / "bin"]),
        (f"~/.local/share/{_STEM}", [home / ".local" / "share" / _STEM]),
        ("~/.local/opt/agy-acp-server*", unpacked),
    ]


def _candidates(
    environ: Mapping[str, str], platform: str, home: Path
) -> Iterator[tuple[Path, Literal["path", "folder"]]]:
    separator = ";" if platform == "win32" else ":"
    for folder in environ.get("PATH", "").split(separator):
        # An empty or relative entry leads wherever the host happens to be at work, which is nobody's installation.
        if os.path.isabs(folder):
            for name in _names(platform):
                yield Path(folder) / name, "path"
    if not home.is_absolute():  # nobody knows where this user's home is
        return
    for _, folders in _folders(environ, platform, home):
        for directory in folders:
            for name in _names(platform):
                yield directory / name, "folder"


def _inside(path: Path, platform: str) -> Path:
    """The server in a directory, or the path itself."""
    if os.path.isdir(path):
        inside = [path / name for name in _names(platform)]
        return next((program for program in inside if os.path.isfile(program)), inside[-1])
    return path


def _wrong_program(path: Path) -> str:
    if path.stem.lower() == "agy":
        return (
            f"is `agy`, the Antigravity command line, which does not speak ACP. Name `{_STEM}.par` (Windows: "
            f"`{_STEM}.exe`) instead."
        )
    return ""


def _fault(path: Path, platform: str) -> str:
    """Why a server cannot be used, ``""`` when it can."""
    if not os.path.isfile(path):
        return "does not exist, or cannot be reached by this user. Correct the path."
    if platform != "win32" and not os.access(path, os.X_OK):
        return "is not executable. Run `chmod +x` on it and on its sibling."
    harness = _harness(path, platform)
    if not os.path.isfile(harness):
        return f"lacks its sibling `{harness.name}`. Unpack the whole archive into one folder."
    if platform != "win32" and not os.access(harness, os.X_OK):
        return f"has a sibling `{harness.name}` that is not executable. Run `chmod +x` on it."
    return ""


def _harness(path: Path, platform: str) -> Path:
    # A link on PATH leads to the folder where the two lie together.
    return _resolved(path).parent / (f"{_HARNESS}.exe" if platform == "win32" else _HARNESS)


def _resolved(path: Path) -> Path:
    # Like every look at a path here, not pathlib's: that raises for a folder that this user may not enter.
    return Path(os.path.realpath(path))


def _cached(store: "Store | None", proven: bool) -> tuple[OfficialServer | None, str]:
    """The pinned release where it was installed and is whole; else a sentence when something is there that is not."""
    from . import releases
    from .errors import ProvisioningError
    from .store import Store

    try:
        asset = releases.pinned()
    except ProvisioningError:
        return None, ""  # no release for this platform, so none can be there
    store = Store() if store is None else store
    installed = store.find(asset)
    if installed is not None and (installed.proven or not proven):
        return OfficialServer(installed.server, installed.harness, asset.args, "cache"), ""
    health = store.health(asset)
    if health == "absent":
        return None, ""
    return None, f" What lies in the cache cannot be used ({health}). {store.unsafe()}".rstrip()


def _server(path: Path, platform: str, source: Source) -> OfficialServer:
    resolved = _resolved(path)
    args = ("--uid=",) if platform.startswith("linux") else ()
    return OfficialServer(resolved, _harness(resolved, platform), args, source)
