"""What a redirection opens: a file to read or write, a descriptor, the network, or text of its own."""

from .handed import Stdin
from .text.ast import RawWord, Redirect, Sub
from .text.budget import Budget
from .values.braces import expand
from .values.model import Redirection, Word
from .values.words import State, single

_NETWORK = ("/dev/tcp/", "/dev/udp/")
_KINDS = {"<": "read", "<>": "read_write", ">": "write", ">|": "write", "&>": "write", ">>": "append", "&>>": "append"}


def redirection(redirect: Redirect, state: State, budget: Budget) -> tuple[Redirection, Stdin | None]:
    """The redirection, and what it puts at the command's input, None when that stays as it was."""
    op = redirect.op
    word = single(_one(redirect, budget), state, budget)
    if redirect.fd is not None and not redirect.fd.isdigit():
        budget.exact("a descriptor redirection")
    if op in {"<<", "<<-", "<<<"}:
        text = word if op == "<<<" else _body(redirect, state, budget)
        return Redirection("heredoc", None, None), Stdin(text) if redirect.fd in {None, "0"} else None
    if op == "<&" or (op == ">&" and _is_descriptor(word)):
        budget.exact("a descriptor redirection")
        other = op == "<&" and redirect.fd in {None, "0"} and word.text != "-"
        return Redirection("fd", word.text if word.literal else None, word), Stdin(piped=True) if other else None
    target = word.text if word.literal else None
    if word.pipe:
        reads = op == "<" and redirect.fd in {None, "0"}
        return Redirection("fd", None, word), _input(redirect, state) if reads else None
    if word.text.startswith(_NETWORK) or (not word.known and "/dev/" in word.text):
        budget.exact("a network redirection")
        if word.text.startswith(_NETWORK):
            return Redirection("network", target, word), Stdin(piped=True) if op == "<" else None
    kind = "write" if op == ">&" else _KINDS[op]
    stdin = _input(redirect, state) if op in {"<", "<>"} and redirect.fd in {None, "0"} else None
    return Redirection(kind, target, word), stdin  # type: ignore[arg-type]  # the table holds kinds


def _one(redirect: Redirect, budget: Budget) -> RawWord:
    """The target after brace expansion. bash refuses several, and opens nothing then."""
    expanded = expand(redirect.target) if redirect.op not in {"<<", "<<-", "<<<"} else (redirect.target,)
    if expanded is None or expanded[0] is not redirect.target:
        budget.exact("brace expansion")
    return expanded[0] if expanded is not None and len(expanded) == 1 else redirect.target


def _is_descriptor(word: Word) -> bool:
    return word.text.rstrip("-").isdigit() or word.text == "-" or not word.known


def _body(redirect: Redirect, state: State, budget: Budget) -> Word:
    return single(redirect.body, state, budget) if redirect.body is not None else Word.of("", literal=False)


def _input(redirect: Redirect, state: State) -> Stdin:
    part = redirect.target.parts[0] if redirect.target.parts else None
    if isinstance(part, Sub) and part.kind == "process":
        text = state.output(part.programs[0], state)
        return Stdin(None if text is None else Word.of(text, literal=False), piped=True)
    return Stdin()
