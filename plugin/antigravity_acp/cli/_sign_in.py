"""What `login`, `logout` and `status` do.

Owns: one agent process for as long as the command runs; it is ended with everything it started before the command is,
also after Ctrl-C. A failure names its stage: start, initialize, authenticate or session/new.
Never: sees a credential; `status` starts no sign-in. The link of a sign-in is shown to the person and goes nowhere
else; what the person pastes is never shown again.
"""

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import msgspec

from antigravity_acp.acp import AgentClient
from antigravity_acp.acp.launch import resolve_command, without_browser
from antigravity_acp.acp.sign_in import (
    MAX_ADDRESS,
    AddressForwarded,
    LinkFound,
    SignInNews,
    Standing,
    sign_in,
    sign_out,
    standing_of,
)
from antigravity_acp.contract import LlmError
from antigravity_acp.settings import Settings

from ._paste import PastedLines
from ._setup import advise, find_official, is_embedded, is_embedded_command
from ._where import FOUND_BY
from .failures import CliError, explain
from .options import AgentFlags
from .output import JsonLines, plain

Show = Callable[[Mapping[str, Any]], None]

#: Codes of a start that failed before the agent could be asked anything.
_START_CODES: Final = frozenset({"ACP_BINARY_MISSING", "ACP_PLATFORM_UNSUPPORTED", "ACP_INSTALL_FAILED"})
_KEPT: Final = "The agent accepted the sign-in and keeps it; `antigravity-acp status` looks again."


# ---- login ----------------------------------------------------------------------------------------------------------
async def run_login(
    flags: AgentFlags, *, method: str | None, timeout_s: float | None, again: bool, as_json: bool
) -> int:
    """Sign in, unless the agent is signed in already.

    :raises CliError: names the stage that failed.
    """
    settings = Settings.from_mapping(flags.settings())
    if method is not None:
        settings = msgspec.structs.replace(settings, auth_method=method)
    if timeout_s is not None:
        settings = msgspec.structs.replace(settings, auth_timeout_ms=max(1, round(timeout_s * 1000)))
    show = _show_json if as_json else _show_text
    async with _started(settings) as client:
        show(_agent_event(client))
        if not again:
            found = await standing_of(client)
            if found.signed_in == "yes":
                show(_login_end("Already signed in; nothing was started. --again signs in anew.", found, anew=False))
                return 0
            if found.signed_in == "unknown":
                raise CliError(found.code, f"Stage session/new, before the sign-in: {found.reason}")
        await _authenticate(client, settings, show)
        found = await standing_of(client)
        if found.signed_in != "yes":
            raise CliError(found.code, f"Stage session/new, after the sign-in: {_after(found)} {_KEPT}")
        show(_login_end("Signed in.", found, anew=True))
    return 0


async def _authenticate(client: AgentClient, settings: Settings, show: Show) -> None:
    seconds = settings.auth_timeout_ms / 1000
    method = settings.auth_method or client.profile.auth_method or ""
    if not method:
        failure = CliError(
            "ACP_AUTH_UNSUPPORTED",
            "Stage authenticate: No way to sign in is chosen. --method takes one that the agent announces.",
        )
        raise advise(failure, settings)
    show({"event": "sign-in", "method": method, "timeoutS": seconds})

    def tell(news: SignInNews) -> None:
        if isinstance(news, LinkFound):
            show({"event": "link", "url": news.url, "port": news.port})
        elif isinstance(news, AddressForwarded):
            show({"event": "forwarded"})
        else:
            show({"event": "refused", "reason": news.reason, "left": news.left})

    # A process without standard input may have given its number to something else.
    pasted = None if sys.stdin is None else PastedLines(MAX_ADDRESS).read
    try:
        await sign_in(client, tell=tell, pasted=pasted)
    except LlmError as error:
        raise advise(_authenticate_failure(error, seconds), settings) from None


def _authenticate_failure(error: LlmError, seconds: float) -> CliError:
    text = {
        "ACP_TIMEOUT": f"The sign-in was not finished within {seconds:g} s. Run `login` again; --timeout gives it "
        "longer.",
        "ACP_AUTH_REQUIRED": "The agent ended the sign-in without success: it was refused or given up in the browser, "
        "or its address had been used. Run `login` again.",
        "ACP_AUTH_UNSUPPORTED": "The agent does not offer this way to sign in. --method takes one of those it "
        "announces; `antigravity-acp status` lists them.",
    }.get(error.code, error.message)
    return CliError(error.code, f"Stage authenticate: {text}")


def _after(found: Standing) -> str:
    if found.signed_in == "no":
        return "The agent refuses a session all the same; the account may lack access with this method."
    return found.reason


def _login_end(text: str, found: Standing, *, anew: bool) -> dict[str, Any]:
    return {"event": "end", "ok": True, "text": text, "anew": anew, **_models(found)}


