"""What a line comes to: units, how they are reached, redirections, side doors, notes."""

import pytest

from antigravity_control.shell import Line, Requirement, Unit, matches_prefix, may_match_prefix, read_line


def names(line: Line) -> list[str | None]:
    return [unit.name for unit in line.units]


def unit(text: str, name: str) -> Unit:
    return next(unit for unit in read_line(text).units if unit.guess == name)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ls", ["ls"]),
        ("a | b && c || d; e & f", ["a", "b", "c", "d", "e", "f"]),
        ("a\nb", ["a", "b"]),
        ("if a; then b; else c; fi", ["a", "b", "c"]),
        ("for x in 1 2; do a; done", ["a", "a"]),
        ("case x in a) b;; c) d;; esac", ["b", "d"]),
        ("f() { a; }; f", ["a", "f", "a"]),
        ("echo $(a) `b` <(c) ${x:-$(d)}", ["a", "b", "c", "d", "echo"]),
        ("cat <<EOF\n$(a)\nEOF", ["a", "cat"]),
        ("cat <<'EOF'\n$(a)\nEOF", ["cat"]),
        ("sudo nice -n 5 timeout 3 a b", ["sudo", "nice", "timeout", "a"]),
        ("sh -c 'a; b'", ["sh", "a", "b"]),
        ("eval a b", ["eval", "a"]),
        ("bash <<E\na\nE", ["bash", "a"]),
        ("echo a | sh", ["echo", "sh", "a"]),
        ("find . -exec a {} \\; -exec b {} +", ["find", "a", "b"]),
        ("xargs -I X a X", ["xargs", "a"]),
        ("trap 'a' EXIT", ["trap", "a"]),
        ("time a", ["a"]),
        ("! a", ["a"]),
        ("coproc N { a; }", ["a"]),
        ("x=1", []),
        ("# a", []),
        ("", []),
    ],
)
def test_every_command_of_a_line_is_a_unit(text: str, wanted: list[str]) -> None:
    assert names(read_line(text)) == wanted


def test_the_way_to_a_unit_is_kept() -> None:
    inner = unit("sudo sh -c 'echo $(ls)'", "ls")
    assert inner.via == ("wrapper:sudo", "sh -c", "substitution")
    assert inner.text == "ls"


@pytest.mark.parametrize("wrapper", ["env", "nice -n 5", "nohup", "timeout 5", "/usr/bin/env -i"])
def test_a_transparent_wrapper_needs_no_rule_of_its_own(wrapper: str) -> None:
    first, second = read_line(f"{wrapper} git status").units
    assert (first.role, second.role) == ("wrapper", "command")
    assert matches_prefix(second, ["git"])


@pytest.mark.parametrize("wrapper", ["sudo", "./env", "/tmp/timeout 5", "xargs", "stdbuf -oL", "env() { x; }; env"])
def test_any_other_wrapper_needs_one(wrapper: str) -> None:
    line = read_line(f"{wrapper} git status")
    wrapping = next(unit for unit in line.units if unit.guess in {"sudo", "env", "timeout", "xargs", "stdbuf"})
    assert wrapping.role == "command"


@pytest.mark.parametrize(
    ("text", "kind", "target"),
    [
        ("a > x", "write", "x"),
        ("a >| x", "write", "x"),
        ("a &> x", "write", "x"),
        ("a >& x", "write", "x"),
        ("a 2>> x", "append", "x"),
        ("a < x", "read", "x"),
        ("a <> x", "read_write", "x"),
        ("a > ~/x", "write", "~/x"),
        ("a > $x", "write", None),
        ("a 2>&1", "fd", "1"),
        ("a >&-", "fd", "-"),
        ("a < /dev/tcp/h/1", "network", "/dev/tcp/h/1"),
        ("a <<< x", "heredoc", None),
        ("{ a; } > x", "write", "x"),
        ("> x", "write", "x"),
    ],
)
def test_redirections_say_what_they_open(text: str, kind: str, target: str | None) -> None:
    (found,) = [one for unit in read_line(text).units for one in unit.redirections]
    assert (found.kind, found.target) == (kind, target)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a $(b)", "command substitution"),
        ("a <(b)", "process substitution"),
        ("a $((1))", "arithmetic expansion"),
        ("a {b,c}", "brace expansion"),
        ("$a b", "a command name that is not literal"),
        ("a < /dev/tcp/h/1", "a network redirection"),
        ("a >&3", "a descriptor redirection"),
        ("git -c a.b=c log", "git -c"),
        ("tar --to-command=x -xf a", "tar --to-command"),
        ("LD_PRELOAD=x a", "the variable LD_PRELOAD decides what runs"),
        ("PATH=x; a", "the variable PATH may change what the command does"),
        ('a "', 'the line does not read: " is missing'),
    ],
)
def test_what_switches_prefix_matching_off_is_named(text: str, reason: str) -> None:
    line = read_line(text)
    assert not line.literal
    assert reason in line.reasons


