"""Google Antigravity as the primary model of an agent host that keeps its own tools, history and approvals.

The public face: the adapter, its settings and the host's vocabulary. Names are loaded when they are first used, so that
a host which merely finds the plugin, or a command line that prints its help, does not pay for what it does not use.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adapter import AntigravityAdapter
    from .contract import (
        AbortController,
        AbortSignal,
        GenerateOptions,
        LlmAdapter,
        LlmError,
        Message,
        StreamChunk,
        ToolSchema,
    )
    from .settings import Settings

__all__ = [
    "AbortController",
    "AbortSignal",
    "AntigravityAdapter",
    "GenerateOptions",
    "LlmAdapter",
    "LlmError",
    "Message",
    "Settings",
    "StreamChunk",
    "ToolSchema",
]

_ROOMS = {"AntigravityAdapter": ".adapter", "Settings": ".settings"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ROOMS.get(name, ".contract"), __name__), name)
