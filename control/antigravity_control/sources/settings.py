"""Settings files and settings data, read into rules and modes.

Owns: :class:`Source` (data of one scope), the three layouts in which grants are kept, and the bounded reading of the
files that hold them. Nothing here raises for what a file says: what is wrong becomes a fault with its file, its place
and its reason, and is left out; it never widens anything: a fault says whether a deny or an ask may be lost by it. Keys
that nobody reads are reported, not used (:mod:`.keys`). A key that stands twice is reported; the
last one counts, as everywhere, but no deny and no ask is lost by it. Values never appear in a fault.

Layouts: ``permissions.{allow,ask,deny}`` (command line, plugin), ``userSettings.globalPermissionGrants.{…}`` (shared),
``permissionGrants.permissionGrants.{…}`` (project).
"""

import json
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from ..language.grammar import Rule, RuleFault, notes, parse_rule
from ..language.modes import read_mode, tightened
from ..language.rules import Rules, is_name
from ..language.scopes import KINDS, Kind, Origin, Scope
from .keys import CAREFUL_KEYS, LAYOUTS, MODE_KEYS, shown, unread
from .malformed import why_no_json

FILE_LIMIT: Final = 4 * 1024 * 1024
RULE_LIMIT: Final = 100_000
_RESTRICTING: Final = ("deny", "ask")
_REPEATED_LIMIT: Final = 100
_STRICTEST: Final = "; until it is mended the strictest counts"
#: Scopes whose settings may change the mode, the first that says something wins. Grants of a project or of all
#: surfaces are grants only: they cannot switch questions off.
_MODE_SCOPES: Final[tuple[Scope, ...]] = ("plugin", "global")


@dataclass(frozen=True, slots=True)
class Source:
    """Settings of one scope.

    :param data: the parsed object. :param file: where it was read; a write there is asked about in every mode.
    :param faults: what was wrong with the file as a whole.
    :param names: its lists may hold plain tool names beside rules, as those of this plugin's settings do.
    :param modes: what its settings do to the mode: ``set`` it, ``tighten`` it and nothing else, or ``none``.
    :param kept: it holds no rules: ``file`` is a file or folder that must not change unasked all the same.
    """

    scope: Scope
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    file: str | None = None
    faults: tuple[RuleFault, ...] = ()
    names: bool = False
    modes: Literal["set", "tighten", "none"] = "set"
    kept: bool = False


def read_file(path: str | os.PathLike[str], scope: Scope) -> Source:
    """The settings in a file. A missing file has no settings; what cannot be read is a fault of the source."""
    name = os.fspath(path)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        if os.path.islink(name):
            return _unreadable(scope, name, "this is a link that leads nowhere")
        return Source(scope, file=name)
    except (OSError, ValueError):
        return _unreadable(scope, name, "the file cannot be opened")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return _unreadable(scope, name, "this is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        try:
            raw = file.read(FILE_LIMIT + 1)
        except OSError:
            return _unreadable(scope, name, "the file cannot be read")
    if len(raw) > FILE_LIMIT:
        return _unreadable(scope, name, f"the file has more than {FILE_LIMIT} bytes")
    try:
        data = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=joined)
    except (ValueError, RecursionError) as error:
        return _unreadable(scope, name, f"the file {why_no_json(raw, error)}")
    if not isinstance(data, dict):
        return _unreadable(scope, name, "expected a JSON object")
    return Source(scope, data, name, repeated(data, scope, name))


class _Repeated(dict[str, Any]):
    """An object in which keys stood more than once."""

    keys_twice: tuple[str, ...] = ()


