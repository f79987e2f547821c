"""The agent that signs in by a loopback redirect, and the parts that a person and a browser play."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from antigravity_acp.acp import AgentClient
from antigravity_acp.acp.sign_in import AddressForwarded, AddressRefused, LinkFound, SignInNews
from antigravity_acp.settings import Settings

from .journals import json_lines

AGENT = Path(__file__).parent / "agents" / "signing_in.py"


@dataclass
class Scene:
    """One agent in one directory: its sign-in and its record."""

    place: Path
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def flag(self) -> Path:
        return self.place / "signed-in"

    @property
    def arguments(self) -> list[str]:
        options = {"flag": str(self.flag), "record": str(self.place / "record"), **self.options}
        return ["-I", "-S", str(AGENT), json.dumps(options)]

    def settings(self, **overrides: Any) -> Settings:
        return Settings.from_mapping({"command": sys.executable, "args": self.arguments, **overrides})

    def flags(self, **settings: Any) -> list[str]:
        """Flags of the command line; the settings go by a file."""
        found = ["--command", sys.executable, *(part for each in self.arguments for part in ("--arg", each))]
        if settings:
            file = self.place / "settings.json"
            file.write_text(json.dumps(settings))
            found += ["--settings", str(file)]
        return found

    def record(self) -> list[dict[str, Any]]:
        return json_lines(self.place / "record")

    def methods(self) -> list[str]:
        return [entry["method"] for entry in self.record() if "method" in entry]

    def visits(self) -> list[str]:
        """Request lines that reached its listener."""
        return [entry["http"] for entry in self.record() if "http" in entry]

    @asynccontextmanager
    async def started(self, **settings: Any) -> AsyncIterator[AgentClient]:
        client = await AgentClient.start(self.settings(**settings))
        try:
            yield client
        finally:
            await client.aclose()


def address_of(url: str, *, query: str | None = None) -> str:
    """Where a browser ends that was signed in with this link."""
    fields = parse_qs(urlsplit(url).query)
    if query is None:
        query = "code=4%2Fabc&scope=a%20b"
        if "state" in fields:
            query = f"state={quote(fields['state'][0])}&{query}"
    return f"{fields['redirect_uri'][0]}?{query}"


async def visit(address: str) -> None:
    """The browser of the person: one GET."""
    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    target = where.path + (f"?{where.query}" if where.query else "")
    writer.write(f"GET {target} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
    await reader.read()
    writer.close()
    await writer.wait_closed()


class Person:
    """Sees the news; goes to the link with a browser or pastes what a script says."""

    def __init__(self, *script: Any) -> None:
        self.news: list[SignInNews] = []
        self.link: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        #: What is pasted, in order: texts, or functions from the link to a text; then the input stays silent.
        self._script = list(script)
        self.waiting = False
        self.ended = False

    def tell(self, news: SignInNews) -> None:
        self.news.append(news)
        if isinstance(news, LinkFound) and not self.link.done():
            self.link.set_result(news.url)

    async def paste(self) -> str | None:
        if self._script:
            step = self._script.pop(0)
            return step(await self.link) if callable(step) else step
        self.waiting = True
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.ended = True
        return None

    @property
    def links(self) -> list[str]:
        return [each.url for each in self.news if isinstance(each, LinkFound)]

    @property
    def refusals(self) -> list[str]:
        return [each.reason for each in self.news if isinstance(each, AddressRefused)]

    @property
    def forwarded(self) -> int:
        return sum(isinstance(each, AddressForwarded) for each in self.news)
