"""The rule engine: one policy, compiled once, asked about many requests.

Owns: :class:`Policy`. Order: floor, deny, ask, allow, default. Everything in force is one union; no scope and no mode
lifts a deny, an ask or the floor. The escape hatch turns asks into allows and nothing more; an ask that stands because
a deny may apply stays one. Where nobody can be asked, an ask is a soft denial.
Pure apart from looking up where paths lead: starts nothing, writes nothing, asks nobody, keeps nothing of a request.
"""

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .decision import Decision, Verdict, strictest
from .judging.commands import LineJudge
from .judging.files import FileJudge
from .judging.finding import Finding
from .judging.remote import RemoteJudge
from .language.actions import FILE_ACTIONS, LINE_ACTIONS, URL_ACTIONS, ActionName, Request
from .language.grammar import Rule, RuleFault
from .language.modes import Attendance, Mode, read_flags
from .language.paths import Links
from .language.rules import Rules
from .sets.ruleset import Roots, RuleSet
from .shell import read_line
from .sources.settings import Source, mode_of, names_of, parse_list, rules_of, trusted_folders
from .tools import requests_of

_WORDS = {
    "command": "command", "unsandboxed": "command outside the sandbox", "read_file": "read", "write_file": "write",
    "read_url": "address", "execute_url": "browser action", "mcp": "tool",
}  # fmt: skip


