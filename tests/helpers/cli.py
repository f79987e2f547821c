"""The command line as a person runs it: a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from antigravity_acp.cli.app import run

from .loopback import AGENT

COMMAND = [sys.executable, "-m", "antigravity_acp.cli"]
#: Seconds for one command; a start of the real harness on a busy machine is most of it.
BOUND = 60.0
_FOREIGN = ("GEMINI_", "GOOGLE_", "ANTIGRAVITY_", "AGY_", "OPENAI_")


def environment(**additions: str) -> dict[str, str]:
    """This process's environment without what would choose an agent or a model."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    return {**kept, **additions}


def run_cli(
    *arguments: str, stdin: str = "", env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """One command to its end, headless."""
    return subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=BOUND,
        env=env or environment(),
        cwd=cwd,
        check=False,
    )


def call_cli(capsys: pytest.CaptureFixture[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """One command to its end inside this process: the same code and a real agent, without the price of a start."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        run(list(arguments))
    shown = capsys.readouterr()
    code = end.value.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(arguments, code, shown.out, shown.err)


def loopback_flags(**agent: Any) -> list[str]:
    """Flags that make the loopback agent the agent."""
    flags = ["--command", sys.executable]
    for argument in ("-I", "-S", str(AGENT), json.dumps(agent)):
        flags += ["--arg", argument]
    return flags


def events(text: str) -> list[dict[str, Any]]:
    """JSON lines as objects; a line that is none fails."""
    found = [json.loads(line) for line in text.splitlines()]
    assert all(isinstance(event, dict) and event.get("event") for event in found)
    return found


def one_line(text: str) -> str:
    """What must be one clear line: no traceback, nothing around it."""
    assert text.endswith("\n")
    assert text.count("\n") == 1, text
    assert "Traceback" not in text
    return text.strip()
