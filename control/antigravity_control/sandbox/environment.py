"""The environment of a sandboxed command: a list of what passes.

Owns: :func:`sandbox_environment`. A name that is not on the list does not pass, so a credential under any name stays
outside. ``PATH`` keeps the directories that the sandbox shows.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ._links import inside
from .layout import Layout

_NAMES: Final = frozenset(
    (
        *("USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TZ"),
        *("COLUMNS", "LINES", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONUTF8", "CI"),
    )
)
_FAMILY: Final = "LC_"
#: Only where the network is granted, and only without a name or password in the address.
_NETWORK: Final = frozenset(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"))
_USER_IN_URL: Final = re.compile(r"@")
#: Programs of the system, which every sandbox shows.
USUAL_PATH: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


def sandbox_environment(
    laid: Layout, *, system: tuple[Path, ...], home: str, tmp: str, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Build the whole environment of a command.

    :param system: directories of the system that the sandbox shows.
    :param home: its home directory. :param tmp: its directory for temporary files.
    :param environ: what is there to pass on; this process's own when left out.
    """
    source = os.environ if environ is None else environ
    passed = {name: value for name, value in source.items() if name in _NAMES or name.startswith(_FAMILY)}
    if laid.network:
        passed.update(
            (name, value)
            for name, value in source.items()
            if name.upper() in _NETWORK and not _USER_IN_URL.search(value)
        )
    shown = (*system, *laid.shown)
    kept = [
        entry
        for entry in source.get("PATH", "").split(os.pathsep)
        if os.path.isabs(entry) and inside(Path(os.path.realpath(entry)), shown)
    ]
    path = os.pathsep.join(dict.fromkeys((*kept, *USUAL_PATH)))
    return {**passed, "PATH": path, "HOME": home, "TMPDIR": tmp, "TMP": tmp, "TEMP": tmp}
