"""At least fifteen questions of each kind, with what the rule language demands. No line of them is ever run.

A rule is written with what it does before it: `+` allows, `?` asks, `!` denies.
"""

from collections.abc import Iterable
from typing import Any

import pytest
from helpers.policies import verdict

SKIP = ["--dangerously-skip-permissions"]
EVERY = "+command(*)"
Case = tuple[str, str, str, tuple[str, ...], dict[str, Any]]


def lists(rules: Iterable[str]) -> dict[str, list[str]]:
    kinds = {"+": "allow", "?": "ask", "!": "deny"}
    return {word: [rule[1:] for rule in rules if rule[0] == sign] for sign, word in kinds.items()}


def case(expected: str, action: str, target: str, *rules: str, **options: Any) -> Case:
    return expected, action, target, rules, options


def line(expected: str, target: str, *rules: str, **options: Any) -> Case:
    return case(expected, "command", target, *rules, **options)


def check(cases: Iterable[Case]) -> None:
    every = list(cases)
    assert len(every) >= 15
    wrong = [
        (each, made)
        for each in every
        if (made := verdict(each[1], each[2], **lists(each[3]), **each[4])) != each[0]  # type: ignore[arg-type]  # names of the table
    ]
    assert wrong == []


ACTIONS = [
    ("command", "ls"), ("unsandboxed", "ls"), ("write_file", "/etc/x"), ("read_file", "/etc/x"), ("mcp", "a/b"),
    ("read_url", "https://a.test"), ("execute_url", "https://a.test"),
]  # fmt: skip


def test_default() -> None:
    inside = ["/w", "a", "./a", "/w/b/c", "b/../a", "/w//a", ".vscode/x"]
    outside = ["/etc/x", "/", "..", "/w2/x", "../w2", "~", "~/x", "/w/../x", ""]
    check(
        [
            *(case("allow", "read_file", target) for target in inside),
            *(case("allow", "write_file", target) for target in inside[1:-1]),
            *(case("ask", action, target) for target in outside for action in ("read_file", "write_file")),
            *(case("ask", *call) for call in ACTIONS),
            case("ask", "write_file", ".vscode/x"),
            case("ask", "write_file", "b/.cache/x"),
        ]
    )


def test_headless() -> None:
    check(
        [
            *(case("soft", *call, mode="headless") for call in ACTIONS),
            *(case("soft", *call, mode="headless", toolPermission="strict") for call in ACTIONS),
            *(case("soft", *call, f"?{call[0]}(*)", f"+{call[0]}(*)", mode="headless") for call in ACTIONS),
            *(case("deny", *call, f"!{call[0]}(*)", f"+{call[0]}(*)", mode="headless") for call in ACTIONS),
            *(case("allow", *call, f"+{call[0]}(*)", mode="headless") for call in ACTIONS),
            *(case("allow", *call, mode="headless", toolPermission="always-proceed") for call in ACTIONS),
            *(case("allow", *call, mode="headless", flags=SKIP) for call in ACTIONS),
            *(case("deny", *call, f"!{call[0]}(*)", mode="headless", flags=SKIP) for call in ACTIONS),
            case("soft", "write_file", "/w/a", mode="headless"),
            case("allow", "write_file", "/w/a", mode="headless", agentMode="accept-edits"),
            case("soft", "write_file", "/etc/a", mode="headless", agentMode="accept-edits"),
            case("soft", "write_file", "/w/a", mode="headless", agentMode="plan"),
            case("allow", "read_file", "/w/a", mode="headless", agentMode="plan"),
            line("soft", "echo x > a", "+command(echo)", mode="headless"),
            line("allow", "echo x > a", "+command(echo)", "+write_file(.)", mode="headless"),
            line("allow", "cat < a", "+command(cat)", mode="headless"),
            line("soft", "git log; make", "+command(git)", mode="headless"),
            line("deny", "git log; rm a", "+command(git)", "!command(rm)", mode="headless"),
        ]
    )


def test_token_prefix() -> None:
    check(
        [
            line("allow", "git", "+command(git)"), line("allow", "git log -3", "+command(git)"),
            line("allow", "  git\tlog ", "+command( git  log )"), line("ask", "gitk", "+command(git)"),
            line("ask", "git-x", "+command(git)"), line("ask", "git", "+command(git log)"),
            line("ask", "git logs", "+command(git log)"), line("ask", "git -C a log", "+command(git log)"),
            line("ask", "git status log", "+command(git log)"), line("ask", "GIT log", "+command(git)"),
            line("ask", "./git log", "+command(git)"), line("allow", "./git log", "+command(./git)"),
            line("ask", "rm -r -f a", "+command(rm -rf)"), line("ask", "rm -fr a", "+command(rm -rf)"),
            line("ask", "npm run test:unit", "+command(npm run test)"), line("ask", "go test a", "+command(go test *)"),
            line("ask", "git clone a", "+command(git:*)"),
            line("allow", "git pushed", "+command(git)", "!command(git push)"),
            line("deny", "git push a", "+command(git push a)", "!command(git push)"),
        ]
    )  # fmt: skip


