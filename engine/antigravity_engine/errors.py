"""Errors as a client sees them: a JSON-RPC code, a plain message and a machine-readable `data.type`.

Owns the classification of what the SDK and its harness report. Never lets their text through: it quotes requests,
answers and addresses.

Types: auth_required, invalid_params, method_not_found, invalid_model, session_not_found, session_limit, busy, quota
(status, retryDelayMs), model_http (status), model_unreachable, model_output, model_silent, empty_output, context_limit,
mcp_unavailable, harness_start, harness_died, internal.
"""

import re
from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
AUTH_REQUIRED = -32000


class EngineError(Exception):
    """One failure of one request. `type` is stable: route on it, never on the message."""

    def __init__(self, kind: str, message: str, *, code: int = INTERNAL, **data: Any) -> None:
        super().__init__(message)
        self.type = kind
        self.code = code
        self.message = message
        self.data = {"type": kind, **{key: value for key, value in data.items() if value is not None}}

    def to_wire(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "data": self.data}


def invalid_params(message: str, *, kind: str = "invalid_params", **data: Any) -> EngineError:
    return EngineError(kind, message, code=INVALID_PARAMS, **data)


#: Phrases of harness 0.1.22 in the error steps with which it answers an unusable model output.
_BLOCKED = "blocked by content safety"
_MAX_TOKENS = "max tokens limit reached"
_EMPTY = "cannot both be empty"

_HTTP = re.compile(r"\bError (\d{3}), Message:|(?:status|status code|HTTP|returned|code)[ :=]+(\d{3})\b", re.IGNORECASE)
_RETRY_DELAY = re.compile(r"retryDelay:(\d+(?:\.\d+)?)s")
_CONTEXT = re.compile(r"agent max token limit|exceeds the maximum number of tokens|context length", re.IGNORECASE)
_MCP = re.compile(
    r"MCP load failed|mcp.{0,40}(?:failed to (?:connect|initialize|load|list))|failed to load mcp", re.IGNORECASE
)
_CATALOGUE = re.compile(
    r"duplicate tool name|number of tools exceeds|failed to construct executor|unexpected end of JSON input"
)
_NETWORK = re.compile(
    r"connection refused|no such host|dial tcp|i/o timeout|deadline exceeded|connection reset|EOF$|\bEOF\b"
)
_STREAM = re.compile(r"iterateResponseStream|unmarshal|model output error|invalid tool call|invalid character")


def judge_output(text: str) -> str:
    """What an error step says about the model's output: "refusal", "max_tokens", "empty" or "bad"."""
    if _BLOCKED in text:
        return "refusal"
    if _MAX_TOKENS in text:
        return "max_tokens"
    return "empty" if _EMPTY in text else "bad"


def classify(text: str, *, status: int = 0, scripted: bool = False) -> EngineError:
    """The error of a turn that the harness ended with `text`; `status` is the HTTP status where the SDK reports one."""
    found = _HTTP.search(text)
    status = status if 400 <= status <= 599 else int(found[1] or found[2]) if found else 0
    if status == 429:
        delay = _RETRY_DELAY.search(text)
        millis = round(float(delay[1]) * 1000) if delay else None
        wait = f"; it asks to wait {float(delay[1]):g} s" if delay else ""
        return EngineError(
            "quota", f"the model end point refused for quota or rate (HTTP 429){wait}", status=429, retryDelayMs=millis
        )
    if _CONTEXT.search(text):
        return EngineError(
            "context_limit", "the conversation and its tools are larger than the engine allows; start a new session"
        )
    if 400 <= status <= 599:
        return EngineError("model_http", _http_message(status, scripted), status=status)
    if _CATALOGUE.search(text) and not _STREAM.search(text.replace("unexpected end of JSON input", "")):
        return EngineError(
            "mcp_unavailable",
            "the tools of an MCP server cannot be used: a definition is invalid, doubled or one too many",
        )
    if _MCP.search(text):
        return EngineError(
            "mcp_unavailable",
            "an MCP server of the session could not be reached; check that it runs, then prompt again",
        )
    if _NETWORK.search(text) and not _STREAM.search(text):
        return EngineError(
            "model_unreachable", "the model end point could not be reached; check its address and the network"
        )
    if _STREAM.search(text):
        return EngineError("model_output", "the model end point sent an answer that cannot be used")
    return EngineError("internal", "the engine ended the turn with an error; prompt again to go on")


def _http_message(status: int, scripted: bool) -> str:
    if scripted and status == 400:
        return "no rule of the script answers this request, or it calls a tool that is not declared (see --script-log)"
    if status in (401, 403):
        return f"the model end point refused the credentials (HTTP {status}); check the key or the account"
    if status == 404:
        return "the model end point does not know this model or address (HTTP 404)"
    return f"the model end point answered with an error (HTTP {status})"
