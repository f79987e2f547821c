"""The hardline floor: its entries, each with a name and what it stops. Data only.

The list is short on purpose: nothing an agent is ever asked to do needs one of these. Everything softer is ordinary
policy.
"""

from typing import NamedTuple

_REASON = "hardline floor: {what} — blocked unconditionally; this pattern cannot be allowed by policy or approval"


class Entry(NamedTuple):
    """``name`` is stable: ledgers and reports refer to it."""

    name: str
    what: str

    @property
    def reason(self) -> str:
        return _REASON.format(what=self.what)


ROOT = Entry("root-delete", "recursive delete of the root filesystem")
SYSTEM = Entry("system-delete", "recursive delete of a system directory")
HOME = Entry("home-delete", "recursive delete of the home directory")
FORMAT = Entry("format", "making a filesystem over a device")
RAW_WRITE = Entry("raw-device-write", "writing onto a raw block device")
RAW_REDIRECT = Entry("raw-device-redirect", "redirecting output onto a raw block device")
FORK_BOMB = Entry("fork-bomb", "fork bomb")
KILL_ALL = Entry("kill-all", "killing every process")
POWER = Entry("power", "shutting down or restarting the machine")
ENTRIES = (ROOT, SYSTEM, HOME, FORMAT, RAW_WRITE, RAW_REDIRECT, FORK_BOMB, KILL_ALL, POWER)

SYSTEM_FOLDERS = frozenset(
    {"/home", "/root", "/etc", "/usr", "/var", "/boot", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/dev",
     "/proc", "/sys", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/System", "/Library", "/Users",
     "/Applications", "/private", "/private/etc", "/private/var", "/Volumes"}
)  # fmt: skip
"""Folders whose loss takes the system down. Their contents (``/etc/*``) count as they do."""

REMOVERS = frozenset({"rm", "grm"})
POWER_NAMES = frozenset({"shutdown", "reboot", "halt", "poweroff"})
POWER_VERBS = frozenset({"poweroff", "reboot", "halt", "kexec", "soft-reboot"})
MESSENGERS = frozenset({"dbus-send", "busctl", "gdbus", "qdbus", "qdbus6", "qdbus-qt5"})
POWER_ANSWERS = frozenset({"--help", "--version", "-c", "/a", "/?"})
"""Operands with which a power command does nothing; ``shutdown -c``, or ``/a``, takes a shutdown back."""
FORMAT_NAMES = frozenset({"mkfs", "mke2fs", "mkdosfs", "mkntfs", "mkexfatfs", "newfs"})
FORMAT_BEGINNINGS = ("mkfs.", "newfs_")
FILE_ENDINGS = frozenset({"sh", "bash", "py", "pl", "rb", "js", "ts", "go", "rs", "c", "h", "md", "txt", "log", "conf",
                          "json", "yml", "yaml", "8"})  # fmt: skip
"""``mkfs.sh`` is a script, no kind of file system."""
WIPERS = frozenset({"shred", "wipefs", "blkdiscard"})
COPIERS = frozenset({"cp", "mv", "install", "gcp", "gmv", "ddrescue"})
TEES = frozenset({"tee", "sponge", "gtee"})
KILL_ALL_NAMES = frozenset({"killall5"})
FLOOR_NAMES = (
    REMOVERS
    | POWER_NAMES
    | FORMAT_NAMES
    | WIPERS
    | {"dd", "tee", "kill", "killall5", "find", "init", "telinit", "systemctl"}
)
"""Names that a command name with pattern characters is compared with."""
