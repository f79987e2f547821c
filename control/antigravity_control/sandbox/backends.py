"""The program that confines commands on this machine, and the proof that it does.

Owns: :func:`backend`, :func:`wrap` and the self-test. The test runs once for a program and its result is kept while the
program stays the same; a failure is not kept, so that it can be put right without a new start. It asks for a file that
must not be visible and a place that must not be writable, and compares the kernel's namespaces: a program that only
runs what it is given does not pass.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from . import bubblewrap, seatbelt
from ._links import inside
from .errors import SandboxError
from .layout import Layout, layout
from .plan import SandboxPlan

#: Seconds for each of the two steps of the self-test: asking for its options, and trying it.
SELF_TEST_S: Final = 8.0
_SANDBOX_EXEC: Final = "/usr/bin/sandbox-exec"
_INSTALL: Final = "Install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`), or turn the sandbox off."
_WRITABLE: Final = "{program} lies where sandboxed commands may write. Install it for the system."
#: Namespaces that have to differ from the host's.
_NAMESPACES: Final = ("user", "mnt", "pid", "net", "ipc")
#: $1 must not be visible, what is written to $2 must not arrive, in the working directory it must. Then the namespaces.
_PROBE: Final = (
    '(: > "$2") 2>/dev/null; test ! -e "$1" && : > inside && ! mkdir kept/new 2>/dev/null && echo confined; '
    'test -d /proc/self/ns && for each in user mnt pid net ipc; do readlink "/proc/self/ns/$each"; done; :'
)

_proven: dict[tuple[str, int, int], "Backend"] = {}


@dataclass(frozen=True, slots=True)
class Backend:
    """A program that works here.

    :param program: real path. :param options: optional arguments that it knows.
    """

    name: Literal["bubblewrap", "sandbox-exec"]
    program: str
    options: frozenset[str] = frozenset()

    @property
    def system(self) -> tuple[Path, ...]:
        """The directories of the system that every command sees."""
        return bubblewrap.system_paths() if self.name == "bubblewrap" else seatbelt.system_paths()

    def home(self, laid: Layout, tmp: Path) -> str:
        """The home directory of a command."""
        return bubblewrap.home_of(laid) if self.name == "bubblewrap" else str(tmp)

    def tmp(self, tmp: Path) -> str:
        """Where a command has its temporary files."""
        return "/tmp" if self.name == "bubblewrap" else str(tmp)  # noqa: S108 - the sandbox's own

    def arguments(self, argv: Sequence[str], laid: Layout, tmp: Path, cwd: Path) -> list[str]:
        """The command inside a sandbox. :raises SandboxError: the program lies where commands may write."""
        if inside(Path(self.program), laid.written):
            raise SandboxError("SANDBOX_BROKEN", _WRITABLE.format(program=self.program))
        if self.name == "bubblewrap":
            return [self.program, *bubblewrap.arguments(laid, options=self.options, cwd=cwd), "--", *argv]
        return [self.program, *seatbelt.arguments(laid, tmp=tmp), *argv]


def backend(*, platform: str | None = None, written: tuple[Path, ...] = ()) -> Backend:
    """The program for this machine, proven to work. Blocks the first time, at most twice ``SELF_TEST_S``.

    The proof runs the program without a sandbox, so it must be none that a sandboxed command put there. One in the
    directories of the system is taken first, since no sandbox lets anybody write there, whatever stands before it on
    ``PATH``: a virtual environment of the workspace does, as a rule.

    :param written: real directories that sandboxed commands may write; no program in them is taken.
    :raises SandboxError: ``SANDBOX_MISSING`` or ``SANDBOX_BROKEN``.
    """
    system = platform or sys.platform
    if system == "darwin":
        program = _SANDBOX_EXEC if os.access(_SANDBOX_EXEC, os.X_OK) else None
    elif system.startswith("linux"):
        program = _on_path("bwrap", written)
    else:
        raise SandboxError("SANDBOX_MISSING", "There is no sandbox for this system. Turn the sandbox off.")
    if program is None:
        what = "sandbox-exec" if system == "darwin" else "bwrap"
        how = "It is a part of macOS." if system == "darwin" else _INSTALL
        raise SandboxError("SANDBOX_MISSING", f"The program of the sandbox, `{what}`, was not found. {how}")
    state = os.stat(program)
    key = (program, state.st_mtime_ns, state.st_ino)
    if key not in _proven:
        found = Backend("sandbox-exec", program) if system == "darwin" else _bubblewrap(program)
        _prove(found)
        _proven[key] = found
    return _proven[key]


def wrap(
    argv: Sequence[str], plan: SandboxPlan, *, platform: str | None = None, program: str | None = None
) -> list[str]:
    """A command line that runs ``argv`` inside the sandbox. Looks at paths, starts nothing but the first self-test.

    It creates nothing. A name to protect that the workspace lacks needs a place to be protected at, which
    :func:`sandboxed` makes and takes away; without it bubblewrap does not start the command.

    :param program: the sandbox program, taken as it is; the proven one of this machine when left out.
    :raises SandboxError: with every code.
    """
    system = platform or sys.platform
    laid = layout(plan)
    if program is None:
        found = backend(platform=system, written=laid.written)
    else:
        found = Backend("sandbox-exec" if system == "darwin" else "bubblewrap", program)
    return found.arguments(argv, laid, laid.workspace, laid.workspace)


def _on_path(name: str, written: tuple[Path, ...]) -> str | None:
    absolute = [entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(entry)]
    named = [found for entry in absolute if (found := shutil.which(name, path=entry))]
    # Neither the file nor a link that leads to it.
    safe = [
        real
        for each in named
        if not inside(Path(real := os.path.realpath(each)), written)
        and not inside(Path(os.path.realpath(os.path.dirname(each))), written)
    ]
    if named and not safe:
        raise SandboxError("SANDBOX_BROKEN", _WRITABLE.format(program=named[0]))
    system = bubblewrap.system_paths()
    return next((each for each in safe if inside(Path(each), system)), safe[0] if safe else None)


def _bubblewrap(program: str) -> Backend:
    text = _run([program, "--help"], Path("/"), both=True)
    known = frozenset(option for option in (bubblewrap.DISABLE_USERNS,) if text and f"{option} " in text)
    return Backend("bubblewrap", program, known)


def _prove(found: Backend) -> None:
    # Beside the workspace, not in it: a sandbox that shows this directory shows too much.
    with tempfile.TemporaryDirectory(prefix="antigravity-sandbox-") as made:
        place = Path(os.path.realpath(made))
        workspace, hidden, escaped = place / "workspace", place / "hidden", place / "escaped"
        (workspace / "kept").mkdir(parents=True)
        tmp = place / "tmp"
        tmp.mkdir()
        hidden.write_bytes(b"")
        laid = layout(SandboxPlan(workspace=workspace, protect=("kept",)))
        argv = found.arguments(["/bin/sh", "-c", _PROBE, "sh", str(hidden), str(escaped)], laid, tmp, workspace)
        lines = (_run(argv, workspace) or "").split("\n")
        confined = lines[0] == "confined" and (workspace / "inside").exists() and not escaped.exists()
    if confined and found.name == "bubblewrap":
        confined = _own_namespaces(lines[1:])
    if not confined:
        hint = (
            "Often user namespaces are switched off (sysctl user.max_user_namespaces, "
            "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns) or a container forbids "
            "them. Allow them, or turn the sandbox off."
            if found.name == "bubblewrap"
            else "A process that is sandboxed itself cannot start another sandbox. Turn one of the two off."
        )
        raise SandboxError("SANDBOX_BROKEN", f"`{found.program}` is there but does not confine commands here. {hint}")


def _own_namespaces(lines: list[str]) -> bool:
    told = dict(zip(_NAMESPACES, lines, strict=False))
    for name in _NAMESPACES:
        with suppress(OSError):
            if told.get(name, "") in ("", os.readlink(f"/proc/self/ns/{name}")):
                return False
    return True


def _run(argv: Sequence[str], cwd: Path, *, both: bool = False) -> str | None:
    try:
        child = subprocess.Popen(
            argv,
            cwd=cwd,
            env={"PATH": os.pathsep.join(("/usr/bin", "/bin", "/run/current-system/sw/bin"))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if both else subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    with child:
        try:
            return child.communicate(timeout=SELF_TEST_S)[0].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            return None
        finally:
            # The whole group: what is left of it would keep the pipe open.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
