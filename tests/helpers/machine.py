"""A machine with nothing on it: a home, a cache and a PATH of a test's own, for whole commands."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .cli import call_cli, environment, run_cli


class Machine:
    """A machine with nothing on it but what a test puts there."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._patch, self._capsys = patch, capsys
        self.home = root / "home" / "jane"
        self.bin = root / "bin"
        self.cache = root / "cache"
        for folder in (self.home, self.bin):
            folder.mkdir(parents=True)
        for name in ("sh", "cat"):
            (self.bin / name).symlink_to(shutil.which(name) or f"/bin/{name}")
        for name in set(os.environ) - set(environment()):
            patch.delenv(name)
        for name in os.environ:
            if name.lower().endswith("_proxy") or name.startswith(("SSL_", "DSH_")):
                patch.delenv(name)
        self.set(HOME=str(self.home), PATH=str(self.bin), XDG_CACHE_HOME=str(self.cache))

    def set(self, **variables: str) -> None:
        for name, value in variables.items():
            self._patch.setenv(name, value)

    def run(self, *arguments: str, alone: bool = False) -> subprocess.CompletedProcess[str]:
        """One command. :param alone: as a process of its own, as a person starts it."""
        return run_cli(*arguments, env=dict(os.environ)) if alone else call_cli(self._capsys, *arguments)
