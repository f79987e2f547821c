"""The rule that would allow something, as it would be written.

Owns: the wording of remedies: for a command its name, with the subcommand where one tool does many things; for an
interpreter, a shell, a wrapper and whatever cannot be matched by its first words the exact line, never the bare name;
and :func:`why_unwritten`, since a rule that is a whole line holds whatever the line does, a secret too.
"""

import re
from collections.abc import Iterable
from typing import Final

from ..language.actions import FILE_ACTIONS, LINE_ACTIONS, URL_ACTIONS, ActionName
from ..language.hosts import read_target
from ..shell import Unit
from ..shell.values.names import listed

#: Programs that run what they are given: a rule for the bare name would allow everything.
RUNNERS: Final = listed(
    "sh bash dash zsh ksh fish csh tcsh mksh ash busybox toybox env nice nohup timeout stdbuf setsid sudo doas su",
    "xargs parallel watch time command builtin exec eval source . python python2 python3 pypy pypy3 ruby perl node",
    "nodejs deno bun php lua luajit Rscript julia tclsh expect awk gawk mawk nawk sed osascript powershell pwsh cmd",
    "ssh docker podman kubectl nsenter chroot unshare flock ionice taskset chrt script strace ltrace gdb find fd npx",
    "bunx uvx pipx uv make vim vi nvim emacs ex ed",
)
#: Programs that read, and that write or delete, whatever files they are given: a rule for the bare name is a rule for
#: every file.
READERS: Final = listed(
    "cat tac bat batcat less more most head tail nl od xxd hexdump strings base64 base32 cut sort uniq comm paste join",
    "diff cmp grep egrep fgrep rg ag ack zcat zless xzcat jq yq",
)
WRITERS: Final = listed(
    "cp mv rm rmdir tee dd ln link unlink install rsync scp shred truncate tar zip unzip gzip gunzip bzip2 xz zstd 7z",
    "patch chmod chown chgrp",
)
_SUBCOMMANDS: Final = listed(
    "git npm pnpm yarn pip pip3 cargo go gh gcloud aws az systemctl apt apt-get brew dotnet terraform helm rustup",
    "composer bundle mvn gradle dart flutter",
)
_VERSION: Final = re.compile(r"[\d.]+\Z")
_ESCAPED: Final = frozenset("\0")
#: Seconds for the look at rules before one is written; a line that a person may judge is done in a thousandth of it.
_LOOK_S: Final = 0.25


def runs_others(name: str | None) -> bool:
    """Whether a program runs what it is given; ``python3.11`` is ``python``."""
    return name is not None and (name in RUNNERS or _VERSION.sub("", name) in RUNNERS)


def rules_for(action: ActionName, target: str, unit: Unit | None = None, *, literal: bool = False) -> tuple[str, ...]:
    """What to write under ``permissions.allow``; empty when no rule could say it.

    :param unit: the command of a line that nothing covers. :param literal: its first words may stand for it.
    """
    if not target or _ESCAPED & set(target) or _is_pattern(action, target.strip()):
        return ()
    if action in LINE_ACTIONS:
        words = _first_words(unit) if unit is not None and literal else None
        return (f"{action}({words or target.strip()})",)
    if action in URL_ACTIONS:
        read = read_target(target)
        return tuple(f"{action}({host})" for host in read.hosts) if read.certain else ()
    if action in FILE_ACTIONS:
        return (f"{action}({target})",)
    return (f"{action}({target})",) if "/" in target else ()


def why_unwritten(rules: Iterable[str]) -> str:
    """Why rules that were made of what a call says should be neither written down nor shown where others read: empty,
    or the end of a sentence. It names kinds of secrets, never one.
    """
    # Late: most decisions suggest nothing.
    from ..outputs import scan

    text = "\n".join(rules)
    seen = scan(text, policy="audit", budget_s=_LOOK_S)
    if seen.findings:
        return f"would hold a secret ({', '.join(sorted({each.kind for each in seen.findings}))})"
    return "is too long to be looked at for secrets" if seen.scanned < len(text) else ""


def _is_pattern(action: ActionName, target: str) -> bool:
    """Whether a target would stand for more than itself once it is written into a rule: ``regex:.*``, ``*``."""
    return target == "*" or target.startswith("regex:") or (action == "mcp" and target.endswith("/*"))


def _first_words(unit: Unit) -> str | None:
    """The first words of a command when they may stand for it."""
    if not unit.argv or runs_others(unit.name) or runs_others(unit.guess) or unit.extra:
        return None
    first = unit.argv[0]
    if not first.literal or not first.text or any(char.isspace() or char in "*()" for char in first.text):
        return None
    if first.text not in _SUBCOMMANDS:
        return first.text
    second = unit.argv[1] if len(unit.argv) > 1 else None
    if (
        second is None
        or not second.literal
        or not second.text.replace("-", "").isalnum()
        or second.text.startswith("-")
    ):
        return None
    return f"{first.text} {second.text}"
