"""What the reader takes a word for is what bash makes of it: expansions of values that a line gives itself.

bash runs here, with ``printf`` and text alone.
"""

import os
import shutil
import subprocess
import time

import pytest

from antigravity_control.floor import check
from antigravity_control.shell import read_line

MS_A_KIB = 100
"""Processor time; a healthy reading takes a tenth of it."""
VALUE = "aB/cd.e/aB-x"
EXPANSIONS = [
    "${x}", "${x#a}", "${x#*/}", "${x##*/}", "${x%/*}", "${x%%/*}", "${x%.*}", "${x#zz}", "${x%zz}", "${x#?}",
    "${x%??}", "${x##[ab]}", "${x/aB/q}", "${x//aB/q}", "${x//aB}", "${x/\\//_}", "${x//[a-c]/q}", "${x/zz/q}",
    "${x:2}", "${x:0:3}", "${x: -2}", "${x:1:-2}", "${x:4:2}", "${x^}", "${x^^}", "${x,,}", "${x:-y}", "${x-y}",
    "${x:+y}", "${x+y}", "${x:?y}", "${x:=y}", "${e:-y}", "${e:+y}", "${e:-a/b}", "${e:=y}", "${u:+y}", "${u+y}",
    "${x%\"/aB-x\"}", "${x%'/aB-x'}", "${x#\"a\"B}", "${x%\\?}",
]  # fmt: skip


@pytest.mark.skipif(os.name == "nt" or not shutil.which("bash"), reason="needs bash")
@pytest.mark.parametrize("quoted", [False, True], ids=["bare", "quoted"])
@pytest.mark.parametrize("expansion", EXPANSIONS)
def test_an_expansion_comes_to_what_bash_makes_of_it(expansion: str, quoted: bool) -> None:
    word = f'"{expansion}"' if quoted else expansion
    line = f"x={VALUE}; e=; unset u; printf '<%s>' {word}"
    ran = subprocess.run(["/bin/bash", "--norc", "-c", line], capture_output=True, text=True, timeout=30, check=True)
    read = read_line(line).units[-1].argv[2:]
    if all(each.known for each in read):
        assert ran.stdout == ("".join(f"<{each.text}>" for each in read) or "<>")


def test_most_expansions_of_a_known_value_are_known() -> None:
    words = [read_line(f"x={VALUE}; e=; unset u; printf '<%s>' {one}").units[-1].argv[2:] for one in EXPANSIONS]
    assert sum(all(each.known for each in found) for found in words) >= len(EXPANSIONS) - 2


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("set -- a b; shift; echo $1 $2", ["b"]),
        ("set -- a b c; shift 2; echo $1", ["c"]),
        ("set -e; set -- a; echo $@", ["a"]),
        ("set -o pipefail; echo $1", []),
        ("set -o pipefail a; echo $1", ["a"]),
        ('set -- a b; echo "$@"', ["a", "b"]),
        ('set --; echo "$@"', []),
        ("read -r a b <<< 'x y z'; echo $a", ["x"]),
        ("printf -v v %s-%s a b; echo $v", ["a-b"]),
        ("v=(a); v+=(b c); echo ${v[@]}", ["a", "b", "c"]),
        ("v='a*'; echo \"$v\"", ["a*"]),
        ("unset v; echo ${v}a", ["a"]),
    ],
)
def test_what_the_line_says_of_its_own_shell_is_known(line: str, values: list[str]) -> None:
    assert [word.text for word in read_line(line).units[-1].argv[1:]] == values


def test_a_pattern_counts_where_bash_expands_it() -> None:
    assert check("v='/*'; rm -rf $v") is not None
    assert check("v='/*'; rm -rf \"$v\"") is None
    assert check('for v in /*; do rm -rf "$v"; done') is not None


def test_a_here_document_that_does_not_read_hides_nothing_behind_it() -> None:
    hit = check("cat <<X\n$(a\nX\nreboot")
    assert hit is not None
    assert hit.entry == "power"
    assert check("cat <<X\nit costs $(5\nreboot\nX\nls") is None


def test_a_joined_line_is_read_as_a_whole_before_it_is_cut_into_parts() -> None:
    assert check('rm -rf "$HO\\\nME"') is not None
    assert check("$TOOL a \\\n --b\ncat > x <<'EOF'\nreboot\nEOF") is None


def test_an_option_before_a_command_does_not_multiply_the_work() -> None:
    assert check("-x " * 500 + "ls") is None
    assert check("-x -y reboot") is not None


@pytest.mark.parametrize(
    "text",
    [
        "cmd /c " * 4_000,
        "iex " * 6_000,
        "wmic " * 6_000,
        "fd . / -x " * 3_000,
        "dbus-send " + "login1" * 6_000,
        "python3 -c 'system(" + " " * 8_000 + "'",
        "perl -e '" + "while " * 2_000 + "'",
        "x=" + "a" * 1_000 + "; echo ${x//a*a*a*b/c} ${x%%*a*a*a*b} ${x##*a*a*a*b}",
        "unset x;" * 2_000,
        "while read x; do " * 1_000,
    ],
    ids=lambda text: text[:12],
)
def test_no_text_costs_more_than_its_length_allows(text: str) -> None:
    begin = time.process_time()
    check(text)
    spent = (time.process_time() - begin) * 1_000 / (len(text) / 1_024)
    assert spent < MS_A_KIB
