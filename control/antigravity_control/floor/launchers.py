"""Programs that start another one and that rules do not look through: for the floor they are no hiding place.

Owns: the table of less common launchers and the cut behind their options. Pure: gives the command as text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..shell import Unit, Word
from ..shell.programs.options import read_options

_LOADER = re.compile(r"ld-(?:linux|musl)[\w.-]*\.so(?:\.\d+)*")


@dataclass(frozen=True, slots=True)
class _Launcher:
    takes: frozenset[str]
    skip: int = 0
    verbs: frozenset[str] = frozenset()
    """Subcommands one of which has to stand before the command."""


def _launcher(takes: str = "", skip: int = 0, verbs: str = "") -> _Launcher:
    return _Launcher(frozenset(takes.split()), skip, frozenset(verbs.split()))


_LAUNCHERS = {
    "cpulimit": _launcher("-l --limit -p --pid -e --exe -P --path"),
    "daemonize": _launcher("-c -e -o -p -l -u -E"),
    "daemon": _launcher("-n --name -u --user -D --chdir -F --pidfile -o --output"),
    "screen": _launcher("-S -c -e -h -p -s -T -t"),
    "tmux": _launcher("-s -n -c -t -F -x -y -L -S -f -e -l -p", 0,
                      "new new-session neww new-window splitw split-window run run-shell respawn-pane respawn-window"),
    "dtach": _launcher("-n -c -A -a -N -e -r"),
    "abduco": _launcher("-n -c -A -a -e"),
    "chronic": _launcher(),
    "eatmydata": _launcher(),
    "nocache": _launcher(),
    "heaptrack": _launcher("-o"),
    "trickle": _launcher("-d -u -w -t -l -n"),
    "tsocks": _launcher(),
    "faketime": _launcher("-f", 1),
    "perf": _launcher("-e -o -p -F -C -t", 0, "stat record trace"),
    "systemd-cat": _launcher("-t -p --identifier --priority"),
    "runcon": _launcher("-t -u -r -l --type --user --role --range"),
    "softlimit": _launcher("-a -c -d -f -l -m -o -p -r -s -t"),
    "schedtool": _launcher("-p -n -a -e"),
    "sshpass": _launcher("-p -f -d -P"),
    "mosh": _launcher("-p --ssh --predict", 1),
    "sg": _launcher("", 1),
}  # fmt: skip


def launched(unit: Unit) -> str | None:
    """The command line that a launcher starts, as it was written; None where ``unit`` is none of them."""
    name = unit.guess or ""
    if _LOADER.fullmatch(name):
        return _text(unit.argv[1 + read_options(unit.argv[1:], frozenset({"--library-path"}), None).first :])
    if name == "start-stop-daemon":
        return _started(unit.argv)
    launcher = _LAUNCHERS.get(name)
    if launcher is None:
        return None
    rest = unit.argv[1:]
    rest = rest[read_options(rest, launcher.takes, None).first :]
    if launcher.verbs:
        if not rest or rest[0].text not in launcher.verbs:
            return None
        rest = rest[1:]
        rest = rest[read_options(rest, launcher.takes, None).first :]
    rest = rest[launcher.skip :]
    while rest and rest[0].text in {"--", "-c"}:
        rest = rest[1:]
    return _text(rest)


def _started(argv: Sequence[Word]) -> str | None:
    texts = [word.text for word in argv]
    options = {"--exec", "-x", "--startas", "-a"}
    place = next((place for place, text in enumerate(texts) if text in options), None)
    if place is None or "--" not in texts:
        return None
    return _text([*argv[place + 1 : place + 2], *argv[texts.index("--") + 1 :]])


def _text(words: Sequence[Word]) -> str | None:
    """The words as they were written; a single one is a whole command line by itself."""
    if len(words) == 1:
        return words[0].text
    return " ".join(word.raw for word in words) or None
