"""Classification of what an agent answers with: from a JSON-RPC error to a code of ours.

Owns: :class:`AgentError` and :func:`classify`, the only place where the text of a remote error is looked at.
Never: passes any of that text on. A message names the method, the number and what to do, nothing else.

Sources of the shapes: ACP v1 (``-32000`` is "authentication required"), the Google API error model
(``RESOURCE_EXHAUSTED``, ``RetryInfo.retryDelay``, ``ErrorInfo.metadata.quotaResetTimeStamp``), our engine, which marks
a used-up quota with ``data.type``, and reports from users of the official server: a 402 or 429 inside the text of an
"Internal error", its JSON quoted once or twice.
"""

import json
import math
import re
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from ..contract import LlmError

AUTH_REQUIRED_NUMBER: Final = -32000
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602

#: How deep and how far an error's data is searched: real ones are three levels deep, hostile ones may be endless.
_MAX_DEPTH: Final = 6
_MAX_NODES: Final = 200
_MAX_TEXT: Final = 4_096
#: A larger integer is no status, no delay and no moment.
_MAX_NUMBER: Final = 2**53
#: Texts of one error that are tried as JSON; real errors quote the provider's answer once or twice.
_MAX_QUOTED: Final = 4
#: A longer wait than this says nothing that a host could act on. Weekly quotas exist.
_MAX_RETRY_MS: Final = 7 * 24 * 3600 * 1000
#: Characters of a delay or a moment; longer ones are something else.
_MAX_DURATION: Final = 48

# -32000 is also the number of a plain server error in JSON-RPC, so the words must agree with it.
_AUTH = re.compile(
    r"\b(?:authenticat\w*|unauthenticated|unauthori[sz]ed|auth_required|sign(?:ed)?[ -]?in|log(?:ged)?[ -]?in|"
    r"credentials?|api[ _-]?key)\b",
    re.IGNORECASE,
)
_CANCELLED = re.compile(r"\bcontext cancell?ed\b", re.IGNORECASE)
_QUOTA = re.compile(
    r"\b(?:RESOURCE_EXHAUSTED|QUOTA_EXHAUSTED)\b|(?<!disk )\bquota\b.{0,40}\b(?:exceed|exhaust|used up|limit|reached)|"
    r"\brate.?limit|\busage.?limit|\btoo many requests\b|\bpayment required\b|\bexhausted your capacity\b|"
    r"\binsufficient.{0,12}(?:credit|balance|quota)|\b(?:http|status|code|error)\W{0,4}(?:429|402)\b",
    re.IGNORECASE,
)
#: A request that no model with this window can take; hosts make their history shorter then. In the words of Gemini,
#: of OpenAI-compatible servers and of llama.cpp.
_TOO_LONG = re.compile(
    r"\binput token count\b.{0,60}\bexceeds\b|"
    r"\bcontext[_ ]?(?:length|window|size)\b.{0,60}\b(?:exceed\w*|limit|full)\b|"
    r"\bmaximum context length\b|\bexceeds?\b.{0,40}\bcontext (?:length|window|size)\b|\bprompt is too long\b|"
    r"\bcontext_length_exceeded\b",
    re.IGNORECASE,
)
_PAYMENT = re.compile(r"\bpayment required\b|\b(?:http|status|code|error)\W{0,4}402\b", re.IGNORECASE)
#: Seconds of a unit, by the letters that tell units apart.
_UNITS: Final = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DELAY: Final = (
    r"(?:\d+(?:\.\d+)?\s?(?:ms|d(?:ays?)?|h(?:(?:ou)?rs?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)(?![a-z])[\s,]*)+"
)
_DURATION = re.compile(_DELAY, re.IGNORECASE)
_PARTS = re.compile(r"(\d+(?:\.\d+)?)\s?(ms|[dhms])", re.IGNORECASE)
_RETRY_TEXT = re.compile(rf"\b(?:retry|reset\w*|try again)\b\D{{0,20}}({_DELAY})", re.IGNORECASE)
_SECONDS_KEYS: Final = frozenset({"retrydelay", "retryafter", "retryafterseconds", "quotaresetdelay", "resetafter"})
_MILLIS_KEYS: Final = frozenset({"retryafterms", "retrydelayms", "providerretryafterms"})
_MOMENT_KEYS: Final = frozenset({"quotaresettimestamp", "quotaresettime", "resetsat", "resetat", "resettime"})
#: A number of this size counts milliseconds since 1970 and not seconds.
_MILLIS_SINCE_1970: Final = 1e11


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
        status = 402 if 402 in numbers | {number} or (429 not in numbers and _PAYMENT.search(joined)) else 429
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
    if facts.get("type") == "context_limit" or _TOO_LONG.search(joined):
        return AgentError(
            "ACP_CONTEXT_LIMIT",
            "The conversation is longer than the model takes. Shorten the history, or choose a model that takes more.",
            number=number,
        )
    return AgentError(
        "ACP_RPC_ERROR",
        f"The agent answered `{method}` with error {number}. Its own log, if it keeps one, may say why; "
        "`antigravity-acp probe` says whether it starts and what it can do.",
        number=number,
        cancelled=bool(_CANCELLED.search(joined)),
    )


