"""The text of a rule: what is one, what is not, and that what is not changes nothing."""

import pytest

from antigravity_control import ACTIONS, Policy, Rule, RuleFault, Source
from antigravity_control.language.grammar import McpTarget, Regex, parse_rule
from antigravity_control.language.scopes import Origin

HERE = Origin("global", "permissions.allow[0]", "settings.json")


def read(text: object) -> Rule | RuleFault:
    return parse_rule(text, "allow", HERE)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.requirement("B-002")
def test_every_action_takes_a_star(action: str) -> None:
    rule = read(f" {action}( * ) ")
    assert isinstance(rule, Rule)
    assert (rule.action, rule.parsed, rule.text) == (action, None, f"{action}(*)")


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("command(git  push\torigin)", ("git", "push", "origin")),
        ("unsandboxed(git push)", ("git", "push")),
        ("command(echo (a) $(b))", ("echo", "(a)", "$(b)")),
        ("command(git:*)", ("git:*",)),
        ("read_file(src/)", "src/"),
        ("write_file(/a (b)/c)", "/a (b)/c"),
        ("mcp(linter/*)", McpTarget("linter", None)),
        ("mcp(linter/run)", McpTarget("linter", "run")),
        ("mcp(a/b/c)", McpTarget("a", "b/c")),
    ],
)
def test_a_target_is_read_by_its_action(text: str, parsed: object) -> None:
    rule = read(text)
    assert isinstance(rule, Rule)
    assert rule.parsed == parsed


def test_a_pattern_has_one_part_for_each_word() -> None:
    rule = read("command(regex:npm run (build|lint))")
    assert isinstance(rule, Rule)
    assert isinstance(rule.parsed, Regex)
    assert [each.source for each in rule.parsed.tokens] == ["npm", "run", "(build|lint)"]


@pytest.mark.parametrize(
    "text",
    [
        "", "*", "command", "command git", "command()", "command(  )", "(git)", "shell(ls)", "Command(ls)",
        "command(ls) x", "command(ls", "command ls)", "x command(ls)", "command(regex:)", "command(regex:  )",
        "command(regex:a(b)", "command(regex:(a+)\\1)", "command(regex:(?=a)b)", "command(regex:(?<!a)b)",
        "command(regex:[z-a])", "command(regex:" + "a" * 2_000 + ")", "command(regex:(((a{60}){60}){60}))",
        "command(a\0b)", "mcp(linter)", "mcp(/run)", "mcp(linter/)", "read_url(https://a.test)",
        "read_url(a.test/x)", "read_url(a.test:80)", "read_url(*.a.test)", "read_url(a b)", "read_url(a..b)",
        "read_url(user@a.test)", "execute_url(-a-.test)", "command(" + "x" * 9_000 + ")", None, 7, ["command(ls)"],
        {"command": "ls"}, True,
    ],
)  # fmt: skip
@pytest.mark.requirement("B-001")
def test_what_is_no_rule_is_a_fault_with_its_place_and_never_its_text(text: object) -> None:
    fault = read(text)
    assert isinstance(fault, RuleFault)
    assert (fault.file, fault.place, fault.effect) == ("settings.json", "permissions.allow[0]", "ignored")
    assert fault.reason
    assert not isinstance(text, str) or len(text) < 8 or text not in str(fault)


def test_patterns_that_would_backtrack_for_ever_are_matched_in_bounded_time() -> None:
    # Each of these takes a backtracking matcher longer than the age of the universe.
    rules = ["command(regex:(a*)*b)", "command(regex:(a|a)*c)", "command(regex:(a|aa)+$)", "command(regex:(.*a){12})"]
    ruled = Policy.compile([Source("global", {"permissions": {"deny": rules}})], workspace="/w")
    assert len(ruled.rules) == len(rules)
    from antigravity_control import Request

    assert ruled.decide(Request("command", "a" * 2_000 + "!")).decision != "allow"


@pytest.mark.parametrize("text", ["read_file(/var/log/**)", "write_file(src/*.py)", "mcp(lin*/run)", "mcp(*/run)"])
def test_a_wildcard_where_none_is_taken_is_reported_and_matches_literally(text: str) -> None:
    ruled = Policy.compile([Source("global", {"permissions": {"allow": [text]}}, "s.json")], workspace="/w")
    assert [(fault.effect, fault.file, fault.place) for fault in ruled.faults] == [
        ("inert", "s.json", "permissions.allow[0]")
    ]