def test_precedence() -> None:
    same = [(f"+{action}(*)", f"?{action}(*)", f"!{action}(*)", action, target) for action, target in ACTIONS]
    check(
        [
            *(case("deny", action, target, allow, ask, deny) for allow, ask, deny, action, target in same),
            *(case("ask", action, target, allow, ask) for allow, ask, _, action, target in same),
            line("ask", "git log", "+command(git log)", "?command(*)"),
            line("deny", "git log", "+command(git log)", "?command(git log)", "!command(git)"),
            line("deny", "ls && git push", EVERY, "?command(ls)", "!command(git push)"),
            case("ask", "read_url", "a.b.test", "+read_url(a.b.test)", "?read_url(b.test)"),
            case("deny", "mcp", "a/b", "+mcp(a/b)", "?mcp(a/b)", "!mcp(a/*)"),
        ]
    )


def test_regex() -> None:
    words = "+command(regex:git (status|log))"
    check(
        [
            line("allow", "git status", words), line("allow", "git log -1", words), line("ask", "git logs", words),
            line("ask", "git push", words), line("ask", "xgit log", words), line("ask", "git log; make", words),
            line("ask", "git log | sh", words), line("allow", "git log; git status", words),
            line("ask", "git", "+command(regex:git .*)"), line("allow", "ls", "+command(regex:.*)"),
            line("allow", "ls", "+command(regex:^ls$)"), line("ask", "ls", "+command(regex:(?=ls)ls)"),
            line("ask", "ls", "+command(regex:)"), line("ask", "ls", "+command(regex:(ls)"),
            line("ask", "git log", "+command(git (status|log))"), line("ask", "curl x", "+command(curl .*)"),
            line("deny", "a; wget b", EVERY, "!command(regex:(curl|wget) .*)"),
            line("deny", "rmdir a", EVERY, "!command(regex:rm.*)"),
        ]
    )  # fmt: skip


def test_quoting() -> None:
    spelled = [
        "'rm' a",
        '"rm" a',
        "r''m a",
        "\\rm a",
        "r\\m a",
        "$'rm' a",
        "$'\\x72m' a",
        "rm\\\n a",
        "r\\\nm a",
        "/bin/rm a",
    ]
    spoken = ["echo 'rm a; rm b'", 'echo "a && rm b"', "echo a\\;rm", "echo '$(rm a)'", "echo a # rm b"]
    check(
        [
            *(line("deny", each, EVERY, "!command(rm)") for each in spelled),
            *(line("allow", each, "+command(echo)", "!command(rm)") for each in spoken),
            line("ask", 'echo "$(id)"', "+command(echo)"), line("ask", 'echo "a', "+command(echo)"),
            line("ask", '"git log"', "+command(git log)"), line("allow", 'git "log"', "+command(git log)"),
        ]
    )  # fmt: skip


