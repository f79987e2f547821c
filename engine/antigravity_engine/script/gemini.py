"""The Gemini API as the scripted model sees and speaks it.

`observe` reads a generateContent request, `answer_chunks` renders a rule as response chunks. Nothing here does I/O.
Shapes: Gemini API v1beta, `models.generateContent` and `models.streamGenerateContent`.
"""

import re
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

from antigravity_engine.script.rules import Call, Regex, Rule, When, matches

#: The harness puts two lines of times in front of every tool result; a script quotes what the tool said.
_STAMPS = re.compile(r"\A(?:(?:Created|Completed) At: [^\n]*\n?)+")
#: What the harness wraps around a user's text.
_REQUEST = re.compile(r"<USER_REQUEST>\n?(.*?)\n?</USER_REQUEST>", re.DOTALL)
_EXPORT_PREFIX = re.compile(r"mcp_[a-zA-Z0-9-]+_")
_PLACEHOLDER = re.compile(r"\{\{\s*(?:match\.(?P<group>\w+)|(user|model|round|results?)(?:\.(\d+))?)\s*\}\}")


class UnknownToolError(LookupError):
    """A script calls a tool that the request does not declare."""


class Observation(msgspec.Struct, frozen=True):
    """What a request says, as far as a script can match on it. quotes: named groups of the rule that answers."""

    model: str
    user: str
    results: tuple[str, ...]
    result_tools: tuple[str, ...]
    round: int
    images: int
    tools: tuple[str, ...]
    system: str
    quotes: dict[str, str] = {}


def observe(model: str, body: dict[str, Any]) -> Observation:
    """Reads a request body. Missing or malformed parts count as absent; a model has to take what it gets."""
    user, results, result_tools, rounds, images = "", [], [], 0, 0
    contents = _dicts(body.get("contents"))
    # The harness marks what a user said; its own complaints about an answer come in the same role, without the mark.
    marked = any(_REQUEST.search(_text_of(content)) for content in contents)
    for content in contents:
        parts = _dicts(content.get("parts"))
        responses = [part["functionResponse"] for part in parts if isinstance(part.get("functionResponse"), dict)]
        if responses:
            results += [_result_text(response) for response in responses]
            result_tools += [str(response.get("name", "")) for response in responses]
        elif content.get("role") == "model":
            rounds += any("functionCall" in part for part in parts)
        elif not marked or _REQUEST.search(_text_of(content)):
            user = _user_text(_text_of(content))
            images = sum(isinstance(part.get("inlineData"), dict) for part in parts)
            results, result_tools, rounds = [], [], 0
    return Observation(
        model=model,
        user=user,
        results=tuple(results),
        result_tools=tuple(result_tools),
        round=rounds,
        images=images,
        tools=tuple(tool["name"] for tool in declared(body)),
        system="\n".join(str(part.get("text", "")) for part in _system_parts(body)),
    )


