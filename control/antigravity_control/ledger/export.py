"""Rows for other programs.

Owns: the two forms. *JSON lines*: each body as it was written and its hash, so that whoever has the lines can check the
chain without this project (``chain.py`` says how). *OpenTelemetry*: log records in the JSON form of OTLP, a line
for each batch, as the collector's file receiver reads them; as data, without the SDK. Attributes that the semantic
conventions name have those names, the others begin with ``antigravity.control``. Never: sends anything.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from .query import Entry

#: What of a body has a name in the semantic conventions.
_NAMES: Final = {
    "call": "gen_ai.tool.call.id",
    "tool": "gen_ai.tool.name",
    "conversation": "gen_ai.conversation.id",
}
_PREFIX: Final = "antigravity.control."
#: Said elsewhere in a record.
_LEFT_OUT: Final = frozenset({"kind", "time", "v"})
_INFO: Final = (9, "INFO")
_WARN: Final = (13, "WARN")
_ERROR: Final = (17, "ERROR")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def json_line(entry: Entry) -> str:
    """The body and its hash as one object in ASCII, keys sorted, no spaces, without a line end. The same without
    ``hash`` is the text that was hashed."""
    return json.dumps({**entry.body, "hash": entry.hash}, sort_keys=True, separators=(",", ":"))


def otel_record(entry: Entry) -> dict[str, Any]:
    """One row as a ``LogRecord`` of OTLP/JSON."""
    number, text = _severity(entry)
    nanoseconds = str(_nanoseconds(entry.text("time")))
    record: dict[str, Any] = {
        "timeUnixNano": nanoseconds,
        "observedTimeUnixNano": nanoseconds,
        "severityNumber": number,
        "severityText": text,
        "eventName": f"{_PREFIX}{entry.kind}",
        "body": {"stringValue": _sentence(entry)},
        "attributes": [
            {"key": _NAMES.get(name, _PREFIX + name), "value": _value(value)}
            for name, value in sorted(entry.body.items())
            if name not in _LEFT_OUT
        ],
    }
    record["attributes"].append({"key": f"{_PREFIX}hash", "value": {"stringValue": entry.hash}})
    return record


def otlp_line(entries: Iterable[Entry]) -> str:
    """Rows as one ``LogsData`` of OTLP/JSON in one line, without a line end."""
    scope = {"name": "antigravity_control.ledger", "version": "1"}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "antigravity-acp"}}]}
    records = [otel_record(entry) for entry in entries]
    logs = {"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": records}]}
    return json.dumps({"resourceLogs": [logs]}, separators=(",", ":"))


def _severity(entry: Entry) -> tuple[int, str]:
    if entry.kind in ("notice", "unreadable"):
        return _ERROR
    refused = entry.text("decision") == "deny" or entry.text("output") in ("redacted", "blocked")
    return _WARN if refused or entry.body.get("escape_hatch") is True or entry.text("outcome") == "error" else _INFO


def _sentence(entry: Entry) -> str:
    if entry.kind == "decision":
        return f"{entry.text('decision')} {entry.text('tool')}: {entry.text('reason') or entry.text('source')}"
    return f"{entry.kind} {entry.text('outcome') or entry.seq}"


def _value(value: object) -> dict[str, Any]:
    # In the JSON form of protocol buffers 64-bit integers are strings.
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    return {"stringValue": str(value)}


def _nanoseconds(time: str) -> int:
    """0 for what is no time of ours: a row that was tampered with is shown all the same."""
    try:
        moment = datetime.fromisoformat(time)
        # Whole microseconds: a float would round them.
        return max(0, (moment - _EPOCH) // timedelta(microseconds=1) * 1000) if moment.tzinfo is not None else 0
    except (ValueError, OverflowError):
        return 0
