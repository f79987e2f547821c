"""The same decision for a person, and for programs in JSON lines."""

import json
from typing import Any

import pytest
from helpers.policies import policy

from antigravity_control import Request
from antigravity_control.jsonl import decide_vector, floor_vector


def test_an_explanation_says_what_was_decided_and_what_every_rule_said() -> None:
    ruled = policy(
        allow=["command(git)", "command(ls)", "read_file(/srv)"],
        ask=["command(make)"],
        deny=["command(git push)", "bad"],
    )
    text = ruled.explain(Request("command", "git status; git push \x1b[2J"))
    assert "decision: denied" in text
    assert "rule:     command(git push) (global)" in text
    assert "part:     git push" in text
    lines = {line.strip().partition("  [")[0]: line.rpartition(": ")[2] for line in text.splitlines() if "  [" in line}
    assert lines == {
        "deny  command(git push)": "matches",
        "ask   command(make)": "does not match",
        "allow command(git)": "matches",
        "allow command(ls)": "does not match",
        "allow read_file(/srv)": "does not match",
    }
    assert "permissions.deny[1]" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("action", "target"),
    [
        ("command", "ls > /etc/x"), ("command", "rm -rf /"), ("command", "\"'"), ("read_file", "/etc/x"),
        ("mcp", "a/b"),
        ("write_file", "a"), ("read_url", "https://a.test"), ("execute_url", "?"), ("unsandboxed", "ls"), ("mcp", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["interactive", "headless"])
def test_an_explanation_agrees_with_the_decision(action: Any, target: str, mode: Any) -> None:
    ruled = policy(mode=mode, allow=["command(ls)", "mcp(a/*)"], deny=["read_file(/etc)"])
    made = ruled.decide(Request(action, target))
    text = ruled.explain(Request(action, target))
    words = {"allow": "allowed", "ask": "ask", "deny": "denied"}
    assert f"decision: {words[made.decision]}" in text
    assert made.reason in text
    assert ("soft" in text) == made.soft
    assert all(rule in text for rule in made.remedies)


def test_an_explanation_of_many_rules_stays_short() -> None:
    ruled = policy(deny=[f"command(tool-{number})" for number in range(1_000)])
    text = ruled.explain(Request("command", "tool-7"))
    assert "command(tool-7)" in text
    assert "and 800 more" in text


VECTOR = {
    "id": "v", "settings": {"permissions": {"deny": ["command(rm)"]}}, "workspace": "/w", "mode": "interactive",
    "flags": [], "call": {"action": "command", "target": "rm x"},
}  # fmt: skip


def test_one_object_in_one_object_out() -> None:
    assert decide_vector(VECTOR) == {
        "id": "v", "decision": "deny", "soft": False, "reason": "The rule `command(rm)` denies this command.",
        "source": "rule", "rule": "command(rm)",
    }  # fmt: skip
    assert decide_vector({**VECTOR, "flags": None, "mode": "headless", "settings": {}})["soft"] is True
    assert json.loads(json.dumps(decide_vector(VECTOR)))["decision"] == "deny"


@pytest.mark.parametrize("value", [{}, {"settings": None}, {"mode": None}, {"flags": None}, {"id": None}, {"more": 1}])
def test_beside_the_call_and_the_workspace_everything_may_be_left_out(value: dict[str, Any]) -> None:
    call = {"action": "command", "target": "rm x"}
    made = decide_vector({"workspace": "/w", "call": {**call, "cwd": None, "more": 1}, **value})
    assert (made["decision"], made["soft"], made["id"]) == ("ask", False, None)
    assert (
        decide_vector({"workspace": ["/w", "/v"], "call": {"action": "read_file", "target": "/v/x"}, **value})[
            "decision"
        ]
        == "allow"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"call": None}, {"call": {"action": "shell", "target": "x"}}, {"call": {"action": "command"}},
        {"call": {"action": ["command"], "target": "x"}}, {"call": {"action": "command", "target": 3}},
        {"workspace": None}, {"workspace": "w"}, {"workspace": []}, {"workspace": [1]}, {"workspace": "\0"},
        {"mode": "loud"}, {"mode": ["headless"]}, {"settings": []}, {"flags": "x"},
        {"flags": [1]},
    ],
)  # fmt: skip
def test_bad_input_is_answered_with_its_id_and_never_with_a_decision(change: dict[str, Any]) -> None:
    answer = decide_vector({**VECTOR, **change})
    assert answer["id"] == "v"
    assert answer["error"]
    assert "decision" not in answer


@pytest.mark.parametrize("item", [None, [], "x", 3, {}, {"id": 1}])
def test_what_is_no_object_is_answered(item: object) -> None:
    for answer in (decide_vector(item), floor_vector(item)):
        assert answer["error"]
        assert "decision" not in answer


@pytest.mark.requirement("B-037")
def test_the_floor_alone() -> None:
    assert floor_vector({"id": 1, "command": "echo 'rm -rf /'"}) == {
        "id": 1, "decision": "pass", "entry": None, "reason": None,
    }  # fmt: skip
    hit = floor_vector({"id": 2, "command": "sudo rm -rf /"})
    assert (hit["id"], hit["decision"]) == (2, "deny")
    assert hit["entry"]
    assert hit["reason"].startswith("hardline floor")