def declared(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The function declarations of a request."""
    return [
        function
        for tool in _dicts(body.get("tools"))
        for function in _dicts(tool.get("functionDeclarations", tool.get("function_declarations")))
        if isinstance(function.get("name"), str)
    ]


def holds(when: When, seen: Observation) -> bool:
    """Whether all conditions of a rule hold."""
    return (
        matches(when.user, seen.user)
        and matches(when.result, "\n".join(seen.results))
        and (when.result is None or bool(seen.results))
        and (when.tool is None or any(_exports(name, when.tool) < _NO_MATCH for name in seen.result_tools))
        and when.round in (None, seen.round)
        and when.model in (None, seen.model)
        and when.images in (None, seen.images)
    )


def answer_chunks(rule: Rule, seen: Observation, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The response chunks of a rule, in order; the last carries the finish reason and the usage.

    Raises `UnknownToolError` before the first chunk.
    """
    seen = msgspec.structs.replace(seen, quotes=_quotes(rule.when, seen))
    parts: list[list[dict[str, Any]]] = []
    parts += [[{"text": _fill(piece, seen), "thought": True}] for piece in rule.thought_pieces]
    parts += [[{"text": _fill(piece, seen)}] for piece in rule.text_pieces]
    if rule.calls:
        parts.append([_call_part(call, seen, body) for call in rule.calls])
    usage = {
        "promptTokenCount": rule.usage.input,
        "candidatesTokenCount": rule.usage.output,
        "thoughtsTokenCount": rule.usage.thoughts,
        "cachedContentTokenCount": rule.usage.cached,
        "totalTokenCount": rule.usage.input + rule.usage.output + rule.usage.thoughts,
    }
    last: dict[str, Any] = {"finishReason": rule.finish}
    if not parts:
        parts = [[]]
    for index, group in enumerate(parts):
        candidate = {"content": {"role": "model", "parts": group}, "index": 0}
        chunk: dict[str, Any] = {"candidates": [candidate], "modelVersion": seen.model}
        if index == len(parts) - 1:
            candidate.update(last)
            chunk["usageMetadata"] = usage
        yield chunk


def error_body(status: int, *, retry_delay_s: float = 0, message: str = "") -> dict[str, Any]:
    """A Google API error body (google.rpc.Status), with a RetryInfo when a delay is given."""
    names = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
    names |= {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
    details = []
    if retry_delay_s:
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{retry_delay_s:g}s"})
    text = message or f"scripted error {status}"
    return {"error": {"code": status, "message": text, "status": names.get(status, "UNKNOWN"), "details": details}}


def resolve_tool(name: str, body: dict[str, Any]) -> str:
    """The declared function that exports the tool `name`.

    Exporting adds a server prefix and may replace characters or append a hash, so names are compared by how close they
    are: the same, the same behind the prefix, the same with something behind it, named in the description. A tie goes
    to the shorter name. Raises `UnknownToolError`.
    """
    best = min(
        (
            (_exports(tool["name"], name, str(tool.get("description", ""))), len(tool["name"]), tool["name"])
            for tool in declared(body)
        ),
        default=(_NO_MATCH, 0, ""),
    )
    if best[0] >= _NO_MATCH:
        raise UnknownToolError(name)
    return best[2]


_NO_MATCH = 9


#: A stem at least this long counts even when it is only the beginning of the name: exports have 64 characters.
_LONG_STEM = 20
_HASHED = re.compile(r"(.+?)_+[0-9a-f]{4,}")


def _exports(exported: str, wanted: str, description: str = "") -> int:
    if exported == wanted:
        return 0
    name = exported.lower()
    bare = _EXPORT_PREFIX.sub("", name, count=1) if _EXPORT_PREFIX.match(name) else name
    plain = {re.sub(r"[^a-zA-Z0-9_-]", "_", wanted).lower(), _snake_case(wanted)}
    hashed = _HASHED.fullmatch(bare)
    stem = hashed[1] if hashed else ""
    if bare in plain:
        return 1
    if stem in plain:
        return 2
    if len(stem) >= _LONG_STEM and any(one.startswith(stem) for one in plain):
        return 3
    if any(bare.endswith("_" + one) or bare.startswith(one + "_") for one in plain):
        return 4
    if re.search(rf"(?<![\w.-]){re.escape(wanted)}(?![\w-])", description):
        return 5
    return _NO_MATCH


def _snake_case(name: str) -> str:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", spaced.lower()).strip("_")


def _quotes(when: When, seen: Observation) -> dict[str, str]:
    quotes: dict[str, str] = {}
    for pattern, text in ((when.user, seen.user), (when.result, "\n".join(seen.results))):
        if isinstance(pattern, Regex) and (found := re.search(pattern.regex, text)):
            quotes.update({name: value or "" for name, value in found.groupdict().items()})
    return quotes


def _call_part(call: Call, seen: Observation, body: dict[str, Any]) -> dict[str, Any]:
    name = resolve_tool(call.name, body) if call.declared else call.name
    function = {"name": name, "args": _fill_in(call.arguments, seen), "id": f"call-{uuid.uuid4().hex[:12]}"}
    return {"functionCall": function, "thoughtSignature": "c2NyaXB0ZWQ="}


def _fill_in(value: Any, seen: Observation) -> Any:
    if isinstance(value, str):
        return _fill(value, seen)
    if isinstance(value, list):
        return [_fill_in(item, seen) for item in value]
    if isinstance(value, dict):
        return {key: _fill_in(item, seen) for key, item in value.items()}
    return value


def _fill(text: str, seen: Observation) -> str:
    def value(found: re.Match[str]) -> str:
        if found["group"]:
            return seen.quotes.get(found["group"], "")
        what, number = found[2], found[3]
        if what == "results":
            return "\n".join(seen.results)
        if what == "result":
            index = int(number) - 1 if number else -1
            return seen.results[index] if -1 <= index < len(seen.results) and seen.results else ""
        return str(getattr(seen, what))

    return _PLACEHOLDER.sub(value, text)


def _result_text(response: dict[str, Any]) -> str:
    inner = response.get("response")
    if isinstance(inner, dict):
        for key in ("output", "result", "error"):
            if isinstance(inner.get(key), str):
                return _STAMPS.sub("", inner[key])
    return msgspec.json.encode(inner).decode()


def _text_of(content: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in _dicts(content.get("parts")) if isinstance(part.get("text"), str))


def _user_text(text: str) -> str:
    found = _REQUEST.findall(text)
    return "\n".join(found) if found else text


def _system_parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    system = body.get("systemInstruction", body.get("system_instruction"))
    return _dicts(system.get("parts")) if isinstance(system, dict) else []


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
