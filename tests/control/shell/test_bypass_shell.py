"""What the shell itself can do beside the commands of a line: set variables, work out words, change the folder."""

import pytest
from helpers.policies import verdict

from antigravity_control.shell import read_line

NAMES = (
    "ls echo cd pushd read printf mapfile getopts wait unset let declare test [ true export hash trap set builtin",
    "command eval git exit make",
)
ALLOWED = [f"command({name})" for line in NAMES for name in line.split()]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("read PATH <<< /tmp; ls", "another program goes by the name"),
        ("read -r LD_PRELOAD < x; ls", "a library is loaded"),
        ("printf -v PATH %s /tmp; ls", "printf sets variables"),
        ("printf -vPATH /tmp; ls", "attached"),
        ("mapfile -t PATH < x; ls", "an array's first element is the variable"),
        ("for PATH in /tmp; do ls; done", "a loop sets its variable"),
        ("getopts a PATH; ls", "getopts sets one"),
        (": ${PATH:=/tmp}; ls", "an expansion that assigns"),
        ('echo "${GIT_PAGER:=x}"; git log', "the same in quotes"),
        ("wait -p PATH; ls", "wait sets one"),
        ("unset PATH; ls", "without it the current folder is searched"),
        ("set -k; ls A=b", "assignments anywhere in a line"),
        ("hash -rp /tmp/x ls; ls", "-p in a cluster"),
        ("let x", "the value of a variable is worked out"),
        ("let y=x+1", "on the right side too"),
        ("declare -i y; y=x; ls", "whatever is assigned is worked out"),
        ("echo ${y:x}", "a place is worked out"),
        ("echo ${y[x]}", "an index is worked out"),
        ("[[ $x -eq 1 ]] && ls", "numbers are worked out before they are compared"),
        ("[[ x -lt 2 ]] && ls", "a bare name is a variable there"),
        ('test -v "$x"; ls', "the name may hold an index"),
        ('printf -v "$x" y', "the same where a name is set"),
        ('read "$x"', "and where it is read"),
        ("trap 'cd ..' DEBUG; echo > x", "runs before each of the next commands"),
    ],
)
def test_prefixes_cannot_stand_for(line: str, why: str) -> None:
    assert verdict("command", line, allow=[*ALLOWED, "command(:)"]) == "ask", why


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("cd nosuch; echo x > ../escape", "the change of folder may fail"),
        ("cd a/b; echo x > ../../../escape", "the same deeper"),
        ("cd nosuch && true; echo x > ../escape", "after the chain nobody knows"),
        ("false && cd a; echo x > ../escape", "it may not even be tried"),
        ("if false; then cd a; fi; echo x > ../escape", "the body may not run"),
        ("cd a; cd b; echo x > ../../x", "either of two may fail"),
        ("cd a/b && while cd ..; do echo x > f; done", "a loop goes on and on"),
        ("cd -LP ..; echo > x", "options in a cluster"),
        ("cd -@ ..; echo > x", "an option that few know"),
        ("command -p cd ..; echo > x", "behind an option of command"),
        ("builtin -- cd ..; echo > x", "behind the end of options"),
        ("pushd +1; echo > x", "a folder of the stack"),
    ],
)
def test_a_line_may_write_outside_when_its_folder_is_not_sure(line: str, why: str) -> None:
    rules = [*ALLOWED, "command(false)"]
    assert verdict("command", line, allow=rules) == "ask", why
    assert verdict("command", line, allow=["command(*)"], deny=["write_file(/x)", "write_file(/escape)"]) != "allow"


@pytest.mark.parametrize(
    "line",
    [
        "cd a && echo x > ../out",
        "cd a && cd b && echo x > ../../out",
        "cd a; echo x > out",
        "cd a || exit; echo x > out",
        "{ echo a; echo b; } > out",
        "(cd a && make) > log",
        "cd a && make > log && cd .. && echo done > log",
        "for d in a b; do (cd $d && make); done",
        "for d in a b; do cd $d; make; cd ..; done",
        "if true; then echo a; fi > out",
        "while IFS= read -r line; do echo \"$line\"; done < a",
        "read -p 'Name: ' x; echo \"$x\"",
        "for f in *.py; do echo $f; done",
        "[[ $? -eq 0 ]] && echo ok",
        "[[ $# -gt 0 ]] || echo none",
        "let i=1",
        "echo ${x:0:3} ${a[0]} ${a[@]}",
        "printf -v out '%s' x; echo \"$out\"",
    ],
)  # fmt: skip
def test_everyday_forms_of_the_same_stay_allowed(line: str) -> None:
    assert verdict("command", line, allow=ALLOWED) == "allow"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("echo ''''", [""]),
        ("echo a \"\"''", ["a", ""]),
        ("echo ~:", ["~:"]),
        ("cat ~:/x", ["~:/x"]),
    ],
)
def test_words_at_the_edge_are_what_bash_makes_of_them(line: str, words: list[str]) -> None:
    found = read_line(line).units[0].argv[1:]
    assert [word.text for word in found] == words
    assert all(word.home for word in found if word.text.startswith("~"))
    assert [piece.text for word in found for piece in word.pieces if piece.kind == "home"] == ["~"] * line.count("~")
