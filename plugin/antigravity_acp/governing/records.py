"""The ledger, as the governor uses it.

Owns: :class:`Records`: one ledger, opened when the first row is written and closed with :meth:`Records.aclose`, and the
rows of calls that have no outcome yet. Rows are written beside the event loop. A ledger that cannot be used is tried
again with the next call, so that a disk with room again is enough. A call that ends while the question about it is open
(:class:`Unanswered`) has that question as its decision: one decision and one outcome a call, whatever became of it.
Never: decides what a row that could not be written means for the call; logs anything of a call; writes a secret that
a rule or a reason holds.
"""

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

import msgspec

from antigravity_acp.settings import Settings
from antigravity_control import Decision

from .calls import GovernedCall

if TYPE_CHECKING:
    from antigravity_control.ledger import DecisionRow, Ledger, OutcomeRow

_log = logging.getLogger("antigravity_acp.governing")

Ended = Literal["ok", "error", "cancelled", "timeout", "not_run"]
Output = Literal["passed", "audited", "redacted", "blocked"]

#: In the place of a line break in a rule or a reason; a row has none.
_LINE_END: Final = "↵"
#: In the place of a text that could not be looked at for secrets.
_UNSEEN: Final = "[left out]"
#: Calls that were decided and did not end; a host that never reports must not fill the memory.
_MOST_OPEN: Final = 1_024

