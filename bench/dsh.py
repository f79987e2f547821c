"""What the way through the sidecar costs in the real DeepSeek Harness, in one host.

Two models take turns in chats of the same `dsh web`: one is JavaScript in the host (`tests/dsh/plugins/plain.mjs`), the
other yields the same chunks in Python, behind the sidecar and the bundle (`agents/plain_sidecar.py`; no agent: that has
benchmarks of its own). Each turn is timed where the host takes its chunks: chunks per second, and the time until the
first. The control's question is asked as the host asks it before a tool runs, beside the same JSON to a child that only
answers.
"""

import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from helpers.dsh import HOST, TESTS, Dsh, Web, plain, wait_for, web  # noqa: E402 - the tests' own hosts

NAME = "dsh"
CHUNKS = 3_000
ROUNDS = 9
FIRSTS = 41
QUESTIONS = 1_500
SIDES = {"ours": ("antigravity-acp", "server-default"), "plain": ("plain", "plain")}
ECHO = """
import json, sys
for line in sys.stdin:
    answer = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {"decision": "allow", "reason": "echo"}}
    sys.stdout.write(json.dumps(answer) + "\\n")
    sys.stdout.flush()
"""


class Measured:
    """A host with both models; what the stopwatch wrote."""

    def __init__(self, folder: Path) -> None:
        self.dsh = Dsh(folder)
        self.ask = folder / "ask"
        self._log = folder / "stopwatch.jsonl"
        program = folder / "antigravity-acp"
        agent = Path(__file__).parent / "agents" / "plain_sidecar.py"
        command = shlex.join([sys.executable, str(agent)])
        program.write_text(f"#!/bin/sh\nexec {command}\n", encoding="utf-8")
        program.chmod(0o755)
        config = {
            "log": str(self._log),
            "ask": str(self.ask),
            "questions": QUESTIONS,
            "echo": [sys.executable, "-I", "-S", "-c", ECHO],
        }
        row = {"insert": [{"id": "stopwatch", "name": str(TESTS / "plugins" / "stopwatch.mjs"), "config": config}]}
        self.dsh.install("web")
        # The way of the question: the ledger and the reading of command lines have benchmarks of their own.
        control = {"control": True, "ledger": False, "permissions": {"allow": ["*"]}}
        self.dsh.configure("web", plain(), row, python=str(program), **control)

    def lines(self, kind: str) -> list[dict[str, Any]]:
        """What was measured so far, of one kind."""
        lines = self._log.read_text(encoding="utf-8").split("\n")[:-1] if self._log.exists() else []
        found = list(map(json.loads, lines))
        assert not [line for line in found if "error" in line], found
        return [line[kind] for line in found if kind in line]

    def turn(self, page: Web, chat: str, text: str) -> dict[str, Any]:
        """A turn of a chat, from the person's message to its end."""
        turns = lambda: [one for one in self.lines("turn") if one["sessionId"] == chat]  # noqa: E731
        before = len(turns())
        page.say(chat, text)
        found: dict[str, Any] = wait_for(lambda: turns()[before:])[0]
        return found


def measure(host: Measured) -> dict[str, Any]:
    """All of it in one run of the host."""
    speed: dict[str, list[float]] = {side: [] for side in SIDES}
    first: dict[str, list[float]] = {side: [] for side in SIDES}
    with web(host.dsh) as page:
        chats = {side: page.chat(host.dsh.workspace) for side in SIDES}
        for side, (provider, model) in SIDES.items():
            chosen = {"provider": provider, "model": model}
            answer = page.call("session/selectModel", request={"sessionId": chats[side], **chosen})
            assert answer == {"selected": chosen}, answer
            host.turn(page, chats[side], "say 10")
            # The host gives a chat its title beside the first turn, by the same model.
            wait_for(lambda chat=chats[side]: "title" in page.events(chat))
        for _ in range(FIRSTS):
            for side, chat in chats.items():
                first[side].append(host.turn(page, chat, "say 1")["first"])
        for _ in range(ROUNDS):
            for side, chat in chats.items():
                turn = host.turn(page, chat, f"say {CHUNKS}")
                assert turn["count"] == CHUNKS, turn
                speed[side].append(turn["count"] / (turn["last"] - turn["first"]) * 1000)
        host.ask.touch()
        control = wait_for(lambda: host.lines("control"))[0]
    found = {"chunks per second": speed, "first chunk, ms": first, "control question, ms": control}
    medians = {name: {side: statistics.median(times) for side, times in sides.items()} for name, sides in found.items()}
    ratios = {
        "chunks per second over JavaScript's": ("chunks per second", "ours", "plain"),
        "first chunk over JavaScript's": ("first chunk, ms", "ours", "plain"),
        "control question over bare JSON-RPC": ("control question, ms", "ours", "bare"),
    }
    return {
        "chunks": CHUNKS,
        "rounds": ROUNDS,
        "questions": QUESTIONS,
        "ratios": {name: medians[what][one] / medians[what][other] for name, (what, one, other) in ratios.items()},
        "at_least": {"chunks per second over JavaScript's": 0.5},
        "bounds": {"first chunk over JavaScript's": 3.0, "control question over bare JSON-RPC": 2.0},
        "medians": medians,
    }


def run() -> dict[str, Any]:
    """Ratios with their bounds; see the module. Installs the host when it is not there."""
    if not (HOST / ".ready").exists():
        subprocess.run([sys.executable, str(TESTS / "install.py")], check=True)
    with tempfile.TemporaryDirectory(prefix="antigravity-acp-bench-") as folder:
        return measure(Measured(Path(folder)))
