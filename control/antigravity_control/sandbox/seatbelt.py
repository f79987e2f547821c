"""macOS: a plan as a profile of sandbox-exec.

Owns: :func:`arguments` and the profile. Paths are handed over as parameters, so none is ever part of the profile's
text. Rules are judged on real paths and the last one that fits decides; everything starts out denied. macOS has no
private /tmp: the command gets a directory of its own, named in ``TMPDIR``, and the shared ones stay closed.
Facts: sandbox-exec(1) and the profiles that macOS keeps in /System/Library/Sandbox/Profiles.
"""

import os
import re
from pathlib import Path
from typing import Final

from .layout import Layout

#: Read-only for every command: programs, libraries, and of the settings what programs need to start.
SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/System", "/Library/Apple", "/Library/Developer", "/Library/Frameworks"),
    *("/Library/Preferences/Logging", "/opt/homebrew/bin", "/opt/homebrew/Cellar", "/opt/homebrew/lib"),
    *("/opt/homebrew/opt", "/opt/homebrew/share", "/private/var/db/dyld", "/private/var/db/timezone"),
    *("/private/var/select", "/private/etc/ssl", "/nix/store"),
)
_FILES: Final = (
    *("/private/etc/hosts", "/private/etc/localtime", "/private/etc/passwd", "/private/etc/group"),
    *("/private/etc/protocols", "/private/etc/services", "/private/etc/resolv.conf", "/private/etc/bashrc"),
    *("/private/var/run/resolv.conf", "/dev/random", "/dev/urandom", "/dev/autofs_nowait"),
)
_HEAD: Final = """\
(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.logger"))
(allow ipc-posix-sem)
(allow file-read-metadata)
(allow file-read* (literal "/"))
(allow file-read* file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/dtracehelper"))
(allow file-ioctl (literal "/dev/dtracehelper"))
"""
_NETWORK: Final = """\
(allow network*)
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.dnssd.service")
  (global-name "com.apple.trustd")
  (global-name "com.apple.trustd.agent"))
"""


def system_paths() -> tuple[Path, ...]:
    """The directories of programs that every sandbox shows."""
    return tuple(Path(path) for path in SYSTEM if path not in ("/private/etc/ssl", "/private/var/select"))


def arguments(laid: Layout, *, tmp: Path) -> list[str]:
    """Everything between the program's name and the command.

    :param tmp: real path of the command's own directory for temporary files; its home as well.
    """
    parameters: dict[str, Path] = {}

    def paths(prefix: str, values: tuple[Path, ...]) -> str:
        names = [f"{prefix}{number}" for number in range(len(values))]
        parameters.update(zip(names, values, strict=True))
        return " ".join(f'(subpath (param "{name}"))' for name in names)

    text = _HEAD
    text += "(allow file-read* " + " ".join(f'(subpath "{path}")' for path in SYSTEM) + ")\n"
    text += "(allow file-read* " + " ".join(f'(literal "{path}")' for path in _FILES) + ")\n"
    if laid.readable:
        text += f"(allow file-read* {paths('READ', laid.readable)})\n"
    text += f"(allow file-read* file-write* {paths('WRITE', (laid.workspace, tmp, *laid.writable))})\n"
    if guarded := (*laid.protected, *laid.absent):
        # The name in any case: most volumes take `.GIT` for `.git`. No directory on the way to it may be moved either.
        text += f"(deny file-write* {paths('KEEP', guarded)})\n"
        text += "".join(f'(deny file-write* (regex #"{_any_case(path)}"))\n' for path in guarded)
    if laid.hidden:
        text += f"(deny file-read* file-write* {paths('HIDE', laid.hidden)})\n"
    if laid.pinned:
        text += f"(deny file-write-unlink {paths('PIN', laid.pinned).replace('(subpath', '(literal')})\n"
    if laid.network:
        text += _NETWORK
    made = ["-p", text]
    for name, path in parameters.items():
        made += ["-D", f"{name}={path}"]
    return made


def _any_case(path: Path) -> str:
    """A pattern for a path whose last name is in any case, and what is below; odd characters fit any character."""

    def plain(text: str) -> str:
        return "".join(c if re.fullmatch(r"[A-Za-z0-9/_-]", c) else "[.]" if c == "." else "." for c in text)

    name = "".join(f"[{c.lower()}{c.upper()}]" if c.isascii() and c.isalpha() else plain(c) for c in path.name)
    return f"^{plain(os.fspath(path.parent)).rstrip('/')}/{name}(/|$)"
