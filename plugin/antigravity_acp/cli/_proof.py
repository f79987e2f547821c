"""Did the demo really happen?

Owns: :func:`prove`, which looks at what was recorded on both sides: the host's events and its ledger, and the requests
that the model received, as Google's harness sent them. Pure: reads the record it is given, changes nothing.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from antigravity_acp.host.events import LoopEvent, ToolDecided, ToolEnded

from .failures import CliError


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of one demo.

    :param answer: the model's last message.
    :param events: everything that the loop told.
    :param requests: bodies of the requests that the model received, in order (Gemini API, ``generateContent``).
    :param notes: text of the file that the model read; random, so it cannot be in a script.
    :param names: entries of the workspace directory.
    :param notes_path: the file that the refused command would have removed.
    :param rows: every row of the ledger, in order. :param unchanged: they verify: each is as it was written.
    :param processes_left: how many processes outlived the host.
    """

    answer: str
    events: Sequence[LoopEvent]
    requests: Sequence[dict[str, Any]]
    notes: str
    names: Sequence[str]
    notes_path: Path
    rows: Sequence[Mapping[str, Any]]
    unchanged: bool
    processes_left: int


class Counts(msgspec.Struct, frozen=True):
    """Tool calls that ran and that were refused."""

    run: int
    refused: int


def prove(evidence: Evidence) -> Counts:
    """Check every claim of the demo.

    :raises CliError: ``DEMO_FAILED``; names the first claim that does not hold.
    """
    counts = _decisions(evidence)
    final = evidence.requests[-1] if evidence.requests else {}
    messages = _calls_by_message(final)
    results = _results(final)
    refusal = results.get("run_command", "")
    claims = {
        "two tools were run and one was refused": counts == Counts(2, 1),
        "the first two calls came in one model message": messages == [["list_dir", "read_file"], ["run_command"]],
        "the model received the content of the file": evidence.notes.strip() in results.get("read_file", ""),
        "the model received the list of the directory": all(
            name in results.get("list_dir", "") for name in evidence.names
        ),
        "the model received the refusal with its reason": "denied" in refusal and "`command(rm)`" in refusal,
        "the answer quotes the file": evidence.notes.strip() in evidence.answer,
        "the answer quotes the directory": all(name in evidence.answer for name in evidence.names),
        "the answer quotes the refusal": bool(refusal) and refusal.strip() in evidence.answer,
        "the refused command did nothing": evidence.notes_path.is_file(),
        "the ledger has each decision and how its call ended": _on_record(evidence.rows) == _as_told(evidence.events),
        "the ledger verifies": evidence.unchanged,
        "no process is left": evidence.processes_left == 0,
    }
    failed = next((claim for claim, holds in claims.items() if not holds), None)
    if failed is not None:
        raise CliError("DEMO_FAILED", f"This did not hold: {failed}. Run it with --keep --json to see what happened.")
    return counts


def read_requests(log: Path) -> list[dict[str, Any]]:
    """The request bodies in a script log (`antigravity-engine --script-log`); none when there is no log."""
    try:
        lines = log.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return [json.loads(line)["body"] for line in lines]


def _decisions(evidence: Evidence) -> Counts:
    refused = {event.id for event in evidence.events if isinstance(event, ToolDecided) and event.decision == "deny"}
    ended = [event for event in evidence.events if isinstance(event, ToolEnded)]
    return Counts(sum(not event.is_error for event in ended), sum(event.id in refused for event in ended))


def _on_record(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Of each row the call, and what was decided or how the call ended."""
    return sorted((row["call"], row["kind"], row.get("decision") or row.get("outcome")) for row in rows)


def _as_told(events: Sequence[LoopEvent]) -> list[tuple[Any, ...]]:
    """The rows that these events should have left."""
    decided = {event.id: event.decision for event in events if isinstance(event, ToolDecided)}
    ends = {"allow": "ok", "deny": "not_run"}
    return sorted(
        row for call, said in decided.items() for row in ((call, "decision", said), (call, "outcome", ends.get(said)))
    )


def _calls_by_message(body: dict[str, Any]) -> list[list[str]]:
    """The tools that each model message of the conversation calls: what the harness itself keeps as one message."""
    found = []
    for content in body.get("contents", ()):
        calls = sorted(
            _tool(part["functionCall"]["name"]) for part in content.get("parts", ()) if "functionCall" in part
        )
        if calls:
            found.append(calls)
    return found


def _results(body: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for content in body.get("contents", ()):
        for part in content.get("parts", ()):
            if "functionResponse" in part:
                response = part["functionResponse"]
                text = "\n".join(str(value) for value in response.get("response", {}).values())
                # Two lines of times that the harness puts in front of every result.
                found[_tool(response["name"])] = re.sub(r"\A(?:(?:Created|Completed) At: [^\n]*\n?)+", "", text)
    return found


def _tool(exported: str) -> str:
    """The host's tool behind an exported function name."""
    return next((name for name in ("read_file", "list_dir", "run_command") if name in exported), exported)
