"""Settings that start the loopback agent, and prompts that direct it. See ``agents/loopback.py`` for its directives."""

import json
import sys
from pathlib import Path
from typing import Any

from antigravity_acp.settings import Settings

AGENT = Path(__file__).parent / "agents" / "loopback.py"


def loopback_settings(agent: dict[str, Any] | None = None, **overrides: Any) -> Settings:
    """Settings whose command is the loopback agent.

    :param agent: options of the agent itself, e.g. ``{"models": "set_model"}``.
    :param overrides: any setting by its ``camelCase`` name, e.g. ``requestTimeoutMs=200``.
    """
    # -I and -S: no site-packages, so that a start takes milliseconds.
    args = ["-I", "-S", str(AGENT), json.dumps(agent or {})]
    return Settings.from_mapping({"command": sys.executable, "args": args, **overrides})


def directive(*steps: dict[str, Any]) -> str:
    """Prompt text that makes the loopback agent play these steps."""
    return "@loopback " + json.dumps(list(steps))


def prompt_of(*steps: dict[str, Any]) -> list[dict[str, Any]]:
    """Prompt content blocks that make the loopback agent play these steps."""
    return [{"type": "text", "text": directive(*steps)}]
