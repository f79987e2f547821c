"""A plan laid over the file system that is there.

Owns: :func:`layout`. It reads names and links, decides which real directories are shown and how, and refuses what would
make the sandbox worthless: ``/``, patterns, the kernel's own file systems, a workspace that holds the home directory,
and a grant whose way leads through a link that a sandboxed command could have laid itself.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ._git import repositories_below, repository_of
from ._links import follow, inside
from .errors import SandboxError
from .plan import SandboxPlan

#: File systems of the kernel: the sandbox has its own; the host's would show its processes and devices.
_KERNEL: Final = (Path("/proc"), Path("/sys"), Path("/dev"))
_PATTERN: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Layout:
    """Real paths. ``readable`` and ``writable`` hold no path that another entry covers already.

    :param protected: exist in a writable directory and are shown read-only.
    :param hidden: exist and are not shown, whatever else is.
    :param pinned: directories on the way to what is protected or hidden in a writable directory, the upper ones first.
        If they could be renamed, the next command would find it under another name.
    :param absent: names to protect that the workspace does not have.
    :param links: places whose spelling differs from where they lead, as ``(spelling, real path)``.
    :param missing: grants that do not exist.
    :param home: the home directory as spelled, hidden.
    """

    workspace: Path
    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    protected: tuple[Path, ...]
    hidden: tuple[Path, ...]
    pinned: tuple[Path, ...]
    absent: tuple[Path, ...]
    links: tuple[tuple[Path, Path], ...]
    missing: tuple[Path, ...]
    home: Path
    network: bool

    @property
    def written(self) -> tuple[Path, ...]:
        """Every directory that commands may write in."""
        return (self.workspace, *self.writable)

    @property
    def shown(self) -> tuple[Path, ...]:
        """Every directory and file that was granted."""
        return (self.workspace, *self.writable, *self.readable)


def layout(plan: SandboxPlan) -> Layout:
    """Lay a plan over the file system.

    :raises SandboxError: ``SANDBOX_BAD_WORKSPACE`` or ``SANDBOX_BAD_GRANT``.
    """
    spelled = Path(os.path.abspath(plan.workspace))
    workspace, home = _workspace(spelled), Path(os.path.expanduser("~"))
    missing: list[Path] = []
    writable = _grants(plan.writable, spelled, missing)
    readable = _grants(plan.readable, spelled, missing)
    # The target of a grant that a sandboxed command may redirect is the command's choice, not the user's.
    own = (workspace, *(real for real, _, _ in writable.values()))
    for grant, (real, way, _) in (*writable.items(), *readable.items()):
        if any(inside(link, (root,)) and not inside(real, (root,)) for link in way for root in own):
            raise SandboxError(
                "SANDBOX_BAD_GRANT",
                f"The granted path {grant} leads outside through a link that a sandboxed command can change. "
                "Grant the place itself.",
            )
    roots = _outermost(tuple(real for real, _, _ in writable.values()), (workspace,))
    protected, absent = _protection(plan.protect, workspace, roots)
    repositories = _repositories(protected)
    shown = _outermost((*(real for real, _, _ in readable.values()), *repositories), (workspace, *roots))
    named = {spelling: real for real, _, spelling in (*writable.values(), *readable.values()) if spelling != real}
    if spelled != workspace:
        named[spelled] = workspace
    written = (workspace, *roots)
    hidden = _outermost(_there(plan.hidden, spelled), ())
    if any(inside(workspace, (each,)) for each in hidden):
        raise SandboxError("SANDBOX_BAD_WORKSPACE", f"A rule says that the workspace {workspace} must not be read.")
    # Never more than a directory that is shown anyway: what is read-only is mounted once more.
    kept = [place if inside(place, (root,)) else root for place in _there(plan.kept, spelled) for root in written
            if inside(place, (root,)) or inside(root, (place,))]  # fmt: skip
    kept += [each for each in repositories if inside(each, written)]
    if plan.protect:
        kept += [each for root in written for each in repositories_below(root)]
    protected += tuple(each for each in dict.fromkeys(kept) if each not in protected and not inside(each, hidden))
    return Layout(
        workspace=workspace,
        readable=shown,
        writable=roots,
        protected=protected,
        hidden=hidden,
        pinned=_ways((*protected, *hidden), written),
        absent=absent,
        links=tuple(named.items()),
        missing=tuple(missing),
        home=home,
        network=plan.network,
    )


def _workspace(spelled: Path) -> Path:
    found = follow(spelled)
    if found is None or not found[0].is_dir():
        raise SandboxError("SANDBOX_BAD_WORKSPACE", f"The workspace {spelled} is not a directory.")
    real = found[0]
    home = Path(os.path.realpath(os.path.expanduser("~")))
    if inside(home, (real,)):
        raise SandboxError(
            "SANDBOX_BAD_WORKSPACE",
            "The workspace is the home directory or holds it, so the sandbox would hide nothing. "
            "Start in a project directory, or turn the sandbox off.",
        )
    if _of_the_kernel(real):
        raise SandboxError("SANDBOX_BAD_WORKSPACE", f"A workspace cannot be in {real}.")
    return real


def _grants(
    grants: tuple[Path, ...], workspace: Path, missing: list[Path]
) -> dict[Path, tuple[Path, tuple[Path, ...], Path]]:
    """Each grant that exists with its real path, the links on its way and its absolute spelling."""
    found = {}
    for grant in grants:
        if "\0" in str(grant):
            raise SandboxError("SANDBOX_BAD_GRANT", "A granted path holds a NUL character.")
        # As text: `a/..` of a rule means what it says, not where a link leads.
        spelling = Path(os.path.abspath(workspace / Path(grant).expanduser() if _is_home(grant) else workspace / grant))
        where = follow(spelling)
        if where is None:
            if _PATTERN & set(str(grant)):
                raise SandboxError(
                    "SANDBOX_BAD_GRANT",
                    f"The granted path {grant} is a pattern. The sandbox shows whole directories: grant the directory.",
                )
            missing.append(spelling)
            continue
        real, way = where
        if len(real.parts) == 1 or _of_the_kernel(real):
            raise SandboxError("SANDBOX_BAD_GRANT", f"{real} cannot be granted. Grant the directories that are needed.")
        found[grant] = (real, way, spelling)
    return found


def _there(named: tuple[Path, ...], workspace: Path) -> tuple[Path, ...]:
    """The real paths of what is there."""
    found = []
    for each in named:
        if "\0" in str(each):
            continue  # nothing has such a name
        where = follow(Path(os.path.abspath(workspace / (each.expanduser() if _is_home(each) else each))))
        if where is not None:
            found.append(where[0])
    return tuple(dict.fromkeys(found))


def _ways(places: tuple[Path, ...], roots: tuple[Path, ...]) -> tuple[Path, ...]:
    """The directories between the writable ones and these places, both left out."""
    between = {parent for place in places for parent in place.parents if any(root in parent.parents for root in roots)}
    return tuple(sorted(between, key=lambda each: (len(each.parts), each)))


def _is_home(grant: Path) -> bool:
    return bool(grant.parts) and grant.parts[0] == "~"


def _of_the_kernel(real: Path) -> bool:
    return len(real.parts) == 1 or inside(real, _KERNEL)


def _outermost(paths: tuple[Path, ...], covered: tuple[Path, ...]) -> tuple[Path, ...]:
    """The paths that nothing else covers, in a stable order."""
    kept: list[Path] = []
    for path in sorted(set(paths)):
        if not inside(path, (*covered, *kept)):
            kept.append(path)
    return tuple(kept)


def _protection(
    names: tuple[str, ...], workspace: Path, writable: tuple[Path, ...]
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    present, absent = [], []
    for root in (workspace, *writable):
        for name in names:
            if name in ("", ".", "..") or "/" in name or "\0" in name:
                raise SandboxError(
                    "SANDBOX_BAD_WORKSPACE", "A protected name must be the name of one file or directory."
                )
            place = root / name
            try:
                mode = os.lstat(place).st_mode
            except FileNotFoundError:
                if root == workspace:
                    absent.append(place)
                continue
            except OSError:
                continue  # a granted file holds no names
            if stat.S_ISLNK(mode):
                # A mount lands where a link leads and leaves the link itself to be replaced.
                raise SandboxError(
                    "SANDBOX_BAD_WORKSPACE",
                    f"{place} is a symbolic link, which the sandbox cannot protect. "
                    "Use a directory, or a `.git` file that names the repository (`git init --separate-git-dir`).",
                )
            present.append(place)
    return tuple(present), tuple(absent)


def _repositories(protected: tuple[Path, ...]) -> tuple[Path, ...]:
    return tuple(where for place in protected if place.is_file() for where in repository_of(place))
