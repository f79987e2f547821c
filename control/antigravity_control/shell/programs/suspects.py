"""Commands that a tool may run and that its words only hint at: ``docker exec c rm x``, ``python -c '… "rm x" …'``.

Owns: which tools run some of their words as a command, and where a command may stand in a program of another language.
A suspect is enough to be asked about a deny or ask rule, and for nothing else: neither to allow, nor for the floor.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ..values.model import Word
from ..values.names import listed

#: Tools that run the command among their operands, here and as it is given: a rule for their bare name says nothing.
LOCAL: Final = listed(
    "perf heaptrack rr trickle cpulimit tsocks torify fakechroot faketime dbus-launch daemonize runcon run0 sem",
    "sandbox-exec wine box64 mono systemd-cat systemd-nspawn eatmydata nocache multitime setlock softlimit pidproxy",
    "cross-env cross-env-shell env-cmd with-contenv envchain sshpass dtach abduco watchexec nodemon concurrently",
    "i386 x86_64 uname26 linux26 ld.so sg newgrp dotenv honcho foreman exec-env catatonit s6-setuidgid numad",
)
_VERBS: Final[dict[str, frozenset[str]]] = {
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "podman-compose"), listed("exec run create")),
    **dict.fromkeys(("kubectl", "oc", "k3s"), listed("exec run debug")),
    **dict.fromkeys(
        listed("ctr crictl buildah lxc incus multipass distrobox toolbox machinectl nomad fly flyctl",
               "vagrant gcloud adb"),
        listed("exec run enter shell ssh task console"),
    ),
    **dict.fromkeys(("flatpak", "flatpak-spawn", "heroku"), frozenset()),
    **dict.fromkeys(listed("salt pssh parallel-ssh pdsh clush dsh mosh rsh ansible"), frozenset()),
    **dict.fromkeys(("npm", "yarn", "pnpm", "bun", "corepack"), listed("exec x dlx")),
    **dict.fromkeys(listed("npx bunx pnpx uvx pipx"), frozenset()),
    **dict.fromkeys(
        listed("poetry pipenv uv hatch pdm rye tox nox conda mamba micromamba pixi bundle rbenv pyenv nodenv asdf mise"
               " rtx volta nvm doppler op vault aws-vault chamber sops lerna nx turbo dotenvx infisical rustup devbox"),
        listed("run exec x shell exec-env exec-file --"),
    ),
    **dict.fromkeys(("nix", "guix"), listed("run develop shell environment")),
    **dict.fromkeys(("screen", "tmux", "zellij"), frozenset()),
    "cmake": frozenset({"-E"}), "gpg-agent": frozenset({"--daemon"}), "jobs": frozenset({"-x"}),
    "watch": frozenset(), "entr": frozenset(), "parallel": frozenset(), "make": frozenset(), "gmake": frozenset(),
    "script": frozenset(), "xdg-open": frozenset(), "su": frozenset(), "runuser": frozenset(),
}  # fmt: skip
"""Other tools that do, behind one of these words (none: anywhere)."""
_LOADER: Final = re.compile(r"ld(?:-linux[\w.-]*|-musl[\w.-]*)?\.so[\d.]*|qemu-\w+")
_LANGUAGES: Final = listed(
    "python python2 python3 pypy pypy3 perl ruby node nodejs deno bun php lua luajit awk gawk mawk nawk sqlite3 psql",
    "mysql mariadb tclsh expect Rscript R julia osascript gnuplot octave ghc ed ex vi vim nvim ftp sftp lftp bc dc gdb",
    "lldb emacs irb make gmake scala groovy erl elixir raku jshell maxima gp telnet crontab",
)
_QUOTED: Final = re.compile(r"\"((?:[^\"\\\n]|\\.){2,400})\"|'((?:[^'\\\n]|\\.){2,400})'|`([^`\n]{2,400})`")
_CALLED: Final = re.compile(
    r"(?:^|[\s;])(?:\.sh\w*|\.sys\w*|system|exec|spawn|shell|program|%x.|qx.)[\s('\"]*([^\n]{1,400})"
    r"|:[ \t]*;[ \t]*([^\n]{1,400})"
)
_ESCAPED: Final = re.compile(r"(?:^|[\s;])\\?![\s('\"]*([^\n]{1,400})")
"""What follows an exclamation mark, in programs where it calls the shell."""
_NO_ESCAPE: Final = listed(
    "python python2 python3 pypy pypy3 perl ruby node nodejs deno bun php lua luajit awk gawk mawk nawk tclsh Rscript",
    "osascript ghc groovy erl elixir raku scala",
)
_RULE: Final = re.compile(r"^\s*(?:[\d*/,@-]\S*\s+){5}(.+)$|^\t[@+-]*(.+)$", re.MULTILINE)
"""A line of a crontab, of a makefile."""
_VERSION: Final = re.compile(r"[\d.]+\Z")
_WORDS: Final = 8
_TEXTS: Final = 16
Suspect = Sequence[Word] | str


def suspects(name: str, argv: Sequence[Word], given: Word | None) -> Iterator[Suspect]:
    """Words that may be a command, and texts that may be a script. ``given`` is what stands at the command's input."""
    verbs, language = _kind(name)
    if verbs is not None:
        yield from _behind(verbs, argv)
    if language:
        texts = [word.text for word in argv[1:33] if any(char in word.text for char in " \"'`!;(")]
        if given is not None and given.known:
            texts.append(given.text[:4096])
        for text in texts:
            yield from list(_inside(text, escapes=_VERSION.sub("", name) not in _NO_ESCAPE))[:_TEXTS]
    elif verbs is not None and given is not None and given.known:
        yield given.text[:1024]


def _kind(name: str) -> tuple[frozenset[str] | None, bool]:
    """The words behind which a command stands (None: nowhere), and whether the tool has a language of its own."""
    local = name in LOCAL or (name[:2] in {"ld", "qe"} and _LOADER.fullmatch(name) is not None)
    verbs = frozenset[str]() if local else _VERBS.get(name)
    return verbs, name in _LANGUAGES or (name[-1:].isdigit() and _VERSION.sub("", name) in _LANGUAGES)


def may_run(name: str) -> bool:
    """Whether the words of a tool may hold a command at all."""
    return _kind(name) != (None, False)


def _behind(verbs: frozenset[str], argv: Sequence[Word]) -> Iterator[Suspect]:
    start = next((place for place, word in enumerate(argv) if word.text in verbs), 0)
    if verbs and not start:
        return
    count = 0
    for place in range(start + 1, len(argv)):
        text = argv[place].text
        if text.startswith("-"):
            text = text.partition("=")[2]
        else:
            yield argv[place:]
            count += 1
            text = text.partition("=")[2] or text
        if any(char.isspace() for char in text) or (text and text != argv[place].text):
            yield text[:1024]
        if count >= _WORDS:
            return


def _inside(text: str, *, escapes: bool) -> Iterator[str]:
    """Texts within a program that a shell may get to see. One that begins with a variable says nothing."""
    for pattern in (_QUOTED, _CALLED, _ESCAPED, _RULE) if escapes else (_QUOTED, _CALLED, _RULE):
        for match in pattern.finditer(text):
            found = next((group for group in match.groups() if group), "").rstrip("'\")")
            if not found.startswith("$"):
                yield found
