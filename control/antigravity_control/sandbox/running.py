"""A sandboxed command from before it starts until after it has ended.

Owns: :func:`sandboxed` and what a sandbox leaves in the file system while it runs: the command's directory for
temporary files where the backend has none, and a place for each protected name that the workspace lacks. Nothing can
be mounted over a name that does not exist, so an empty directory is made for it; it is taken away when the last command
in that workspace has ended, of whatever process. One that a killed host left behind is known by its date and reused.
"""

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ._links import inside
from .backends import Backend, backend
from .environment import sandbox_environment
from .errors import SandboxError
from .layout import Layout, layout
from .plan import SandboxPlan

#: Modification time of a place that was made here; whatever is put into it changes the time.
_STAMP_NS: Final = 1_000_000_000_000_000_000
#: Attempts to get hold of a place that other processes make and remove at the same moment, and seconds between them.
_TRIES: Final = 200
_PAUSE_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Sandboxed:
    """A command as it is to be started. :param env: its whole environment. :param cwd: where to start the program."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: Path
    backend: Backend


@contextmanager
def sandboxed(
    argv: Sequence[str], plan: SandboxPlan, *, cwd: Path | None = None, environ: Mapping[str, str] | None = None
) -> Iterator[Sandboxed]:
    """Prepare a command, and clean up after it. Blocks for moments, longer for the first self-test.

    :param argv: program and arguments; a bare name is looked up inside.
    :param cwd: working directory of the command, the workspace by default.
    :param environ: what the command's environment is picked from; this process's own when left out.
    :raises SandboxError: with every code; nothing ran then.
    """
    with ExitStack() as stack:
        laid = layout(plan)
        found = backend(written=laid.written)
        laid = _protected(plan, laid, stack)
        where = laid.workspace if cwd is None else Path(os.path.realpath(cwd))
        if not inside(where, laid.shown):
            raise SandboxError("SANDBOX_BAD_WORKSPACE", f"The working directory {where} is not in the sandbox.")
        tmp = Path("/tmp")  # noqa: S108 - the sandbox's own
        if found.name != "bubblewrap":
            tmp = Path(os.path.realpath(tempfile.mkdtemp(prefix="antigravity-sandbox-")))
            stack.callback(shutil.rmtree, tmp, ignore_errors=True)
        env = sandbox_environment(
            laid, system=found.system, home=found.home(laid, tmp), tmp=found.tmp(tmp), environ=environ
        )
        yield Sandboxed(tuple(found.arguments(argv, laid, tmp, where)), env, where, found)


def _protected(plan: SandboxPlan, laid: Layout, stack: ExitStack) -> Layout:
    """The layout in which each protected name is there, and stays until the stack is closed."""
    held: set[Path] = set()
    for _ in range(_TRIES):
        # An empty directory may be a place that another sandbox made just now, and takes away before it is held here.
        for place in (*laid.absent, *(each for each in laid.protected if each not in held and _is_empty(each))):
            stack.enter_context(_placeholder(place))
            held.add(place)
        laid = layout(plan)
        laid = replace(laid, absent=tuple(each for each in laid.absent if os.access(each.parent, os.W_OK)))
        if not laid.absent:
            return laid
    raise SandboxError("SANDBOX_BAD_WORKSPACE", f"{laid.absent[0]} cannot be protected: it is removed again and again.")


@contextmanager
def _placeholder(place: Path) -> Iterator[None]:
    held = _hold(place)
    if held is None:  # something else came to be there, or nobody can write there
        yield
        return
    try:
        yield
    finally:
        try:
            # Alone with it: nobody else's sandbox needs it any more. Never removed under a running sandbox, since the
            # kernel takes a mount away with the directory that it covers.
            if _locked(held, alone=True) and os.fstat(held).st_mtime_ns == _STAMP_NS:
                with suppress(OSError):  # filled or removed by somebody else
                    os.rmdir(place)
        finally:
            os.close(held)


def _hold(place: Path) -> int | None:
    for _ in range(_TRIES):
        try:
            os.mkdir(place, 0o755)
            os.utime(place, ns=(_STAMP_NS, _STAMP_NS))
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EROFS):
                return None  # the command cannot create it there either
            reason = os.strerror(error.errno or 0).lower()
            raise SandboxError("SANDBOX_BAD_WORKSPACE", f"{place} cannot be protected: {reason}.") from None
        try:
            held = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        with suppress(OSError):
            if _locked(held, alone=False) and os.path.samestat(os.fstat(held), os.lstat(place)):
                return held
        os.close(held)
        time.sleep(_PAUSE_S)  # its last user is just removing it
    raise SandboxError("SANDBOX_BAD_WORKSPACE", f"{place} cannot be protected: other processes keep it locked.")


def _locked(held: int, *, alone: bool) -> bool:
    import fcntl  # POSIX only, as everything that gets here

    try:
        fcntl.flock(held, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_empty(place: Path) -> bool:
    try:
        return not os.listdir(place)
    except OSError:
        return False
