"""`control test`: rules with examples beside them, checked like unit tests.

Owns: the layout of such a file. It is a settings file with some keys more:

- ``examples``: lists under ``allow``, ``ask`` and ``deny``. An example is ``command: git status`` as a text or as an
  object, which may also have ``rule`` (the rule that has to decide), ``mode`` and ``why``.
- ``settings``: other settings files to test, from the folder of this one. ``workspace``, ``home``, ``mode`` and
  ``flags``: what the decision depends on.

In a headless run an ``ask`` is a soft denial; ``deny`` always means one that no answer could lift.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from antigravity_control import ACTIONS, Decision, Policy, Request, RuleFault, Source
from antigravity_control.sources.keys import near, shown

from ._control import one_line, request_of, word
from ._control_files import home_folder, load, whole
from .failures import FAILED, CliError
from .output import JsonLines, count

Outcome = Literal["allow", "ask", "deny"]
_OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)
_MODES: Final = ("interactive", "headless")
_OPTIONS: Final = frozenset({"rule", "mode", "why"})
#: Keys of such a file that others have not, and the shortest one that may be misspelt.
_KEYS: Final = ("examples", "settings", "workspace", "flags")
_WORD: Final = 5


@dataclass(frozen=True, slots=True)
class Example:
    """:param place: as in ``examples.deny[2]``. :param mode: of this example, the file's when ``None``."""

    place: str
    expected: Outcome
    request: Request
    rule: str | None = None
    mode: Any = None
    why: str | None = None


def run_test(path: str, *, as_json: bool) -> int:
    """Check every example and print those that fail.

    :returns: 1 when one failed or a rule is malformed.
    :raises CliError: ``INVALID_SETTINGS``: the file is not there, cannot be read, or is not laid out like this;
        ``NO_EXAMPLES``: nothing would be tested.
    """
    try:
        source = load(path)
        whole(source.faults)
        examples = list(_examples(source))
        ruled = _policy(source)
        faults = [*ruled.faults, *_misspelt(source)]
    except CliError as error:
        if as_json:
            JsonLines().show({"event": "error", "code": error.code, "message": error.message})
        raise
    for fault in faults:
        if as_json:
            JsonLines().show({"event": "fault", "file": fault.file, "place": fault.place, "text": fault.reason})
        else:
            print(one_line(f"FAULT {fault}"))
    failed = 0
    for example in examples:
        made = _decided(ruled, example)
        problem = _problem(example, made)
        failed += problem is not None
        if as_json:
            _show_json(example, made, problem)
        elif problem is not None:
            asked = f"{example.request.action}: {example.request.target}"
            print(one_line(f"FAIL {example.place} {asked}"))
            print(one_line(f"     {problem}: {made.reason}"))
            if example.why:
                print(one_line(f"     because {example.why}"))
    good = not failed and not faults
    if as_json:
        counts = {"examples": len(examples), "failed": failed, "faults": len(faults)}
        JsonLines().show({"event": "end", "ok": good, **counts})
    else:
        more = f", {count(len(faults), 'fault')}" if faults else ""
        print(f"{'ok' if good else 'FAILED'}: {count(len(examples), 'example')}, {failed} failed{more}")
    return 0 if good else FAILED


def _decided(ruled: Policy, example: Example) -> Decision:
    policy = ruled if example.mode is None else ruled.attended(example.mode)
    return policy.decide(request_of(example.request.action, example.request.target, policy))


def _misspelt(source: Source) -> Iterator[RuleFault]:
    """Keys that may be meant as one of those that only files with examples have."""
    for key in source.data:
        meant = near(key, _KEYS) if len(str(key)) >= _WORD else None
        if meant is not None:
            reason = f"nobody reads this key; `{meant}` may be meant"
            yield RuleFault(source.file, shown(key), reason, source.scope, "unknown")


def _problem(example: Example, made: Decision) -> str | None:
    """What is wrong with a decision, ``None`` when it is what the example says."""
    got = "ask" if made.soft else word(made)
    if got != example.expected:
        return f"expected {example.expected}, got {got}"
    if example.rule is not None and example.rule != made.rule:
        return f"expected `{example.rule}` to decide, not {f'`{made.rule}`' if made.rule else made.source}"
    return None


