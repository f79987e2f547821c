"""Files that the operands of a command probably name: for deny and ask rules, no permission of their own.

Owns: which tools only read what they are given, which surely write it, and where else in a word a path may stand. What
is not certain is marked ``MAYBE``: a rule that it meets is asked about.
"""

import re
from collections.abc import Iterator, Sequence

from ..values.model import Requirement, Word
from ..values.names import listed
from .doors import SUBCOMMANDS
from .fetchers import MAYBE, addresses

_WRITERS = frozenset(
    {"tee", "sponge", "rm", "mv", "touch", "mkdir", "rmdir", "truncate", "shred", "unlink", "chmod", "chown", "chgrp",
     "ln", "cp", "install", "rsync", "mktemp", "mkfifo", "mknod", "setfacl", "patch", "split", "csplit", "chattr",
     "fallocate", "dos2unix", "unix2dos"}
)  # fmt: skip
_TEXT_TOOLS = frozenset({"echo", "printf", "true", "false", ":", "test", "[", "kill", "sleep", "exit", "export", "set"})


_READERS = listed(
    "cat tac nl head tail less more bat pr fold fmt rev column cut paste join comm diff cmp sdiff colordiff sort uniq",
    "wc grep egrep fgrep zgrep rg ag ack ls dir vdir tree exa eza stat file du df find fd fdfind bfs realpath readlink",
    "basename dirname md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum shasum sum od xxd hexdump hd",
    "strings base64 base32 jq tr expand unexpand shuf tsort ptx look zcat bzcat xzcat zless which whereis type command",
    "cd pushd source . eval bash sh dash zsh ksh node nodejs deno bun php lua",
    "sed pytest py.test mypy pylint flake8 pyright shellcheck yamllint hadolint cloc tokei scc",
    "ssh curl wget nm objdump readelf ldd man env nice nohup timeout time xargs dd wait read mapfile readarray",
)
_GIT_READS = listed(
    "log diff show status blame grep ls-files ls-tree cat-file rev-parse rev-list shortlog describe archive add",
    "commit branch tag remote fetch push diff-tree diff-index diff-files whatchanged reflog hash-object",
    "check-ignore for-each-ref merge-base name-rev count-objects fsck verify-pack var help version bisect",
    "bundle format-patch range-diff ls-remote",
)
_LANGUAGES = listed(
    "python python2 python3 pypy pypy3 perl ruby node nodejs deno bun php lua luajit awk gawk mawk nawk sed vim vi",
    "nvim ex ed view emacs sqlite3 psql mysql mariadb duckdb tclsh Rscript julia osascript gnuplot expect bc dc",
)
"""Tools that take a program of their own language among their words."""
_PARTS = re.compile(r"[@=:<,;]")
_TOKENS = re.compile(r"[^\s\"'`(),;=<>:@|&{}\[\]]+")
_SHORT = re.compile(r"-[A-Za-z](?=.{2})")
_LIMIT = 256
_PART_LIMIT = 16


def touches(name: str, argv: Sequence[Word]) -> tuple[Requirement, ...]:
    """Files and addresses that the operands probably name. At most 256 words are looked at."""
    if name in _TEXT_TOOLS:
        return ()
    writes = name in _WRITERS
    reads = not writes and _only_reads(name, argv)
    language = name in _LANGUAGES
    found = list(addresses(name, argv))
    for word in argv[1 : _LIMIT + 1]:
        text = word.text
        if text[:1] == "-":
            text = text.partition("=")[2]
        known = word.literal or word.known
        if text and known and "\n" not in text:
            found.append(Requirement("write_file" if writes else "read_file", text, name))
            if not writes and not reads:
                found.append(Requirement("write_file", text, MAYBE))
        elif writes and not known and not word.pipe:
            found.append(Requirement("write_file", None, name))
        if known and (language or word.text[:1] == "-" or _PARTS.search(word.text)) and len(word.text) > 2:
            found.extend(
                Requirement("read_file" if reads else "write_file", part, MAYBE) for part in _parts(word.text, language)
            )
    return tuple(found)


def _only_reads(name: str, argv: Sequence[Word]) -> bool:
    """Whether nothing that the operands name is written."""
    if name in {"tar", "gtar", "bsdtar"}:
        return not any("x" in word.text or "get" in word.text for word in argv[1:4] if "/" not in word.text)
    if name == "git":
        return _verb(argv) in _GIT_READS
    if name.startswith(("python", "pypy")):
        module = next((place for place, word in enumerate(argv) if word.text == "-m"), 0)
        return not module or argv[min(module + 1, len(argv) - 1)].text in _READERS | {"json.tool", "http.server"}
    if "awk" in name:
        return not any(mark in word.text for word in argv[1:] for mark in (">", "|", "inplace"))
    if name == "make":
        return not any(word.text.startswith(("-C", "--dir")) for word in argv[1:])
    return name in _READERS


def _verb(argv: Sequence[Word]) -> str:
    """The subcommand of git."""
    place = 1
    while place < len(argv) and argv[place].text.startswith("-"):
        place += 2 if argv[place].text in SUBCOMMANDS["git"] else 1
    return argv[place].text if place < len(argv) else ""


def _parts(text: str, language: bool) -> Iterator[str]:
    """Paths inside a word: ``-fPATH``, ``@PATH``, ``name=@PATH``, ``host:PATH``, ``FROM:TO``, ``file:PATH``."""
    if "://" in text and not text.lower().startswith("file:"):
        return
    short = _SHORT.match(text)
    if short and "=" not in text[:3]:
        yield text[2:].lstrip("@")
    if language and any(char in text for char in " \"'("):
        yield from _TOKENS.findall(text)[: 4 * _PART_LIMIT]
    elif _PARTS.search(text) and not any(char.isspace() for char in text):
        places = [match.end() for match in _PARTS.finditer(text)][:_PART_LIMIT]
        for place, end in zip(places, [*(each - 1 for each in places[1:]), len(text)], strict=True):
            if place < len(text):
                yield text[place:]
                if end != len(text) and end > place:
                    yield text[place:end]
        if places[0] > 1:
            yield text[: places[0] - 1]
