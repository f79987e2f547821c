"""The terminal sandbox: a command runs with the workspace, what was granted, and nothing else of the machine.

Owns: the plan of a sandbox, the two programs that carry it out (bubblewrap on Linux, sandbox-exec on macOS), the proof
that the one found here works, and the environment of a sandboxed command. Starts nothing but its self-test.
Never: runs a command without the sandbox that was asked for. What cannot be done is a :class:`SandboxError`.
"""

from .backends import Backend, backend, wrap
from .environment import sandbox_environment
from .errors import SandboxError
from .layout import Layout, layout
from .plan import SandboxPlan
from .running import Sandboxed, sandboxed

__all__ = [
    "Backend",
    "Layout",
    "SandboxError",
    "SandboxPlan",
    "Sandboxed",
    "backend",
    "layout",
    "sandbox_environment",
    "sandboxed",
    "wrap",
]