def joined(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object of a file from its keys and values. Of a key that stands twice the last value counts, and every deny
    and ask below any of them: a list that nobody sees any more must not open anything."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    made = _Repeated()
    twice: dict[str, None] = {}
    for key, value in pairs:
        if key in made:
            twice[key] = None
        made[key] = _later(key, made[key], value) if key in made else value
    made.keys_twice = tuple(twice)
    return made


def repeated(data: Mapping[str, Any], scope: Scope, file: str | None) -> tuple[RuleFault, ...]:
    """The keys that stood twice in what :func:`joined` made, as faults; at most 100."""
    found: list[RuleFault] = []
    waiting: list[tuple[str, Any]] = [("", data)]
    while waiting and len(found) < _REPEATED_LIMIT:
        place, value = waiting.pop()
        if isinstance(value, list):
            waiting.extend((f"{place}[{number}]", each) for number, each in enumerate(value))
        if not isinstance(value, dict):
            continue
        below = {key: f"{place}.{shown(str(key))}" if place else shown(str(key)) for key in value}
        waiting.extend((below[key], each) for key, each in reversed(value.items()))
        found.extend(
            RuleFault(file, below[key], "this key stands more than once in its object; the last one counts", scope,
                      "repeated")
            for key in (value.keys_twice if isinstance(value, _Repeated) else ())
        )  # fmt: skip
    return tuple(found)


def _later(key: str, old: Any, new: Any) -> Any:
    """The later of two values of a key, with the deny and ask rules of the earlier one."""
    if key in _RESTRICTING and isinstance(old, list):
        return [*old, *new] if isinstance(new, list) else old
    if not isinstance(old, dict):
        return new
    kept = {name: below for name, value in old.items() if (below := _later(name, value, None))}
    if not kept or not isinstance(new, dict):
        return kept or new
    return {**new, **{name: _later(name, value, new.get(name)) for name, value in kept.items()}}


def standard_sources(home: str | os.PathLike[str], project: str | os.PathLike[str] | None = None) -> tuple[Source, ...]:
    """The vendor's files of a home folder, and the file of one project when the caller knows which it is."""
    base = Path(home) / ".gemini"
    found = [
        read_file(base / "antigravity-cli" / "settings.json", "global"),
        read_file(base / "config" / "config.json", "shared"),
    ]
    return tuple(found if project is None else [*found, read_file(project, "project")])


def rules_of(source: Source) -> tuple[list[Rule], list[RuleFault]]:
    """The rules of a source, and everything that is wrong with it."""
    rules: list[Rule] = []
    faults = list(source.faults)
    for layout in LAYOUTS:
        place = ".".join(layout)
        table: object = source.data
        for key in layout:
            table = table.get(key) if isinstance(table, Mapping) else None
        if isinstance(table, Mapping):
            for kind in KINDS:
                _list(source, table.get(kind), kind, f"{place}.{kind}", rules, faults)
        elif table is not None:
            reason = "expected an object with allow, ask and deny"
            faults.append(RuleFault(source.file, place, reason, source.scope, loses=bool(table)))
    return rules, [*faults, *unread(source.data, source.scope, source.file)]


def names_of(source: Source) -> Rules:
    """The plain tool names in the lists of a source, where it may have some."""
    table = source.data.get("permissions") if source.names else None
    found = {}
    for kind in KINDS:
        texts = table.get(kind) if isinstance(table, Mapping) else None
        every = texts[:RULE_LIMIT] if isinstance(texts, (list, tuple)) else ()
        found[kind] = frozenset(text.strip() for text in every if is_name(text))
    return Rules(found["allow"], found["ask"], found["deny"])


def parse_list(
    texts: Iterable[object], kind: Kind, scope: Scope, place: str, file: str | None = None, *, names: bool = False
) -> tuple[list[Rule], list[RuleFault]]:
    """Rules of one list. :param names: it may hold plain tool names, which are passed over here."""
    rules: list[Rule] = []
    faults: list[RuleFault] = []
    for index, text in enumerate(texts):
        if names and is_name(text):
            continue
        found = parse_rule(text, kind, Origin(scope, f"{place}[{index}]", file))
        if isinstance(found, RuleFault):
            faults.append(replace(found, loses=kind != "allow"))
            continue
        rules.append(found)
        note = notes(found)
        if note is not None:
            faults.append(note)
    return rules, faults


def mode_of(sources: Iterable[Source]) -> tuple[dict[str, Any], list[RuleFault]]:
    """What the sources say about the mode, as fields of :class:`~antigravity_control.language.modes.Mode`."""
    fields: dict[str, Any] = {}
    faults: list[RuleFault] = []
    ordered = sorted(
        (each for each in sources if each.scope in _MODE_SCOPES),
        key=lambda each: (each.modes != "set", _MODE_SCOPES.index(each.scope)),
    )
    for source in ordered:
        found, wrong = read_mode(source.data)
        if source.modes == "set":
            fields = {**found, **fields}
        elif source.modes == "tighten":
            fields = tightened(fields, found, [place for place, _ in wrong])
            wrong = tuple((key, f"{why}{_STRICTEST if key in CAREFUL_KEYS else ''}") for key, why in wrong)
        else:
            wrong = tuple(
                (key, "sets no mode here; the rules of this file count") for key in MODE_KEYS if key in source.data
            )
        faults.extend(RuleFault(source.file, place, reason, source.scope) for place, reason in wrong)
    return fields, faults


@dataclass(frozen=True, slots=True)
class Trust:
    """The folders that ``trustedWorkspaces`` names. :param file: the last file that has the setting, if it is one."""

    folders: tuple[str, ...]
    file: str | None


def trusted_folders(sources: Iterable[Source]) -> tuple[Trust | None, list[RuleFault]]:
    """Which folders are trusted; ``None`` when no source has the setting. A value that is no list names nothing, so
    that nothing is trusted."""
    trust: Trust | None = None
    faults: list[RuleFault] = []
    for source in sources:
        value = source.data.get("trustedWorkspaces")
        if source.scope not in _MODE_SCOPES or source.modes == "none" or value is None:
            continue
        good = [each for each in value if isinstance(each, str) and each.strip()] if isinstance(value, list) else []
        trust = Trust((*(trust.folders if trust is not None else ()), *good), source.file)
        if not isinstance(value, list) or len(good) != len(value):
            faults.append(RuleFault(source.file, "trustedWorkspaces", "expected a list of folders", source.scope))
    return trust, faults


def _list(source: Source, texts: object, kind: Kind, place: str, rules: list[Rule], faults: list[RuleFault]) -> None:
    if texts is None:
        return
    if not isinstance(texts, (list, tuple)):
        loses = kind != "allow" and bool(texts)
        faults.append(RuleFault(source.file, place, "expected a list of rules", source.scope, loses=loses))
        return
    if len(texts) > RULE_LIMIT:
        reason = f"a list has at most {RULE_LIMIT} rules; those after them are missing"
        faults.append(RuleFault(source.file, place, reason, source.scope, "unreadable"))
    found, wrong = parse_list(texts[:RULE_LIMIT], kind, source.scope, place, source.file, names=source.names)
    rules.extend(found)
    faults.extend(wrong)


def _unreadable(scope: Scope, file: str, reason: str) -> Source:
    return Source(scope, {}, file, (RuleFault(file, "$", reason, scope, "unreadable"),))
