"""Commands inside the arguments or the input of another: shells, ``eval``, ``find -exec``, ``xargs``, wrappers.

Owns: what one command hands over, as commands (words) and scripts (text for a shell). ``walk.py`` follows them. A text
that is not known is reported under ``ask``: it may be anything.
"""

import re
from collections.abc import Callable, Sequence

from .handed import Opened, Script, Stdin
from .programs.options import read_options
from .programs.wrappers import ALIASES, WRAPPERS, Layer, joined, unwrap
from .values.model import Piece, Word

SHELLS = re.compile(
    r"(?:r?ba|da|z|rz|m?k|pdk|lk|ok|a|ya|po|hu|fi|t?c|r|i)?sh(?:-?\d[\d.]*)?|mksh|sash|xonsh|elvish|nu|osh"
)
_BASH_LIKE = re.compile(r"(?:r?ba|da|a|k|mk|z)?sh(?:-?\d[\d.]*)?")
_DESCRIPTOR = re.compile(r"/(?:dev|proc/[^/]+)/fd/")
_BETWEEN = frozenset({"DEBUG", "ERR", "RETURN", "CHLD"})
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
_PARALLEL_VALUES = frozenset({":::", ":::+"})
_INPUT = Word("<input>", False, "<input>", (Piece("unknown", "<input>"),))


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


def opens(name: str | None) -> bool:
    """Whether a command of this name may hand over to another."""
    return name is not None and (
        name in _SPECIAL or ALIASES.get(name, name) in WRAPPERS or bool(SHELLS.fullmatch(name))
    )


# -- wrappers -----------------------------------------------------------------------------------------------------


def _wrapped(name: str, layer: Layer, stdin: Stdin, opened: Opened) -> None:
    via = f"wrapper:{name}"
    opened.transparent = layer.transparent
    opened.cwd = layer.cwd
    opened.assignments = list(layer.assignments)
    opened.values = layer.assignments
    for script in layer.scripts:
        opened.scripts.append(Script(script, via))
    inner = layer.inner
    if not layer.sure:
        opened.ask.append(f"an option of {name} that is not known")
    opened.commands.extend((words, via, "guess") for words in layer.maybe if words)
    if ALIASES.get(name, name) == "xargs":
        inner = _fed(layer, stdin, opened)
    elif name == "parallel":
        _parallel(layer, stdin, opened)
    if name == "parallel" and (not layer.scripts or layer.scripts[0].text.startswith("::::")):
        opened.ask.append("parallel reads its commands from a file")
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
        values = _inputs(stdin.text.text, layer, whole_lines=bool(marks))
        if marks:
            for value in values:
                opened.commands.append(
                    ([_marked(word, marks, value.text) for word in layer.inner], "wrapper:xargs", "guess")
                )
        else:
            opened.commands.append(([*layer.inner, *values], "wrapper:xargs", "guess"))
    return [*replaced, *fed]


def _inputs(text: str, layer: Layer, *, whole_lines: bool) -> list[Word]:
    """What ``xargs`` makes of its input: blanks, lines, or a character of its own between the values."""
    ends = [word.text for word in layer.options.values("-d", "--delimiter")]
    if layer.options.has("-0", "--null"):
        values = [value.strip("\n") for value in text.split("\0")]
    elif ends:
        values = text.split({"\\n": "\n", "\\0": "\0", "\\t": "\t"}.get(ends[-1], ends[-1]) or "\n")
    else:
        lines = text.splitlines() if whole_lines else text.split()
        values = [line.strip().strip("\"'") for line in lines]
    return [_given(value) for value in values[:64] if value]


def _given(text: str) -> Word:
    """A value that a program is given: ``~`` at its beginning is what the shell made of the home folder."""
    if text == "~" or text.startswith("~/"):
        return Word(text, False, text, (Piece("home", "~"), *([Piece("text", text[1:])] if text[1:] else [])))
    return Word.of(text, literal=False)


def _parallel(layer: Layer, stdin: Stdin, opened: Opened) -> None:
    """The command once for each of the values after ``:::`` or at the input; without a command the values are it."""
    words = layer.maybe[-1] if layer.maybe else []
    cut = next((place for place, word in enumerate(words) if word.text in _PARALLEL_VALUES), len(words))
    values = [word for word in words[cut + 1 :] if word.text not in _PARALLEL_VALUES]
    if not values and stdin.text is not None and stdin.text.known:
        values = [_given(line) for line in stdin.text.text.splitlines()]
    for value in values[:64]:
        command = [_marked(word, ["{}"], value.text) for word in words[:cut]]
        marked = any("{}" in word.text for word in words[:cut])
        line = joined([*command, *([] if marked else [value])])
        opened.scripts.append(Script(line, "wrapper:parallel", role="guess"))


def _marked(word: Word, marks: Sequence[str], value: str | None = None) -> Word:
    """``word`` with the placeholder replaced: by ``value``, or by something unknown."""
    for mark in marks:
        if mark and mark in word.text:
            if value is not None:
                return _given(word.text.replace(mark, value))
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
        _script_file(name, operands[0], stdin, opened, tuple(operands[1:]))
        return
    _program_from_input(name, stdin, opened, tuple(operands))


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
            _start_file(argv[place + 1 : place + 2], opened)
            opened.exact.append("a start file of a shell")
            return (1 if equals else 2), False
        return 1, False
    letters = text[1:]
    takes = sum(letter in "oO" for letter in letters)
    return 1 + takes, text[0] == "-" and "c" in letters


def _script_file(name: str, word: Word, stdin: Stdin, opened: Opened, arguments: tuple[Word, ...] = ()) -> None:
    if word.text in _STDIN_NAMES:
        _program_from_input(name, stdin, opened, arguments)
    elif word.text.startswith("<("):
        opened.scripts.append(Script(Word(word.text, False, word.raw), f"{name} <()", arguments))
    elif not word.known or _DESCRIPTOR.match(word.text):
        opened.ask.append(f"{name} runs a file whose name is not literal")


def _start_file(words: Sequence[Word], opened: Opened) -> None:
    if any(not word.literal for word in words):
        opened.ask.append("a start file of a shell whose name is not literal")


def _program_from_input(name: str, stdin: Stdin, opened: Opened, arguments: tuple[Word, ...] = ()) -> None:
    if stdin.text is not None:
        opened.scripts.append(Script(stdin.text, f"{name} <<", arguments))
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
        if any(word.text.upper().removeprefix("SIG") in _BETWEEN or not word.literal for word in words[1:]):
            opened.ask.append("a trap that runs between other commands")


def _alias(argv: Sequence[Word], _stdin: Stdin, opened: Opened) -> None:
    for word in argv[1:]:
        _, equals, value = word.text.partition("=")
        if equals:
            opened.scripts.append(Script(Word(value, word.literal, value, word.pieces), "alias", role="guess"))


def _shopt(argv: Sequence[Word], _stdin: Stdin, opened: Opened) -> None:
    if any(word.text in {"expand_aliases", "extglob"} or not word.literal for word in argv[1:]):
        opened.ask.append("shopt changes how later lines are read")


def _hash(argv: Sequence[Word], _stdin: Stdin, opened: Opened) -> None:
    if any(word.text.startswith("-") and "p" in word.text for word in argv[1:]):
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
    end = 0
    for place, word in enumerate(argv):
        name, equals, value = word.text.partition("=")
        if place < end or name not in _FD_EXEC:
            continue
        end = next((at for at in range(place + 1, len(argv)) if argv[at].text == ";"), len(argv))
        command = [*([Word.of(value)] if equals else []), *argv[place + 1 : end]]
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
