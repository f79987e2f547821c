"""The tool calls of a session as a client sees them: announced, asked about, ended.

Owns the ids (ours, unique in the session: the model's own ids may repeat) and the state of each open call. Lives in the
engine's loop. A call that is not announced as `tool_call` is never asked about and never runs.
"""

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from antigravity_engine import limits
from antigravity_engine.wire import ClientError, ClientGoneError

Update = Callable[[dict[str, Any]], Awaitable[None]]
#: ask(tool call as it was announced, options) -> the result of session/request_permission.
Permission = Callable[[dict[str, Any], list[dict[str, str]]], Awaitable[Any]]

ALLOW, REJECT = "allow_once", "reject_once"
OPTIONS = [
    {"optionId": ALLOW, "name": "Allow", "kind": "allow_once"},
    {"optionId": REJECT, "name": "Reject", "kind": "reject_once"},
]
_NATIVE_KINDS = {
    "view_file": "read",
    "list_directory": "read",
    "search_directory": "search",
    "find_file": "search",
    "search_web": "search",
    "create_file": "edit",
    "edit_file": "edit",
    "run_command": "execute",
    "read_url_content": "fetch",
}


@dataclass(slots=True)
class _Call:
    id: str
    key: str
    server: str | None
    tool: str
    arguments: dict[str, Any]
    announced: dict[str, Any]
    asked: bool = False


class ToolCalls:
    """`native`: whether calls of the harness's own tools are announced and asked about, or refused unseen."""

    def __init__(self, update: Update, permission: Permission, *, native: bool) -> None:
        self._update = update
        self._permission = permission
        self._native = native
        self._open: dict[str, _Call] = {}
        self._live = False

    def begin(self) -> None:
        """A turn begins. Calls that come outside of one are refused unseen: they are those of a dying harness."""
        self._live = True

    @property
    def busy(self) -> bool:
        """Whether a call waits for a permission or runs."""
        return bool(self._open)

    async def before(self, call: Any) -> bool:
        """Announces a call; False when it must not even be asked about."""
        server, tool = call.server_name or None, _name(call.name)
        if not self._live or (server is None and not self._native):
            # What is left of the harness's own (list_resources, read_resource) is no business of the client's.
            return False
        announced: dict[str, Any] = {
            "toolCallId": f"call_{uuid.uuid4().hex}",
            "title": f"{server}: {tool}" if server else tool,
            "kind": _NATIVE_KINDS.get(tool, "other") if server is None else "other",
            "status": "pending",
            "rawInput": dict(call.args),
            "_meta": {"mcp": {"server": server, "tool": tool}} if server else {"native": {"tool": tool}},
        }
        key = call.id or call.step_id or announced["toolCallId"]
        self._open[key] = _Call(announced["toolCallId"], key, server, tool, dict(call.args), announced)
        await self._update({"sessionUpdate": "tool_call", **announced})
        return True

    async def ask(self, question: Any) -> bool:
        """Asks the client. A call that was not announced, an error and a cancelled question all mean no."""
        call = self._unasked(question)
        if call is None:
            return False
        call.asked = True
        allowed = False
        try:
            answer = await self._permission(call.announced, OPTIONS)
            outcome = answer.get("outcome") if isinstance(answer, dict) else None
            if isinstance(outcome, dict):
                allowed = outcome.get("outcome") == "selected" and outcome.get("optionId") == ALLOW
        except (ClientError, ClientGoneError):
            pass
        if call.key not in self._open:
            return False  # the turn was given up meanwhile
        if allowed:
            await self._update(_status(call, "in_progress"))
        else:
            self._open.pop(call.key, None)
            await self._update(_status(call, "failed"))
        return allowed

    async def after(self, result: Any) -> None:
        """A call has ended with a result."""
        await self._end(result.id or result.step_id, _text(result.result), failed=bool(result.error))

    async def failed(self, error: Any) -> None:
        """A call has ended with an error: the tool's own, or that of the way to it."""
        await self._end(error.call_id or error.step_id, str(error), failed=True)

    async def give_up(self) -> None:
        """The turn has ended, and with it what is still open."""
        self._live = False
        calls, self._open = list(self._open.values()), {}
        for call in calls:
            await self._update(_status(call, "failed"))

    def _unasked(self, question: Any) -> _Call | None:
        """The announced call that a policy asks about: the question carries no id, and the next call is announced while
        one runs, so it is found by what it says."""
        server, tool, arguments = question.server_name or None, _name(question.name), dict(question.args)
        waiting = [
            call for call in self._open.values() if not call.asked and call.server == server and call.tool == tool
        ]
        exact = [call for call in waiting if call.arguments == arguments]
        return next(iter(exact or waiting), None)

    async def _end(self, key: str | None, text: str, *, failed: bool) -> None:
        call = self._open.pop(key or "", None)
        if call is None:
            return
        update = _status(call, "failed" if failed else "completed")
        if len(text) > limits.MAX_UPDATE_CHARACTERS:
            text = text[: limits.MAX_UPDATE_CHARACTERS] + "\n[cut]"
        update["content"] = [{"type": "content", "content": {"type": "text", "text": text}}]
        await self._update(update)


def _status(call: _Call, status: str) -> dict[str, Any]:
    meta = call.announced["_meta"]
    return {"sessionUpdate": "tool_call_update", "toolCallId": call.id, "status": status, "_meta": meta}


def _name(name: Any) -> str:
    return str(getattr(name, "value", name))


def _text(result: Any) -> str:
    if isinstance(result, str):
        return result
    dump = getattr(result, "model_dump_json", None)
    return str(dump()) if dump is not None else str(result)
