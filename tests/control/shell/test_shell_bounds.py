"""No text of any kind makes the reading raise, hang or grow: 50 ms of processor time a KiB, 100 MB."""

import subprocess
import sys
import time
from random import Random

import pytest
from helpers.policies import policy
from hypothesis import given, settings
from hypothesis import strategies as st

from antigravity_control import Request
from antigravity_control.floor import check
from antigravity_control.shell import read_line

MS_A_KIB = 50
TOKENS = [
    "$(", ")", "`", '"', "'", "<<EOF\n", "EOF\n", "if ", "then ", "fi ", "sh -c ", "env -S ", "eval ", "rm ", "-rf ",
    "/ ", ";", "|", "&&", "$((", "))", "${x:-", "}", "{", "a,", "b}", "for i in ", "do ", "done ", "case x in ",
    "esac ", "\\\n", "$'\\x", "x=", "(", ")", "[[ ", "]] ", "f() ", "<(", ">", "2>&1 ", "xargs ",
    "find ", "-exec ", "\\; ", "~",
    "*", "$[", "@(", "nice -z ", "ssh h ", "git -c a=!b ", "watch ", "\x00", "\ud800", "\u200b", "😀", "x=$x$x;",
]  # fmt: skip


def costs(text: str) -> float:
    """Milliseconds of processor time a KiB."""
    begin = time.process_time()
    line = read_line(text)
    check(line)
    spent = time.process_time() - begin
    assert isinstance(line.understood, bool)
    return spent * 1000 / max(1.0, len(text) / 1024)


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("size", [200, 8_000])
def test_a_repeated_token_stays_within_the_bound(token: str, size: int) -> None:
    text = token * (size // len(token))
    # More looks before a failure: other work on the machine also shows in processor time.
    assert any(costs(text) < MS_A_KIB for _ in range(8))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=120))
def test_tokens_in_any_order_are_read(tokens: list[str]) -> None:
    costs("".join(tokens))


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    costs(text)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read(data: bytes) -> None:
    costs(data.decode("utf-8", "surrogateescape"))
    costs(data.decode("latin-1"))


@pytest.mark.parametrize("text", ["a" * 3_000_000, "a;" * 1_000_000, "$(" * 500_000, "rm -rf / ;" * 50_000])
def test_a_line_over_the_bound_is_not_understood_and_costs_little(text: str) -> None:
    begin = time.process_time()
    line = read_line(text)
    hit = check(line)
    assert time.process_time() - begin < 1
    assert not line.understood
    assert (hit is not None) == text.startswith("rm")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_stays_small() -> None:
    script = (
        "import random\n"
        "from antigravity_control.shell import read_line\n"
        "from antigravity_control.floor import check\n"
        "r = random.Random(1)\n"
        f"tokens = {[token for token in TOKENS if token != chr(0xD800)]!a}\n"
        "for n in (100, 3000):\n"
        "    check(read_line(''.join(r.choice(tokens) for _ in range(n))))\n"
        "for t in ('x=$x$x;', '{a,b}', 'a;', '$(', 'eval '):\n"
        "    check(read_line(t * (20000 // len(t))))\n"
        # Not ru_maxrss: that begins with what the process that forked it had.
        "print(next(int(row.split()[1]) for row in open('/proc/self/status') if row.startswith('VmHWM')) // 1024)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=100)
    assert int(result.stdout) < 100


def test_random_characters_of_the_grammar_stay_within_the_bound() -> None:
    random = Random(20261130)
    alphabet = "(){}$\"'`<>&|;\\\n ab=[]!#~*?-x/ \t"
    for size in (50, 500, 2_000):
        for _ in range(20):
            text = "".join(random.choice(alphabet) for _ in range(size))
            assert min(costs(text), costs(text)) < MS_A_KIB


@pytest.mark.parametrize(
    "part", ["tee a b c d;cd x;", "cd y&&> a;", "curl a b c;cd x;", "cd x||cat a b c;", "cat *;cd x;"]
)
def test_a_decision_stays_within_the_bound_however_many_folders_a_line_may_be_in(part: str) -> None:
    rules = {"allow": ["command(*)"], "deny": ["command(rm -rf)", "read_file(secret)", "read_url(evil.test)"]}
    asked = policy(**rules)
    request = Request("command", (part * 1024)[:1024])

    def spent() -> float:
        begin = time.process_time()
        asked.decide(request)
        return (time.process_time() - begin) * 1000

    assert min(spent() for _ in range(3)) < MS_A_KIB
