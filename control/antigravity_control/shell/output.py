"""What a command certainly prints: ``echo``, ``printf``, ``cat`` with a here-document. Everything else is unknown.

Owns: the guess behind ``$(echo rm)`` and ``echo … | sh``. A guess can deny or ask, never allow.
"""

import re
from collections.abc import Callable

from .ansi_c import decode
from .ast import Node, Program, Simple
from .budget import BrokenError, Budget
from .model import Word
from .words import State, single, words

_LIMIT = 8_192
_ECHO_FLAGS = re.compile(r"-[neE]+")
_LOOKUPS = (["which"], ["command", "-v"], ["type", "-P"], ["type", "-p"])
"""Questions for a command's path: the answer is that command."""
_FORMAT = re.compile(r"%(?:%|[-+ 0#]*\d*[sbq])")


def printed(node: Node, state: State, budget: Budget) -> str | None:
    """What ``node`` writes to its output, None when that is not certain."""
    if not isinstance(node, Simple) or not node.words:
        return None
    argv: list[Word] = []
    for raw in node.words:
        argv.extend(words(raw, state, budget))
    if not argv or not all(word.known for word in argv) or sum(len(word.text) for word in argv) > _LIMIT:
        return None
    texts = [word.text for word in argv]
    if len(texts) > 1 and texts[:-1] in _LOOKUPS:
        return texts[-1]
    while texts and texts[0] in {"command", "builtin"}:
        texts = texts[1:]
    if texts[:1] == ["echo"]:
        return _echo(texts[1:])
    if texts[:1] == ["printf"]:
        return _printf(texts[1:])
    if texts in (["cat"], ["cat", "-"]):
        return _document(node, state, budget)
    return None


def printer(budget: Budget) -> Callable[[Program, State], str | None]:
    """The function that :class:`State` carries: the output of a whole substitution."""

    def output(program: Program, state: State) -> str | None:
        stages = [stage for pipeline in program.pipelines for stage in pipeline.stages]
        if len(stages) != 1:
            return None
        text = printed(stages[0], state, budget)
        return None if text is None else text.rstrip("\n")

    return output


def _echo(texts: list[str]) -> str:
    escapes = False
    while texts and _ECHO_FLAGS.fullmatch(texts[0]):
        escapes = escapes or "e" in texts[0]
        texts = texts[1:]
    text = " ".join(texts)
    return _escaped(text) if escapes else text


def _printf(texts: list[str]) -> str | None:
    if texts[:1] == ["--"]:
        texts = texts[1:]
    if not texts or texts[0].startswith("-"):
        return None
    form, arguments = _escaped(texts[0]), texts[1:]
    places = [match for match in _FORMAT.finditer(form) if match.group() != "%%"]
    if "%" in _FORMAT.sub("", form):
        return None
    rounds = max(1, -(-len(arguments) // len(places))) if places else 1
    values = iter(arguments)
    result = "".join(
        _FORMAT.sub(lambda match: "%" if match.group() == "%%" else next(values, ""), form)
        for _ in range(min(rounds, 64))
    )
    return result if len(result) <= _LIMIT else None


def _escaped(text: str) -> str:
    try:
        return decode(text.replace("'", "\\'") + "'", 0)[0]
    except BrokenError:
        return text


def _document(node: Simple, state: State, budget: Budget) -> str | None:
    for redirect in reversed(node.redirects):
        body = redirect.body if redirect.op in {"<<", "<<-"} else redirect.target if redirect.op == "<<<" else None
        if body is None:
            continue
        word = single(body, state, budget)
        return word.text if word.known and len(word.text) <= _LIMIT else None
    return None
