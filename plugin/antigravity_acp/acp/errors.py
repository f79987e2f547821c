"""Classification of what an agent answers with: from a JSON-RPC error to a code of ours.

Owns: :class:`AgentError` and :func:`classify`, the only place where the text of a remote error is looked at.
Never: passes any of that text on. A message names the method, the number and what to do, nothing else.

Sources of the shapes: ACP v1 (``-32000`` is "authentication required"), the Google API error model
(``RESOURCE_EXHAUSTED``, ``RetryInfo.retryDelay``), and our engine, which marks a used-up quota with ``data.type``.
"""

import json
import math
import re
import signal
from collections.abc import Iterator
from typing import Final

from ..contract import LlmError

AUTH_REQUIRED_NUMBER: Final = -32000
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602

#: How deep and how far an error's data is searched: real ones are three levels deep, hostile ones may be endless.
_MAX_DEPTH: Final = 6
_MAX_NODES: Final = 200
_MAX_TEXT: Final = 4_096
#: A longer wait than this says nothing that a host could act on.
_MAX_RETRY_MS: Final = 7 * 24 * 3600 * 1000

# -32000 is also the number of a plain server error in JSON-RPC, so the words must agree with it.
_AUTH = re.compile(
    r"\b(?:authenticat\w*|unauthenticated|unauthori[sz]ed|auth_required|sign(?:ed)?[ -]?in|log(?:ged)?[ -]?in|"
    r"credentials?|api[ _-]?key)\b",
    re.IGNORECASE,
)
_CANCELLED = re.compile(r"\bcontext cancell?ed\b", re.IGNORECASE)
_QUOTA = re.compile(
    r"\bRESOURCE_EXHAUSTED\b|\bquota\b.{0,40}\b(?:exceed|exhaust|used up|limit|reached)|\brate.?limit|"
    r"\btoo many requests\b|\b(?:http|status|code|error)\W{0,4}(?:429|402)\b",
    re.IGNORECASE,
)
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?")
_RETRY_TEXT = re.compile(r"\b(?:retry|reset\w*|try again)\b\D{0,20}((?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?s)\b", re.IGNORECASE)
_SECONDS_KEYS: Final = frozenset({"retrydelay", "retryafter", "retryafterseconds", "quotaresetdelay", "resetafter"})
_MILLIS_KEYS: Final = frozenset({"retryafterms", "retrydelayms", "providerretryafterms"})


