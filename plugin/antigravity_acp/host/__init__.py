"""A small real host: context, model registry, plugins, agent loop, approvals and workspace tools.

It is light to import: no agent, no MCP and no terminal library is loaded until it is used.
"""

from .approvals import ApprovalRequest, Approvals, Approver, GovernedApprover, PolicyApprover, TerminalApprover
from .console import LineReader
from .context import Context, ContextError
from .discovery import Selection, discover
from .host import Host
from .llm import AdapterRegistration, LlmRegistry
from .loop import AgentLoop, LoopLimits, TurnResult
from .models import ModelChoice, choose_model
from .tools import Tool, ToolContext, ToolRegistry, Workspace, WorkspaceError, builtin_tools

__all__ = [
    "AdapterRegistration",
    "AgentLoop",
    "ApprovalRequest",
    "Approvals",
    "Approver",
    "Context",
    "ContextError",
    "GovernedApprover",
    "Host",
    "LineReader",
    "LlmRegistry",
    "LoopLimits",
    "ModelChoice",
    "PolicyApprover",
    "Selection",
    "TerminalApprover",
    "Tool",
    "ToolContext",
    "ToolRegistry",
    "TurnResult",
    "Workspace",
    "WorkspaceError",
    "builtin_tools",
    "choose_model",
    "discover",
]
