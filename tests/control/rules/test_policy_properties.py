"""What holds for every set of rules and every request: nothing that is added to the strict side, nothing malformed and
no order widens anything; no spelling gets round a deny; the escape hatch only turns asks into allows."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.policies import policy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antigravity_control import ACTIONS, Decision, Policy, Request

SKIP = ["--dangerously-skip-permissions"]
STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
QUICK = settings(max_examples=70, deadline=None, suppress_health_check=[HealthCheck.too_slow])

NAMES = st.sampled_from(["git", "rm", "ls", "cat", "make", "curl"])
OPERANDS = st.sampled_from(
    ["status", "push", "-rf", "-r", "-f", "a", "src/a", "/etc/hosts", "../x", '"a b"', "'push'", "$V", "a*", "https://a.test/x",
     "~/.ssh", "$(id)", "--", "x=1"]
)  # fmt: skip
JOINS = st.sampled_from([" && ", "; ", " | ", " || ", "\n", " & "])
SIMPLE = st.builds(
    lambda wrap, name, words, end: " ".join([*wrap, name, *words]) + end,
    st.sampled_from([[], ["timeout", "5"], ["env"], ["sudo"], ["nohup", "nice"], ["A=1"]]),
    NAMES,
    st.lists(OPERANDS, max_size=3),
    st.sampled_from(["", "", "", " > out", " 2>/dev/null", " < /etc/hosts", " >> /srv/x", ' "']),
)
LINES = st.builds(lambda parts, join: join.join(parts), st.lists(SIMPLE, min_size=1, max_size=3), JOINS)
PATHS = st.sampled_from(
    ["/w/a", "/w/src/a", "src/../a", "/w", "/etc/hosts", "/w/../etc/hosts", "/srv/out/x", "~/.ssh/id",
     "/proc/self/root/etc/hosts",     "C:\\w\\a", "", "/", "./src/", "/W/A"]
)  # fmt: skip
URLS = st.sampled_from(
    ["https://a.test/", "https://b.a.test", "a.test.", "https://evil.net@a.test", "http://127.1/", "https:\\\\a.test",
     "x y",     "file:///etc/hosts", "http://[::1]/"]
)  # fmt: skip
TOOLS = st.sampled_from(["a/b", "a/c", "aa/b", "a/b/c", "nothing", "/", "A/b"])
RULE_TARGETS: dict[str, st.SearchStrategy[str]] = {
    "command": st.one_of(
        st.just("*"),
        st.builds(lambda name, words: " ".join([name, *words]), NAMES, st.lists(OPERANDS, max_size=2)),
        st.sampled_from(["regex:git .*", "regex:.*", "regex:(rm|ls) -.*", "regex:cu.*"]),
    ),
    "read_file": st.sampled_from(["*", "/etc", "src", "/w", "a", "/srv/out/", "~/.ssh", "/w/../etc", "C:\\w"]),
    "read_url": st.sampled_from(["*", "a.test", "test", "127.0.0.1", "b.a.test"]),
    "mcp": st.sampled_from(["*", "a/*", "a/b", "a/b/*"]),
}
RULE_TARGETS["unsandboxed"] = RULE_TARGETS["command"]
RULE_TARGETS["write_file"] = RULE_TARGETS["read_file"]
RULE_TARGETS["execute_url"] = RULE_TARGETS["read_url"]
REQUEST_TARGETS = {
    "command": LINES, "unsandboxed": LINES, "read_file": PATHS, "write_file": PATHS, "read_url": URLS,
    "execute_url": URLS,    "mcp": TOOLS,
}  # fmt: skip
MALFORMED = st.one_of(
    st.sampled_from(
        ["command git", "*", "shell(*)", "command()", "command(regex:(a)\\1)", "mcp(x)", "read_url(http://a)", "("]
    ),
    st.sampled_from([None, 3, ["command(*)"], {"command": "*"}]),
)


def actions() -> st.SearchStrategy[str]:
    return st.sampled_from(ACTIONS)


RULES = actions().flatmap(lambda action: RULE_TARGETS[action].map(lambda target: f"{action}({target})"))
REQUESTS = actions().flatmap(lambda action: REQUEST_TARGETS[action].map(lambda target: Request(action, target)))  # type: ignore[arg-type]  # names of the list
RULE_LISTS = st.fixed_dictionaries(
    {kind: st.lists(RULES, max_size=4) for kind in ("allow", "ask", "deny")}
)  # fmt: skip
OPTIONS = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["interactive", "headless"]),
        "flags": st.sampled_from([[], SKIP, ["--mode accept-edits"]]),
        "toolPermission": st.sampled_from(["request-review", "strict", "always-proceed", "proceed-in-sandbox"]),
        "enableTerminalSandbox": st.booleans(),
        "allowNonWorkspaceAccess": st.booleans(),
    }
)


def made(lists: dict[str, list[Any]], options: dict[str, Any], request: Request) -> Decision:
    return policy(**lists, **options).decide(request)


def strict(decision: Decision) -> int:
    return STRICTNESS[decision.decision] if not decision.soft else 1


@QUICK
@given(RULE_LISTS, OPTIONS, REQUESTS, RULES, st.sampled_from(["deny", "ask"]))
@pytest.mark.requirement("B-004")
def test_one_more_deny_or_ask_never_widens(
    lists: dict[str, list[str]], options: dict[str, Any], request_: Request, extra: str, kind: str
) -> None:
    before = made(lists, options, request_)
    after = made({**lists, kind: [*lists[kind], extra]}, options, request_)
    # With the escape hatch an ask is an allow already.
    assert strict(after) >= strict(before)


@QUICK
@given(RULE_LISTS, OPTIONS, REQUESTS, MALFORMED, st.sampled_from(["allow", "ask", "deny"]), st.integers(0, 4))
def test_a_malformed_rule_allows_nothing_and_what_may_be_a_lost_deny_holds_everything_back(
    lists: dict[str, list[Any]], options: dict[str, Any], request_: Request, bad: object, kind: str, place: int
) -> None:
    worse = {**lists, kind: [*lists[kind][:place], bad, *lists[kind][place:]]}
    after, before = made(worse, options, request_), made(lists, options, request_)
    if kind == "allow":
        assert after == before
    else:
        assert strict(after) == max(strict(before), 1)
        assert not after.remedies
    assert policy(**worse).incomplete == (kind != "allow")
    assert len(policy(**worse).faults) == len(policy(**lists).faults) + 1


@QUICK
@given(RULE_LISTS, OPTIONS, REQUESTS, st.randoms(use_true_random=False))
def test_the_order_of_rules_changes_nothing(
    lists: dict[str, list[str]], options: dict[str, Any], request_: Request, random: Any
) -> None:
    shuffled = {kind: random.sample(rules, len(rules)) for kind, rules in lists.items()}
    assert made(shuffled, options, request_) == made(lists, options, request_)


@QUICK
@given(RULE_LISTS, OPTIONS, REQUESTS)
@pytest.mark.requirement("B-022")
def test_the_escape_hatch_only_turns_asks_into_allows(
    lists: dict[str, list[str]], options: dict[str, Any], request_: Request
) -> None:
    attended = {**options, "mode": "interactive"}
    without = made(lists, {**attended, "flags": []}, request_)
    with_it = made(lists, {**attended, "flags": SKIP}, request_)
    if without.decision == "ask":
        assert with_it.decision in ("ask", "allow")
        assert with_it.hatch == (with_it.decision == "allow")
    else:
        assert with_it == without


@QUICK
@given(RULE_LISTS, OPTIONS, REQUESTS)
@pytest.mark.requirement("B-008")
def test_where_nobody_can_be_asked_nothing_asks_and_nothing_more_is_allowed(
    lists: dict[str, list[str]], options: dict[str, Any], request_: Request
) -> None:
    attended = made(lists, {**options, "mode": "interactive"}, request_)
    headless = made(lists, {**options, "mode": "headless"}, request_)
    assert not headless.asks
    assert headless.soft == (headless.source == "headless")
    if headless.allowed:
        assert attended.allowed
    if attended.decision == "deny":
        assert headless == attended


@QUICK
@given(RULE_LISTS, OPTIONS, REQUESTS)
def test_no_allow_and_no_grant_beats_a_deny_or_an_ask_of_a_rule(
    lists: dict[str, list[str]], options: dict[str, Any], request_: Request
) -> None:
    before = made(lists, {**options, "flags": []}, request_)
    wide = [f"{action}(*)" for action in ACTIONS]
    after = made({**lists, "allow": [*lists["allow"], *wide]}, {**options, "flags": []}, request_)
    granted = policy(**lists, **{**options, "flags": []}).with_grants(wide).decide(request_)
    assert granted.decision == after.decision
    if before.rule is not None and before.decision != "allow":
        assert (after.decision, after.soft) == (before.decision, before.soft)


@settings(max_examples=80, deadline=None)
@given(actions(), st.text(max_size=60), RULE_LISTS)
def test_no_text_makes_a_decision_fail(action: Any, target: str, lists: dict[str, list[str]]) -> None:
    ruled = policy(**lists)
    decision = ruled.decide(Request(action, target))
    assert decision.decision in STRICTNESS
    assert ruled.explain(Request(action, target))


# -- spellings of a path ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tree() -> Iterator[Path]:
    """A workspace with a denied folder, and links that lead to it from everywhere."""
    root = Path(tempfile.mkdtemp()).resolve()
    (root / "w" / "secret" / "deep").mkdir(parents=True)
    (root / "w" / "secret" / "deep" / "key").write_text("key")
    (root / "w" / "plain").mkdir()
    (root / "w" / "link").symlink_to("secret")
    (root / "w" / "far").symlink_to(root)
    (root / "w" / "plain" / "up").symlink_to("../link/deep/..")
    (root / "w" / "twin").hardlink_to(root / "w" / "secret" / "deep" / "key")
    yield root
    shutil.rmtree(root)


STARTS = st.sampled_from(
    [
        "{r}/w/secret/", "{r}/w/link/", "secret/", "./link/", "plain/up/", "plain/../secret/", "far/w/secret/",
        "far/w/far/w/link/", "{r}//w/./secret//", "link/deep/../", "/proc/self/root{r}/w/secret/",
        "nothing/../secret/", "far/w/plain/up/",
    ]
)  # fmt: skip
ENDS = st.sampled_from(
    ["deep/key", "deep//key", "./deep/./key", "deep/../deep/key", "deep/nope/../key", "deep", "", "new/file"]
)


@settings(max_examples=120, deadline=None)
@given(STARTS, ENDS, st.sampled_from(["read_file", "write_file"]), st.booleans())
def test_an_allow_never_wins_over_a_deny_in_any_spelling_of_a_path(
    tree: Path, start: str, end: str, action: Any, by_command: bool
) -> None:
    target = (start + end).replace("{r}", str(tree))
    if start.startswith("/proc") and not os.path.exists("/proc/self/root"):
        return
    allow = [f"{each}(*)" for each in ACTIONS]
    lists: dict[str, Any] = {"allow": allow, "deny": ["read_file(secret)"], "workspace": str(tree / "w")}
    for flags in ([], SKIP):
        ruled: Policy = policy(**lists, flags=flags)
        assert ruled.decide(Request(action, target)).decision == "deny", target
        if by_command:
            sign = ">" if action == "write_file" else "<"
            for line in (f"cat {sign} {target}", f"cat '{target}'", f"cat a; tee {target}"):
                assert ruled.decide(Request("command", line)).decision == "deny", line


def test_another_name_of_the_denied_file_is_found_too(tree: Path) -> None:
    lists: dict[str, Any] = {"allow": ["read_file(*)", "command(*)"], "deny": ["read_file(secret)"]}
    ruled = policy(**lists, workspace=str(tree / "w"), flags=SKIP)
    assert ruled.decide(Request("read_file", "twin")).decision == "deny"
    assert ruled.decide(Request("command", "cat twin")).decision == "deny"
