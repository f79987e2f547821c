"""May a file be read or written?

Owns: :class:`FileJudge`. Deny and ask hold in every spelling of a path, an allow on every place where it may lead.
A read deny denies writes; a write allow allows reads; a write deny leaves reads alone.
"""

from collections.abc import Sequence
from typing import Final

from ..language.actions import ActionName
from ..language.grammar import Rule
from ..language.modes import SENSITIVE, Mode
from ..language.paths import Place, Spellings, fold
from ..language.scopes import Kind
from ..sets.path_index import matched
from ..sets.ruleset import Roots, RuleSet
from .finding import Finding
from .suggest import rules_for

#: What a rule says, in words.
VERBS: Final[dict[str, str]] = {"deny": "denies", "ask": "asks about", "allow": "allows"}

UNTRUSTED: Final = "The workspace is not among the trusted ones, so a person has to approve it."


class FileJudge:
    """:param layers: the compiled rules; all are in force.
    :param own: files that hold the rules or the record, and folders of such; a write there is asked about in every
        mode."""

    def __init__(self, layers: Sequence[RuleSet], roots: Roots, mode: Mode, own: Sequence[str] = ()) -> None:
        self._layers = layers
        self._roots = roots
        self._mode = mode
        spelled = [self.spell(file, home=False) for file in own]
        self._own = frozenset(place for each in spelled for place in each.every)
        self._own_files = tuple(dict.fromkeys(each.identity for each in spelled if each.identity is not None))

    @property
    def keeps_own(self) -> bool:
        """Whether there are files that hold the rules."""
        return bool(self._own)

    def spell(self, target: str, cwd: str | None = None, *, home: bool = True) -> Spellings:
        """The spellings of a path that starts from ``cwd`` or from the first workspace folder."""
        return self._roots.paths[0].read(target, cwd, home=home)

    def judge(
        self, action: ActionName, spellings: Spellings, *, recursive: bool = False, segment: str | None = None
    ) -> Finding:
        """The finding for a file."""
        held = self.restricts(action, spellings, recursive=recursive, segment=segment)
        if held is not None:
            return held
        remedies = rules_for(action, spellings.resolved[0].posix) if len(spellings.resolved) == 1 else ()
        if spellings.opaque is not None:
            reason = f"Nobody can say where the path leads: {spellings.opaque}."
            return Finding("ask", reason, "default", segment=segment)
        grants = self._grants(action, spellings)
        opened = [
            rule is not None or self._opens(action, place, spellings.folded) is not None
            for rule, place in zip(grants, spellings.resolved, strict=True)
        ]
        if not all(opened):
            where = "inside" if all(self._inside(place, spellings) for place in spellings.resolved) else "outside"
            verb = "read" if action == "read_file" else "written"
            reason = f"No rule allows this file {where} the workspace to be {verb}, so a person has to approve it."
            reason = reason if self._mode.trusted else UNTRUSTED
            return Finding("ask", reason, "default", segment=segment, remedies=remedies)
        rule = next((each for each in grants if each is not None), None)
        if rule is not None:
            return Finding("allow", f"The rule `{rule.text}` allows this file.", "rule", rule, segment)
        place = spellings.resolved[0]
        why = self._opens(action, place, spellings.folded) or ""
        return Finding("allow", why, self._mode.source(action, inside=self._inside(place, spellings)), segment=segment)

    def restricts(
        self,
        action: ActionName,
        spellings: Spellings,
        *,
        recursive: bool = False,
        globbed: bool = False,
        segment: str | None = None,
    ) -> Finding | None:
        """What deny and ask rules say, ``None`` when they are silent."""
        denying: tuple[ActionName, ...] = (action, "read_file") if action == "write_file" else (action,)
        seen = (spellings, recursive, globbed, segment)
        return (
            self._of_kind("deny", denying, *seen)
            or self._unsure(action, denying, spellings, segment, globbed=globbed)
            or self._of_kind("ask", (action,), *seen)
        )

    def _of_kind(
        self,
        kind: Kind,
        actions: Sequence[ActionName],
        spellings: Spellings,
        recursive: bool,
        globbed: bool,
        segment: str | None,
    ) -> Finding | None:
        rule = self._covering(kind, actions, spellings)
        other = self._other_name(kind, actions, spellings) if rule is None else None
        if rule is not None or (other is not None and other[1]):
            return _by_rule(kind, rule or (other[0] if other else None), segment)
        maybe = self._maybe(kind, actions, spellings, recursive=recursive, globbed=globbed)
        if maybe is None and other is not None:
            maybe = other[0], "the file has other names, and this may be one of a file"
        if maybe is None:
            return None
        return Finding("ask", _maybe_reason(kind, *maybe), "rule", maybe[0], segment, firm=kind == "deny")

    def _unsure(
        self,
        action: ActionName,
        denying: Sequence[ActionName],
        spellings: Spellings,
        segment: str | None,
        *,
        globbed: bool,
    ) -> Finding | None:
        """An ask that no mode and no switch lifts: a deny may be about a place that nobody can name, or the rules
        themselves would change."""
        reason = None
        if spellings.opaque is not None and self.holds_back("deny", *denying):
            reason = f"Nobody can say where the path leads: {spellings.opaque}."
        elif action == "write_file" and self._changes_rules(spellings, globbed=globbed):
            reason = "This would change the rules themselves, so a person has to approve it."
        return Finding("ask", reason, "default", segment=segment, firm=True) if reason is not None else None

    def _changes_rules(self, spellings: Spellings, *, globbed: bool) -> bool:
        if spellings.identity is not None and spellings.identity in self._own_files:
            return True
        return any(
            own.within(place, folded=spellings.folded)
            or place.within(own, folded=spellings.folded)
            or (globbed and matched(own, place, folded=spellings.folded))
            for own in self._own
            for place in spellings.every
        )

    def holds_back(self, kind: Kind, *actions: ActionName) -> bool:
        """Whether there is any rule of this kind about files."""
        return any(
            layer.speaks(kind, each) for layer in self._layers for each in actions or ("read_file", "write_file")
        )

    def anything(self, action: ActionName) -> Finding | None:
        """The finding for a file that is not named: an allow when every file is allowed and none held back."""
        if self.holds_back("deny") or self.holds_back("ask"):
            return None
        rules = [layer.every_path(action) for layer in self._layers] if self._mode.trusted else []
        rule = next((each for each in rules if each is not None), None)
        if rule is not None:
            return Finding("allow", f"The rule `{rule.text}` allows every file.", "rule", rule)
        why = self._mode.opens(action)
        return Finding("allow", why, "mode") if why is not None else None

    def _covering(self, kind: Kind, actions: Sequence[ActionName], spellings: Spellings) -> Rule | None:
        found = (layer.restricts_path(kind, each, spellings) for layer in self._layers for each in actions)
        return next((rule for rule in found if rule is not None), None)

    def _other_name(self, kind: Kind, actions: Sequence[ActionName], spellings: Spellings) -> tuple[Rule, bool] | None:
        if spellings.identity is None:
            return None
        found = (layer.same_file(kind, each, spellings) for layer in self._layers for each in actions)
        return next((hit for hit in found if hit is not None), None)

    def _maybe(
        self, kind: Kind, actions: Sequence[ActionName], spellings: Spellings, *, recursive: bool, globbed: bool
    ) -> tuple[Rule, str] | None:
        if not recursive and not globbed:
            return None
        for layer in self._layers:
            for each in actions:
                found = layer.may_restrict_path(kind, each, spellings, recursive=recursive, globbed=globbed)
                if found is not None:
                    return found
        return None

    def _grants(self, action: ActionName, spellings: Spellings) -> list[Rule | None]:
        """For each place where the path may lead, an allow rule that covers it."""
        grants: list[Rule | None] = [None] * len(spellings.resolved)
        if not self._mode.trusted:
            return grants
        for layer in self._layers:
            for each in ("read_file", "write_file") if action == "read_file" else ("write_file",):
                found = layer.allows_path("read_file" if each == "read_file" else "write_file", spellings)
                grants = [mine or theirs for mine, theirs in zip(grants, found, strict=True)]
        return grants

    def _opens(self, action: ActionName, place: Place, folded: bool) -> str | None:
        inside = self._roots.holds(place, folded=folded)
        sensitive = inside and not SENSITIVE.isdisjoint(fold(place.parts)) and self._sensitive(place)
        return self._mode.opens(action, inside=inside, sensitive=sensitive)

    def _sensitive(self, place: Place) -> bool:
        """Whether the folder that needs a confirmation lies below the workspace, not above it."""
        depths = [len(root.parts) for root in self._roots.resolved if place.within(root, folded=True)]
        return any(not SENSITIVE.isdisjoint(fold(place.parts[depth:])) for depth in depths)

    def _inside(self, place: Place, spellings: Spellings) -> bool:
        return self._roots.holds(place, folded=spellings.folded)


def _by_rule(kind: Kind, rule: Rule | None, segment: str | None) -> Finding:
    text = rule.text if rule is not None else ""
    return Finding(kind, f"The rule `{text}` {VERBS[kind]} this file.", "rule", rule, segment)


def _maybe_reason(kind: Kind, rule: Rule, why: str) -> str:
    return f"The rule `{rule.text}` {VERBS[kind]} what this may reach: {why} that the rule names."
