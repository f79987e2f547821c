"""What options and settings of ``git`` run a program or write a file beside what its subcommand is for.

Owns: the tables of subcommands and of settings, and their reading.
"""

import re
from collections.abc import Callable, Sequence

from ..values.model import Requirement, Word
from .doors import NONE, SUBCOMMANDS, Doors, doors_of
from .operand_doors import shown, written

Scan = Callable[[str, Doors, Sequence[Word]], list[Requirement]]
_GLOBAL_RUNS = frozenset({"-c", "--config-env", "--exec-path=", "--git-dir", "--work-tree", "-p", "--paginate"})
_RUNNING = frozenset({"filter-branch", "difftool", "mergetool", "daemon", "web--browse", "instaweb", "shell"})
_REMOTE = doors_of("--upload-pack --receive-pack --exec", starts="ext::")
_DIFF = doors_of("--ext-diff", "--output")
_VERBS: dict[str, Doors] = {
    "clone": doors_of("-u --upload-pack -c --config --template", starts="ext::", stops="bjo"),
    "fetch": _REMOTE, "pull": _REMOTE, "push": _REMOTE, "ls-remote": _REMOTE, "fetch-pack": _REMOTE,
    "send-pack": _REMOTE, "remote": doors_of(starts="ext::"), "submodule": doors_of(starts="ext::"),
    "rebase": doors_of("-x --exec"),
    "grep": doors_of("-O --open-files-in-pager", stops="eAfCBm"),
    **dict.fromkeys(("diff", "log", "show", "stash", "reflog", "whatchanged", "shortlog", "diff-tree", "diff-index",
                     "diff-files", "range-diff", "rev-list", "blame"), _DIFF),
    "archive": doors_of("--exec --remote", "-o --output"),
    "format-patch": doors_of("--ext-diff", "-o --output-directory --output"),
    "init": doors_of("--template"),
    "bundle": doors_of(), "mailsplit": doors_of("", "-o"),
    "fast-export": doors_of("", "--export-marks"), "fast-import": doors_of("", "--export-marks --export-pack-edges"),
    "checkout-index": doors_of("", "--prefix"), "credential-store": doors_of("", "--file"),
    "send-email": doors_of("--smtp-server --sendmail-cmd --to-cmd --cc-cmd --header-cmd --smtp-server-option"),
    "difftool": doors_of("-x --extcmd", starts="-"), "mergetool": doors_of("--tool"),
    "daemon": doors_of(starts="-"),
}  # fmt: skip
_RUNS = re.compile(
    r"(?:alias|pager|filter|difftool|mergetool|credential|gpg|include|includeif|man|browser|protocol|sendemail|trailer"
    r"|hook|url|guitool|instaweb|tar|imap|uploadpack|receive)\..*|(?:web|help)\.browser"
    r"|core\.(?:pager|editor|sshcommand|hookspath|fsmonitor|askpass|gitproxy|attributesfile|worktree"
    r"|alternaterefscommand|alternaterefsprefixes)"
    r"|diff\.external|diff\..*\.(?:command|textconv)|merge\..*\.driver|merge\.tool|diff\.(?:gui)?tool"
    r"|sequence\.editor|interactive\.difffilter|init\.templatedir|submodule\..*\.update"
    r"|remote\..*\.(?:uploadpack|receivepack|vcs|proxy)",
    re.IGNORECASE,
)
"""Settings that name a program, or from where one comes."""
_READS = frozenset({"--get", "--get-all", "--get-regexp", "--get-urlmatch", "-l", "--list", "--unset", "--unset-all",
                    "get", "list", "unset", "--get-color", "--get-colorbool", "--remove-section"})  # fmt: skip


def git_doors(argv: Sequence[Word], scan: Scan) -> list[Requirement]:
    """Doors of a whole ``git`` command. ``scan`` reads the options of a subcommand by its table."""
    found: list[Requirement] = []
    place = 1
    while place < len(argv) and argv[place].text.startswith("-"):
        option, equals, _ = argv[place].text.partition("=")
        if option in _GLOBAL_RUNS or (equals and option + "=" in _GLOBAL_RUNS) or option[:2] == "-c":
            found.append(Requirement("command", None, f"git {shown(option)}"))
        place += 2 if option in SUBCOMMANDS["git"] and not equals else 1
    if place >= len(argv):
        return found
    verb, rest = argv[place].text, argv[place + 1 :]
    if verb in _RUNNING:
        found.append(Requirement("command", None, f"git {verb}"))
    if verb == "config":
        found.extend(_config(rest))
    if verb == "bundle" and rest and rest[0].text == "create":
        found.extend(written([word for word in rest[1:] if not word.text.startswith("-")][:1], "git bundle create"))
    return [*found, *scan(f"git {shown(verb)}", _VERBS.get(verb, NONE), rest)]


def _config(words: Sequence[Word]) -> list[Requirement]:
    """``git config KEY VALUE``; looking a setting up runs nothing."""
    texts = [word.text for word in words]
    if any(text in {"-e", "edit"} or (len(text) > 4 and "--edit".startswith(text)) for text in texts):
        return [Requirement("command", None, "git config --edit")]
    if not _READS.isdisjoint(texts):
        return []
    named = next((text for text in texts[:-1] if _RUNS.fullmatch(text)), None)
    if named is not None or any(text.startswith(("ext::", "!")) for text in texts):
        return [Requirement("command", None, f"git config {shown(named or '')}".rstrip())]
    if any(not word.literal for word in words[:-1]):
        return [Requirement("command", None, "git config")]
    return []
