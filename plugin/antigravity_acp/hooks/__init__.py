"""Hook specifications for plugins of the Python host, their manager, and this project's own plugin.

A plugin author needs three names: :data:`hookimpl`, :class:`ToolCall` and :class:`ToolResult`, beside
``antigravity_control.Decision`` for what ``before_tool`` returns.
"""

from .calls import ToolCall, ToolResult
from .manager import PluginError, PluginManager
from .specs import PluginSpecs, hookimpl

__all__ = ["PluginError", "PluginManager", "PluginSpecs", "ToolCall", "ToolResult", "hookimpl"]
