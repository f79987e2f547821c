"""Deleting a directory that an agent has filled.

Owns: :func:`remove`. It does not follow links, and is not stopped by directories that were made read-only (module
caches are).
"""

import os
import shutil
import stat
from contextlib import suppress


def remove(path: str, last: tuple[str, ...] = ()) -> bool:
    """Delete a directory with all that is in it. Blocks for as long as that takes.

    :param last: names of the files in it that go last, so that after an end half-way they still tell whose it is.
    :returns: whether it is gone.
    """
    with suppress(OSError):
        for name in os.listdir(path) if last and not os.path.islink(path) else ():
            if name not in last:
                remove(os.path.join(path, name))
    if os.path.isfile(path) or os.path.islink(path):
        with suppress(OSError):
            os.unlink(path)
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path) and hasattr(os, "fwalk"):
        _open_up(path)
        shutil.rmtree(path, ignore_errors=True)
    return not os.path.lexists(path)


def _open_up(path: str) -> None:
    with suppress(OSError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            os.chmod(path, 0o700)
        for _, folders, _, here in os.fwalk(path, follow_symlinks=False):
            for name in folders:
                with suppress(OSError):
                    # A link to a directory is listed as one; what it leads to is not ours.
                    if stat.S_ISDIR(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
                        os.chmod(name, 0o700, dir_fd=here)