#: The names of tools that records share with other harnesses.
_CANONICAL: Final = {
    "run_command": "Bash", "bash": "Bash", "terminal": "Bash",
    "view_file": "Read", "read_file": "Read", "read": "Read", "read_image": "Read",
    "write_to_file": "Write", "write_file": "Write", "write": "Write",
    "replace_file_content": "Edit", "multi_replace_file_content": "Edit", "edit_file": "Edit", "edit": "Edit",
    "grep_search": "Grep", "search": "Grep", "grep": "Grep",
    "find_by_name": "Glob", "list_dir": "Glob", "glob": "Glob",
    "search_web": "WebSearch", "websearch": "WebSearch", "web_search": "WebSearch",
    "read_url_content": "WebFetch", "webfetch": "WebFetch", "web_fetch": "WebFetch",
    "invoke_subagent": "Task",
}  # fmt: skip


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What a row says beside the decision. :param mode: the permission mode's name. :param skip: the hatch is open.
    :param approver: who was asked, and how far the answer goes. :param seconds: how long the decision took."""

    mode: str
    attended: bool
    skip: bool
    approver: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Unanswered(Decision):
    """A question whose answer nobody waits for any more: on record when the call ends without another decision. Of
    several about one call the first counts.
    """

    @classmethod
    def of(cls, question: Decision) -> Self:
        """This question, left open."""
        return cls(**{each.name: getattr(question, each.name) for each in fields(Decision)})


class _Open(msgspec.Struct):
    row: int
    began: float
    question: "DecisionRow | None" = None
    output: Output = "passed"
    kinds: tuple[str, ...] = ()


class Records:
    """One ledger.

    :param settings: the settings ``ledger`` and ``ledgerArguments``, and which engine answers.
    :param host: the host's name in the rows. :param path: the ledger's folder, this user's own by default.
    """

    def __init__(self, settings: Settings, *, host: str, path: Path | None = None) -> None:
        self.on = settings.ledger
        self._host = host
        self._path = path
        self._open: OrderedDict[tuple[str, str], _Open] = OrderedDict()
        self._opening = threading.Lock()
        self._ledger: Ledger | None = None
        self._keep = settings.ledger_arguments
        self._engine = "command" if settings.command else settings.engine
        self._closed = False

    @property
    def path(self) -> Path | None:
        """The ledger's folder; ``None`` is this user's own."""
        return self._path

    def update(self, settings: Settings) -> None:
        """Take over new settings, for the rows after this."""
        self._engine = "command" if settings.command else settings.engine
        self.on = settings.ledger
        if self._keep != settings.ledger_arguments:
            self._keep = settings.ledger_arguments
            self._let_go()

    async def decided(self, call: GovernedCall, decision: Decision, around: Circumstances) -> bool:
        """Write what was decided, before the call runs.

        :returns: whether the row is on the disk, or none is wanted. The log says why it is not. A question without an
            answer is kept back until it is known whether something else decided.
        """
        if not self.on:
            return True
        from antigravity_control.ledger import DecisionRow, LedgerError

        row = DecisionRow(
            call=call.id,
            tool=canonical(call.name),
            native_tool=call.name,
            decision=decision.decision,
            source=decision.source,
            reason=decision.reason if decision.scope != "turn" else "",
            # A grant for a turn repeats what the call says, which no row holds.
            rule=(decision.rule or "") if decision.scope != "turn" else "",
            scope=decision.scope or "",
            floor=decision.floor or "",
            soft=decision.soft,
            approver=around.approver,
            mode=around.mode,
            tier="interactive" if around.attended else "background",
            conversation=call.session,
            host=self._host,
            engine=self._engine,
            escape_hatch=around.skip,
            duration_ms=around.seconds * 1000,
            arguments=call.arguments,
        )
        if isinstance(decision, Unanswered):
            if (call.session, call.id) not in self._open:
                self._keep_open(call, _Open(0, time.monotonic(), row))
            return True
        try:
            number = await asyncio.to_thread(self._write, row)
        except LedgerError as error:
            _log.warning("%s", error)
            return False
        self._keep_open(call, _Open(number, time.monotonic()))
        return True

    def _keep_open(self, call: GovernedCall, found: _Open) -> None:
        self._open[call.session, call.id] = found
        while len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)

    def scanned(self, call: GovernedCall, output: Output, kinds: tuple[str, ...]) -> None:
        """Note what the scan of a result led to, for the row of its end."""
        found = self._open.get((call.session, call.id))
        if found is not None:
            found.output, found.kinds = output, kinds

    async def ended(self, call: GovernedCall, outcome: Ended) -> None:
        """Write how a call ended; one that has no decision on record, or has ended already, is passed over."""
        found = self._open.pop((call.session, call.id), None)
        if found is None or not self.on:
            return
        from antigravity_control.ledger import LedgerError, OutcomeRow

        ran = outcome != "not_run" and found.question is None
        row = OutcomeRow(
            call=call.id,
            outcome=outcome,
            decision_row=found.row,
            tool=canonical(call.name),
            native_tool=call.name,
            conversation=call.session,
            host=self._host,
            engine=self._engine,
            # What never ran has no output that could have passed; what was found in a refusal stays on record.
            output=found.output if ran or found.kinds else "",
            findings=found.kinds,
            duration_ms=(time.monotonic() - found.began) * 1000 if ran else 0.0,
        )
        try:
            if found.question is not None:
                row = replace(row, decision_row=await asyncio.to_thread(self._write, found.question))
            await asyncio.to_thread(self._write, row)
        except LedgerError as error:
            # The call has run; all that is left is to say so.
            _log.warning("%s", error)

    async def aclose(self) -> None:
        """Close the ledger; rows that are being written are finished. Idempotent."""
        self._closed = True
        await asyncio.to_thread(self._let_go)

    def _write(self, row: "DecisionRow | OutcomeRow") -> int:
        from antigravity_control.ledger import DecisionRow, Ledger, LedgerError, default_path

        if isinstance(row, DecisionRow):
            # A rule that is a whole line holds what the line does, and the reason of a hook is anybody's text.
            row = replace(row, rule=_cleaned(row.rule), reason=_cleaned(row.reason))
        with self._opening:
            if self._closed:
                raise LedgerError("closed", self._path or default_path())
            if self._ledger is None:
                self._ledger = Ledger.open(self._path, redact=_without_secrets if self._keep else None)
            ledger = self._ledger
        return ledger.decided(row) if isinstance(row, DecisionRow) else ledger.ended(row)

    def _let_go(self) -> None:
        with self._opening:
            ledger, self._ledger = self._ledger, None
        if ledger is not None:
            ledger.close()


def canonical(name: str) -> str:
    """The name of a tool that records share; an MCP tool as ``mcp/server/tool``."""
    parts = name.split("__")
    if len(parts) >= 3 and parts[0] == "mcp":
        return f"mcp/{parts[1]}/{'__'.join(parts[2:])}"
    return _CANONICAL.get(name, name)


def _cleaned(text: str) -> str:
    """A text of a row without secrets and on one line. A look that fails keeps the text out, never the row."""
    try:
        return _without_secrets(text).replace("\r\n", "\n").replace("\n", _LINE_END)
    except Exception as error:  # noqa: BLE001 - a row is written whatever becomes of one of its texts
        _log.warning("a text of a row could not be looked at for secrets: %s", type(error).__name__)
        return _UNSEEN


def _without_secrets(text: str) -> str:
    from antigravity_control.outputs import scan

    return scan(text, policy="redact").text
