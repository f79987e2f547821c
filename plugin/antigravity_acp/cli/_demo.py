"""The demo: one whole tool turn that shows what the project is for, and proves that it happened.

Owns: a temporary directory with the workspace, the ledger and the record of the model's requests; a host that governs
its calls; the embedded engine with the script beside this module. All of it is gone at the end, but for the directory
with ``--keep``. No rules and no ledger of whoever runs it have a part in this.
"""

import secrets
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from antigravity_acp.acp.launch import resolve_command
from antigravity_acp.governing import Governor, Records
from antigravity_acp.host import AgentLoop, Approvals, GovernedApprover, Host, Selection, TurnResult
from antigravity_acp.host.events import LoopEvent, TextArrived, ToolStarted
from antigravity_acp.manifest import manifest
from antigravity_acp.settings import Settings
from antigravity_control.ledger import Entry, read, verify

from ._processes import Census
from ._proof import Evidence, prove, read_requests
from .failures import CliError
from .output import Output, open_output

#: `antigravity-demo-…` in the system's temporary directory.
_PREFIX: Final = "antigravity-demo-"
_PROMPT: Final = "What do my notes say, and what else is here? Then delete the notes."
#: Files of the workspace may be read without a rule.
_RULES: Final = {"deny": ["command(rm)"]}


async def run_demo(*, keep: bool, as_json: bool) -> int:
    """Run it.

    :raises CliError: ``DEMO_FAILED`` with the claim that did not hold, or the code of what failed.
    :raises LlmError: ``ACP_BINARY_MISSING`` when the engine is not installed.
    """
    place = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        return await _Demo(place, open_output(as_json=as_json)).run(keep=keep)
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)


class _Demo:
    """One run in one directory."""

    def __init__(self, place: Path, output: Output) -> None:
        self._output = output
        self._place = place
        self._log = place / "model-requests.jsonl"
        self._ledger = place / "ledger"
        self._workspace = place / "workspace"
        self._notes = f"Release notes, third draft\nCodename: {secrets.token_hex(4)}\nTo do: check the figures\n"
        self._census = Census()
        self._events: list[LoopEvent] = []
        self._began = 0.0
        self._first_text: float | None = None

    async def run(self, *, keep: bool) -> int:
        values = {
            "permissions": _RULES,
            "engine": "embedded",
            "args": ["--script", str(Path(__file__).with_name("demo.yaml")), "--script-log", str(self._log)],
        }
        # Before anything is drawn: without the engine there is only the one line that says how to get it.
        resolve_command(Settings.from_mapping(values))
        self._fill_workspace()
        self._began = time.monotonic()
        result = await self._turn(values)
        left = self._census.left()
        total = time.monotonic() - self._began
        if keep:
            self._output.show({"event": "note", "text": f"kept: {self._place}"})
        if result.failure is not None:
            raise CliError(result.failure.code, result.failure.message)
        rows = tuple(read(self._ledger))
        self._output.show({"event": "note", "text": "The ledger, each row chained to the one before:"})
        for row in rows:
            self._output.show({"event": "note", "text": _line(row), "row": row.body})
        self._output.show(self._verdict(result, rows, left, total))
        return 0

    async def _turn(self, values: dict[str, Any]) -> TurnResult:
        settings = Settings.from_mapping(values)
        governor = Governor(
            settings,
            self._workspace,
            attended=False,
            home=self._place / "home",
            records=Records(settings, host="demo", path=self._ledger),
            rules_file=self._place / "permissions.json",
        )
        async with Host({manifest().id: values}) as host:
            host.ctx.effect(governor.aclose, "records")
            host.ctx.provide("governor", governor)
            # Found and mounted by its entry point, as every host does; other plugins have no part in this.
            await host.start(Selection(only=frozenset({manifest().id})))
            model = host.choose_model()
            loop = AgentLoop(
                host.ctx,
                model=model,
                workspace=self._workspace,
                approver=Approvals(GovernedApprover(governor)),
                listener=self._listen,
            )
            self._output.show({"event": "start", "model": str(model), "workspace": str(self._workspace)})
            self._output.show({"event": "user", "text": _PROMPT})
            return await loop.run(_PROMPT)

    def _listen(self, event: LoopEvent) -> None:
        if isinstance(event, TextArrived) and self._first_text is None:
            self._first_text = time.monotonic() - self._began
        if isinstance(event, (TextArrived, ToolStarted)):
            self._census.look()
        self._events.append(event)
        self._output.show(event.to_wire())

    def _fill_workspace(self) -> None:
        (self._workspace / "figures").mkdir(parents=True)
        (self._workspace / "notes.txt").write_text(self._notes, encoding="utf-8")
        (self._workspace / "figures" / "q3.csv").write_text("month,total\njuly,41\naugust,38\n", encoding="utf-8")
        (self._workspace / "report.md").write_text("# Report\n\nSee figures/q3.csv.\n", encoding="utf-8")

    def _verdict(self, result: TurnResult, rows: tuple[Entry, ...], left: int, total: float) -> dict[str, Any]:
        counts = prove(
            Evidence(
                answer=result.text,
                events=self._events,
                requests=read_requests(self._log),
                notes=self._notes,
                names=sorted(entry.name for entry in self._workspace.iterdir()),
                notes_path=self._workspace / "notes.txt",
                rows=[row.body for row in rows],
                unchanged=verify(self._ledger).ok,
                processes_left=left,
            )
        )
        first = self._first_text or total
        text = (
            f"ok: first text after {first:.1f} s, {total:.1f} s in all; {self._census.started} processes started, "
            f"{left} left; {counts.run} tool calls run, {counts.refused} refused"
        )
        return {
            "event": "end",
            "ok": True,
            "text": text,
            "firstTextSeconds": round(first, 3),
            "totalSeconds": round(total, 3),
            "processesStarted": self._census.started,
            "processesLeft": left,
            "toolCallsRun": counts.run,
            "toolCallsRefused": counts.refused,
        }


def _line(row: Entry) -> str:
    """One row of the ledger, for people: what was decided and why, or how the call ended."""
    ran = row.kind == "outcome" and row.text("outcome") != "not_run"
    why = f"{row.body['duration_us'] / 1e6:.2f} s" if ran else row.text("reason")
    return f"  {row.text('decision') or row.text('outcome'):<8} {row.text('native_tool'):<12} {why}".rstrip()
