"""Commands inside the arguments or the input of another: shells, ``eval``, ``find -exec``, ``xargs``, wrappers.

Owns: what one command hands over, as commands (words) and scripts (text for a shell). ``walk.py`` follows them. A text
that is not known is reported under ``ask``: it may be anything.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .model import Piece, Role, Word
from .options import read_options
from .wrappers import ALIASES, Layer, joined, unwrap

SHELLS = re.compile(
    r"(?:r?ba|da|z|rz|m?k|pdk|lk|ok|a|ya|po|hu|fi|t?c|r|i)?sh(?:-?\d[\d.]*)?|mksh|sash|xonsh|elvish|nu|osh"
)
_BASH_LIKE = re.compile(r"(?:r?ba|da|a|k|mk|z)?sh(?:-?\d[\d.]*)?")
_STDIN_NAMES = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_FIND_EXEC = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FD_EXEC = frozenset({"-x", "--exec", "-X", "--exec-batch"})
_SSH_TAKES = frozenset(f"-{letter}" for letter in "bcDEeFIiJLlmOopQRSWwB")
_CODE_IN_NAMES = frozenset({"let", "test", "[", "printf", "read", "unset", "declare", "typeset", "local", "export",
                            "readonly", "getopts", "mapfile", "readarray", "wait"})  # fmt: skip
_CHANGES_MEANING = frozenset({"alias", "enable", "bind", "complete", "compgen", "fc", "compopt"})
_GIT_SCRIPTS = {"bisect": "run", "submodule": "foreach"}
_GIT_PROGRAM_KEYS = re.compile(
    r"(?i)pager|editor|sshcommand|askpass|fsmonitor|\.cmd$|textconv|driver|clean|smudge|\.process|helper|program|command$"
)
_INPUT = Word("<input>", False, "<input>", (Piece("unknown", "<input>"),))


@dataclass(frozen=True, slots=True)
class Stdin:
    """What stands at a command's input: a text that the line gives (perhaps as a guess), or a pipe nobody can see."""

    text: Word | None = None
    piped: bool = False


NOTHING = Stdin()


@dataclass(frozen=True, slots=True)
class Script:
    text: Word
    via: str
    arguments: tuple[Word, ...] = ()
    """What ``$1`` and the following hold in it."""
    zero: Word | None = None
    """What ``$0`` holds in it."""
    role: Role = "command"
    bash: bool = True


@dataclass(slots=True)
class Opened:
    commands: list[tuple[list[Word], str, Role]] = field(default_factory=list)
    scripts: list[Script] = field(default_factory=list)
    ask: list[str] = field(default_factory=list)
    exact: list[str] = field(default_factory=list)
    assignments: list[str] = field(default_factory=list)
    cwd: str | None = None
    transparent: bool = False


def open_command(name: str, argv: Sequence[Word], stdin: Stdin) -> Opened:
    """What ``argv`` hands over. ``name`` is its folded name; an empty result means: nothing that is modelled here."""
    opened = Opened()
    special = _SPECIAL.get(name)
    if special is not None:
        special(argv, stdin, opened)
    elif SHELLS.fullmatch(name):
        _shell(name, argv, stdin, opened)
    else:
        layer = unwrap(name, argv)
        if layer is not None:
            _wrapped(name, layer, stdin, opened)
    if name in _CODE_IN_NAMES and any("$(" in word.text or "`" in word.text for word in argv[1:] if word.known):
        opened.ask.append(f"{name} may run what an argument of it holds")
    if name in _CHANGES_MEANING:
        opened.ask.append(f"{name} changes what later commands mean")
    return opened


# -- wrappers -----------------------------------------------------------------------------------------------------


def _wrapped(name: str, layer: Layer, stdin: Stdin, opened: Opened) -> None:
    via = f"wrapper:{name}"
    opened.transparent = layer.transparent
    opened.cwd = layer.cwd
    opened.assignments = layer.assignments
    for script in layer.scripts:
        opened.scripts.append(Script(script, via))
    inner = layer.inner
    if not layer.sure:
        opened.ask.append(f"an option of {name} that is not known")
    opened.commands.extend((words, via, "guess") for words in layer.maybe if words)
    if ALIASES.get(name, name) == "xargs":
        inner = _fed(layer, stdin, opened)
    if inner:
        opened.commands.append((inner, via, "command"))
    elif name == "sudo" and layer.options.has("-s", "-i", "--shell", "--login"):
        _program_from_input(name, stdin, opened)