# ---- logout ---------------------------------------------------------------------------------------------------------
async def run_logout(flags: AgentFlags, *, as_json: bool) -> int:
    """Ask the agent to forget its sign-in, and look whether it did.

    :raises CliError: ``LOGOUT_FAILED`` when it still opens sessions; else what failed.
    """
    settings = Settings.from_mapping(flags.settings())
    if is_embedded(settings):
        raise CliError(
            "ACP_AUTH_UNSUPPORTED",
            "The embedded engine has no sign-in: it takes a key from the environment. Unset the variable that has it.",
        )
    show = _show_json if as_json else _show_text
    async with _started(settings) as client:
        show(_agent_event(client))
        with _stage("sign-out"):
            was_signed_in = await sign_out(client, timeout_ms=settings.request_timeout_ms)
        after = await standing_of(client) if was_signed_in else None
    if after is not None and after.signed_in != "no":
        # What it has in memory may outlive what it has on disk: a process that starts now has only that.
        async with _started(settings) as client:
            after = await standing_of(client)
    if after is None:
        show({"event": "end", "ok": True, "text": "Not signed in; nothing to do.", "anew": False})
    elif after.signed_in == "yes":
        raise CliError(
            "LOGOUT_FAILED",
            "The agent took the sign-out and opens sessions all the same. A key in its environment or its settings may "
            "be what it uses; its own documentation says where.",
        )
    elif after.signed_in == "unknown":
        raise CliError(
            after.code, f"Stage session/new, after the sign-out: {after.reason} Whether it was signed out is not known."
        )
    else:
        show({"event": "end", "ok": True, "text": "Signed out.", "anew": True})
    return 0


# ---- status ---------------------------------------------------------------------------------------------------------
async def run_status(flags: AgentFlags, *, as_json: bool) -> int:
    """Say what the agent is and whether it is signed in.

    :returns: 1 when the latter cannot be told.
    :raises CliError: when it cannot be started.
    """
    settings = Settings.from_mapping(flags.settings())
    show = _show_json if as_json else _show_text
    with _stage("start"):
        show(_found_event(settings))
    async with _started(settings, looking=True) as client:
        show(_agent_event(client))
        found = await standing_of(client)
    reason = found.reason
    if found.signed_in == "no":
        # The agent keeps a sign-in of its own; that of an app or of another program does not count.
        failure = CliError(found.code, "`antigravity-acp login` signs in. A sign-in of another program does not count.")
        reason = advise(failure, settings).message
    show({"event": "status", "signedIn": found.signed_in, "code": found.code, "reason": reason, **_models(found)})
    return 1 if found.signed_in == "unknown" else 0


def _found_event(settings: Settings) -> dict[str, Any]:
    command = resolve_command(settings)
    if is_embedded_command(command) and not settings.command:
        source, how = "embedded", "the embedded engine, a part of this installation"
    else:
        server = find_official(settings, command)
        source = "explicit" if server is None else server.source
        how = FOUND_BY.get(source, source)
    return {"event": "found", "program": command.argv[0], "source": source, "how": how}


# ---- shared ---------------------------------------------------------------------------------------------------------
@asynccontextmanager
async def _started(settings: Settings, *, looking: bool = False) -> AsyncIterator[AgentClient]:
    """:param looking: nothing may be opened on the person's screen."""
    try:
        command = resolve_command(settings)
        client = await AgentClient.start(settings, without_browser(command) if looking else command)
    except LlmError as error:
        stage = "start" if error.code in _START_CODES else "initialize"
        failure = advise(explain(error), settings)
        more = " `antigravity-acp doctor` shows more." if stage == "initialize" else ""
        raise CliError(failure.code, f"Stage {stage}: {failure.message}{more}", status=failure.status) from None
    try:
        yield client
    finally:
        await client.aclose()


@contextmanager
def _stage(name: str) -> Iterator[None]:
    try:
        yield
    except LlmError as error:
        raise CliError(error.code, f"Stage {name}: {error.message}") from None


def _models(found: Standing) -> dict[str, Any]:
    return {"currentModel": found.current_model, "models": len(found.models)}


def _agent_event(client: AgentClient) -> dict[str, Any]:
    return {
        "event": "agent",
        "name": client.agent_name,
        "version": client.agent_version,
        "profile": client.profile.id,
        "authMethods": list(client.auth_methods),
    }


def _show_json(event: Mapping[str, Any]) -> None:
    JsonLines().show(event)


def _show_text(event: Mapping[str, Any]) -> None:
    for line in _LINES[event["event"]](event):
        print(plain(line), flush=True)


def _row(label: str, value: str) -> str:
    return f"{label:16}{value}"


def _agent_lines(event: Mapping[str, Any]) -> list[str]:
    return [
        _row("agent", f"{event['name'] or '(no name)'} {event['version']}".rstrip()),
        _row("sign-in methods", ", ".join(event["authMethods"]) or "none announced"),
    ]


def _sign_in_lines(event: Mapping[str, Any]) -> list[str]:
    method = event["method"] or "no method chosen"
    return [f"Signing in ({method}), for at most {event['timeoutS']:g} s. Ctrl-C gives up."]


def _link_lines(event: Mapping[str, Any]) -> list[str]:
    return [
        *("", "If no browser opens, open this link:", "", event["url"], ""),
        "On another machine's browser, too: there it ends at a page that cannot be shown, whose address has port "
        f"{event['port']}. Paste that address here.",
    ]


def _refused_lines(event: Mapping[str, Any]) -> list[str]:
    more = "Paste it again." if event["left"] else "No more are taken; the browser can still finish, Ctrl-C gives up."
    return [f"{event['reason']} {more}"]


def _status_lines(event: Mapping[str, Any]) -> list[str]:
    lines = [_row("signed in", event["signedIn"] + (f": {event['reason']}" if event["reason"] else ""))]
    if event["signedIn"] == "yes":
        lines += [_row("model now", event["currentModel"] or "not said"), _row("models", str(event["models"]))]
    return lines


_LINES: Final[dict[str, Callable[[Mapping[str, Any]], list[str]]]] = {
    "found": lambda event: [_row("program", event["program"]), _row("", event["how"])],
    "agent": _agent_lines,
    "sign-in": _sign_in_lines,
    "link": _link_lines,
    "forwarded": lambda _: ["The address was taken; waiting for the agent."],
    "refused": _refused_lines,
    "status": _status_lines,
    "end": lambda event: [event["text"]],
}
