"""``python -m antigravity_acp.sidecar``: the process.

Owns: the process's three standard files. Frames have descriptors of their own, so that whatever a library prints goes
to stderr and whatever reads stdin finds it empty. Leaves with 0 when the host was done, 1 when the host broke the
protocol or something could not be ended, 2 when there is no host at the other end.
"""

import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from .backend import MakeAdapter

_log = logging.getLogger("antigravity_acp.sidecar")


class _Lines(logging.Formatter):
    """One line a record, and only our own text: a library's may hold anything."""

    def format(self, record: logging.LogRecord) -> str:
        ours = record.name.partition(".")[0].startswith("antigravity_")
        text = record.getMessage() if ours else "(a message of this library)"
        return f"{record.levelname} {record.name}: {text}"


def main(load: "MakeAdapter | None" = None) -> int:
    """Serve the host that started this process; returns the exit code.

    :param load: loads another adapter than the plugin's own.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    # Late, as in every command: what the process needs is loaded when it runs.
    import asyncio

    from .backend import load_adapter
    from .server import NoHostError, serve

    try:
        status = asyncio.run(serve(*_claim(), load or load_adapter))
    except NoHostError:
        _log.error("the sidecar is started by a host, with pipes as its stdin and stdout")
        return 2
    except Exception as error:  # noqa: BLE001 - the last place; a traceback may hold what a host sent
        _log.error("the sidecar failed: %s", type(error).__name__)
        return 1
    if threading.active_count() > 1:
        # A library is still being loaded, for nobody. Everything that holds something has ended.
        logging.shutdown()
        os._exit(status)
    return status


def _claim() -> tuple[BinaryIO, BinaryIO]:
    """Take stdin and stdout for frames; what uses them by habit gets nothing, and stderr."""
    frames_in, frames_out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(frames_in, "rb", buffering=0), os.fdopen(frames_out, "wb", buffering=0)


if __name__ == "__main__":
    sys.exit(main())
