"""The agent's side: start an agent process, speak ACP v1 with it, end it.

Public face of the room. Importing it does not import the ACP SDK, which takes most of a second; that happens while
the first agent starts.
"""

from ._redact import HIDDEN, hide_homes, redact
from .client import AgentClient, McpEndpoint
from .errors import AgentError
from .launch import AgentCommand, resolve_command
from .models import ModelChoice
from .permissions import (
    Allow,
    Cancelled,
    Foreign,
    Ours,
    PermissionAnswer,
    PermissionRequest,
    Question,
    Reject,
    Verdict,
    is_ours,
    judge,
)
from .pool import AgentPool, Preparation, Standby
from .process import AgentProcess
from .profiles import PROFILES, STRICT, AgentProfile, profile_for
from .session import AgentSession, PromptOutcome
from .updates import AgentEvent, AgentText, AgentThought, AgentToolCall, Counters

__all__ = [
    "HIDDEN",
    "PROFILES",
    "STRICT",
    "AgentClient",
    "AgentCommand",
    "AgentError",
    "AgentEvent",
    "AgentPool",
    "AgentProcess",
    "AgentProfile",
    "AgentSession",
    "AgentText",
    "AgentThought",
    "AgentToolCall",
    "Allow",
    "Cancelled",
    "Counters",
    "Foreign",
    "McpEndpoint",
    "ModelChoice",
    "Ours",
    "PermissionAnswer",
    "PermissionRequest",
    "Preparation",
    "PromptOutcome",
    "Question",
    "Reject",
    "Standby",
    "Verdict",
    "hide_homes",
    "is_ours",
    "judge",
    "profile_for",
    "redact",
    "resolve_command",
]
