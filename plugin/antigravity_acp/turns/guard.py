"""What the agent may do on its own: nothing but call the tools it was lent.

Owns: the answer to every permission request of one turn, and the verdict on every reported tool call. It sees who a
call is for, never what it would do: arguments are judged in the MCP handler, which is the last gate.

Policy ``end``: the first sign of a native tool ends the turn. Policy ``reject``: a native tool that asks first is
refused and the turn goes on, so often as :data:`~antigravity_acp.limits.MAX_REFUSALS` says; one that did not ask ends
it all the same. This is detection, not a sandbox: a native
action can have happened before it is reported.
"""

from typing import Literal

from ..acp import AgentProfile, AgentToolCall, PermissionAnswer, PermissionRequest
from ..acp.permissions import Allow, Cancelled, Ours, Question, Reject, is_ours, judge
from ..bridge import Endpoint
from ..contract import LlmError
from ..limits import MAX_REFUSALS


class NativeToolGuard:
    """Judges one turn.

    :param endpoint: what the agent was lent, ``None`` for a request without tools: then every tool is foreign.
    """

    def __init__(self, policy: Literal["end", "reject"], profile: AgentProfile, endpoint: Endpoint | None) -> None:
        self._reject = policy == "reject"
        self._profile = profile
        self._server = endpoint.server_name if endpoint else ""
        self._exported = endpoint.exported_names if endpoint else frozenset[str]()
        self._refused: set[str] = set()
        self._refusals = 0

    def on_permission(self, request: PermissionRequest) -> tuple[PermissionAnswer, LlmError | None]:
        """The answer to a permission request, and the error that ends the turn, if it does."""
        verdict = judge(self._profile, request, server_name=self._server, exported=self._exported)
        if isinstance(verdict, Ours):
            return Allow(verdict.option_id), None
        if isinstance(verdict, Question):
            # Only the user can answer, and over this wire nobody can ask them.
            return Cancelled(), None
        if self._reject and verdict.reject_option is not None and self._refusals < MAX_REFUSALS:
            self._refusals += 1
            self._refused.add(request.call_id)
            return Reject(verdict.reject_option), None
        return Cancelled(), LlmError("ACP_NATIVE_TOOLS_UNSUPPORTED")

    def on_tool_call(self, event: AgentToolCall) -> LlmError | None:
        """The error that ends the turn because of what the agent reports, if there is one."""
        if event.call_id in self._refused:
            ran = event.status in ("in_progress", "completed")
            return LlmError("ACP_NATIVE_TOOLS_UNSUPPORTED") if ran else None
        if is_ours(self._profile, event, server_name=self._server, exported=self._exported) is not False:
            return None
        if self._reject and event.status in (None, "pending"):
            # The announcement of a call that may still ask.
            return None
        return LlmError("ACP_NATIVE_TOOLS_UNSUPPORTED")
