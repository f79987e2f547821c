"""Words: where the reading calls a word literal, bash has to make the same of it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antigravity_control.shell import Piece, Word, read_line
from antigravity_control.shell.programs.env_split import split

pytestmark = pytest.mark.skipif(os.name == "nt" or not shutil.which("bash"), reason="needs bash")
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PIECES = [
    "a", "b", "0", " ", " ", "\t", "'", '"', "\\", "\\\n", "$'", "\\x41", "\\101", "\\n", "\\'",
    "{a,b}", "{", "}", ",", "..",
    "{1..3}", "{c..a}", "{,x}", "{m..m}", "{01..03}", "{a..e..2}",
    "$1", "$@", "#", "=", "!", "~", ":", "%", "^", "[", "]", "\\\\",
    '\\"', "\\$", "\\`", "''", '""',
    "'a b'", '"c d"', "$", "é", "\\u00e9", "-", "/", "+", "@", "x=1",
]  # fmt: skip


def bash(text: str, folder: Path) -> list[str] | None:
    """The arguments that bash gives to a command for ``text``, None when it refuses the line."""
    ran = subprocess.run(
        ["/bin/bash", "--norc", "-c", f"printf '%s\\0' {text}"],
        capture_output=True,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": "/h", "LC_ALL": "C.UTF-8"},
        timeout=10,
        check=False,
    )
    if ran.returncode or ran.stderr:
        return None
    return ran.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


def value(word: Word) -> str:
    return "".join("/h" if piece == Piece("home", "~") else piece.text for piece in word.pieces)


@QUICK
@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_a_literal_word_is_what_bash_passes_on(tmp_path: Path, pieces: list[str]) -> None:
    text = "".join(pieces)
    wanted = bash(text, tmp_path)
    line = read_line(f"printf '%s\\0' {text}")
    if wanted is None or not line.understood or len(line.units) != 1:
        return
    words = line.units[0].argv[2:]
    if all(word.known for word in words):
        assert [value(word) for word in words] == (wanted if words else [])


SET = "x=abc; x1=i; x2=; x3=j; xq=k; xr=l; y=; unset u; set -- p 'q r'; w=(m n o); "
VALUES = [
    "$x", "${x#a}", "${x:1}", "${x/b/z}", "${x^}", "${y-k}", "${y:-k}", "${u-k}", "${u:-k}", "${y+k}", "${u+k}",
    "${y:+k}", "${1-k}", "${3-k}", "${3+k}", "$x{1..3}", "a$x{q,r}", "$1{0,1}", '"$x"{a,b}', "${@:2}", "${@: -1}",
    "${w[@]:1}", "${w[@]:1:1}", "r${w[@]:1}", "${w[@]%n}", "${w[*]^^}", '"${w[@]:1}"', "$((-1))", "$((2-5))",
    "$(( 3 * 2 ))", "{01..1}", "{-01..1}", "{5..1..2}", "{a..b}{1..1}",
]  # fmt: skip


@pytest.mark.parametrize("word", VALUES)
def test_a_value_that_the_line_sets_is_what_bash_makes_of_it(tmp_path: Path, word: str) -> None:
    script = f"{SET}printf '%s\\0' {word}"
    ran = subprocess.run(
        ["/bin/bash", "--norc", "-c", script], capture_output=True, cwd=tmp_path, timeout=10, check=True, text=True
    )
    argv = read_line(script).units[-1].argv[2:]
    assert [value(each) for each in argv] == (ran.stdout.split("\0")[:-1] if argv else [])
    assert argv or ran.stdout == "\0"


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.sampled_from(["a", "b", " ", "\t", "'", '"', "\\_", "\\t", "\\c", "\\#", "#", "\\\\", "x y", "\\'"]),
        max_size=8,
    )
)
def test_env_cuts_its_text_as_the_reading_does(pieces: list[str]) -> None:
    text = "".join(pieces)
    ran = subprocess.run(
        ["/usr/bin/env", "-S", f"printf %s\\\\0 {text}"],
        capture_output=True,
        env={"PATH": "/usr/bin:/bin"},
        check=False,
    )
    if ran.returncode:
        return
    words = [word for word, _ in split(f"printf %s\\\\0 {text}")]
    assert words[2:] == (ran.stdout.decode().split("\0")[:-1] if words[2:] else [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("~/x", ["~/x"]),
        ('"$HOME"/x', ["~/x"]),
        ("${HOME}", ["~"]),
        ("'~'", ["~"]),
        ("a{b,c{d,e}}f", ["abf", "acdf", "acef"]),
        ("$'\\e\\x41\\102'", ["\x1bAB"]),
        ('"a\\b\\$"', ["a\\b$"]),
        ("a\\\nb", ["ab"]),
        ("x=1", ["x=1"]),
        ("$unknown", ["$unknown"]),
        ("a$(id)b", ["a$(id)b"]),
    ],
)
def test_values_of_words(text: str, words: list[str]) -> None:
    unit = read_line(f"echo {text}").units[-1]
    assert [word.text for word in unit.argv[1:]] == words


def test_home_is_told_from_a_quoted_tilde() -> None:
    argv = read_line("echo ~ '~' \"$HOME\" ~/x ~root").units[0].argv
    assert [word.home for word in argv[1:]] == [True, False, True, True, True]
