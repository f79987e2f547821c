"""Options in their several spellings, for deny and ask rules.

Owns: which options a command line has, whatever their order and grouping (``-r -f``, ``-fr``, ``--recursive``). Only
to find out that a deny or ask rule may be meant; an allow never looks here. Pure data and functions.
"""

from collections.abc import Iterable
from typing import Final

from ..shell.values.names import plain

_CLUSTER_LIMIT: Final = 6
_REMOVE: Final = {"-R": "-r", "--recursive": "-r", "--force": "-f", "--dir": "-d"}
_SAME: Final[dict[str, dict[str, str]]] = {
    "rm": _REMOVE,
    "cp": {**_REMOVE, "-a": "-r", "--archive": "-r"},
    "chmod": {"--recursive": "-R"},
    "chown": {"--recursive": "-R"},
    "git": {"--force": "-f", "--delete": "-d", "--all": "-a", "--hard": "--hard"},
    "docker": {"--force": "-f", "--privileged": "--privileged"},
    "curl": {"--output": "-o", "--data": "-d", "--request": "-X", "--insecure": "-k"},
    "npm": {"--global": "-g"},
    "pip": {"--upgrade": "-U"},
    "kill": {"-KILL": "-9", "-SIGKILL": "-9"},
}
#: Tools that go through folders without an option that says so.
WALKERS: Final = frozenset(
    {"rg", "ag", "ack", "find", "fd", "fdfind", "bfs", "tar", "rsync", "tree", "du", "ncdu", "mv", "rgrep", "7z", "pax"}
)
#: Tools that do with ``-r`` or ``-R``.
_WITH_OPTION: Final = frozenset(
    {
        "grep",
        "egrep",
        "fgrep",
        "ggrep",
        "zgrep",
        "rm",
        "cp",
        "scp",
        "zip",
        "diff",
        "chmod",
        "chown",
        "chgrp",
        "gzip",
        "ls",
    }
)
_READS_FOLDERS: Final = frozenset({"grep", "egrep", "fgrep", "ggrep", "zgrep"})
_SHARES: Final[dict[str, tuple[str, ...]]] = {
    "ln": ("-s", "--s", "-fs", "-ns", "-rs", "-vs", "-Ts", "-bs"),
    "docker": ("-v", "--volume", "--mount", "build", "buildx"),
    "podman": ("-v", "--volume", "--mount", "build"),
    "mount": ("--bind", "--rbind", "-B", "-R"),
}
"""Options with which a whole folder becomes another one's."""
_RECURSIVE: Final = frozenset({"--recursive", "--dereference-recursive", "--archive"})


def canonical(token: str) -> str:
    """A word as deny and ask compare it: paths without empty components, single dots and a slash at the end."""
    token = plain(token)
    if "/" not in token:
        return token
    parts = [part for part in token.split("/") if part not in {"", "."}]
    lead = "/" if token.startswith("/") else "./" if token.startswith("./") and not parts else ""
    return lead + "/".join(parts)


def options_of(name: str, words: Iterable[str]) -> frozenset[str]:
    """Every option among ``words`` in one spelling: long ones without their value, clusters letter by letter."""
    same = _SAME.get(name, {})
    found: set[str] = set()
    for word in words:
        if word == "--":
            break
        if len(word) < 2 or not word.startswith("-"):
            continue
        option = word.partition("=")[0]
        found.add(same.get(option, option))
        if not option.startswith("--") and len(option) <= _CLUSTER_LIMIT:
            found.update(same.get("-" + letter, "-" + letter) for letter in option[1:])
        elif option.startswith("--") and len(option) > 4:
            # Long options may be shortened.
            found.update(short for long, short in same.items() if long.startswith(option))
    return frozenset(found)


def loose_words(tokens: tuple[str, ...]) -> tuple[list[str], frozenset[str]]:
    """The words of a rule without its options, and its options, each cluster letter by letter."""
    words = [canonical(token) for token in tokens if not token.startswith("-") or len(token) < 2]
    name = canonical(tokens[0])
    wanted: set[str] = set()
    same = _SAME.get(name, {})
    for token in tokens[1:]:
        if len(token) < 2 or not token.startswith("-"):
            continue
        option = token.partition("=")[0]
        if option.startswith("--") or len(option) > _CLUSTER_LIMIT or option in same:
            wanted.add(same.get(option, option))
        else:
            wanted.update(same.get("-" + letter, "-" + letter) for letter in option[1:])
    return words, frozenset(wanted)


def walks(name: str | None, words: Iterable[str]) -> bool:
    """Whether a command goes through everything below the folders it is given."""
    words = list(words)
    if name in WALKERS:
        return True
    if name in _READS_FOLDERS:
        # grep --directories=recurse
        if any("recurse" in word and word.startswith("-") for word in words) or "recurse" in words:
            return True
    elif name in _SHARES:
        return any(word.startswith(_SHARES[name]) for word in words)
    short = {"-R"} if name == "ls" else {"-r", "-R", "-a"} if name == "cp" else {"-r", "-R"}
    found = options_of("", words)
    if found & (_RECURSIVE | short if name in _WITH_OPTION else _RECURSIVE):
        return True
    # Long options may be shortened.
    return any(len(each) > 4 and "--recursive".startswith(each) for each in found)
