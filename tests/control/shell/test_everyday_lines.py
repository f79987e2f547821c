"""Lines that coding agents run every day, each with the rules that a person has for it. No line is ever run.

Where bash can make nothing else of a line its first words are enough; where they are not, the very line is.
"""

import json
from pathlib import Path

import pytest
from helpers.policies import judged, policy

from antigravity_control import Request

TABLE = json.loads((Path(__file__).parent / "everyday_lines.json").read_text(encoding="ascii"))
ALLOWED, ASKED = ([(rules.split("|"), line) for rules, line in group["lines"]] for group in TABLE)
#: Lines that write a named file outside the workspace: no rule about the command speaks of that.
ELSEWHERE = {"git log --output=/tmp/x"}
#: Nothing more can be said to a question about these.
MUTE = {"cat a > /dev/fd/2"}


def rules(names: list[str]) -> list[str]:
    return [name if name.startswith("read_url(") else f"command({name})" for name in names]


@pytest.mark.requirement("B-003")
def test_first_words_are_enough_for_everyday_lines() -> None:
    made = [(line, judged("command", line, allow=rules(names))) for names, line in ALLOWED]
    assert len(made) > 1_000
    assert [(line, each.reason) for line, each in made if each.decision != "allow"] == []


@pytest.mark.requirement("B-003")
def test_first_words_are_not_enough_where_bash_may_make_something_else_of_a_line() -> None:
    assert [line for names, line in ASKED if judged("command", line, allow=rules(names)).decision != "ask"] == []


@pytest.mark.requirement("B-003")
def test_the_rule_that_is_the_very_line_allows_it() -> None:
    made = [(line, judged("command", line, allow=[f"command({line})"])) for _, line in ASKED if line not in ELSEWHERE]
    assert [(line, each.reason) for line, each in made if each.decision != "allow"] == []


@pytest.mark.parametrize("mode", ["interactive", "headless"])
def test_rules_that_are_offered_let_the_line_run(mode: str) -> None:
    some = {"allow": ["command(git)", "command(echo)"], "deny": ["command(rm)", "read_file(secret)"]}
    for settings in ({}, some):
        asking = policy(mode=mode, **settings)
        for line in [line for _, line in (*ALLOWED, *ASKED)]:
            made = asking.decide(Request("command", line))
            if made.decision == "allow" or (made.decision == "deny" and not made.soft):
                continue
            assert made.remedies or line in MUTE, line
            granted = policy(mode=mode, **{**settings, "allow": [*settings.get("allow", []), *made.remedies]})
            assert granted.decide(Request("command", line)).decision == "allow" or not made.remedies, line
