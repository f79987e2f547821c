"""Tools whose operands, or options in a notation of their own, run a program or write a file.

Owns: one function a tool. A door with no literal target has the target None.
"""

import re
from collections.abc import Callable, Sequence
from urllib.parse import unquote, urlsplit

from ..values.model import Requirement, Word
from .options import read_options
from .scripts import awk_doors, sed_doors

_SSH_RUNS = ("proxycommand", "localcommand", "permitlocalcommand", "knownhostscommand", "pkcs11provider", "include",
             "securitykeyprovider", "xauthlocation", "match", "remotecommand", "proxyusefdpass")  # fmt: skip
_SSH_TAKES = {"ssh": "bcDEeFIiJLlmOopQRSWwB", "scp": "cDFiJloPSX", "sftp": "bBcDFiJloPRSsX"}
_SSH_OPENS = {"ssh": "FSI", "scp": "FSD", "sftp": "FSDsb"}
_UNIQ = (frozenset({"-f", "-s", "-w", "--skip-fields", "--skip-chars", "--check-chars"}), None)
_XXD = (frozenset({"-c", "-g", "-l", "-s", "-n", "-o", "-cols", "-len", "-seek", "-groupsize"}), None)
_MOVES = re.compile(r"\+(?:[gGFN]|\d+[gGp%]?|/[\w .:-]*)")
_TAR_TAKES = "fCTXbgKLNVHI"
_TAR_MAKES = frozenset({"--create", "--append", "--update", "--catenate", "--concatenate", "--delete"})
_CURL_TAKES = "XHdueAbFmrTxyYzCEtUwPQhoDcK"


def shown(text: str) -> str:
    """``text`` short enough for a reason."""
    return text if len(text) <= 40 else text[:40] + "…"


def written(words: Sequence[Word], reason: str) -> list[Requirement]:
    """A permission to write for each of ``words`` that names a file."""
    return [Requirement("write_file", word.text if word.literal else None, reason) for word in words if not word.pipe]


def _operands(argv: Sequence[Word], takes: frozenset[str]) -> list[Word]:
    """Every operand, also after later options."""
    found: list[Word] = []
    rest = list(argv[1:])
    while rest:
        options = read_options(rest, takes, None)
        if options.first and rest[options.first - 1].text == "--":
            return [*found, *rest[options.first :]]
        found.extend(rest[options.first : options.first + 1])
        rest = rest[options.first + 1 :]
    return found


def _dd(argv: Sequence[Word]) -> list[Requirement]:
    found: list[Requirement] = []
    for word in argv[1:]:
        name, equals, value = word.text.partition("=")
        target = value if word.literal else None
        if equals and name == "of":
            found.append(Requirement("write_file", target, "dd of="))
        elif equals and name == "if":
            found.append(Requirement("read_file", target, "dd if="))
    return found


def _tee(argv: Sequence[Word]) -> list[Requirement]:
    return written(_operands(argv, frozenset()), "tee")


def _uniq(argv: Sequence[Word]) -> list[Requirement]:
    return written([word for word in _operands(argv, _UNIQ[0])[1:2] if word.text != "-"], argv[0].text)


def _xxd(argv: Sequence[Word]) -> list[Requirement]:
    words, skip = [], False
    for word in argv[1:]:
        if skip or (word.text.startswith("-") and word.text != "-"):
            skip = not skip and word.text in _XXD[0]
            continue
        words.append(word)
    return written([word for word in words[1:2] if word.text != "-"], "xxd")


def _wget(argv: Sequence[Word]) -> list[Requirement]:
    named = any(word.text.startswith(("-O", "--output-d", "-qO")) or word.text == "--spider" for word in argv)
    return [] if named else [Requirement("write_file", None, "wget writes a file of the server's name")]


def _curl(argv: Sequence[Word]) -> list[Requirement]:
    """``-O`` and ``-J``: the name comes from the address or from the server."""
    remote = theirs = False
    folder = ""
    for place, word in enumerate(argv[1:], start=1):
        text = word.text
        if text.startswith("--"):
            remote = remote or (len(text) > 8 and "--remote-name-all".startswith(text))
            theirs = theirs or (len(text) > 9 and "--remote-header-name".startswith(text))
            if text.partition("=")[0] == "--output-dir":
                folder = text.partition("=")[2] or (argv[place + 1].text if place + 1 < len(argv) else "")
        elif text.startswith("-"):
            letters = re.split(f"[{_CURL_TAKES}]", text[1:], maxsplit=1)[0]
            remote, theirs = remote or "O" in letters, theirs or "J" in letters
    if not remote:
        return []
    addresses = [word for word in argv[1:] if "://" in word.text]
    if theirs or not addresses or not all(word.literal for word in addresses):
        return [Requirement("write_file", None, "curl writes a file of the server's name")]
    names = [unquote(urlsplit(word.text).path).rpartition("/")[2] for word in addresses]
    target = f"{folder.rstrip('/')}/" if folder else "./"
    return [Requirement("write_file", target + name if name else None, "curl -O") for name in names]


