"""What a person is shown who is asked about a call.

Owns: the text of the question. Arguments are shown to the person who has to judge them: escaped, so that a model cannot
draw on the screen; behind a bar, so that no line of an argument looks like one of ours; and whole, unless the tool only
reads or edits. Rules that an answer would grant or write are shown as they would be written.
"""

import json
from typing import Final

from antigravity_acp.governing import Offers
from antigravity_acp.hooks.calls import ToolCall
from antigravity_acp.limits import APPROVAL_TIMEOUT_S
from antigravity_control import Decision

#: Characters of one argument of a tool that reads or edits which the person is shown, half from each end.
_MAX_SHOWN: Final = 2_000


def card(call: ToolCall, opinion: Decision | None, offers: Offers, rules_file: str, unwritten: str = "") -> str:
    """The question without its last line.

    :param opinion: what asked. :param offers: the rules that a wider yes stands for.
    :param rules_file: where "always" writes them.
    :param unwritten: why there is a rule for it that is not offered, as the end of a sentence.
    """
    lines = [f"\n{plain(call.name)} wants to run. No answer within {APPROVAL_TIMEOUT_S:g} s is a no."]
    for name, value in call.arguments.items():
        lines += _shown(plain(name), value, whole=call.kind not in ("read", "edit"))
    if opinion is not None and opinion.source.startswith("hook:"):
        lines.append(f"  {plain(opinion.source)}: {plain(opinion.reason)}")
    elif opinion is not None:
        lines.append(f"  why: {plain(opinion.reason)}")
    if offers.confined is not None:
        lines.append(f"  runs {'in the sandbox' if offers.confined else 'without a sandbox'}")
    for head, rules in (("this turn", offers.turn), ("folder", offers.folder), ("always", offers.always)):
        lines += [line for rule in rules for line in _barred(f"  {head}: ", rule)]
    if offers.always:
        lines.append(f"  (always writes into {plain(rules_file)})")
    elif unwritten:
        lines.append(f"  (no always: its rule {plain(unwritten)})")
    return "\n".join(lines) + "\n"


def _shown(name: str, value: object, *, whole: bool) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    surplus = len(text) - _MAX_SHOWN
    if whole or surplus <= 0:
        return _barred(f"  {name}: ", text)
    half = _MAX_SHOWN // 2
    cut = f"  {name}: [{surplus} characters more, not shown] "
    return [*_barred(f"  {name}: ", text[:half]), *_barred(cut, text[-half:])]


def _barred(head: str, text: str) -> list[str]:
    first, *others = (plain(line) for line in text.split("\n"))
    return [head + first, *(f"    | {line}" for line in others)]


def plain(text: str) -> str:
    """Text without control, format and bidirectional characters, which could hide or fake what is shown."""
    return "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in text)
