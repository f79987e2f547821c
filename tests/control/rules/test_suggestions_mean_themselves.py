"""A rule that is offered stands for what was asked about, never for more."""

import pytest

from antigravity_control import Policy, Request, Source, rules_for
from antigravity_control.language.actions import ActionName


@pytest.mark.parametrize(
    ("action", "target"),
    [
        ("command", "regex:.*"),
        ("command", " regex:.* "),
        ("command", "*"),
        ("read_file", "*"),
        ("write_file", "*"),
        ("mcp", "server/*"),
        ("mcp", "*"),
        ("unsandboxed", "regex:rm .*"),
    ],
)
def test_a_target_that_would_be_a_pattern_is_offered_no_rule(action: ActionName, target: str) -> None:
    assert rules_for(action, target) == ()
    policy = Policy.compile([], workspace="/w")
    decision = policy.decide(Request(action, target))
    granted = policy.with_grants(decision.remedies)
    for other in ("rm x", "/etc/passwd", "other/tool"):
        asked = Request(action, other)
        assert granted.decide(asked).decision == policy.decide(asked).decision


def test_an_ordinary_target_is_offered_its_rule() -> None:
    assert rules_for("command", "make all") == ("command(make all)",)
    policy = Policy.compile([Source("plugin", {"permissions": {"allow": ["command(git status)"]}})], workspace="/w")
    assert policy.decide(Request("command", "git status -s")).decision == "allow"