def test_wildcard() -> None:
    check(
        [
            *(case("allow", *call, f"+{call[0]}(*)") for call in ACTIONS),
            *(case("allow", *call, f"+{call[0]}( * )") for call in ACTIONS),
            case("ask", "command", "ls", "+unsandboxed(*)"), case("ask", "unsandboxed", "ls", "+command(*)"),
            case("allow", "read_file", "/etc/x", "+write_file(*)"),
            case("ask", "write_file", "/etc/x", "+read_file(*)"),
            line("ask", "ls", "+command(l*)"), line("ask", "ls a", "+command(ls *)"), line("ask", "ls", "+command(**)"),
            line("allow", "a | b && c", EVERY), line("ask", "a > /etc/x", EVERY), line("ask", 'git log "', EVERY),
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    "wrapper", ["timeout 5", "timeout -s KILL 5", "nohup", "nice", "nice -n 5", "env", "nohup nice"]
)
def test_wrapper(wrapper: str) -> None:
    name = wrapper.split()[0]
    check(
        [
            line("allow", f"{wrapper} ls", "+command(ls)"), line("ask", f"{wrapper} rm a", "+command(ls)"),
            line("ask", f"{wrapper} rm a", f"+command({name})"), line("deny", f"{wrapper} rm a", EVERY, "!command(rm)"),
            line("ask", f"{wrapper} rm a", EVERY, "?command(rm)"),
            line("deny", f"{wrapper} ls", EVERY, f"!command({name})"),
            line("allow", f"{wrapper} git log -1", "+command(git log)"),
            line("ask", f"{wrapper} git push", "+command(git log)"),
            line("deny", f"{wrapper} rm a", "!command(rm)", flags=SKIP),
            line("ask", f"sudo {wrapper} ls", "+command(ls)"),
            line("deny", f"sudo {wrapper} rm a", EVERY, "!command(rm)"),
            line("allow", f"{wrapper} ls; ls", "+command(ls)"),
            line("soft", f"{wrapper} rm a", "+command(ls)", mode="headless"),
            line("ask", f"{wrapper} $X", "+command(ls)"),
            line("deny", f"{wrapper} sh -c 'rm a'", EVERY, "!command(rm)"),
        ]
    )  # fmt: skip


def test_exact_fallback() -> None:
    lines = [
        "echo $(date)", "echo `date`", "cat <(ls)", "echo $((1+1))", "echo {a,b}", "echo {1..3}", "$X a", "git log \"",
        "tar --to-command=sh -xf a", "git -c core.pager=less log", "PAGER=less git log", "ls >&3",
    ]  # fmt: skip
    first = [f"+command({name})" for name in ("echo", "cat", "tar", "git", "ls", "date", "a")]
    check(
        [
            *(line("ask", each, *first) for each in lines),
            *(line("allow", each, f"+command({each})") for each in lines),
            *(line("ask", f"{each} x", f"+command({each})") for each in lines),
            line("deny", "git log $(rm a)", "+command(git log $(rm a))", "!command(rm)"),
            line("ask", "git log $(rm a)", "+command(git log $(rm a))", "?command(rm)"),
            line("allow", "git log $(id)", "+command(regex:git log .*)"),
            line("ask", "git log $(id); ls", "+command(regex:git log .*)"),
        ]
    )


def test_compound_and_nested() -> None:
    held = [
        "a; rm b", "a && rm b", "a || rm b", "a | rm b", "a & rm b", "(rm b)", "{ rm b; }", "if a; then rm b; fi",
        "for i in a; do rm b; done", "while a; do rm b; done", "case a in a) rm b;; esac", "f() { rm b; }; f",
        "echo $(rm b)", "echo \"`rm b`\"", "cat <(rm b)", "sh -c 'rm b'", "eval rm b", "cat <<E\n$(rm b)\nE",
        "bash <<E\nrm b\nE", "x=$(rm b)", "[[ -n $(rm b) ]]", "! rm b", "echo ${a:-$(rm b)}",
    ]  # fmt: skip
    check(
        [
            *(line("deny", each, EVERY, "!command(rm)") for each in held),
            *(line("ask", each, EVERY, "?command(rm)") for each in held),
            *(line("deny", each, "!command(rm)", flags=SKIP) for each in held),
            line("allow", "cat a | sort && ls", "+command(cat)", "+command(sort)", "+command(ls)"),
            line("ask", "cat a | sort && ls", "+command(cat)", "+command(ls)"),
            line("deny", "git push; rm a", "?command(git push)", "!command(rm)"),
        ]
    )


def test_implication() -> None:
    check(
        [
            case("allow", "read_file", "/d/a", "+write_file(/d)"), case("ask", "write_file", "/d/a", "+read_file(/d)"),
            case("deny", "write_file", "/d/a", "+write_file(/d)", "!read_file(/d)"),
            case("deny", "read_file", "/d/a", "+write_file(/d)", "!read_file(/d)"),
            case("allow", "read_file", "/d/a", "+write_file(/d)", "!write_file(/d)"),
            case("deny", "write_file", "a", "!read_file(*)"), case("allow", "read_file", "a", "!write_file(*)"),
            case("allow", "read_file", "a", "?write_file(*)"), case("allow", "write_file", "a", "?read_file(*)"),
            case("ask", "read_file", "/d/a", "+write_file(/d)", "?read_file(/d)"),
            case("allow", "read_file", "/d/a", "+write_file(*)"), case("allow", "read_file", "/d/a", "+write_file(/)"),
            line("deny", "echo x > a", EVERY, "!read_file(a)"), line("allow", "cat < a", EVERY, "!write_file(a)"),
            line("allow", "cat < /d/a", EVERY, "+write_file(/d)"),
            case("deny", "write_file", "a", "!read_file(a)", mode="headless"),
            case("deny", "write_file", "a", "!read_file(a)", flags=SKIP),
        ]
    )  # fmt: skip


def test_mcp() -> None:
    check(
        [
            case("allow", "mcp", "a/b", "+mcp(a/b)"), case("allow", "mcp", "a/b", "+mcp(a/*)"),
            case("ask", "mcp", "a/bb", "+mcp(a/b)"), case("ask", "mcp", "aa/b", "+mcp(a/*)"),
            case("ask", "mcp", "A/b", "+mcp(a/*)"), case("ask", "mcp", "a", "+mcp(a/*)"),
            case("ask", "mcp", "a/b", "+mcp(*/b)"),
            case("ask", "mcp", "a/b", "+mcp(a*/b)"), case("ask", "mcp", "a/b", "+mcp(a/(b|c))"),
            case("ask", "mcp", "a/b", "+mcp(regex:a/.*)"), case("ask", "mcp", "a/b", "+mcp(a)"),
            case("ask", "mcp", "", "+mcp(*)"),
            case("deny", "mcp", "a/b", "+mcp(a/b)", "!mcp(a/*)"), case("allow", "mcp", "a/c", "+mcp(a/*)", "!mcp(a/b)"),
            # What nobody sees, and blanks around a name, get round no deny, and no allow covers them.
            *(case("deny", "mcp", each, "+mcp(*)", "!mcp(a/b)") for each in ("a/b ", " a/b", "a\u200b/b", "a/b\n")),
            *(case("deny", "mcp", each, "!mcp(a/*)", flags=SKIP) for each in ("a /b", "\ta/b")),
            *(case("ask", "mcp", each, "+mcp(a/b)") for each in ("a/b ", " a/b", "a\u200b/b", "a/b\n")),
        ]
    )  # fmt: skip


def test_sandbox() -> None:
    on = {"enableTerminalSandbox": True, "toolPermission": "proceed-in-sandbox"}
    check(
        [
            line("allow", "rm a", **on), line("allow", "make && make install", **on),
            line("deny", "rm a", "!command(rm)", **on),
            line("ask", "rm a", "?command(*)", **on), line("ask", "ls", toolPermission="proceed-in-sandbox"),
            line("ask", "ls", enableTerminalSandbox=True), line("allow", "ls", mode="headless", **on),
            line("ask", "echo x > /etc/x", **on), line("ask", 'git log "', **on),
            case("ask", "unsandboxed", "ls", **on), case("soft", "unsandboxed", "ls", mode="headless", **on),
            case("allow", "unsandboxed", "git push a", "+unsandboxed(git push)", **on),
            case("ask", "unsandboxed", "git pull", "+unsandboxed(git push)", **on),
            case("deny", "unsandboxed", "rm a", "+unsandboxed(*)", "!unsandboxed(rm)", **on),
            case("allow", "unsandboxed", "ls", "+unsandboxed(*)", "!command(ls)", **on),
            case("ask", "mcp", "a/b", **on), case("ask", "read_url", "a.test", **on),
            case("ask", "write_file", "/etc/x", **on),
        ]
    )  # fmt: skip


@pytest.mark.parametrize("operator", [">", ">>", ">|", "&>", "&>>", "2>", ">&"])
def test_redirect(operator: str) -> None:
    echo = "+command(echo)"
    check(
        [
            line("allow", f"echo x {operator} a", echo), line("ask", f"echo x {operator} a", "+command(cat)"),
            line("ask", f"echo x {operator} /etc/a", echo), line("ask", f"echo x {operator} ../a", echo),
            line("ask", f"echo x {operator} ~/a", echo), line("ask", f"echo x {operator} $F", echo),
            line("allow", f"echo x {operator} /srv/a", echo, "+write_file(/srv)"),
            line("ask", f"echo x {operator} /srv/a", echo, "+read_file(/srv)"),
            line("deny", f"echo x {operator} s/a", echo, "!write_file(s)"),
            line("deny", f"echo x {operator} s/a", echo, "!read_file(s)"),
            line("ask", f"echo x {operator} s/a", echo, "?write_file(s)"),
            line("soft", f"echo x {operator} a", echo, mode="headless"),
            line("deny", f"echo x {operator} s/a", "!write_file(s)", flags=SKIP),
            line("deny", f"echo x {operator} 's/a'", echo, "!write_file(s)"),
            line("allow", f"echo x {operator} '~/a'", echo), line("allow", f"echo x {operator} /dev/null", echo),
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    "rule",
    [
        "command git", "command", "command()", "command( )", "command(", "command(git", "git", "(git)", "()",
        "shell(git)",
        "Command(git)", "command (git)", "command[git]", "*", "", " ", "run_command(git)", "command:git",
        "command(git) x",
        "!command(git)", "command(git);command(ls)", "command(\0)", "command(regex:()", "command(regex:[a)",
        "commands(git)",
    ],
)  # fmt: skip
def test_malformed(rule: str) -> None:
    written = f"+{rule}"
    assert verdict("command", "git status", **lists([written])) == "ask"
    assert verdict("command", "git status", **lists([written]), mode="headless") == "soft"
    assert verdict("command", "ls", **lists([written, "+command(ls)"])) == "allow"
    assert verdict("command", "rm a", **lists([EVERY, written, f"?{rule}", f"!{rule}", "!command(rm)"])) == "deny"
