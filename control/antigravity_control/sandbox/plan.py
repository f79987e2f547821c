"""What a sandbox is to allow.

Owns: :class:`SandboxPlan`, plain data as a policy compiles it. Nothing is looked at before :func:`layout` reads it.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlan:
    """What one command may reach beside the programs of the system.

    Relative paths are taken from the workspace, ``~`` is the home directory. A directory stands for all that is in it.

    :param workspace: read and written.
    :param readable: read only; what does not exist is left out.
    :param writable: read and written; what does not exist is left out.
    :param network: the network as this machine has it, loopback included. One host alone cannot be granted.
    :param hidden: what is there of these is neither read nor written, wherever it would be shown.
    :param kept: what is there of these is not written.
    :param protect: names in the workspace and in every writable directory that stay read-only, whatever was granted;
        those of the workspace cannot be created either.
    """

    workspace: Path
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    network: bool = False
    hidden: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()
    protect: tuple[str, ...] = (".git",)
