"""How the sandbox says that it cannot be had.

Owns: :class:`SandboxError` and its codes. A message says what happened and what to do; it names paths of settings,
never a command, a variable's value or another program's output.
"""

from typing import Literal

SandboxCode = Literal[
    "SANDBOX_MISSING",  # the program is not there, or not for this system
    "SANDBOX_BROKEN",  # it is there and does not confine here
    "SANDBOX_BAD_WORKSPACE",  # this workspace cannot be confined
    "SANDBOX_BAD_GRANT",  # a granted path cannot be one
]


class SandboxError(Exception):
    """A command cannot be run in the sandbox; it did not run at all.

    :param code: one of ``SandboxCode``. :param message: what happened and what to do.
    """

    def __init__(self, code: SandboxCode, message: str) -> None:
        self.code: SandboxCode = code
        self.message = message
        super().__init__(message)

    def __reduce__(self) -> tuple[type["SandboxError"], tuple[SandboxCode, str]]:
        return type(self), (self.code, self.message)
