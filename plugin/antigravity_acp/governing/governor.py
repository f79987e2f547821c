"""The governor: rules, grants, the record and the look at results, for one host.

Owns: :class:`Governor`: the policy of each workspace (compiled once for the settings in force), the grants of turns,
and the records when it is given some. Files of rules are read with the first call of a workspace, after a rule was
written, and when a folder on the way to a rule leads elsewhere.
Ended by :meth:`Governor.aclose`. Never: runs a tool, asks a person, or keeps an argument.
"""

import asyncio
import logging
import os
import posixpath
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from itertools import filterfalse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from antigravity_acp.settings import Settings
from antigravity_control import Decision, Rules

from ._sandboxes import is_confined, plan_for
from .calls import GovernedCall, Offers
from .records import Circumstances, Ended, Records
from .rules_file import add_rules
from .sources import check_rules, default_rules_file, sources_of

if TYPE_CHECKING:
    from antigravity_control import Policy, Request
    from antigravity_control.sandbox import SandboxPlan

_log = logging.getLogger("antigravity_acp.governing")

#: Workspaces whose compiled rules are kept, and turns whose grants are.
_MOST_WORKSPACES: Final = 16
_MOST_TURNS: Final = 16
#: Seconds for the look at one result; less than a hook may take, so that no policy is passed over.
_SCAN_S: Final = 20.0
#: A workspace that holds nothing: for calls that do not say where they are.
_NOWHERE: Final = "/dev/null/no-workspace"
_WITHHELD: Final = "The result was withheld: {why}."


