"""Looking for secrets in a text of any size, within a bound on time.

Owns: :func:`scan`. The text is looked at as a person sees it, without the sequences that colour it, and in windows.
Each finds the secrets whose word begins in it, however far they reach, so none is lost at a border; between windows the
clock is looked at. What could not be looked at in time is not
passed on where the policy promises that no secret is: it is left out, with a note in its place.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from .detectors import BEFORE, DETECTORS, Detector
from .encoded import encoded
from .spans import Finding, merged
from .visible import Visible, visible

OutputPolicy = Literal["off", "audit", "redact", "block"]

#: Characters of one window.
WINDOW: Final = 131_072
#: Seconds for one text. A result of a tool is done in a tenth of that, a hostile one of the same size in time.
BUDGET_S: Final = 5.0
_LONGEST_WORD: Final = max(len(word) for detector in DETECTORS for word in detector.words)
#: Characters of a value that is no secret from which on nothing within it is tried again; that would not be linear.
_LONG: Final = 256
_ASCII_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
#: What stands in the place of a secret.
MARK: Final = "[redacted: {kind}]"
_BLOCKED: Final = (
    "[blocked: this output holds {count} secret(s) of the kind {kinds}; the policy for outputs withholds it]"
)
_UNSEEN: Final = "[left out: {count} characters could not be looked at for secrets in time]"


@dataclass(frozen=True, slots=True)
class Scan:
    """What was found, and what may be passed on.

    :param findings: places in the text that was given, in order, none overlapping; all secrets of every kind.
    :param text: the text under the policy.
    :param scanned: characters that were looked at; fewer than there are when time ran out.
    """

    findings: tuple[Finding, ...]
    text: str
    scanned: int


def scan(text: str, *, policy: OutputPolicy, budget_s: float = BUDGET_S) -> Scan:
    """Look for secrets and apply a policy.

    ``off`` looks at nothing; ``audit`` finds and changes nothing; ``redact`` puts :data:`MARK` in the place of each
    secret and keeps every other character; ``block`` passes on a notice instead of a text that holds one.

    :raises ValueError: for another policy.
    """
    if policy not in ("off", "audit", "redact", "block"):
        raise ValueError("the policy for outputs must be off, audit, redact or block")
    if policy == "off" or not text:
        return Scan((), text, 0)
    deadline = time.monotonic() + budget_s
    seen: Visible = visible(text)
    found, scanned = _find(seen.text, deadline)
    found += encoded(seen.text[:scanned], lambda piece: _find(piece, deadline)[0])
    found = [Finding(each.kind, *seen.span(each.start, each.end)) for each in found]
    scanned = seen.place(scanned)
    if seen.text is not text and scanned == len(text):
        # Where the colour changes a word may end, too.
        more, scanned = _find(seen.spaced, deadline)
        found += more
    findings = merged(found)
    if policy == "audit":
        return Scan(findings, text, scanned)
    unseen = _UNSEEN.format(count=len(text) - scanned) if scanned < len(text) else ""
    if policy == "block":
        kinds = ", ".join(sorted({each.kind for each in findings}))
        passed = _BLOCKED.format(count=len(findings), kinds=kinds) if findings else text[:scanned] + unseen
        return Scan(findings, passed, scanned)
    return Scan(findings, "".join(_redacted(text, findings, scanned)) + unseen, scanned)


def _redacted(text: str, findings: tuple[Finding, ...], scanned: int) -> Iterator[str]:
    at = 0
    for each in findings:
        yield text[at : each.start]
        yield MARK.format(kind=each.kind)
        at = each.end
    yield text[at:scanned]


def _find(text: str, deadline: float) -> tuple[list[Finding], int]:
    found: list[Finding] = []
    for start in range(0, len(text), WINDOW):
        if time.monotonic() > deadline:
            return found, start
        stop = min(start + WINDOW, len(text))
        # Words that begin in the window, wherever they end.
        piece = text[start : stop + _LONGEST_WORD - 1]
        folded = _folded(piece)
        for detector in DETECTORS:
            within = folded if detector.folded else piece
            for word in detector.words:
                if word in within:
                    found.extend(_matches(detector, word, text, within, start, stop))
    return found, len(text)


def _folded(text: str) -> str:
    lower = text.lower()
    # One letter of Unicode becomes two; places would not fit any more.
    return lower if len(lower) == len(text) else text.translate(_ASCII_LOWER)


def _matches(detector: Detector, word: str, text: str, within: str, start: int, stop: int) -> Iterator[Finding]:
    """The secrets whose word begins between ``start`` and ``stop``; ``within`` is the text from ``start`` on."""
    group = "secret" if "secret" in detector.pattern.groupindex else 0
    at, behind = within.find(word), 0
    while 0 <= at < stop - start:
        match = detector.pattern.match(text, start + at)
        end = at + 1
        if match is not None:
            first, last = match.span(group)
            before = 0
            if detector.before is not None:
                # Not beyond the one before: what many have in front of them would be looked at for each of them.
                back = detector.before.match(text[max(behind, first - BEFORE) : first][::-1])
                before, behind = (-1 if back is None else back.end()), last
            good = before >= 0 and (detector.check is None or detector.check(text[first:last]))
            if good:
                yield Finding(detector.kind, first - before, last)
            if good or last - first > _LONG:
                end = max(end, match.end() - start)
        at = within.find(word, end)
