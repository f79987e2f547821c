"""Patterns of rules: the same answers as ``re`` where both know the pattern, in linear time, and nothing silently
misread."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antigravity_control.shell import Pattern, PatternError, compile_tokens, matches_regex_tokens, read_line

PARTS = st.sampled_from(
    ["a", "b", "-", ".", "\\.", "\\d", "\\w", "[ab]", "[^a]", "[a-c]", "(a|b)", "(?:ab)", "a*",
     "b+", "a?", "(ab)*", "a{2}",
     "(a|b){1,2}", "[0-9]{2,}", "()", "(a|)", "b{0}", "a+?"]
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(PARTS, max_size=5).map("".join), st.text("ab-.c01", max_size=8))
def test_answers_are_those_of_re(pattern: str, text: str) -> None:
    assert Pattern(pattern).fullmatch(text) == bool(re.fullmatch(pattern, text))


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", "a*a*a*a*a*a*b", "(.*)*x", "((a?){10}){10}"])
def test_time_is_linear(pattern: str) -> None:
    begin = time.process_time()
    assert not Pattern(pattern).fullmatch("a" * 10_000 + "c")
    assert time.process_time() - begin < 1


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "[", "a**", "*a", "a{3,1}", "a{1000}", "\\1", "(?=a)", "(?P<n>a)", "\\", "a^b", "(" * 100, "a" * 600],
)
def test_what_is_not_in_the_language_is_an_error(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


def test_case_can_be_folded() -> None:
    assert Pattern("(?i)Git[A-C]").fullmatch("gITb")


def test_each_pattern_token_covers_one_word() -> None:
    (unit,) = read_line("git log --oneline").units
    assert matches_regex_tokens(unit, compile_tokens("git (status|log)"))
    assert not matches_regex_tokens(unit, compile_tokens("git lo"))
    assert not matches_regex_tokens(unit, compile_tokens(".* .* .* .*"))
    assert not matches_regex_tokens(read_line("git $x").units[0], compile_tokens("git .*"))
