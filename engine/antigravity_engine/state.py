"""Where the harness writes: transcripts and databases of the sessions, and a home directory of its own.

By default all of it lies in one private temporary directory that goes with the process; what a killed process left is
swept by the next one. With an explicit directory the transcripts stay: they hold every prompt and tool result in clear
text. The home directory is shared by all processes of a user and kept in the cache, because the harness unpacks a
helper of 17 MB into every new one; no transcript is written there.
"""

import contextlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from antigravity_engine import limits

_PREFIX = "antigravity-engine-"
_LOCK = "lock"


class State:
    """The directories of one engine process: `app` and `save` for the sessions, `home` for the harness."""

    def __init__(self, explicit: Path | None, environment: dict[str, str]) -> None:
        self._temporary = explicit is None
        self._lock: int | None = None
        if explicit is None:
            self.root = Path(tempfile.mkdtemp(prefix=_PREFIX))
            self._lock = _hold(self.root)
            _sweep(self.root.parent, keep=self.root.name)
        else:
            self.root = explicit.expanduser().absolute()
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.app = self.root / "app"
        self.save = self.root / "save"
        for directory in (self.app, self.save):
            directory.mkdir(mode=0o700, exist_ok=True)
        self.home = self._home(environment)

    def forget(self, session_id: str) -> None:
        """Removes what the harness wrote for one session, unless the state was asked for by the user."""
        if not self._temporary:
            return
        shutil.rmtree(self.app / "brain" / session_id, ignore_errors=True)
        for path in self.save.glob(f"{session_id}*"):
            with contextlib.suppress(OSError):
                path.unlink()

    def close(self) -> None:
        """Removes the temporary directory. Idempotent."""
        if self._temporary:
            shutil.rmtree(self.root, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _home(self, environment: dict[str, str]) -> Path:
        home = cache_directory(environment) / "antigravity-engine" / "home"
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.access(home, os.W_OK):
                return home
        except OSError:
            pass
        home = self.root / "home"
        home.mkdir(mode=0o700, exist_ok=True)
        return home


def cache_directory(environment: dict[str, str]) -> Path:
    """The user's cache directory by the custom of the platform."""
    home = Path(environment.get("HOME") or Path.home())
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    configured = environment.get("XDG_CACHE_HOME", "")
    return Path(configured) if os.path.isabs(configured) else home / ".cache"


def _hold(directory: Path) -> int | None:
    """Locks the directory for as long as this process lives; None where the platform has no such lock."""
    if sys.platform == "win32":
        return None
    import fcntl

    # Locked under another name first: a sweeper must never see an unlocked lock file of a living process.
    hidden = directory / f".{_LOCK}"
    descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    hidden.rename(directory / _LOCK)
    return descriptor


def _sweep(parent: Path, *, keep: str) -> None:
    """Removes directories of engines that were killed: theirs is the lock that nobody holds."""
    if sys.platform == "win32":
        return
    import fcntl

    for directory in parent.glob(f"{_PREFIX}*"):
        if directory.name == keep:
            continue
        with contextlib.suppress(OSError):
            status = directory.lstat()
            if status.st_uid != os.getuid() or directory.is_symlink():
                continue
            try:
                descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            except FileNotFoundError:
                if time.time() - status.st_mtime > limits.SWEEP_AGE_S:
                    shutil.rmtree(directory, ignore_errors=True)
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(descriptor)