class Governor:
    """Decides about the calls of one host.

    :param settings: this plugin's settings. :param workspace: the folder of calls that name none.
    :param attended: whether a person can be asked, where a call does not say it.
    :param home: the home folder, for ``~`` and the vendor's files. :param names: more rules by tool name.
    :param records: the ledger; none is written without. :param rules_file: where answers are kept as rules.
    :param confines: the host runs commands by :meth:`sandbox_for`, so a person can choose. In any other host a mode
        that lets commands run inside the sandbox lets none run.
    :param settings_files: the files, or folders of such, that the settings come from: a call that would change them is
        asked about in every mode.
    :param by_hook: it speaks through our plugin's hook; else the host asks it directly, and the hook is silent.
    :raises LlmError: ``INVALID_SETTINGS``; names the rule that is malformed.
    """

    def __init__(
        self,
        settings: Settings,
        workspace: Path | str | None = None,
        *,
        attended: bool = True,
        home: Path | None = None,
        names: Rules | None = None,
        records: Records | None = None,
        rules_file: Path | None = None,
        confines: bool = False,
        settings_files: Sequence[str | Path] = (),
        by_hook: bool = False,
    ) -> None:
        self.attended = attended
        self.by_hook = by_hook
        self._confines = confines
        self._settings_files = tuple(map(os.path.abspath, settings_files))
        self.rules_file = rules_file or default_rules_file()
        self.counters: Counter[str] = Counter()
        self._workspace = str(workspace) if workspace is not None else _NOWHERE
        self._home = home or Path.home()
        self._loaded = False
        self._more = names or Rules()
        self._records = records
        self._grants: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self.update(settings)

    def update(self, settings: Settings) -> None:
        """Take over new settings, for the next decision.

        :raises LlmError: ``INVALID_SETTINGS``; nothing is changed then.
        """
        check_rules(settings)
        self.settings = settings
        self._forget()
        if self._records is not None:
            self._records.update(settings)

    async def ready(self) -> None:
        """Load what reads rules and command lines; the first decision would do it on the event loop."""
        if not self._loaded:
            await asyncio.to_thread(import_module, "antigravity_control.engine")
            self._loaded = True

    @property
    def is_ready(self) -> bool:
        """Whether the next decision needs no loading."""
        return self._loaded

    @property
    def records_calls(self) -> bool:
        """Whether decisions are written into a ledger."""
        return self._records is not None and self._records.on

    # ---- decisions ----------------------------------------------------------------------------------------------

    def decide(self, call: GovernedCall, *, attended: bool | None = None) -> Decision:
        """May this call run? Where nobody can be asked it is allowed or denied, never asked about.

        ``remedies`` of the answer hold only rules that would really let the call run.
        """
        person = self.attended if attended is None else attended
        policy = self._policy(call, person)
        made = self._judged(policy, call)
        if made.remedies and not self._helps(policy, call, made.remedies):
            made = replace(made, remedies=())
        self.counters[f"control_{'ask' if made.asks else made.decision}"] += 1
        return made

    def offers(self, call: GovernedCall) -> Offers:
        """What a person may answer beside yes and no to a call that the rules ask about."""
        policy = self._policy(call, person=True)
        made = self._judged(policy, call)
        always = made.remedies
        lines = [each.target.strip() for each in _requests(call) if each.action == "command"]
        confined = is_confined(policy, lines[0]) if self._confines and lines else None
        if not made.asks or not always or not self._helps(policy, call, always):
            return Offers(confined=confined)
        # The whole line, so that nothing is widened.
        turn = tuple(dict.fromkeys([*(f"command({line})" for line in lines), *filterfalse(_is_line, always)]))
        if any(map(_runs_others, lines)) and self._helps(policy, call, turn):
            always = turn
        folder = tuple(dict.fromkeys(map(_folder_of, always)))
        wide = all(folder) and folder != always and self._helps(policy, call, folder)
        return Offers(
            turn=turn if self._helps(policy, call, turn) else (),
            folder=folder if wide else (),
            always=always,
            confined=confined,
        )

    def grant(self, turn: str, rules: Sequence[str]) -> None:
        """Allow rules for one turn. They lift no deny and no ask."""
        self._grants[turn] = tuple(dict.fromkeys([*self._grants.pop(turn, ()), *rules]))
        while len(self._grants) > _MOST_TURNS:
            self._grants.popitem(last=False)
        self._granted.pop(turn, None)

    async def keep(self, rules: Sequence[str]) -> None:
        """Write allow rules into the file of rules, and have them in force.

        :raises RulesFileError: nothing was written.
        """
        await asyncio.to_thread(add_rules, self.rules_file, tuple(rules))
        self._forget()

    def confines_call(self, call: GovernedCall) -> bool:
        """Whether settings and rules want a command of this call in the sandbox now."""
        if not self._confines:
            return False
        policy = self._compiled(call.workspace or self._workspace)
        return any(is_confined(policy, each.target) for each in _requests(call) if each.action == "command")

    def sandbox_for(self, command: str, cwd: Path) -> "SandboxPlan | None":
        """The sandbox that a command line has to run in; ``None`` where it may run without one."""
        return plan_for(self._compiled(str(cwd)), command, cwd)

    @property
    def mode(self) -> str:
        """The name of the permission mode in force."""
        return self._compiled(self._workspace).mode.name

    def faults(self) -> tuple[str, ...]:
        """What is wrong in settings and files of rules: file, place, reason and what comes of it."""
        faults = self._compiled(self._workspace).faults
        return tuple(f"{fault.file or 'the settings'}, {fault.place}: {fault.told}" for fault in faults)

    # ---- records and results ------------------------------------------------------------------------------------

    async def record(
        self, call: GovernedCall, decision: Decision, *, seconds: float = 0.0, approver: str = "",
        attended: bool | None = None,
    ) -> bool:  # fmt: skip
        """Write a decision, before the call runs.

        :returns: whether it is on record, or need not be. What is not may only run when a person says so.
        """
        if self._records is None or not self._records.on:
            return True
        mode = self._compiled(call.workspace or self._workspace).mode
        around = Circumstances(
            mode=mode.name, skip=mode.skip, attended=self.attended if attended is None else attended,
            approver=approver, seconds=seconds,
        )  # fmt: skip
        return await self._records.decided(call, decision, around)

    async def ended(self, call: GovernedCall, outcome: Ended) -> None:
        """Write how a call ended."""
        self.counters[f"control_outcome_{outcome}"] += 1
        if self._records is not None:
            await self._records.ended(call, outcome)

    async def inspect(self, call: GovernedCall, texts: Sequence[str]) -> tuple[str, ...] | str:
        """Look for secrets in a result and apply the policy for outputs.

        :returns: the texts as the model may see them, or the one sentence that takes the place of the whole result.
        """
        policy = self.settings.output_policy
        if policy == "off" or not any(texts):
            return tuple(texts)
        from antigravity_control.outputs import scan

        def look() -> list[tuple[str, list[str]]]:
            deadline = time.monotonic() + _SCAN_S / 2
            found = []
            for text in texts:
                seen = scan(text, policy=policy, budget_s=max(0.0, deadline - time.monotonic()))
                found.append((seen.text, [each.kind for each in seen.findings]))
            return found

        try:
            async with asyncio.timeout(_SCAN_S):
                scanned = await asyncio.to_thread(look)
        except Exception as error:  # noqa: BLE001 - a result that could not be looked at is not passed on unseen
            _log.warning("a result could not be looked at for secrets: %s", type(error).__name__)
            return tuple(texts) if policy == "audit" else _WITHHELD.format(why="it could not be looked at for secrets")
        kinds = tuple(sorted({kind for _, found in scanned for kind in found}))
        self.counters["control_secrets"] += sum(len(found) for _, found in scanned)
        if self._records is not None and kinds:
            did = {"audit": "audited", "redact": "redacted", "block": "blocked"}
            self._records.scanned(call, did[policy], kinds)  # type: ignore[arg-type]  # the values are the three words
        if policy == "block" and kinds:
            return _WITHHELD.format(why=f"it holds secrets ({', '.join(kinds)})")
        return tuple(text for text, _ in scanned)

    async def aclose(self) -> None:
        """Close the records. Idempotent."""
        if self._records is not None:
            await self._records.aclose()

    # ---- policies -----------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        self._policies: OrderedDict[str, Policy] = OrderedDict()
        self._headless: dict[str, Policy] = {}
        self._granted: OrderedDict[str, tuple[str, Policy]] = OrderedDict()

    def _compiled(self, workspace: str) -> "Policy":
        found = self._policies.get(workspace)
        if found is not None and not found.holds():
            # A folder on the way to a rule's place leads elsewhere by now.
            found = None
            self._headless.pop(workspace, None)
            self._granted.clear()
        if found is None:
            # Late: a host that only starts up does not wait for what it may never ask.
            from antigravity_control import Policy

            place = workspace if posixpath.isabs(workspace.replace("\\", "/")) else _NOWHERE
            sources = sources_of(
                self.settings, place, home=self._home, rules_file=self.rules_file, confines=self._confines,
                settings_files=self._settings_files, ledger=self._records.path if self._records is not None else None,
            )  # fmt: skip
            found = self._policies[workspace] = Policy.compile(
                sources, workspace=place, mode="interactive", home=str(self._home)
            )
            while len(self._policies) > _MOST_WORKSPACES:
                old, _ = self._policies.popitem(last=False)
                self._headless.pop(old, None)
        return found

    def _policy(self, call: GovernedCall, person: bool) -> "Policy":
        workspace = call.workspace or self._workspace
        plain = self._compiled(workspace)
        if not person:
            if workspace not in self._headless:
                self._headless[workspace] = plain.attended("headless")
            return self._headless[workspace]
        grants = self._grants.get(call.turn) if call.turn else None
        if not grants:
            return plain
        found = self._granted.get(call.turn)
        if found is None or found[0] != workspace:
            found = self._granted[call.turn] = workspace, plain.with_grants(grants)
            while len(self._granted) > _MOST_TURNS:
                self._granted.popitem(last=False)
        return found[1]

    def _judged(self, policy: "Policy", call: GovernedCall) -> Decision:
        return policy.decide_call(call.name, call.arguments, None, self._more)

    def _helps(self, policy: "Policy", call: GovernedCall, rules: Sequence[str]) -> bool:
        """Whether rules would let a call run, and say no more than they seem to."""
        if not rules or not all(map(_is_narrow, rules)):
            return False
        return self._judged(policy.with_grants(rules), call).allowed


