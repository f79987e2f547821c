"""Patterns of rules, matched in linear time.

Owns: a small pattern language (the common part of RE2 and Python: literals, escapes, classes, groups, alternation,
``* + ? {m,n}``, ``(?i)``) compiled to a non-deterministic automaton, so that no pattern can cost more than the
product of its size and the text. Raises ``PatternError`` for anything else: a rule must not be taken for what it is
not. Anchors at the ends are accepted; every match is a match of the whole text.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

LENGTH_LIMIT = 512
STATE_LIMIT = 2_000
REPEAT_LIMIT = 64
DEPTH_LIMIT = 32
TEXT_LIMIT = 16_384


class PatternError(ValueError):
    """The pattern is not one that rules may hold."""


Test = Callable[[str], bool]
_CLASSES: dict[str, Test] = {
    "d": str.isdigit,
    "w": lambda char: char.isalnum() or char == "_",
    "s": str.isspace,
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}


def _negated(test: Test) -> Test:
    return lambda char: not test(char)


def _one_of(tests: Iterable[Test], negative: bool) -> Test:
    kept = tuple(tests)
    if negative:
        return lambda char: not any(test(char) for test in kept)
    return lambda char: any(test(char) for test in kept)


def _exactly(wanted: str) -> Test:
    return lambda char: char == wanted


def _between(low: str, high: str) -> Test:
    return lambda char: low <= char <= high


@dataclass(slots=True)
class _State:
    test: Test | None = None
    targets: list[int] = field(default_factory=list)


Fragment = tuple[int, int]
"""First and last state; the last one has no way out yet."""


class Pattern:
    """A compiled pattern."""

    def __init__(self, source: str) -> None:
        if len(source) > LENGTH_LIMIT:
            raise PatternError("the pattern is too long")
        self.source = source
        self._states: list[_State] = []
        self._text, self._i, self._depth = source, 0, 0
        self._folds = source.startswith("(?i)")
        self._i = 4 if self._folds else 0
        if self._text.startswith("^", self._i):
            self._i += 1
        first, self._last = self._alternatives()
        if self._i < len(self._text):
            raise PatternError(f"unexpected {self._text[self._i]!r} in the pattern")
        self._start = self._closure({first})
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def fullmatch(self, text: str) -> bool:
        """Whether the whole of ``text`` matches. Texts over ``TEXT_LIMIT`` never do."""
        if len(text) > TEXT_LIMIT:
            return False
        current = self._start
        for char in text.lower() if self._folds else text:
            key = (current, char)
            following = self._steps.get(key)
            if following is None:
                reached = {
                    target for place in current if self._test(place, char) for target in self._states[place].targets
                }
                following = self._closure(reached)
                if len(self._steps) < 4_096:
                    self._steps[key] = following
            if not following:
                return False
            current = following
        return self._last in current

    def _test(self, place: int, char: str) -> bool:
        test = self._states[place].test
        return test is not None and (test(char) or (self._folds and test(char.upper())))

    def _closure(self, places: set[int]) -> frozenset[int]:
        seen = set(places)
        waiting = list(places)
        while waiting:
            state = self._states[waiting.pop()]
            if state.test is None:
                fresh = [target for target in state.targets if target not in seen]
                seen.update(fresh)
                waiting.extend(fresh)
        return frozenset(seen)

    # -- compilation --------------------------------------------------------------------------------------------

    def _state(self, test: Test | None = None, *targets: int) -> int:
        if len(self._states) >= STATE_LIMIT:
            raise PatternError("the pattern is too large")
        self._states.append(_State(test, list(targets)))
        return len(self._states) - 1

    def _peek(self) -> str:
        return self._text[self._i : self._i + 1]

    def _next(self) -> str:
        char = self._peek()
        if not char:
            raise PatternError("the pattern ends too early")
        self._i += 1
        return char

    def _alternatives(self) -> Fragment:
        self._depth += 1
        if self._depth > DEPTH_LIMIT:
            raise PatternError("the pattern is nested too deeply")
        first, last = self._state(), self._state()
        while True:
            start, end = self._sequence()
            self._states[first].targets.append(start)
            self._states[end].targets.append(last)
            if self._peek() != "|":
                self._depth -= 1
                return first, last
            self._i += 1

    def _sequence(self) -> Fragment:
        first = last = self._state()
        while self._peek() not in {"", "|", ")"}:
            if self._peek() == "$" and self._text[self._i + 1 : self._i + 2] in {"", "|", ")"}:
                self._i += 1
                continue
            start, end = self._repeated()
            self._states[last].targets.append(start)
            last = end
        return first, last

    def _repeated(self) -> Fragment:
        place = self._i
        fragment = self._atom()
        end = self._i
        quantifier = self._quantifier()
        if quantifier is None:
            return fragment
        after = self._i
        least, most = quantifier
        first = last = self._state()
        for count in range(least + 1 if most is None else most):
            self._i = place
            start, stop = fragment if count == 0 else self._atom()
            self._states[last].targets.append(start)
            if count >= least:
                skip = self._state()
                self._states[last].targets.append(skip)
                self._states[stop].targets.append(skip)
                if most is None:
                    self._states[stop].targets.append(start)
                last = skip
            else:
                last = stop
        self._i = max(after, end)
        return first, last

    def _quantifier(self) -> tuple[int, int | None] | None:
        char = self._peek()
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(char)
        if simple is not None:
            self._i += 1
            result: tuple[int, int | None] = simple
        elif char == "{":
            counted = self._counted()
            if counted is None:
                return None
            result = counted
        else:
            return None
        if self._peek() == "?":  # lazy: the same set of texts
            self._i += 1
        if self._peek() in {"*", "+", "{"}:
            raise PatternError("a quantifier follows a quantifier")
        return result

    def _counted(self) -> tuple[int, int | None] | None:
        end = self._text.find("}", self._i)
        low, comma, high = self._text[self._i + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not low.isdigit() or (high and not high.isdigit()):
            return None
        least, most = int(low), int(high) if high else (None if comma else int(low))
        if max(least, most or 0) > REPEAT_LIMIT or (most is not None and most < least):
            raise PatternError("a count is out of range")
        self._i = end + 1
        return least, most

    def _atom(self) -> Fragment:
        char = self._next()
        if char == "(":
            return self._group()
        if char in "*+?":
            raise PatternError("a quantifier without anything before it")
        if char == "[":
            test = self._class()
        elif char == ".":
            test = _negated(_exactly("\n"))
        elif char == "\\":
            test = self._escaped()
        elif char == "^":
            raise PatternError("an anchor inside the pattern")
        else:
            test = _exactly(char.lower() if self._folds else char)
        last = self._state()
        return self._state(test, last), last

    def _group(self) -> Fragment:
        if self._text.startswith("?:", self._i):
            self._i += 2
        elif self._peek() == "?":
            raise PatternError("a group of a kind that rules may not hold")
        fragment = self._alternatives()
        if self._next() != ")":
            raise PatternError("a group is not closed")
        return fragment

    def _escaped(self) -> Test:
        char = self._next()
        lowered = char.lower()
        if lowered in _CLASSES:
            return _CLASSES[lowered] if char == lowered else _negated(_CLASSES[lowered])
        if char in _CONTROLS:
            return _exactly(_CONTROLS[char])
        if char.isalnum():
            raise PatternError(f"the escape \\{char} is not known")
        return _exactly(char)

    def _class(self) -> Test:
        negative = self._peek() == "^"
        self._i += negative
        tests: list[Test] = []
        while self._peek() != "]" or not tests:
            char = self._next()
            if char == "\\":
                tests.append(self._escaped())
            elif self._peek() == "-" and self._text[self._i + 1 : self._i + 2] not in {"]", ""}:
                self._i += 1
                high = self._next()
                if high in "\\[" or high < char:
                    raise PatternError("a range is not in order")
                tests.append(_between(char, high))
            else:
                tests.append(_exactly(char))
        self._i += 1
        return _one_of(tests, negative)


def compile_tokens(source: str) -> tuple[Pattern, ...]:
    """The patterns of a ``regex:`` target: one for each token that blanks separate."""
    return tuple(Pattern(token) for token in source.split())
