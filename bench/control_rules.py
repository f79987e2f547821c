"""What a decision of the control wing costs as rules grow in number: 10, 1 000 and 10 000 of them.

The same requests, the same kinds of rules in the same proportions; policies are compiled before the clock starts and
take turns, so that a busy machine slows down all of them. Beside it the plain way, :mod:`fnmatch` over lists of the
same rules as patterns, deny before ask before allow: it knows nothing of command lines or paths that lead elsewhere.
Commands are judged with their parse, as a host calls it; the index alone is what the ``rules only`` ratios show.
"""

import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from antigravity_control import Policy, Request, Source

NAME = "control_rules"
SIZES = (10, 1_000, 10_000)
ROUNDS = 5
BOUND = 1.5
WORKSPACE = "/srv/bench/workspace"
KINDS = ("deny", "ask", "allow")
#: Requests that rules of every size speak about, and some that none does.
REQUESTS = (
    Request("command", "git status --short"),
    Request("command", "tool-3 run part-3 --fast"),
    Request("command", "make all && tool-5 check part-5 | head -5"),
    Request("command", "timeout 5 nobody-knows-it --at-all"),
    Request("read_file", "/data/set-3/part/deep/file.txt"),
    Request("write_file", "src/module/new.py"),
    Request("write_file", "/data/set-5/out.bin"),
    Request("read_url", "https://api.host-3.example.com/v1?q=1"),
    Request("execute_url", "https://unknown.example.org/"),
    Request("mcp", "server-3/tool"),
    Request("mcp", "elsewhere/tool"),
)


def permissions(size: int) -> dict[str, list[str]]:
    """``size`` rules of every kind and action."""
    made: dict[str, list[str]] = {kind: [] for kind in KINDS}
    forms: tuple[Callable[[int], str], ...] = (
        lambda n: f"command(tool-{n} run part-{n})",
        lambda n: f"read_file(/data/set-{n}/part)",
        lambda n: f"read_url(host-{n}.example.com)",
        lambda n: f"mcp(server-{n}/tool)",
        lambda n: f"command(regex:tool-{n} (check|test) .*)",
        lambda n: f"write_file(/data/set-{n})",
    )
    for number in range(size):
        made[KINDS[number % len(KINDS)]].append(forms[number % len(forms)](number))
    return made


def plain(rules: dict[str, list[str]], request: Request) -> str:
    """The plain way: patterns of the shell over the text of the request."""
    text = f"{request.action}({request.target})"
    for kind in KINDS:
        if any(fnmatchcase(text, pattern) for pattern in rules[kind]):
            return kind
    return "ask"


def seconds(decide: Callable[[Request], object], requests: Sequence[Request]) -> float:
    began = time.perf_counter()
    for request in requests:
        decide(request)
    return time.perf_counter() - began


def best(decides: dict[int, Callable[[Request], object]], requests: Sequence[Request], repeat: int) -> dict[int, float]:
    """Seconds of one decision: the fastest of several rounds, which take turns."""
    many = [request for request in requests for _ in range(repeat)]
    for decide in decides.values():
        seconds(decide, requests)
    times: dict[int, list[float]] = {size: [] for size in decides}
    for _ in range(ROUNDS):
        for size, decide in decides.items():
            times[size].append(seconds(decide, many))
    return {size: min(found) / len(many) for size, found in times.items()}


def run() -> dict[str, Any]:
    """Ratios with their bounds; see the module."""
    lists = {size: permissions(size) for size in SIZES}
    policies = {}
    compiled = {}
    for size in SIZES:
        began = time.perf_counter()
        policies[size] = Policy.compile([Source("global", {"permissions": lists[size]})], workspace=WORKSPACE)
        compiled[size] = time.perf_counter() - began
    engine = best({size: policies[size].decide for size in SIZES}, REQUESTS, 20)
    others = [request for request in REQUESTS if request.action != "command"]
    index = best({size: policies[size].decide for size in SIZES}, others, 60)
    patterns = {size: {kind: [rule + "*" for rule in lists[size][kind]] for kind in KINDS} for size in SIZES}

    def over(size: int) -> Callable[[Request], object]:
        return lambda request: plain(patterns[size], request)

    fnmatch = best({size: over(size) for size in SIZES}, REQUESTS, 1)
    first, _, last = SIZES
    grows = f"{last} rules over {first}"
    alone = f"{last} rules over {first}, rules only"
    beside = f"engine over fnmatch, {last} rules"
    return {
        "rounds": ROUNDS,
        "ratios": {
            grows: engine[last] / engine[first],
            alone: index[last] / index[first],
            beside: engine[last] / fnmatch[last],
        },
        "bounds": {grows: BOUND, alone: BOUND, beside: 1.0},
        "decisions_per_second": {str(size): round(1 / engine[size]) for size in SIZES},
        "fnmatch_per_second": {str(size): round(1 / fnmatch[size]) for size in SIZES},
        "compile_s": {str(size): round(compiled[size], 4) for size in SIZES},
    }
