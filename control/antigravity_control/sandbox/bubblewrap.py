"""Linux: a plan as arguments of bubblewrap.

Owns: :func:`arguments` and what of the system every command sees. The file system begins empty; only what is named here
and in the plan is in it. The order is the meaning: a later mount covers an earlier one, so the private directories come
first, then grants from the outside in, then what stays read-only.
Facts: bwrap(1). As root, bubblewrap keeps every capability unless told otherwise, and follows no mask of ``/etc``.
"""

import os
from pathlib import Path
from typing import Final

from ._links import inside
from .layout import Layout

#: Programs and libraries. A merged /usr has links for most of these; store-based systems have theirs elsewhere.
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
                  "/run/current-system")  # fmt: skip
#: Of /etc only what programs need to start, to resolve names and to trust certificates. What may hold credentials
#: (shadow, ssh, ssl/private, npmrc, pip.conf, gitconfig, ldap, NetworkManager …) is not among them.
_ETC: Final = (
    *("alternatives", "bash.bashrc", "ca-certificates", "crypto-policies", "debian_version", "fonts", "group"),
    *("host.conf", "hosts", "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf"),
    *("localtime", "magic", "mime.types", "networks", "nsswitch.conf", "os-release", "passwd", "pki/ca-trust"),
    *("pki/tls/certs", "pki/tls/cert.pem", "protocols", "resolv.conf", "services", "ssl/cert.pem", "ssl/certs"),
    *("ssl/openssl.cnf", "terminfo", "timezone"),
)
#: Switches of the whole machine in /proc. They obey root without any capability: `core_pattern` names a program that
#: the kernel starts outside.
_PROC: Final = ("sys", "sysrq-trigger", "acpi", "asound", "bus", "driver", "fs", "irq", "mtrr", "pressure", "scsi")
#: Optional: not every release has it.
DISABLE_USERNS: Final = "--disable-userns"


def system_paths() -> tuple[Path, ...]:
    """The directories of programs that every sandbox on this machine shows, as real paths."""
    return tuple(dict.fromkeys(Path(os.path.realpath(path)) for path in _SYSTEM if os.path.isdir(path)))


def home_of(laid: Layout) -> str:
    """The home directory inside: the real one's name with nothing in it, unless the system's programs are there."""
    home = laid.home
    usable = home.is_absolute() and len(home.parts) > 1 and not any(inside(path, (home,)) for path in system_paths())
    return str(home) if usable and not inside(home, (Path("/proc"), Path("/dev"), Path("/etc"))) else "/tmp"  # noqa: S108 - the sandbox's own


def arguments(laid: Layout, *, options: frozenset[str], cwd: Path) -> list[str]:
    """Everything between the program's name and ``--``.

    :param options: optional arguments that this bubblewrap knows. :param cwd: where the command begins.
    """
    made = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]
    if not laid.network:
        made.append("--unshare-net")
    if DISABLE_USERNS in options:
        made.append(DISABLE_USERNS)
    # A new session: no terminal is there whose input could be forged (TIOCSTI).
    made += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for path in _SYSTEM:
        made += _shown_system(path)
    made += ["--dir", "/etc"]
    for name in _ETC:
        real = os.path.realpath(f"/etc/{name}")
        if os.path.exists(real) and not inside(Path(real), laid.hidden):
            made += ["--ro-bind", real, f"/etc/{name}"]
    made += ["--proc", "/proc"]
    for name in _PROC:
        if os.path.exists(f"/proc/{name}"):
            made += ["--ro-bind", f"/proc/{name}", f"/proc/{name}"]
    made += ["--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/run"]  # noqa: S108 - the sandbox's own
    made += ["--dir", "/var", "--symlink", "../tmp", "/var/tmp"]  # noqa: S108 - the sandbox's own
    if (home := home_of(laid)) != "/tmp":  # noqa: S108 - the sandbox's own
        made += ["--tmpfs", home]
    made += _granted(laid)
    for way in laid.pinned:
        # A mount point cannot be renamed or removed.
        made += ["--bind", str(way), str(way)]
    for kept in (*laid.protected, *laid.absent):
        made += ["--ro-bind", str(kept), str(kept)]
    made += _hidden(laid)
    made += _spellings(laid)
    # What is left of the tree was made by bubblewrap; writing there would only seem to work.
    return [*made, "--remount-ro", "/", "--chdir", str(cwd)]


def _shown_system(path: str) -> list[str]:
    if os.path.islink(path):
        return ["--symlink", os.readlink(path), path]
    return ["--ro-bind", path, path] if os.path.isdir(path) else []


def _granted(laid: Layout) -> list[str]:
    mounts = [(path, "--ro-bind") for path in laid.readable] + [(path, "--bind") for path in laid.writable]
    mounts.append((laid.workspace, "--bind"))
    made = []
    for path, how in sorted(mounts, key=lambda mount: len(mount[0].parts)):
        made += [how, str(path), str(path)]
    return made


def _hidden(laid: Layout) -> list[str]:
    visible = (*system_paths(), *laid.shown, *(Path("/etc", name) for name in _ETC))
    made = []
    for place in laid.hidden:
        if not any(inside(place, (each,)) or inside(each, (place,)) for each in visible):
            continue
        # An empty directory; or a device, which cannot be opened where devices of the machine are not allowed.
        made += ["--tmpfs", str(place), "--remount-ro", str(place)] if place.is_dir() else []
        made += ["--ro-bind", os.devnull, str(place)] if not place.is_dir() else []
    return made


def _spellings(laid: Layout) -> list[str]:
    """Links for grants that are spelled by one, unless the link itself is shown."""
    made = []
    seen = (*system_paths(), *laid.shown, Path("/etc"), Path("/proc"), Path("/dev"))
    for spelling, real in laid.links:
        parent = Path(os.path.realpath(spelling.parent))
        # A parent that is a link itself is made as a plain directory; only its own name has to be right.
        if not inside(parent / spelling.name, seen) and not inside(spelling, seen):
            made += ["--symlink", str(real), str(spelling)]
    return made
