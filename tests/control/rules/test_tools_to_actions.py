"""From tool calls to actions, and whole calls judged with rules by tool name beside the policy."""

from typing import Any

import pytest
from helpers.policies import policy

from antigravity_control import Call, DecisionContext, Rules, RulesError, decide, requests_of

SKIP = ["--dangerously-skip-permissions"]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("run_command", {"CommandLine": "ls", "Cwd": "sub"}, [("command", "ls")]),
        ("run_command", {"command": "ls"}, [("command", "ls")]),
        ("run_command", {"command": "ls", "CommandLine": "rm x"}, [("command", "ls"), ("command", "rm x")]),
        ("view_file", {"AbsolutePath": "/a"}, [("read_file", "/a")]),
        ("list_dir", {"DirectoryPath": "/a"}, [("read_file", "/a")]),
        ("list_dir", {}, [("read_file", ".")]),
        ("write_to_file", {"TargetFile": "/a", "CodeContent": "x"}, [("write_file", "/a")]),
        ("replace_file_content", {"TargetFile": "/a"}, [("write_file", "/a")]),
        ("multi_replace_file_content", {"TargetFile": "/a"}, [("write_file", "/a")]),
        ("grep_search", {"Query": "x", "SearchPath": "/a"}, [("read_file", "/a")]),
        ("find_by_name", {"Pattern": "*.py"}, [("read_file", ".")]),
        ("read_url_content", {"Url": "https://a.test"}, [("read_url", "https://a.test")]),
        (
            "find_by_name",
            {"Pattern": "/etc/*.conf", "SearchDirectory": "/w"},
            [("read_file", "/w"), ("read_file", "/etc")],
        ),
        ("glob", {"pattern": "src/../../x/*"}, [("read_file", "."), ("read_file", "./src/../../x")]),
        ("glob", {"pattern": "*/../../*"}, [("read_file", "."), ("read_file", "./../..")]),
        ("Glob", {"pattern": "{a,../b}/*"}, [("read_file", "."), ("read_file", "./..")]),
        ("glob", {"pattern": "~/.ssh/*"}, [("read_file", "."), ("read_file", "~/.ssh")]),
        ("glob", {"pattern": "C:\\x\\*"}, [("read_file", "."), ("read_file", "C:/x")]),
        ("glob", {"pattern": "/*"}, [("read_file", "."), ("read_file", "/")]),
        ("glob", {"pattern": "**/*..py"}, [("read_file", ".")]),
        ("search_web", {"query": "x"}, [("read_url", "search_web")]),
        ("browser_click", {"Url": "https://a.test"}, [("execute_url", "https://a.test")]),
        ("browser_scroll", {}, [("execute_url", "")]),
        ("call_mcp_tool", {"ServerName": "a", "ToolName": "b", "Arguments": {}}, [("mcp", "a/b")]),
        ("call_mcp_tool", {"ServerName": "a"}, [("mcp", "")]),
        ("invoke_subagent", {"Subagents": []}, [("mcp", "host/invoke_subagent")]),
        ("read_file", {"path": "a"}, [("read_file", "a")]),
        ("write_file", {"path": "a", "content": "x"}, [("write_file", "a")]),
        ("edit_file", {"path": "a", "old": "x", "new": "y"}, [("write_file", "a")]),
        ("search", {"pattern": "x"}, [("read_file", ".")]),
        ("bash", {"command": "ls"}, [("command", "ls")]),
        ("read", {"file_path": "/a"}, [("read_file", "/a")]),
        ("edit", {"filePath": "/a"}, [("write_file", "/a")]),
        ("webfetch", {"url": "https://a.test"}, [("read_url", "https://a.test")]),
        ("mcp__a__b", {}, [("mcp", "a/b")]),
        ("mcp__a__b__c", {}, [("mcp", "a/b__c")]),
        ("nobody_knows", {"command": "ls"}, [("mcp", "host/nobody_knows")]),
        ("run_command", {"command": ["ls"]}, [("command", "")]),
        ("run_command", {}, [("command", "")]),
    ],
)
def test_what_a_call_does(name: str, arguments: dict[str, Any], expected: list[Any]) -> None:
    found = requests_of(name, arguments, "/w")
    assert [(each.action, each.target) for each in found] == expected
    assert all(each.native_name == name and each.arguments is arguments for each in found)