def _ssh(argv: Sequence[Word]) -> list[Requirement]:
    name = argv[0].text.rpartition("/")[2]
    takes, opens = _SSH_TAKES.get(name, _SSH_TAKES["ssh"]), _SSH_OPENS.get(name, _SSH_OPENS["ssh"])
    options = read_options(argv[1:], frozenset(f"-{letter}" for letter in takes), None)
    rest = argv[2 + options.first :]
    more = read_options(rest, frozenset(f"-{letter}" for letter in takes), None) if name == "ssh" else None
    found: list[Requirement] = []
    for option, value in (*options.seen, *(more.seen if more is not None else ())):
        setting = value.text.strip().lower() if value is not None else ""
        if (
            option[1:] in opens
            or (option == "-o" and (setting.startswith(_SSH_RUNS) or not value))
            or (option == "-o" and value is not None and not value.literal)
        ):
            found.append(Requirement("command", None, f"{shown(argv[0].text)} {option}"))
        elif option == "-E" and name == "ssh" and value is not None:
            found.extend(written([value], "ssh -E"))
    return found


def _less(argv: Sequence[Word]) -> list[Requirement]:
    """The first command: one that moves or searches is harmless."""
    found = any(word.text.startswith("+") and not _MOVES.fullmatch(word.text) for word in argv[1:])
    return [Requirement("command", None, "less +")] if found else []


def _zip(argv: Sequence[Word]) -> list[Requirement]:
    """``-TT`` may have its command attached, or end a cluster."""
    found = any(word.text.startswith("-") and "TT" in word.text and not word.text.startswith("--") for word in argv[1:])
    return [Requirement("command", None, "zip -TT")] if found else []


def _tar(argv: Sequence[Word]) -> list[Requirement]:
    """The first operand may be a cluster of options without a hyphen; what is made is written to ``-f``."""
    words = list(argv[1:])
    if words and words[0].text[:1] not in {"-", ""} and words[0].text.isalpha():
        words = _old_style(words[0].text, words[1:])
    takes = frozenset({f"-{letter}" for letter in _TAR_TAKES} | {"--file", "--directory"})
    options = read_options(words, takes, None)
    found = []
    if options.has("-I", "-F"):
        found.append(Requirement("command", None, "tar -I"))
    makes = options.has("-c", "-r", "-u", "-A") or any(
        len(word.text) > 4 and any(each.startswith(word.text) for each in _TAR_MAKES) for word in words
    )
    files = [value for option, value in options.seen if option in {"-f", "--file"} and value is not None]
    if makes:
        found.extend(written([word for word in files if word.text != "-"], "tar -f"))
    if options.has("-x", "--extract", "--get"):
        found.extend(written(options.values("-C", "--directory"), "tar -C"))
        found.extend(Requirement("write_file", None, "tar -P") for _ in range(options.has("-P", "--absolute-names")))
    if options.has("-g", "--listed-incremental"):
        found.extend(written(options.values("-g", "--listed-incremental"), "tar -g"))
    return found


def _old_style(letters: str, rest: list[Word]) -> list[Word]:
    """``tar xfC a d`` as ``tar -x -f a -C d``."""
    words: list[Word] = []
    for letter in letters:
        words.append(Word.of(f"-{letter}"))
        if letter in _TAR_TAKES:
            words.extend(rest[:1])
            rest = rest[1:]
    return [*words, *rest]


def _make(argv: Sequence[Word]) -> list[Requirement]:
    """A variable with a program in it: ``make CC='rm x'`` and ``make 'x=$(shell rm)'``."""
    words = [word for word in argv[1:] if "=" in word.text and not word.text.startswith("-")]
    return [Requirement("command", None, "make runs a command") for word in words if "$(" in word.text][:1]


def _json_tool(argv: Sequence[Word]) -> list[Requirement]:
    return written(_operands(argv, frozenset({"--indent"}))[1:2], "json.tool")


OPERANDS: dict[str, Callable[[Sequence[Word]], list[Requirement]]] = {
    "dd": _dd, "tee": _tee, "sponge": _tee, "wget": _wget, "uniq": _uniq, "xxd": _xxd, "awk": awk_doors,
    "gawk": awk_doors, "mawk": awk_doors, "nawk": awk_doors, "original-awk": awk_doors, "sed": sed_doors,
    "gsed": sed_doors, "ssh": _ssh, "scp": _ssh, "sftp": _ssh, "autossh": _ssh, "tar": _tar, "gtar": _tar,
    "bsdtar": _tar, "curl": _curl, "zip": _zip, "less": _less, "make": _make, "gmake": _make, "json.tool": _json_tool,
}  # fmt: skip