def _show_json(example: Example, made: Decision, problem: str | None) -> None:
    fields = {
        "place": example.place,
        "action": example.request.action,
        "target": example.request.target,
        "expected": example.expected,
        "decision": word(made),
        "soft": made.soft,
        "reason": made.reason,
        "rule": made.rule,
        "ok": problem is None,
    }
    JsonLines().show({"event": "example", **fields, **({"problem": problem} if problem else {})})


def _policy(source: Source) -> Policy:
    data, folder = source.data, os.path.dirname(source.file or "")
    others = _texts(source, "settings")
    found = [source, *(load(os.path.join(folder, each)) for each in others)]
    mode = data.get("mode", "interactive")
    if mode not in _MODES:
        raise _wrong(source, "mode", "expected `interactive` or `headless`")
    made = Policy.compile(
        found,
        workspace=os.path.normpath(os.path.join(folder, _text(source, "workspace") or folder)),
        mode=mode,
        flags=_texts(source, "flags"),
        home=_text(source, "home") or home_folder(),
    )
    whole(made.faults)
    return made


def _examples(source: Source) -> Iterator[Example]:
    lists = source.data.get("examples")
    if lists is not None and not isinstance(lists, Mapping):
        raise _wrong(source, "examples", "expected lists under `allow`, `ask` and `deny`")
    found = 0
    for outcome, items in (lists or {}).items():
        place = f"examples.{outcome}"
        if outcome not in _OUTCOMES:
            raise _wrong(source, place, "expected `allow`, `ask` or `deny`")
        if not isinstance(items, list):
            raise _wrong(source, place, "expected a list")
        for number, item in enumerate(items):
            yield _example(source, f"{place}[{number}]", outcome, item)
            found += 1
    if not found:
        message = f"{source.file} has no examples, so nothing is tested. Put some under `examples`."
        raise CliError("NO_EXAMPLES", message)


def _example(source: Source, place: str, outcome: Outcome, item: object) -> Example:
    if isinstance(item, str):
        return Example(place, outcome, _request(source, place, *_split(item)))
    if not isinstance(item, Mapping):
        raise _wrong(source, place, "expected an example such as `command: git status`")
    named = [key for key in item if key in ACTIONS]
    if len(named) != 1 or not all(isinstance(value, str) for value in item.values()):
        raise _wrong(source, place, "expected one action with a text, as in `command: git status`; quote it")
    unknown = sorted(str(key) for key in item if key not in _OPTIONS and key not in named)
    if unknown or item.get("mode", "headless") not in _MODES:
        raise _wrong(source, place, f"beside the action it may have {', '.join(sorted(_OPTIONS))}")
    request = _request(source, place, named[0], item[named[0]])
    return Example(place, outcome, request, item.get("rule"), item.get("mode"), item.get("why"))


def _split(text: str) -> tuple[str, str]:
    """``action: target``, or the same as a rule is written."""
    action, colon, target = text.partition(":")
    if colon and action.strip() in ACTIONS:
        return action.strip(), target.strip()
    action, opened, target = text.strip().partition("(")
    return action, target.removesuffix(")") if opened and target.endswith(")") else ""


def _request(source: Source, place: str, action: Any, target: str) -> Request:
    if action not in ACTIONS or not target:
        raise _wrong(source, place, f"expected `action: target`, with one of {', '.join(ACTIONS)}")
    return Request(action, target)


def _text(source: Source, key: str) -> str | None:
    value = source.data.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise _wrong(source, key, "expected a text")
    return value


def _texts(source: Source, key: str) -> list[str]:
    value = source.data.get(key, [])
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise _wrong(source, key, "expected a list of texts")
    return values


def _wrong(source: Source, place: str, reason: str) -> CliError:
    return CliError("INVALID_SETTINGS", f"{source.file}, {place}: {reason}.")