class AgentError(LlmError):
    """An error answer of the agent to one request.

    :param number: the JSON-RPC error code, for decisions inside this room.
    :param cancelled: the agent says that the work was cancelled; the turn knows whether we asked for that.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        number: int,
        cancelled: bool = False,
        status: int | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(code, message, status=status, retry_after_ms=retry_after_ms)
        self.number = number
        self.cancelled = cancelled


def classify(method: str, number: int, text: str, data: object) -> AgentError:
    """Give an error answer its code.

    :param method: the request's method, ours and therefore safe to name.
    :param number: JSON-RPC error code; :param text: its message; :param data: its data, any JSON.
    """
    strings, numbers, facts = _gather(text, data)
    joined = "\n".join(strings)[:_MAX_TEXT]
    if facts.get("type") == "quota" or number in _QUOTA_NUMBERS or numbers & _QUOTA_NUMBERS or _QUOTA.search(joined):
        status = 402 if 402 in numbers | {number} else 429
        return AgentError(
            "ACP_QUOTA",
            f"The agent answered `{method}` with a used-up quota or rate limit. Wait until it resets, "
            "or choose another model.",
            number=number,
            status=status,
            retry_after_ms=_retry_after(facts, joined),
        )
    if number == AUTH_REQUIRED_NUMBER and _AUTH.search(joined):
        return AgentError(
            "ACP_AUTH_REQUIRED",
            f"The agent wants a sign-in before `{method}`. Sign in with the agent itself, then repeat the request.",
            number=number,
        )
    return AgentError(
        "ACP_RPC_ERROR",
        f"The agent answered `{method}` with error {number}. Its own log or `antigravity-acp probe` says more.",
        number=number,
        cancelled=bool(_CANCELLED.search(joined)),
    )


_QUOTA_NUMBERS: Final = frozenset({429, 402})


def _gather(text: str, data: object) -> tuple[list[str], set[int], dict[str, object]]:
    """Texts, status numbers and named facts of an error, wherever the agent has put them."""
    strings, numbers, facts = [text], set[int](), dict[str, object]()
    # Some agents put the provider's whole JSON answer into the message.
    roots = [data, *(found for item in (text, data) if isinstance(item, str) if (found := _embedded(item)) is not None)]
    for key, value in _walk(roots):
        if isinstance(value, str):
            strings.append(value[:_MAX_TEXT])
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and key in ("code", "status", "statuscode", "httpstatus")
        ):
            numbers.add(value)
        facts.setdefault(key, value)
    return strings, numbers, facts


def _walk(roots: list[object]) -> Iterator[tuple[str, object]]:
    queue: list[tuple[str, object, int]] = [("", root, 0) for root in roots]
    for _ in range(_MAX_NODES):
        if not queue:
            return
        key, value, depth = queue.pop(0)
        if isinstance(value, dict) and depth < _MAX_DEPTH:
            queue.extend((_plain(name), item, depth + 1) for name, item in list(value.items())[:_MAX_NODES])
        elif isinstance(value, list) and depth < _MAX_DEPTH:
            queue.extend((key, item, depth + 1) for item in value[:_MAX_NODES])
        else:
            yield key, value


def _plain(name: object) -> str:
    return re.sub(r"[^a-z]", "", str(name)[:64].lower())


def _embedded(text: str) -> object:
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end < 16 * _MAX_TEXT:
        try:
            return json.loads(text[start : end + 1])
        except (ValueError, RecursionError):
            return None
    return None


def _retry_after(facts: dict[str, object], text: str) -> int | None:
    for key, value in facts.items():
        factor = 1000 if key in _SECONDS_KEYS else 1 if key in _MILLIS_KEYS else None
        if factor is None:
            continue
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return _bounded(float(value) * factor)
        if isinstance(value, str) and (found := _duration(value)) is not None:
            return _bounded(found * 1000)
    match = _RETRY_TEXT.search(text)
    seconds = _duration(match.group(1)) if match else None
    return _bounded(seconds * 1000) if seconds is not None else None


def _duration(text: str) -> float | None:
    """Seconds of ``30s``, ``1h2m3.5s`` or ``12``; ``None`` for anything else."""
    stripped = text.strip()[:32]
    if re.fullmatch(r"\d+(?:\.\d+)?", stripped):
        return float(stripped)
    match = _DURATION.fullmatch(stripped)
    if not match or not any(match.groups()):
        return None
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def _bounded(milliseconds: float) -> int | None:
    return round(milliseconds) if 0 <= milliseconds <= _MAX_RETRY_MS else None


def timed_out(method: str, milliseconds: int, setting: str) -> LlmError:
    """The agent did not answer ``method`` within ``milliseconds``; ``setting`` is the one to raise."""
    return LlmError(
        "ACP_TIMEOUT",
        f"The agent did not answer `{method}` within {milliseconds} ms. Raise `{setting}`, or look at the agent.",
    )


def describe_exit(returncode: int | None) -> str:
    """How a process ended, in words: for messages, so numbers and signal names only."""
    if returncode is None:
        return "closed its output while its process was still running"
    # Windows reports -1 as an unsigned number (t3code #12206); there are no signals there.
    unsigned = returncode >= 2**31
    code = returncode - 2**32 if unsigned else returncode
    number = 0 if unsigned else -code if code < 0 else code - 128 if 128 < code < 160 else 0
    try:
        name = signal.Signals(number).name if number else ""
    except ValueError:
        name = ""
    if name == "SIGILL":
        return "was ended by SIGILL: this processor lacks instructions that the agent needs (AVX on x86, LSE on ARM)"
    return f"was ended by {name}" if name else f"ended with exit status {code}"


def disconnected(returncode: int | None, *, during: str | None = None) -> LlmError:
    """The agent's process or its output ended.

    :param during: the method that was waiting for an answer, if one was.
    """
    when = f" before it answered `{during}`" if during else ""
    return LlmError(
        "ACP_DISCONNECTED",
        f"The agent {describe_exit(returncode)}{when}. Repeat the request; a new process is started.",
    )