def _fed(layer: Layer, stdin: Stdin, opened: Opened) -> list[Word]:
    """The command of ``xargs`` with what its input adds: known words when the line itself holds the input."""
    if not layer.inner:
        return []
    marks = [word.text for word in layer.options.values("-I", "-J", "--replace")]
    if layer.options.has("-i", "--replace") and not marks:
        marks = ["{}"]
    replaced = [_marked(word, marks) for word in layer.inner]
    fed = [] if marks else [_INPUT]
    if stdin.text is not None and stdin.text.known:
        words = [Word.of(text.strip("\"'"), literal=False) for text in stdin.text.text.split()][:64]
        if marks:
            for value in words:
                opened.commands.append(
                    ([_marked(word, marks, value.text) for word in layer.inner], "wrapper:xargs", "guess")
                )
        else:
            opened.commands.append(([*layer.inner, *words], "wrapper:xargs", "guess"))
    return [*replaced, *fed]


def _marked(word: Word, marks: Sequence[str], value: str | None = None) -> Word:
    """``word`` with the placeholder replaced: by ``value``, or by something unknown."""
    for mark in marks:
        if mark and mark in word.text:
            if value is not None:
                return Word.of(word.text.replace(mark, value), literal=False)
            return Word(word.text, False, word.raw, (Piece("unknown", word.text),))
    return word


# -- shells -------------------------------------------------------------------------------------------------------


def _shell(name: str, argv: Sequence[Word], stdin: Stdin, opened: Opened) -> None:
    place, command = 1, False
    from_input = False
    while place < len(argv):
        text = argv[place].text
        if text in {"-", "--"}:
            place += 1
            break
        if len(text) < 2 or text[0] not in "-+":
            break
        taken, found = _shell_option(text, argv, place, opened, name)
        command = command or found
        from_input = from_input or (not text.startswith("--") and "s" in text[1:])
        place += taken
    operands = list(argv[place:])
    bash = bool(_BASH_LIKE.fullmatch(name))
    if not bash and (operands or command):
        opened.ask.append(f"{name} reads another language than bash")
    if command:
        if operands:
            zero = operands[1] if len(operands) > 1 else None
            opened.scripts.append(Script(operands[0], f"{name} -c", tuple(operands[2:]), zero, bash=bash))
        return
    if operands and not from_input:
        _script_file(name, operands[0], stdin, opened)
        return
    _program_from_input(name, stdin, opened)


def _shell_option(text: str, argv: Sequence[Word], place: int, opened: Opened, name: str) -> tuple[int, bool]:
    """How many words the option takes, and whether it says that a command text follows."""
    if text.startswith("--"):
        option, equals, value = text.partition("=")
        if option in {"--command", "--init-command"}:  # fish
            word = Word.of(value, literal=argv[place].literal) if equals else None
            word = word or (argv[place + 1] if place + 1 < len(argv) else None)
            if word is not None:
                opened.scripts.append(Script(word, f"{name} -c", bash=False))
            return (1 if equals else 2), False
        if option in {"--rcfile", "--init-file"}:
            opened.exact.append("a start file of a shell")
            return (1 if equals else 2), False
        return 1, False
    letters = text[1:]
    takes = sum(letter in "oO" for letter in letters)
    return 1 + takes, text[0] == "-" and "c" in letters


def _script_file(name: str, word: Word, stdin: Stdin, opened: Opened) -> None:
    if word.text in _STDIN_NAMES:
        _program_from_input(name, stdin, opened)
    elif word.text.startswith("<("):
        opened.scripts.append(Script(Word(word.text, False, word.raw), f"{name} <()"))
    elif not word.known:
        opened.ask.append(f"{name} runs a file whose name is not literal")


def _program_from_input(name: str, stdin: Stdin, opened: Opened) -> None:
    if stdin.text is not None:
        opened.scripts.append(Script(stdin.text, f"{name} <<"))
    elif stdin.piped:
        opened.ask.append(f"{name} reads its program from a pipe")


def _source(argv: Sequence[Word], stdin: Stdin, opened: Opened) -> None:
    operands = [word for word in argv[1:] if word.text != "--"]
    if operands:
        _script_file("source", operands[0], stdin, opened)


def _eval(argv: Sequence[Word], _stdin: Stdin, opened: Opened) -> None:
    words = list(argv[1:])
    if words and words[0].text == "--":
        words = words[1:]
    if words:
        opened.scripts.append(Script(joined(words), "eval"))


def _trap(argv: Sequence[Word], _stdin: Stdin, opened: Opened) -> None:
    options = read_options(argv[1:], frozenset(), frozenset({"-l", "-p", "-P"}))
    words = argv[1 + options.first :]
    if words and not options.seen and words[0].text not in {"", "-"}:
        opened.scripts.append(Script(words[0], "trap"))


def _alias(argv: Sequence[Word], _stdin: Stdin, opened: Opened) -> None:
    for word in argv[1:]:
        _, equals, value = word.text.partition("=")
        if equals:
            opened.scripts.append(Script(Word(value, word.literal, value, word.pieces), "alias", role="guess"))


def _shopt(argv: Sequence[Word], _stdin: Stdin, opened: Opened) -> None:
    if any(word.text in {"expand_aliases", "extglob"} or not word.literal for word in argv[1:]):
        opened.ask.append("shopt changes how later lines are read")


