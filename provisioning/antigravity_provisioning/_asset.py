"""One archive that may be installed, as data. What is pinned is in :mod:`.releases`."""

from typing import NamedTuple


class Asset(NamedTuple):
    """The archive of one platform.

    :param size: bytes of the archive. :param sha256: of the archive, 64 hexadecimal digits in lower case.
    :param sha256_source: who computed it; Google publishes none.
    :param command: file name of the server in the archive. :param args: arguments that it needs.
    :param siblings: file names that must lie beside it. :param unpacked: bytes of all files, 0 when not known.
    """

    version: str
    platform: str
    url: str
    size: int
    sha256: str
    sha256_source: str
    command: str
    args: tuple[str, ...]
    siblings: tuple[str, ...]
    unpacked: int
