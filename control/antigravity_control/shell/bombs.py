"""Functions that multiply themselves: the fork bomb under any name.

Owns: the search over function definitions. A function that calls itself once, or more than once without a pipe or a
background job, is ordinary recursion.
"""

from collections.abc import Iterator, Mapping

from .text.ast import Compound, Program, Simple, Sub

_LOOPS = frozenset({"for", "while"})
Calls = dict[str, list[tuple[str, bool]]]


def multiplying(functions: Mapping[str, tuple[Program, str]]) -> tuple[str, ...]:
    """The text of every function whose calls lead back to itself at least twice, some of them side by side."""
    calls: Calls = {
        name: [call for call in _calls(program, False) if call[0] in functions]
        for name, (program, _) in functions.items()
    }
    found = []
    for name, (_, text) in functions.items():
        back = [side for callee, side in calls[name] if name in _reached(callee, calls)]
        if len(back) > 1 and any(back):
            found.append(text)
    return tuple(found)


def _reached(start: str, calls: Calls) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(callee for callee, _ in calls.get(name, ()))
    return seen


def _calls(program: Program, side: bool, again: bool = False, *, bare: bool = False) -> Iterator[tuple[str, bool]]:
    """Names called in ``program``, each with whether it runs beside another command. ``again``: in a loop. ``bare``:
    only calls without arguments."""
    for pipeline in program.pipelines:
        beside = side or pipeline.background or len(pipeline.stages) > 1
        for stage in pipeline.stages:
            if isinstance(stage, Simple):
                if not bare or len(stage.words) == 1:
                    yield from _simple_calls(stage, beside, again)
            elif isinstance(stage, Compound):
                loops = again or stage.kind in _LOOPS
                for body in stage.bodies:
                    yield from _calls(body, beside, loops)


def _simple_calls(stage: Simple, beside: bool, again: bool) -> Iterator[tuple[str, bool]]:
    """The call itself; one that is given nothing to work on, in a loop and in the background, counts as two. A call
    with arguments goes through data, which comes to an end."""
    if not stage.words:
        return
    yield _name(stage), beside
    if again and beside and len(stage.words) == 1:
        yield _name(stage), beside
    for word in stage.words:
        for part in word.parts:
            if isinstance(part, Sub) and part.kind == "command":
                bare = (call for program in part.programs for call in _calls(program, beside, again, bare=True))
                yield from bare


def _name(stage: Simple) -> str:
    return stage.words[0].unquoted() or "".join(getattr(part, "value", "") for part in stage.words[0].parts)