class Policy:
    """The rules, modes and folders in force. Immutable; made by :meth:`compile`.

    ``faults`` holds every rule and setting that is not what it should be, with file, place and reason; ``incomplete``
    says that what holds calls back may be missing, and then nothing is allowed unasked. ``names`` are the rules by tool
    name of the sources.
    """

    mode: Mode
    faults: tuple[RuleFault, ...]
    layers: tuple[RuleSet, ...]
    names: Rules

    def __init__(
        self,
        layers: Sequence[RuleSet],
        roots: Roots,
        mode: Mode,
        home: str | None,
        faults: Iterable[RuleFault],
        files: Sequence[str] = (),
        links: Sequence[Links] = (),
        names: Rules | None = None,
    ) -> None:
        self.mode = mode
        self.faults = tuple(faults)
        self.names = names or Rules()
        self._missing = next((fault for fault in self.faults if fault.opens), None)
        self.layers = tuple(layers)
        self._roots = roots
        self._home = home
        self._own = tuple(files)
        self._links = tuple(links)
        self._files = FileJudge(self.layers, roots, mode, files)
        self._remote = RemoteJudge(self.layers, self._files, mode)
        self._lines = LineJudge(self.layers, self._files, self._remote, mode, home)

    @classmethod
    def compile(
        cls,
        sources: Iterable[Source],
        *,
        workspace: str | Sequence[str],
        mode: Attendance = "interactive",
        flags: Iterable[str] = (),
        home: str | None = None,
        folds: Callable[[str], bool] | None = None,
    ) -> "Policy":
        """Read and index all rules.

        :param workspace: absolute path, or several; relative paths start from the first.
        :param mode: whether somebody can be asked. :param flags: command-line switches that are on.
        :param home: what ``~`` stands for. :param folds: says whether a path's volume ignores case; the file system is
            asked by default.
        :raises ValueError: the workspace is missing or not absolute, or ``mode`` is neither of the two.
        """
        folders = (workspace,) if isinstance(workspace, str) else tuple(workspace)
        if not folders:
            raise ValueError("the workspace is missing")
        if mode not in ("interactive", "headless"):
            raise ValueError("the mode has to be `interactive` or `headless`")
        links = Links()
        roots = Roots.of(folders, home, folds, links)
        every = tuple(sources)
        rules: list[Rule] = []
        faults: list[RuleFault] = []
        names = Rules()
        for source in every:
            found, wrong = rules_of(source)
            rules.extend(found)
            faults.extend(wrong)
            names |= names_of(source)
        settings, wrong = mode_of(every)
        faults.extend(wrong)
        trust, wrong = _trusted(every, roots, links)
        faults.extend(wrong)
        switched, unknown = read_flags(flags)
        faults.extend(RuleFault(None, "flags", "a switch is not known", "turn") for _ in unknown)
        fields: dict[str, Any] = {**settings, **switched, "attendance": mode, **trust}
        compiled = RuleSet.compile(rules, roots, links)
        files = [source.file for source in every if source.file is not None and posixpath.isabs(source.file)]
        return cls([compiled], roots, Mode(**fields), home, [*faults, *compiled.faults], files, [links], names)

    @property
    def incomplete(self) -> bool:
        """Whether rules that hold calls back may be missing."""
        return self._missing is not None

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule in force, in a fixed order."""
        return tuple(rule for layer in self.layers for rule in layer.rules)

    @property
    def own(self) -> tuple[str, ...]:
        """Absolute paths of what holds the rules, or the record: a write there is asked about in every mode."""
        return self._own

    def holds(self) -> bool:
        """Whether the folders and rules still lead where they led when this was compiled; for whoever keeps a policy.

        Costs one look-up for each name that was looked at. Where a request leads is looked up anew each time.
        """
        return all(each.hold() for each in self._links)

    def with_grants(self, grants: Iterable[str]) -> "Policy":
        """This policy with more allow rules, in force for this turn. They lift no deny and no ask.

        A grant that is no rule is a fault of the new policy.
        """
        rules, faults = parse_list(grants, "allow", "turn", "grants")
        links = Links()
        layer = RuleSet.compile(rules, self._roots, links)
        every = [*self.faults, *faults, *layer.faults]
        more = [*self._links, links]
        return Policy([*self.layers, layer], self._roots, self.mode, self._home, every, self._own, more, self.names)

    def attended(self, mode: Attendance) -> "Policy":
        """This policy where somebody can be asked, or nobody."""
        changed = replace(self.mode, attendance=mode)
        return Policy(self.layers, self._roots, changed, self._home, self.faults, self._own, self._links, self.names)

    def restricted_to(self, rule: Rule) -> "Policy":
        """The same with this one rule and no other, to see what it does by itself."""
        return Policy([RuleSet.compile([rule], self._roots)], self._roots, self.mode, self._home, ())

    def decide(self, request: Request) -> Decision:
        """May this be done? In a headless policy it never asks. A request that names its tool is also judged by the
        rules by tool name."""
        return self._named(self.judge(request), request, self.names, request.native_name)

    def decide_call(
        self, name: str, arguments: Mapping[str, Any], cwd: str | None = None, rules: Rules | None = None
    ) -> Decision:
        """May this tool call run? The strictest answer about everything that it does.

        :param name: the host's name of the tool. :param cwd: where its relative paths start.
        :param rules: more rules by the tool's name. Their deny and ask hold as well, their allow takes the place of a
            default, never of a rule.
        """
        rules = self.names if rules is None else self.names | rules
        requests = requests_of(name, arguments, cwd)
        decisions = [self._named(self.judge(request), request, rules, name) for request in requests]
        answer = strictest(decisions)
        if answer is None:  # requests_of names at least one
            return Decision("ask", "Nothing is known about this call, so a person has to approve it.", "default")
        remedies = tuple(dict.fromkeys(rule for each in decisions if not each.allowed for rule in each.remedies))
        return replace(answer, remedies=remedies) if not answer.allowed and answer.source != "floor" else answer

    def explain(self, request: Request) -> str:
        """The decision for a person, with every rule that was considered."""
        from .explain import explain  # it works on policies itself

        return explain(self, request)

    def judge(self, request: Request) -> Finding:
        """What rules, modes and the floor say, before the escape hatch and before anybody is asked."""
        if not request.target:
            return self._unsaid(request.action)
        if request.action in LINE_ACTIONS:
            cwd = posixpath.join(self._roots.lexical[0].posix, request.cwd or "")
            return self._lines.judge(request.action, read_line(request.target, cwd=cwd))
        if request.action in FILE_ACTIONS:
            spelled = self._files.spell(request.target, request.cwd)
            return self._files.judge(request.action, spelled, recursive=request.recursive)
        if request.action in URL_ACTIONS:
            return self._remote.url(request.action, request.target)
        return self._remote.mcp(request.target)

    def _unsaid(self, action: ActionName) -> Finding:
        """The finding for a call that does not say, in a way that is known here, what it is about."""
        kinds: tuple[ActionName, ...] = (action, "read_file") if action in FILE_ACTIONS else (action,)
        firm = any(layer.speaks("deny", each) for layer in self.layers for each in kinds)
        reason = "The call does not say what it is about, so a person has to approve it."
        return Finding("ask", reason, "default", firm=firm)

    def _named(self, finding: Finding, request: Request, rules: Rules, name: str | None) -> Decision:
        match = rules.match(name) if name is not None else None
        if match is None or finding.outcome == "deny":
            return self._answer(request, finding)
        kind, rule = match
        verbs = {"deny": "denies", "ask": "asks about", "allow": "allows"}
        reason = f"The rule `{rule}` {verbs[kind]} this tool."
        if kind == "deny":
            return Decision("deny", reason, "rule", rule, scope="plugin")
        if finding.rule is not None and finding.outcome == "ask":
            return self._answer(request, finding)
        if kind == "ask":
            # Also where it would be asked about anyway: a rule that allows what the call does would not help.
            return self._answer(request, Finding("ask", reason, "rule", firm=finding.firm), rule)
        if finding.outcome == "ask" and not finding.firm and self.mode.trusted:
            return self._answer(request, Finding("allow", reason, "rule"), rule)
        return self._answer(request, finding)

    def _answer(self, request: Request, finding: Finding, named: str | None = None) -> Decision:
        """:param named: the rule by tool name that the finding comes from."""
        verdict: Verdict = finding.outcome
        rule = finding.rule.text if finding.rule is not None else named
        scope = finding.rule.origin.scope if finding.rule is not None else "plugin" if named is not None else None
        missing = self._missing is not None and verdict != "deny"
        if missing and (rule is None or verdict == "allow"):
            reason = f"Rules may be missing, so a person has to approve this ({self._missing})."
            finding, verdict, rule, scope = Finding("ask", reason, "default", firm=True), "ask", None, None
        # What would not help is not offered.
        remedies = () if missing or not self.mode.trusted else finding.remedies
        plain = Decision(
            verdict, finding.reason, finding.source, rule, scope=scope, segment=finding.segment, floor=finding.floor,
            remedies=remedies,
        )  # fmt: skip
        if verdict != "ask":
            return plain
        if self.mode.skip and not finding.firm and not missing:
            reason = "The escape hatch is on: what would ask is allowed."
            return replace(plain, decision="allow", reason=reason, source="flag", hatch=True, remedies=())
        if not self.mode.headless:
            return plain
        name = f"`{request.native_name}`" if request.native_name else f"This {_WORDS[request.action]}"
        reason = f"{name} needs an approval and nobody can be asked here; {self._remedy(plain)}."
        return replace(plain, decision="deny", reason=reason, source="headless", soft=True)

    def _remedy(self, made: Decision) -> str:
        """What would help where nobody can be asked."""
        if made.rule is not None:
            return f"the rule `{made.rule}` stands in the way"
        if self._missing is not None:
            return f"rules may be missing, mend them first ({self._missing}); `control lint` shows every fault"
        if not self.mode.trusted:
            where = self.mode.trust or "the settings"
            return f"the workspace is not among the `trustedWorkspaces` of {where}, and no allow rule counts without"
        if made.remedies:
            return "a rule under `permissions.allow` of the settings would allow it"
        return "run it where a person can answer"


def _trusted(sources: Sequence[Source], roots: Roots, links: Links) -> tuple[dict[str, Any], list[RuleFault]]:
    """Whether every workspace folder is trusted, as fields of the mode; none when the setting is not there."""
    trust, faults = trusted_folders(sources)
    if trust is None:
        return {}, faults
    reader = roots.paths[0]
    places = [place for folder in trust.folders for place in reader.folder(folder, links).resolved]
    trusted = all(any(root.within(place) for place in places) for root in roots.resolved)
    return {"trusted": trusted, "trust": trust.file or ""}, faults
