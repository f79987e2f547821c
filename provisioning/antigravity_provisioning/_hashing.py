"""The SHA-256 of a file, as everything of this wing computes it: in pieces, bounded in memory, to be cancelled."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

#: Bytes that are read at once. Small enough to stay in the processor's cache and to poll ``cancelled`` often.
PIECE: Final = 256 * 1024


class HashCancelled(Exception):  # noqa: N818  # says that somebody changed his mind, not that something failed
    """The caller's ``cancelled`` said so; nothing was computed."""


def never() -> bool:
    """A ``cancelled`` for callers that wait until the end."""
    return False


def sha256_of(path: Path, cancelled: Callable[[], bool] = never) -> tuple[int, str]:
    """Size in bytes and SHA-256 (lower-case hex) of a file as it is read, which is not always what ``stat`` says.

    Blocks; call it in a thread. :param cancelled: asked before every piece, from the calling thread.
    :raises HashCancelled: when it answers true. :raises OSError: when the file cannot be read.
    """
    digest = hashlib.sha256()
    size = 0
    buffer = bytearray(PIECE)
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as file:
        while True:
            if cancelled():
                raise HashCancelled
            count = file.readinto(view)
            if not count:
                return size, digest.hexdigest()
            size += count
            digest.update(view[:count])