def _hash(argv: Sequence[Word], _stdin: Stdin, opened: Opened) -> None:
    if any(word.text.startswith("-p") for word in argv[1:]):
        opened.ask.append("hash changes what later commands mean")


# -- programs that start others -----------------------------------------------------------------------------------


def _find(argv: Sequence[Word], _stdin: Stdin, opened: Opened) -> None:
    place = 1
    while place < len(argv):
        option = argv[place].text
        place += 1
        if option not in _FIND_EXEC:
            continue
        command: list[Word] = []
        while place < len(argv) and argv[place].text != ";":
            if argv[place].text == "+" and command and command[-1].text == "{}":
                break
            command.append(argv[place])
            place += 1
        if command:
            opened.commands.append(([_marked(word, ["{}"]) for word in command], f"find {option}", "command"))
            opened.exact.append("find runs a command")


def _fd(argv: Sequence[Word], _stdin: Stdin, opened: Opened) -> None:
    for place, word in enumerate(argv):
        name, equals, value = word.text.partition("=")
        if name not in _FD_EXEC:
            continue
        command = [*([Word.of(value)] if equals else []), *argv[place + 1 :]]
        command = command[: next((i for i, part in enumerate(command) if part.text == ";"), len(command))]
        opened.exact.append("fd runs a command")
        if command:
            opened.commands.append(([*[_marked(part, ["{"]) for part in command], _INPUT], "fd -x", "command"))


def _ssh(argv: Sequence[Word], stdin: Stdin, opened: Opened) -> None:
    options = read_options(argv[1:], _SSH_TAKES, None)
    rest = argv[1 + options.first :]
    if rest:  # options may also follow the host
        more = read_options(rest[1:], _SSH_TAKES, None)
        rest = rest[1 + more.first :]
        if rest:
            opened.scripts.append(Script(joined(rest), "ssh", role="guess"))
        elif stdin.text is not None:
            opened.scripts.append(Script(stdin.text, "ssh <<", role="guess"))


def _su(argv: Sequence[Word], stdin: Stdin, opened: Opened) -> None:
    found = False
    for place, word in enumerate(argv):
        name, equals, value = word.text.partition("=")
        short = bool(re.fullmatch(r"-[a-zA-Z]*c", name))
        if not (short or (len(name) > 4 and "--command".startswith(name)) or name == "--session-command"):
            continue
        text = Word.of(value, literal=word.literal) if equals else next(iter(argv[place + 1 : place + 2]), None)
        if text is not None:
            found = True
            opened.scripts.append(Script(text, "su -c"))
    if not found:
        _program_from_input("su", stdin, opened)


def _at(_argv: Sequence[Word], stdin: Stdin, opened: Opened) -> None:
    _program_from_input("at", stdin, opened)


def _git(argv: Sequence[Word], _stdin: Stdin, opened: Opened) -> None:
    texts = [word.text for word in argv]
    for command, verb in _GIT_SCRIPTS.items():
        if command in texts and verb in texts[texts.index(command) :]:
            place = texts.index(verb, texts.index(command))
            rest = [word for word in argv[place + 1 :] if word.text not in {"--recursive", "-q", "--quiet"}]
            if rest:
                opened.scripts.append(Script(joined(rest), f"git {command} {verb}"))
                opened.exact.append("git runs a command")
    rebase = "rebase" in texts or "filter-branch" in texts
    for place, word in enumerate(argv):
        _git_option(word, argv[place + 1 : place + 2], opened, rebase=rebase)


def _git_option(word: Word, following: Sequence[Word], opened: Opened, *, rebase: bool) -> None:
    name, equals, value = word.text.partition("=")
    if rebase and (name in {"-x", "--exec"} or name.endswith("-filter")):
        text = Word.of(value, literal=word.literal) if equals else next(iter(following), None)
        if text is not None:
            opened.scripts.append(Script(text, f"git {name}", role="guess"))
    if following and name in {"-c", "--config"}:
        key, _, setting = following[0].text.partition("=")
        if setting.startswith("!") or (setting and _GIT_PROGRAM_KEYS.search(key)):
            opened.scripts.append(Script(Word.of(setting.removeprefix("!"), literal=False), "git -c", role="guess"))


_SPECIAL: dict[str, Callable[[Sequence[Word], Stdin, Opened], None]] = {
    "eval": _eval,
    "source": _source,
    ".": _source,
    "trap": _trap,
    "alias": _alias,
    "shopt": _shopt,
    "hash": _hash,
    "find": _find,
    "gfind": _find,
    "bfs": _find,
    "fd": _fd,
    "fdfind": _fd,
    "ssh": _ssh,
    "autossh": _ssh,
    "su": _su,
    "at": _at,
    "batch": _at,
    "git": _git,
}
