"""What a command certainly prints: ``echo``, ``printf``, ``cat`` with a here-document. Everything else is unknown.

Owns: the guess behind ``$(echo rm)`` and ``echo … | sh``. A guess can deny or ask, never allow.
"""

import posixpath
from collections.abc import Callable

from ..text.ast import Compound, Node, Program, Simple
from ..text.budget import Budget
from .effects import after, assign
from .formats import echoed, formatted
from .model import Word
from .words import State, script_of, single, words

_LIMIT = 8_192
_PATH_TOOLS = frozenset({"dirname", "realpath", "readlink", "grealpath", "greadlink"})
_SILENT = frozenset(
    {"true", ":", "cd", "pushd", "export", "declare", "local", "set", "unset", "shift", "mkdir", "umask"}
)
_GROUPS = frozenset({"group", "subshell"})
_LOOKUPS = (["which"], ["command", "-v"], ["type", "-P"], ["type", "-p"])
"""Questions for a command's path: the answer is that command."""


def printed(node: Node, state: State, budget: Budget, given: str | None = None, *, partly: bool = False) -> str | None:
    """What ``node`` writes to its output, None when that is not certain. ``given``: what stands at its input.
    ``partly``: of a group, also what only some of its commands certainly print."""
    if isinstance(node, Compound):
        return _together(node.bodies[0], state, budget, given, partly) if node.kind in _GROUPS else None
    if not node.words:
        return ""
    argv: list[Word] = []
    for raw in node.words:
        argv.extend(words(raw, state, budget))
    if not argv or not all(word.known for word in argv) or sum(len(word.text) for word in argv) > _LIMIT:
        return None
    while len(argv) > 1 and argv[0].text in {"command", "builtin"} and argv[1].text != "-v":
        argv = argv[1:]
    return _said(node, argv, state, budget, given)


def _together(program: Program, state: State, budget: Budget, given: str | None, partly: bool) -> str | None:
    """What several commands print one after the other."""
    state = state.copy()
    result = ""
    for pipeline in program.pipelines:
        text = given
        for stage in pipeline.stages:
            text = printed(stage, state, budget, text, partly=partly)
        if text is None and not partly:
            return None
        result += text or ""
        if len(pipeline.stages) == 1 and isinstance(pipeline.stages[0], Simple):
            _after(pipeline.stages[0], state, budget)
    return result if len(result) <= _LIMIT else None


def _after(node: Simple, state: State, budget: Budget) -> None:
    if not node.words:
        assign(node.assignments, state, budget)
        return
    argv = [word for raw in node.words for word in words(raw, state, budget)]
    if argv:
        after(argv, state)


def _said(node: Simple, argv: list[Word], state: State, budget: Budget, given: str | None) -> str | None:
    texts = [script_of(word) for word in argv]
    name, operands = texts[0], texts[1:]
    if operands and texts[:-1] in _LOOKUPS:
        return texts[-1] + "\n"
    if name in _SILENT:
        return ""
    if name == "echo":
        return echoed(operands)
    if name == "printf":
        return formatted(operands)
    if texts in (["cat"], ["cat", "-"]) or name == "tee":
        document = _document(node, state, budget)
        return given if document is None else document
    if name == "pwd" and all(text.startswith("-") for text in operands):
        return None if state.cwd is None else state.cwd + "\n"
    if texts == ["printenv", "HOME"]:
        return "~\n"
    return _folder_of(name, [text for text in operands if not text.startswith("-")])


def _folder_of(name: str, operands: list[str]) -> str | None:
    """``dirname`` and ``realpath`` of a path that needs no look at the disk to be told."""
    if len(operands) != 1 or not operands[0].startswith(("/", "~")) or name not in _PATH_TOOLS:
        return None
    path = posixpath.normpath(operands[0])
    if name != "dirname":
        return path + "\n"
    return "~/..\n" if path == "~" else posixpath.dirname(path) + "\n"


def printer(budget: Budget) -> Callable[[Program, State], str | None]:
    """The function that :class:`State` carries: the output of a whole substitution."""

    def output(program: Program, state: State) -> str | None:
        text = _together(program, state, budget, None, partly=False)
        return None if text is None else text.rstrip("\n")

    return output


def _document(node: Simple, state: State, budget: Budget) -> str | None:
    for redirect in reversed(node.redirects):
        body = redirect.body if redirect.op in {"<<", "<<-"} else redirect.target if redirect.op == "<<<" else None
        if body is None:
            continue
        word = single(body, state, budget)
        text = script_of(word) + ("\n" if redirect.op == "<<<" else "")
        return text if word.known and len(text) <= _LIMIT else None
    return None
