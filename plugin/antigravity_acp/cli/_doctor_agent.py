"""The doctor's rows about the agent: what the settings would start, and what it says when it is started once.

Owns: the choice as these settings make it, one agent process from start to end, and the words for what went wrong.
Bounded by the settings' own limits for a start and a request.
Never: installs, signs in, prompts; starts a second process. What an agent prints is looked at for known faults and kept
for the report that the person may pass on, nothing else of it is shown.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple

import msgspec

from antigravity_acp.acp import AgentClient, AgentCommand, AgentProcess, profile_for
from antigravity_acp.acp.errors import describe_exit
from antigravity_acp.acp.launch import NotInstalled, choose, without_browser
from antigravity_acp.acp.sign_in import standing_of
from antigravity_acp.contract import LlmError
from antigravity_acp.settings import Settings
from antigravity_provisioning import Asset, releases
from antigravity_provisioning.errors import ProvisioningError
from antigravity_provisioning.locate import OfficialServer

from ._progress import size
from ._report import Row, one_word
from ._setup import NO_MODEL, find_official, is_embedded_command
from ._where import FOUND_BY

Kind = Literal["official", "engine", "other"]
Add = Callable[[Row], Row]

#: Names that one row lists.
_MAX_LISTED: Final = 12
_PROFILE_OF: Final[dict[Kind, str]] = {"official": "official", "engine": "engine"}
#: Faults that show themselves in stderr alone, and what they mean; the text itself is not shown.
_KNOWN: Final = (
    (
        re.compile(r"tcmalloc|MmapAligned", re.IGNORECASE),
        "its memory allocator found no address space: kernels with 39-bit addresses (ChromeOS, some ARM boards) cannot "
        "run it",
    ),
    (re.compile(r"GLIBC(?:XX)?_[\d.]+' not found"), "the system's C library is older than it needs"),
    (re.compile(r"error while loading shared libraries"), "a library that it needs is not installed"),
    (re.compile(r"No space left on device"), "the disk for temporary files is full"),
    (re.compile(r"cannot execute binary file|Exec format error"), "it was built for another processor"),
)
_AFTER: Final = ("version", "auth", "signed-in", "models", "mcp")


class Subject(NamedTuple):
    """What would be started.

    :param server: the official server with how it was found; ``None`` for other agents.
    """

    command: AgentCommand
    kind: Kind
    server: OfficialServer | None


def find(settings: Settings, add: Add) -> Subject | None:
    """The row ``server``. :returns: ``None`` when there is nothing to start."""
    try:
        found = choose(settings)
    except LlmError as error:
        add(Row("server", "fail", error.message, "Correct or clear what names it, or run `antigravity-acp install`."))
        return None
    if isinstance(found, NotInstalled):
        if found.fallback is None:
            add(Row("server", "fail", found.error.message, _how_to_install(settings)))
            return None
        text = "the official server is not installed; the embedded engine answers"
        if settings.auto_install and settings.engine == "auto" and (asset := _pinned()) is not None:
            text = f"the official server is not installed; the first use downloads it ({size(asset.size)})"
            advice = "Run `antigravity-acp install` now, or set `engine` to `embedded`; the engine is looked at here."
            add(Row("server", "warn", text, advice))
        else:
            add(Row("server", "ok", text))
        return Subject(found.fallback, "engine", None)
    subject = _subject(settings, found)
    if subject.server is not None:
        add(Row("server", "ok", f"{subject.server.path}, {FOUND_BY.get(subject.server.source, 'found')}"))
    elif subject.kind == "engine":
        add(
            Row(
                "server",
                "ok",
                "the embedded engine, by the setting " + ("`command`" if settings.command else "`engine`"),
            )
        )
    else:
        add(Row("server", "ok", f"{found.argv[0]}, named by the setting `command`"))
    return subject


def _subject(settings: Settings, command: AgentCommand) -> Subject:
    if is_embedded_command(command):
        return Subject(command, "engine", None)
    server = find_official(settings, command)
    return Subject(command, "official" if server is not None else "other", server)


def _how_to_install(settings: Settings) -> str:
    asset = _pinned()
    if asset is None:
        return "Use the embedded engine: set `engine` to `embedded` and give it a model."
    first = "; the first use does it by itself" if settings.auto_install else ""
    return f"`antigravity-acp install` downloads {size(asset.size)}{first}."


def _pinned() -> Asset | None:
    try:
        return releases.pinned()
    except ProvisioningError:
        return None


class Look:
    """One look at a started agent.

    :param add: takes the rows.
    """

    def __init__(self, settings: Settings, add: Add) -> None:
        self._settings = settings
        self._add = add
        self._process: AgentProcess | None = None

    def tail(self) -> str:
        """The last of the agent's stderr, redacted."""
        return self._process.stderr_tail() if self._process is not None else ""

    def not_asked(self, names: Sequence[str], why: str) -> None:
        """Rows that nobody could answer."""
        for name in names:
            self._add(Row(name, "skip", f"not asked: {why}"))

    async def take(self, subject: Subject | None) -> None:
        """Rows from ``initialize`` to ``mcp``."""
        if subject is None:
            return self.not_asked(("initialize", *_AFTER), "there is no agent to start")
        began = time.monotonic()
        try:
            # What it calls itself is judged here, where the row can name it.
            command = without_browser(msgspec.structs.replace(subject.command, found=False))
            with _busy("starting the agent"):
                client = await AgentClient.start(self._settings, command, watch=self._watch)
        except LlmError as error:
            self._add(self._dead(error, subject))
            return self.not_asked(_AFTER, "the agent did not answer `initialize` as it should")
        try:
            if self._initialized(client, subject, time.monotonic() - began):
                self._version(client, subject)
                self._methods(client)
                await self._session(client, subject)
                self._mcp(client)
            else:
                self.not_asked(_AFTER, "it is not the agent that it should be")
        finally:
            await client.aclose()
        return None

    def _watch(self, process: AgentProcess) -> None:
        self._process = process

    def _dead(self, error: LlmError, subject: Subject) -> Row:
        """The row of an agent that did not get as far as an answer."""
        returncode = self._process.returncode if self._process is not None else None
        text, advice = error.message, "Repeat with `--bundle FILE`: it keeps the end of what the agent printed."
        if error.code == "ACP_DISCONNECTED":
            text = f"the agent {describe_exit(returncode)} before it answered"
            if "SIGILL" in text:
                advice = "Use a machine whose processor has them, or the embedded engine."
        elif error.code == "ACP_BINARY_MISSING":
            # It never ran, so it printed nothing.
            advice = "Correct what names it, or use the embedded engine."
        elif error.code == "ACP_VERSION_MISMATCH":
            advice = ""
        tail = self.tail()
        if cause := next((words for pattern, words in _KNOWN if pattern.search(tail)), ""):
            text = f"{text.rstrip('.')}: {cause}"
        if subject.kind == "official":
            advice = f"{advice} A stored sign-in has nothing to do with it.".strip()
        return Row("initialize", "fail", text, advice)

    def _initialized(self, client: AgentClient, subject: Subject, seconds: float) -> bool:
        name = one_word(client.agent_name) or "(no name)"
        wanted = _PROFILE_OF.get(subject.kind)
        text = f"answered as `{name}` in {seconds:.1f} s"
        if wanted is not None and profile_for(client.agent_name).id != wanted:
            what = "the official server" if subject.kind == "official" else "our embedded engine"
            self._add(
                Row(
                    "initialize",
                    "fail",
                    f"{text}: a wrong program, not {what}, whatever its file name says",
                    "Correct `command`, AGY_ACP_BIN or PATH, or run `antigravity-acp install`.",
                )
            )
            return False
        if client.profile.id == "unknown":
            text += "; this agent has no profile, so the strict rules hold"
            self._add(Row("initialize", "warn", text, "See docs/agents.md for the agents that were measured."))
        else:
            self._add(Row("initialize", "ok", text))
        return True

    def _version(self, client: AgentClient, subject: Subject) -> None:
        version, asset = one_word(client.agent_version), _pinned()
        if not version:
            self._add(Row("version", "warn", "the agent tells no version"))
        elif subject.kind == "official" and asset is not None and version != asset.version:
            text = f"{version}; this plugin is made for {asset.version}"
            advice = "Unset what names that server, or take it off PATH, and run `antigravity-acp install`."
            self._add(Row("version", "warn", text, advice))
        else:
            self._add(Row("version", "ok", version))

    def _methods(self, client: AgentClient) -> None:
        self._add(Row("auth", "ok", _listed(client.auth_methods) or "no sign-in methods announced"))

    async def _session(self, client: AgentClient, subject: Subject) -> None:
        found = await standing_of(client)
        if found.signed_in == "no":
            self._add(self._signed_out(client, subject))
            return self.not_asked(("models",), "the agent wants a sign-in first")
        if found.signed_in == "unknown":
            self._add(
                Row("signed-in", "skip", "not known: an empty session failed for another reason; keep the sign-in")
            )
            text = f"an empty session could not be opened: {found.reason}"
            self._add(Row("models", "fail", text, "Look at the end of its output: repeat with `--bundle FILE`."))
            return None
        self._add(Row("signed-in", "ok", "a session opens without a sign-in"))
        if found.models:
            now = f"; now {one_word(found.current_model)}" if found.current_model else ""
            self._add(Row("models", "ok", f"{len(found.models)}: {_listed(found.models)}{now}"))
        else:
            self._add(Row("models", "warn", "the agent announces none", "Its own default answers; none can be chosen."))
        return None

    def _signed_out(self, client: AgentClient, subject: Subject) -> Row:
        if subject.kind == "engine":
            return Row("signed-in", "fail", "the engine has no model back end", NO_MODEL)
        if subject.kind == "official":
            text = "no; a sign-in of the Antigravity app or of `agy` does not count here"
            return Row("signed-in", "warn", text, "Run `antigravity-acp login`, or sign in with the first use.")
        known = "with the first use, or " if client.profile.auth_method else ""
        return Row("signed-in", "warn", "no", f"Sign in {known}with the agent itself.")

    def _mcp(self, client: AgentClient) -> None:
        if client.mcp_http:
            self._add(Row("mcp", "ok", "MCP over HTTP: it can be lent the host's tools"))
        else:
            self._add(Row("mcp", "fail", "no MCP over HTTP: it cannot be lent the host's tools", "Use another agent."))


@contextmanager
def _busy(text: str) -> Iterator[None]:
    """A sign of life on a terminal: cold starts of most of a minute are on record. No row is printed meanwhile."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(file=sys.stderr).status(text):
        yield


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(one_word(name) for name in names[:_MAX_LISTED])
    more = len(names) - _MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown
