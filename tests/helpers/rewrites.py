"""Spellings of one command that bash treats alike, made at random, and a place where bash may really run them.

The command is a marker: a script that leaves a file behind. The same choices made for another name of the same length
give the same line for that name, so that a dangerous command is only ever written, never run.
"""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

MARKER = "mk"
"""As long as ``rm``, whose place it takes."""


def quoted(random: Random, text: str) -> str:
    """``text`` as one word."""
    kind = random.randrange(3)
    if kind == 0 or ("\n" in text and kind == 2):
        return "'" + text.replace("'", "'\\''") + "'"
    if kind == 1:
        for char in '\\"$`':
            text = text.replace(char, "\\" + char)
        return '"' + text + '"'
    return "$'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def character(random: Random, char: str) -> str:
    return random.choice(
        [
            char,
            char,
            "\\" + char,
            f"'{char}'",
            f'"{char}"',
            f"$'\\x{ord(char):02x}'",
            f"$'\\{ord(char):03o}'",
            f"$'{char}'",
            f'$"{char}"',
            f"''{char}",
            f'{char}""',
            f"\\\n{char}",
            f"{char}$1",
            f"$'\\u{ord(char):04x}'",
            f"${{unset_here}}{char}",
        ][: random.choice([2, 12, 12, 15])]
    )


def word(random: Random, text: str) -> str:
    if random.random() < 0.3:
        return text
    if random.random() < 0.1:
        return f"$(printf %s {text})" if random.random() < 0.5 else f"`echo {text}`"
    return "".join(character(random, char) for char in text)


def blank(random: Random) -> str:
    return random.choice([" ", " ", "  ", "\t", " \\\n", "${IFS}", "$IFS", " $IFS "][: random.choice([3, 5, 8])])


def simple(random: Random, argv: list[str]) -> str:
    if random.random() < 0.06 and all(argv):
        return "{" + ",".join(argv) + "}"
    if random.random() < 0.06:
        return f"v={argv[0]}; $v {' '.join(argv[1:])}"
    text = word(random, argv[0])
    for one in argv[1:]:
        text += blank(random) + word(random, one)
    return text


def emptied(random: Random, argv: list[str]) -> str:
    """The words with a variable in them that the line itself leaves without a value."""
    empties = random.choice(["unset gone", "gone=", "gone=''", 'gone=""', "unset -v gone", "export gone=", "set --"])
    use = random.choice(["$1", "${2}", "$@", "$*"] if empties == "set --" else ["$gone", "${gone}", "${gone:-}"])
    words = [random.choice([f"{text}{use}", f'{text}"{use}"', f"{use}{text}"]) for text in argv]
    return f"{{ {empties}; {' '.join(words)}\n}}"


WRAPPERS = [
    "env", "env -u X", "env X=1", "env --", "/usr/bin/env", "nice", "nice -n 5", "nice -5", "nice --adjustment=5",
    "nohup", "timeout 5", "timeout -s KILL 5s", "timeout --signal=KILL -k 1 5", "command", "command -p --",
    "exec", "exec -a other",
    "builtin command", "setsid -w", "stdbuf -oL", "stdbuf --output=L -e 0", "ionice -c 3", "flock lock",
    "flock -w 1 lock",
    "time -p", "time", "!", "X=1 Y='a b'", ">out", "2>/dev/null", "</dev/null", "xargs -n 4", "xargs", "echo a | xargs",
    "coproc", "find . -maxdepth 0 -exec env", "chrt -b 0", "taskset -c 0", "eval", "eval --", "env -", "env -C .",
    "then_is_no_keyword_here=1", "sudo_is_not_installed || env", "unshare_is_not || :;", "printf x | xargs -I {}",
]  # fmt: skip


def wrapped(random: Random, argv: list[str]) -> list[str]:
    """Words before the command that leave it running; the last of them may need words after it."""
    prefix = random.choice(WRAPPERS)
    tail = [" \\;"] if prefix.startswith("find") else [""]
    return [prefix, simple(random, argv), *tail]


def plain(random: Random, argv: list[str]) -> str:
    kind = random.randrange(6)
    if kind < 3:
        return emptied(random, argv) if random.random() < 0.2 else simple(random, argv)
    if kind < 5:
        before, middle, after = wrapped(random, argv)
        if random.random() < 0.4 and not before.startswith(
            ("find", "coproc", "!", "time", ">", "2>", "<", "X=", "then")
        ):
            before += " " + random.choice(["env", "nice -n 3", "command", "timeout 4"])
        return f"{before} {middle}{after}"
    joined = " ".join(argv)
    option = random.choice(["-S ", "-S", "--split-string=", "-iS ", "-vS ", "--sp=", "-uX -S "])
    return f"env {option}" + quoted(
        random, random.choice([joined, f"-i {joined}", f"X=1 {joined}", joined.replace(" ", "\\_")])
    )


SHELLS: list[Callable[[Random, str], str]] = [
    lambda random, text: "sh -c " + quoted_for_sh(text),
    lambda random, text: "bash -c " + quoted(random, text),
    lambda random, text: "bash -ec " + quoted(random, text) + " name argument",
    lambda random, text: "bash -o pipefail -c " + quoted(random, text),
    lambda random, text: "bash --norc -c -- " + quoted(random, text),
    lambda random, text: "/bin/bash +x -c " + quoted(random, text),
    lambda random, text: "eval " + quoted(random, text),
    lambda random, text: "eval true\\; " + quoted(random, text),
    lambda random, text: f"bash <<'EOF'\n{text}\nEOF\n",
    lambda random, text: f"bash -s a b <<-'EOF' >out\n{text}\nEOF\n",
    lambda random, text: f"bash <<< {quoted(random, text)}",
    lambda random, text: (
        f"echo {quoted_for_sh(text)} | bash" if "\\" not in text else "bash -c " + quoted(random, text)
    ),
    lambda random, text: f"printf %s {quoted(random, text)} | env bash",
    lambda random, text: f"cat <<'EOF' | bash -\n{text}\nEOF\n",
    lambda random, text: f". /dev/stdin <<< {quoted(random, text)}",
    lambda random, text: f"source <(printf %s {quoted(random, text)})",
    lambda random, text: f"bash <(printf %s {quoted(random, text)})",
    lambda random, text: f"bash < <(printf %s {quoted(random, text)})",
    lambda random, text: f"trap {quoted(random, text)} EXIT",
    lambda random, text: f"nice timeout 5 bash -c {quoted(random, text)}",
    lambda random, text: f"xargs -I R bash -c {quoted(random, text)} <<< a",
    lambda random, text: f"find . -maxdepth 0 -exec bash -c {quoted(random, text)} \\;",
    lambda random, text: f'v={quoted(random, text)}; eval "$v"',
    lambda random, text: f"watch_is_not_here || bash -c {quoted(random, text)}",
    lambda random, text: f"busybox_is_not_here; command eval {quoted(random, text)}",
    lambda random, text: f"bash -c 'eval \"$1\"' name {quoted(random, text)}",
    lambda random, text: f"bash -c '\"$@\"' name bash -c {quoted(random, text)}",
    lambda random, text: f"bash -c 'shift; eval \"$1\"' name dropped {quoted(random, text)}",
    lambda random, text: f'f() {{ shift 2; eval "$1"; }}; f a b {quoted(random, text)}',
    lambda random, text: f"v={quoted(random, text)} bash -c 'eval \"$v\"'",
    lambda random, text: f"env v={quoted(random, text)} bash -c 'eval \"$v\"'",
    lambda random, text: f'v=x{quoted(random, text)}; eval "${{v#x}}"',
    lambda random, text: f'v={quoted(random, text)}xx; eval "${{v%xx}}"',
    lambda random, text: f"{{ printf %s {quoted(random, text)}; }} | cat | bash",
    lambda random, text: f"(echo :; printf %s {quoted(random, text)}) | bash",
    lambda random, text: f"bash -s a <<< {quoted(random, text)}",
    lambda random, text: f'v=(eval); v+=({quoted(random, text)}); "${{v[@]}}"',
    lambda random, text: f'printf -v v %s {quoted(random, text)}; eval "$v"',
    lambda random, text: f"env -S bash -c {quoted(random, text)}",
    lambda random, text: f"parallel_is_not_here || eval {quoted(random, text)}",
]
GROUPS = [
    "{}", "true; {}", "true && {}", "false || {}", "({})", "( {} )", "{{ {}\n}}", "if {}\nthen :; fi",
    "if true; then {}\nfi",
    "if false; then :; elif true; then {}\nfi", "if false; then :; else {}\nfi", "while {}\ndo break; done",
    "for i in 1; do {}\ndone", "until false; do {}\nbreak; done", "case x in y) ;; (x|z) {}\n;; esac",
    "f() {{ {}\n}}; f",
    "function g {{ {}\n}}\ng", "! {}", "echo $({}\n)", "echo \"$({}\n)\"", "cat <({}\n)", "{} | cat", "true | {}",
    "{} &\nwait", "cat <<EOF\n$({}\n)\nEOF\n", ": ${{unset_here:-$({}\n)}}", ": $(( $({}\necho 1) ))",
    "[[ $({}\n) == '' ]]", "a=($({}\n))", "export a=$({}\n)", "# remark {{\n{}", "cat <<'EOF' >out\ntext\nEOF\n{}",
    "select_is=1\n{}", "{}; echo done", "cd . && {}", "x=`true`; {}", "for ((i=0; i<1; i++)); do {}\ndone",
    "echo 'a;b' \"c|d\" # e\n{}", "declare -a b=(1 2); {}", "((1)) && {}", "{{ {}\n}} 2>&1 >out", "({}\n) | cat",
    "time {}", "cat <<A <<'B' >out\na\nA\nb\nB\n{}", "echo ${{unset_here:+x}} ${{#HOME}} $?; {}",
    "echo a#b $'c\\'d'; {}",
    "echo \\\n a; {}", "echo \"a\\\"b'c\"; {}", "test -f x || {}", "{}\nexit 0", "echo {{a,b}}; {}", "[ 1 = 1 ] && {}",
    "cat <<< \"$({}\n)\"", "echo \"a $(echo \"b $({}\n)\")\"", "tee >({}\n) </dev/null; sleep 0.02",
    "cat <<X\n$(a\nX\n{}", "while read -r x; do {}\ndone <<< a", "v=1; (v=2; cd ..); {}", "x=$(cd ..; pwd); {}",
    "f() {{ v=2; }}; f; {}", "set -- a b; shift; {}", "for x; do :; done; {}", "unset v; {}",
]  # fmt: skip


def quoted_for_sh(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def line(random: Random, argv: list[str], depth: int) -> str:
    """One line that, so it is hoped, runs ``argv``. Whether it does is for bash to say.

    A here-document inside another one has an end of its own: with the same one bash runs by accident what a person
    would not write, pieces of which the reading does not put together.
    """
    if depth <= 0:
        return plain(random, argv)
    inner = line(random, argv, depth - 1)
    in_shell = random.random() < 0.4
    whole = random.choice(SHELLS)(random, inner) if in_shell else random.choice(GROUPS).format(inner)
    return re.sub(r"\bEOF\b", f"EOF{depth}", whole)


MENTIONS: list[Callable[[Random, str], str]] = [
    lambda random, text: f"echo {quoted(random, text)}",
    lambda random, text: f"echo safe # {text}",
    lambda random, text: f"cat <<'EOF'\n{text}\nEOF\n",
    lambda random, text: f"cat <<EOF >out\n{text}\nEOF\n",
    lambda random, text: f"grep -c {quoted(random, text)} <<< {quoted(random, text)}",
    lambda random, text: f"x={quoted(random, text)}",
    lambda random, text: f"printf '%s\\n' {quoted(random, text)} >>out",
    lambda random, text: f"true {text}",
    lambda random, text: f'for i in {text}; do echo "$i"; done',
    lambda random, text: f"[[ $x == {quoted(random, text)} ]] || true",
    lambda random, text: f"case {quoted(random, text)} in a) ;; esac",
    lambda random, text: f'a=({text}); echo "${{a[@]}}"',
    lambda random, text: f"echo $(echo {quoted(random, text)})",
    lambda random, text: f"bash -c {quoted(random, 'echo ' + quoted_for_sh(text))}",
    lambda random, text: f"test {quoted(random, text)} = b || echo no",
    lambda random, text: f"command -v {text.split(' ', maxsplit=1)[0]}",
    lambda random, text: f'echo "${{unset_here:-{text}}}"',
    lambda random, text: f"never() {{ :; }}; echo {quoted(random, text)} | cat",
    lambda random, text: f"env echo {text}",
    lambda random, text: f"echo \"\\$({text})\" '`{text}`'",
]


class Playground:
    """An empty folder with the marker on its ``PATH``; every line runs in a bash of its own, bounded in time.

    The marker is made anew for every line, so that what an earlier line left behind cannot be taken for this one's.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._round = 0
        self._marker = root / "bin" / MARKER
        for folder in ("bin", "work", "ran"):
            (root / folder).mkdir()
        self._environ = {"PATH": f"{root / 'bin'}:/usr/bin:/bin", "HOME": str(root / "work"), "LC_ALL": "C.UTF-8"}

    def runs(self, text: str) -> bool:
        """Whether bash runs the marker for this line."""
        return self.arguments(text) is not None

    def arguments(self, text: str) -> str | None:
        """The arguments that bash gives to the marker for this line, None when it does not run it."""
        self._round += 1
        ran = self.root / "ran" / str(self._round)
        fresh = self._marker.with_suffix(".new")
        fresh.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$*\" >{ran}\n")
        fresh.chmod(0o755)
        fresh.replace(self._marker)
        try:
            process = subprocess.Popen(
                ["/bin/bash", "--norc", "--noprofile", "-c", text],
                cwd=self.root / "work",
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (ValueError, OSError):  # a zero character, or too long
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        try:
            return ran.read_text()
        except FileNotFoundError:
            return None
