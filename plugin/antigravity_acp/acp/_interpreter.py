"""The Python that runs this host, where it is one.

Owns: the question whether ``sys.executable`` can be started as an interpreter. In a host that was compiled into one
file it is the host: starting it would start the host again.
"""

import sys
from pathlib import Path


def interpreter() -> str | None:
    """Path of the interpreter; ``None`` in a compiled or embedding host."""
    if (
        sys.executable
        and not getattr(sys, "frozen", False)
        and Path(sys.executable).stem.lower().startswith(("python", "pypy"))
    ):
        return sys.executable
    return None