def _requests(call: GovernedCall) -> "tuple[Request, ...]":
    from antigravity_control import requests_of

    return requests_of(call.name, call.arguments)


def _is_line(rule: str) -> bool:
    return rule.startswith(("command(", "unsandboxed("))


def _runs_others(line: str) -> bool:
    """Whether a line begins with a shell, an interpreter or a wrapper: its name says nothing about what it does."""
    from antigravity_control.judging.suggest import RUNNERS

    return posixpath.basename(line.split(maxsplit=1)[0]) in RUNNERS if line else True


def _is_narrow(rule: str) -> bool:
    """Whether a rule that a call's own words became is neither a pattern nor stands for everything."""
    from antigravity_control.language.grammar import McpTarget, Regex, Rule, parse_rule
    from antigravity_control.language.scopes import Origin

    read = parse_rule(rule, "allow", Origin("turn", "grants[0]"))
    if not isinstance(read, Rule) or read.parsed is None or isinstance(read.parsed, Regex):
        return False
    return not (isinstance(read.parsed, McpTarget) and read.parsed.tool is None)


def _folder_of(rule: str) -> str:
    """The rule for the folder of a file, empty for what is no file and where the folder is the root."""
    action, _, rest = rule.partition("(")
    folder = posixpath.dirname(rest[:-1])
    if action not in ("read_file", "write_file") or folder in ("", "/"):
        return ""
    return f"{action}({folder}/)"
