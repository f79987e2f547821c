"""The decision by tool name: strictness, headless denials, malformed rules."""

import pickle
import random

import pytest

from antigravity_control import Call, Decision, DecisionContext, Rules, RulesError, decide, nobody_to_ask, strictest


def judged(rules: str, name: str, *, headless: bool = False) -> Decision:
    return decide(Call(name, {"secret": "hunter2"}), DecisionContext(Rules.parse(rules), headless))


@pytest.mark.parametrize(
    ("rules", "name", "decision", "rule"),
    [
        ("read_file", "read_file", "allow", "read_file"),
        ("read_file", "write_file", "ask", None),
        ("*", "anything", "allow", "*"),
        ("*,!run_command", "run_command", "deny", "!run_command"),
        ("run_command,!*", "run_command", "deny", "!*"),
        ("run_command,?*", "run_command", "ask", "?*"),
        ("?run_command,*", "run_command", "ask", "?run_command"),
        ("!a,?a,a", "a", "deny", "!a"),
        (" a , !b ", "b", "deny", "!b"),
        ("", "a", "ask", None),
    ],
)
def test_deny_beats_ask_beats_allow_however_specific(rules: str, name: str, decision: str, rule: str | None) -> None:
    answer = judged(rules, name)
    assert (answer.decision, answer.rule) == (decision, rule)
    assert answer.reason
    assert "hunter2" not in answer.reason
    assert answer.source == ("default" if rule is None else "rule")


def test_the_order_of_rules_never_matters() -> None:
    items = ["a", "!a", "?b", "b", "*", "!c", "?c"]
    shuffled = random.Random(7)
    expected = {name: judged(",".join(items), name).decision for name in "abcd"}
    for _ in range(50):
        shuffled.shuffle(items)
        assert {name: judged(",".join(items), name).decision for name in "abcd"} == expected


@pytest.mark.parametrize(
    "rules", ["a,,b", ",", "a b", "!", "!!a", "?!a", "a,*x", "read_file;rm", "a\n,b c", "!*a", "ü"]
)
def test_a_malformed_rule_is_an_error_and_widens_nothing(rules: str) -> None:
    with pytest.raises(RulesError) as caught:
        Rules.parse(rules)
    assert "expected" in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).position == caught.value.position


def test_the_error_names_the_position() -> None:
    with pytest.raises(RulesError, match="rule 3 is not valid"):
        Rules.parse("a,b,c d")


@pytest.mark.parametrize("rules", ["", "?run_command", "?*,run_command"])
def test_headless_an_ask_is_a_soft_denial_that_names_a_remedy(rules: str) -> None:
    answer = judged(rules, "run_command", headless=True)
    assert (answer.decision, answer.soft, answer.source) == ("deny", True, "headless")
    assert "run_command" in answer.reason


def test_headless_the_remedy_really_allows_the_call() -> None:
    assert "the rule `run_command` would allow it" in judged("", "run_command", headless=True).reason
    assert judged("run_command", "run_command", headless=True).allowed


def test_headless_a_denial_by_rule_is_not_soft() -> None:
    answer = judged("!run_command", "run_command", headless=True)
    assert (answer.decision, answer.soft) == ("deny", False)


def test_the_strictest_decision_wins_and_the_first_of_equals() -> None:
    ranked = [Decision(kind, kind, "hook:a") for kind in ("allow", "ask", "force_ask", "deny")]
    for size in range(1, 5):
        assert strictest(ranked[:size]) is ranked[size - 1]
        assert strictest(reversed(ranked[:size])) is ranked[size - 1]
    first, second = Decision("deny", "1", "hook:a"), Decision("deny", "2", "hook:b")
    assert strictest([first, second]) is first
    assert strictest([]) is None


def test_the_ask_of_a_hook_is_denied_softly_where_nobody_is() -> None:
    answer = nobody_to_ask(Call("x"), Decision("force_ask", "because", "hook:a"))
    assert (answer.decision, answer.soft) == ("deny", True)
    assert "a person can answer" in answer.reason
