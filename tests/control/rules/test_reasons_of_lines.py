"""Why a line of several commands is allowed: every rule that it took is named."""

import pytest

from antigravity_control import Policy, Request, Source


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("cd sub && make -j2", "The rules `command(cd)` and `command(make)` allow this command."),
        ("cd sub && cd deeper", "The rule `command(cd)` allows this command."),
        ("make", "The rule `command(make)` allows this line."),
        (
            "cd a; make; ls; date; id; make",
            "The rules `command(cd)`, `command(make)`, `command(ls)`, `command(date)` and 1 more allow this command.",
        ),
    ],
)
def test_every_rule_that_lets_a_part_run_is_named_and_the_first_stands_for_them(line: str, reason: str) -> None:
    rules = [f"command({name})" for name in ("cd", "make", "ls", "date", "id")]
    policy = Policy.compile([Source("plugin", {"permissions": {"allow": rules}})], workspace="/w", home="/home/me")
    made = policy.decide(Request("command", line))
    assert (made.decision, made.reason) == ("allow", reason)
    assert made.rule == f"command({line.split()[0]})"