_QUOTA_NUMBERS: Final = frozenset({429, 402})


def _gather(text: str, data: object) -> tuple[list[str], set[int], dict[str, object]]:
    """Texts, status numbers and named facts of an error, wherever the agent has put them."""
    strings, numbers, facts = list[str](), set[int](), dict[str, object]()
    for key, value in _walk([text, data]):
        if isinstance(value, str):
            strings.append(value[:_MAX_TEXT])
        if key in ("code", "status", "statuscode", "httpstatus") and (number := _number(value)) is not None:
            numbers.add(number)
        facts.setdefault(key, value)
    return strings, numbers, facts


def _walk(roots: list[object]) -> Iterator[tuple[str, object]]:
    """Every leaf with its key, the outer ones first; JSON that is quoted in a text is walked too."""
    queue: list[tuple[str, object, int]] = [("", root, 0) for root in roots]
    quoted = 0
    for _ in range(_MAX_NODES):
        if not queue:
            return
        key, value, depth = queue.pop(0)
        if isinstance(value, dict) and depth < _MAX_DEPTH:
            queue.extend((_plain(name), item, depth + 1) for name, item in list(value.items())[:_MAX_NODES])
        elif isinstance(value, list) and depth < _MAX_DEPTH:
            queue.extend((key, item, depth + 1) for item in value[:_MAX_NODES])
        else:
            if isinstance(value, int) and abs(value) > _MAX_NUMBER:
                value = None  # an integer of JSON may have thousands of digits, and no float can hold it
            if isinstance(value, str) and "{" in value and quoted < _MAX_QUOTED:
                # Some agents put the provider's whole JSON answer into a text.
                quoted += 1
                queue.append((key, _embedded(value), depth))
            yield key, value


def _plain(name: object) -> str:
    return re.sub(r"[^a-z]", "", str(name)[:64].lower())


def _number(value: object) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"\d{3}", value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _embedded(text: str) -> object:
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end < 16 * _MAX_TEXT:
        inner = text[start : end + 1]
        try:
            # An answer that was put into a text as a JSON string still has its escapes.
            return json.loads(json.loads(f'"{inner}"') if inner.startswith('{\\"') else inner)
        except (ValueError, TypeError, RecursionError):
            return None
    return None


def _retry_after(facts: dict[str, object], text: str) -> int | None:
    """Milliseconds until a repeat makes sense: a delay that was named, else a moment, else words; ``None`` without."""
    for key, value in facts.items():
        factor = 1000 if key in _SECONDS_KEYS else 1 if key in _MILLIS_KEYS else None
        if factor is None:
            continue
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return _bounded(float(value) * factor)
        if isinstance(value, str) and (found := _duration(value)) is not None:
            return _bounded(found * 1000)
    for key, value in facts.items():
        if key in _MOMENT_KEYS and (moment := _moment(value)) is not None:
            return _bounded((moment - time.time()) * 1000)
    match = _RETRY_TEXT.search(text)
    seconds = _duration(match.group(1)) if match else None
    return _bounded(seconds * 1000) if seconds is not None else None


def _duration(text: str) -> float | None:
    """Seconds of ``30s``, ``1h2m3.5s``, ``479ms``, ``3h 21min`` or ``12``; ``None`` for anything else."""
    stripped = text.strip()
    if len(stripped) > _MAX_DURATION:
        return None
    if re.fullmatch(r"\d+(?:\.\d+)?", stripped):
        return float(stripped)
    if not _DURATION.fullmatch(stripped):
        return None
    return sum(float(amount) * _UNITS[unit.lower()] for amount, unit in _PARTS.findall(stripped))


def _moment(value: object) -> float | None:
    """Seconds since 1970 of an RFC 3339 time or a number; ``None`` for anything else."""
    if isinstance(value, str) and len(value) <= _MAX_DURATION:
        try:
            read = datetime.fromisoformat(value)
            return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value) / 1000 if value > _MILLIS_SINCE_1970 else float(value)
    return None


def _bounded(milliseconds: float) -> int | None:
    return round(milliseconds) if 0 <= milliseconds <= _MAX_RETRY_MS else None


def timed_out(method: str, milliseconds: int, setting: str) -> LlmError:
    """The agent did not answer ``method`` within ``milliseconds``; ``setting`` is the one to raise."""
    return LlmError(
        "ACP_TIMEOUT",
        f"The agent did not answer `{method}` within {milliseconds} ms. Raise `{setting}`, or look at the agent.",
    )


_NO_INSTRUCTION: Final = "this processor lacks instructions that the agent needs (AVX on x86, LSE on ARM)"
#: How Windows ends a process by itself, from ntstatus.h.
_NTSTATUS: Final = {
    0xC0000005: "it touched memory that is not its own",
    0xC000001D: _NO_INSTRUCTION,
    0xC0000135: "a library that it needs is not installed",
    0xC000013A: "it was interrupted",
    0xC0000142: "a library could not start",
    0xC0000409: "it found its own memory damaged",
}


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
        return f"was ended by SIGILL: {_NO_INSTRUCTION}"
    if unsigned and returncode in _NTSTATUS:
        return f"was ended by Windows (0x{returncode:08X}): {_NTSTATUS[returncode]}"
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