def test_what_a_call_says_stays_out_of_reprs() -> None:
    found = requests_of("run_command", {"command": "hunter2", "Cwd": "hunter2"})
    assert "hunter2" not in repr(found)
    assert "hunter2" not in repr(policy().decide(found[0]))


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("run_command", {"command": "git status"}, "allow"),
        ("run_command", {"command": "git push"}, "deny"),
        ("run_command", {"command": "git status", "CommandLine": "git push"}, "deny"),
        ("run_command", {}, "ask"),
        ("run_command", {"command": ["git", "push"]}, "ask"),
        ("read_file", {"path": "a"}, "allow"),
        ("read_file", {"path": "secret/a"}, "deny"),
        ("search", {"pattern": "x"}, "ask"),
        ("search", {"pattern": "x", "path": "src"}, "allow"),
        ("list_dir", {}, "allow"),
        ("unknown_tool", {}, "ask"),
    ],
)
@pytest.mark.requirement("X-006")
def test_a_whole_call_is_as_strict_as_its_strictest_part(name: str, arguments: dict[str, Any], expected: str) -> None:
    ruled = policy(allow=["command(git)"], deny=["command(git push)", "read_file(secret)"])
    assert ruled.decide_call(name, arguments).decision == expected
    assert decide(Call(name, arguments), DecisionContext(policy=ruled)).decision == expected
    headless = decide(Call(name, arguments), DecisionContext(policy=ruled, headless=True))
    assert headless.decision == ("deny" if expected != "allow" else "allow")
    assert headless.soft == (expected == "ask")


@pytest.mark.parametrize(
    ("rules", "command", "expected"),
    [
        ("", "git status", "allow"),
        ("", "ls", "ask"),
        ("run_command", "ls", "allow"),
        ("*", "ls", "allow"),
        ("run_command", "git push", "deny"),
        ("run_command", "git commit", "ask"),
        ("run_command", "rm -rf /", "deny"),
        ("run_command", "$X", "ask"),
        ("?run_command", "git status", "ask"),
        ("!run_command", "git status", "deny"),
        ("*,!run_command", "ls", "deny"),
    ],
)
def test_rules_by_tool_name_stand_beside_the_policy_and_loosen_no_rule(rules: str, command: str, expected: str) -> None:
    ruled = policy(allow=["command(git)"], ask=["command(git commit)"], deny=["command(git push)"])
    context = DecisionContext(Rules.parse(rules), policy=ruled)
    made = decide(Call("run_command", {"command": command}), context)
    assert made.decision == expected
    assert command not in made.reason or made.rule == f"command({command})"


def test_relative_paths_start_where_the_call_says() -> None:
    ruled = policy(deny=["read_file(secret)"], allow=["command(cat)"])
    assert ruled.decide_call("read_file", {"path": "key"}, "/w/secret").decision == "deny"
    assert ruled.decide_call("read_file", {"path": "../key"}, "/w/secret").decision == "allow"
    assert ruled.decide_call("run_command", {"command": "cat key", "cwd": "secret"}, "/w").decision == "deny"
    assert ruled.decide_call("run_command", {"command": "cat key", "cwd": "secret"}).decision == "deny"


def test_the_escape_hatch_says_that_it_was_on() -> None:
    ruled = policy(flags=SKIP, deny=["command(rm)"])
    made = ruled.decide_call("run_command", {"command": "ls"})
    assert (made.decision, made.source, made.hatch) == ("allow", "flag", True)
    assert not ruled.decide_call("run_command", {"command": "rm x"}).allowed
    assert "skip" in ruled.mode.name


def test_a_denial_by_a_rule_counts_before_one_that_stands_for_a_question() -> None:
    ruled = policy(mode="headless", deny=["command(rm)"])
    made = ruled.decide_call("run_command", {"command": "ls", "CommandLine": "rm x"})
    assert (made.decision, made.soft, made.rule) == ("deny", False, "command(rm)")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("make all", ("command(make all)",)),
        ("cargo build --release", ("command(cargo build)",)),
        ("git -C x push", ("command(git -C x push)",)),
        ("jq . a.json", ("command(jq)",)),
        ("python3.11 -c 'print(1)'", ("command(python3.11 -c 'print(1)')",)),
        ("bash deploy.sh", ("command(bash deploy.sh)",)),
        ("sudo ls", ("command(sudo ls)", "command(ls)")),
        ("jq . | sort && bash x.sh", ("command(jq)", "command(sort)", "command(bash x.sh)")),
        ("jq $(x)", ("command(jq $(x))",)),
        ("jq . > /srv/out", ("command(jq)", "write_file(/srv/out)")),
    ],
)
def test_the_rules_that_would_allow_a_line_and_never_the_bare_name_of_an_interpreter(
    line: str, expected: tuple[str, ...]
) -> None:
    made = policy().decide_call("run_command", {"command": line})
    assert made.remedies == expected
    assert policy(allow=made.remedies).decide_call("run_command", {"command": line}).allowed


def test_lists_of_tool_names_and_rules_are_taken_apart() -> None:
    lists = {"allow": ["read_file", "command(git status)"], "deny": [" run_command ", "mcp(a/*)"]}
    names, rest = Rules.split(lists)
    assert names == Rules(allow=frozenset({"read_file"}), deny=frozenset({"run_command"}))
    assert rest == {"allow": ["command(git status)"], "ask": [], "deny": ["mcp(a/*)"]}
    for bad in ("!read_file", "a b", "", "read_file,list_dir"):
        with pytest.raises(RulesError, match="rule 2 is not valid"):
            Rules.split({"ask": ["*", bad]})
