"""Hook specifications for plugins of the Python host, their manager, and this project's own plugin.

A plugin author needs few names: :data:`hookimpl`, :class:`ToolCall`, :class:`ToolResult` and :class:`ToolError`, beside
``antigravity_control.Decision`` for what ``before_tool`` returns.
"""

from .calls import ToolCall, ToolError, ToolResult
from .manager import PluginError, PluginManager
from .specs import HostContext, PluginSpecs, hookimpl

__all__ = [
    "HostContext",
    "PluginError",
    "PluginManager",
    "PluginSpecs",
    "ToolCall",
    "ToolError",
    "ToolResult",
    "hookimpl",
]