@pytest.mark.parametrize(
    "text",
    [
        "git log | head -5",
        "LC_ALL=C sort x && NO_COLOR=1 npm test",
        "echo \"$HOME\" $x '$(no)'",
        "ls *.py; git commit -m 'a && b | c; $(d)'",
        "env LANG=C git status",
        "awk '$3 > 100 {print $1}' x",
        "sed -e 's|a|b|g' -e '/x/d' f",
        "curl -XPOST -H 'A: o' http://x",
        "[[ -f x ]] && ls",
        "cat <<'EOF' | grep -c x\nrm -rf / `a` $(b)\nEOF",
        "for f in *.c; do gcc -Wall -c $f; done",
        "if grep -q x y; then echo z; fi",
    ],
)
def test_everyday_lines_keep_prefix_matching(text: str) -> None:
    line = read_line(text)
    assert (line.literal, line.understood, line.reasons) == (True, True, ())


@pytest.mark.parametrize(
    ("text", "requirement"),
    [
        ("sort -o out x", Requirement("write_file", "out", "sort -o")),
        ("sort --outp=out x", Requirement("write_file", "out", "sort --outp")),
        ("git diff --output=out", Requirement("write_file", "out", "git diff --output")),
        ("dd of=out if=in", Requirement("write_file", "out", "dd of=")),
        ("echo a | tee out", Requirement("write_file", "out", "tee")),
        ("curl -fo out http://x", Requirement("write_file", "out", "curl -o")),
        ("find . -fprint out", Requirement("write_file", "out", "find -fprint")),
        ("sed -n 'w out' x", Requirement("write_file", "out", "sed w")),
        ("sed -i s/a/b/ out", Requirement("write_file", "out", "sed -i")),
        ("rg --pre x y", Requirement("command", None, "rg --pre")),
        ("awk 'BEGIN{system(\"x\")}'", Requirement("command", None, "an awk program that runs commands")),
        ("sed 's/a/b/e' x", Requirement("command", None, "a sed substitution that runs its result")),
        ("vim +!x", Requirement("command", None, "vim +!x")),
    ],
)
def test_side_doors_are_requirements(text: str, requirement: Requirement) -> None:
    assert requirement in [one for unit in read_line(text).units for one in unit.extra]


def test_operands_are_files_that_a_deny_can_meet() -> None:
    assert Requirement("read_file", "secret/key", "cat") in unit("cat secret/key", "cat").touches
    assert Requirement("write_file", "secret", "rm") in unit("rm -r secret", "rm").touches
    assert unit("echo secret", "echo").touches == ()


def test_the_folder_of_a_unit_follows_cd() -> None:
    assert unit("cd /a && cd b && ls", "ls").cwd == "/a/b"
    assert unit("cd && ls", "ls").cwd == "~"
    assert unit("cd $x && ls", "ls").cwd is None
    assert read_line("ls", cwd="/w").units[0].cwd == "/w"


def test_deny_sees_the_folded_name_and_options_before_the_subcommand() -> None:
    for text in ("/usr/bin/git push", "git -C x push", "git --no-pager push", "g'i't push", "x=push; git $x"):
        assert matches_prefix(unit(text, "git"), ["git", "push"], folded=True), text
    assert not matches_prefix(unit("/tmp/git push", "git"), ["git"])
    assert may_match_prefix(unit("git $x", "git"), ["git", "push"])
    assert not may_match_prefix(unit("git log $x", "git"), ["git", "push"])


def test_segments_are_bounded() -> None:
    (one,) = read_line("echo " + "a" * 5_000).units
    assert len(one.text) == 400


@pytest.mark.parametrize(
    "text",
    ["Get-ChildItem C:\\", "del /s /q x", "rd /s /q %USERPROFILE%", "$env:PATH", "cmd /c dir", "powershell -c x"],
)
def test_windows_lines_are_asked_about(text: str) -> None:
    line = read_line(text)
    assert line.dialect != "bash"
    assert not line.literal
    assert not line.understood


@pytest.mark.parametrize(
    "text",
    ["git diff HEAD^", "git show HEAD^^", "sed 's/%NAME%/x/' a", 'grep "%TITLE%" a', "dir /tmp", "rmdir /tmp/x"],
)
def test_lines_that_only_look_like_those_of_windows_are_read_as_bash(text: str) -> None:
    assert read_line(text).dialect == "bash"
    assert read_line(text).literal
