"""A sign-in on request: by the browser, by a pasted address, and what must never reach the agent's listener."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from helpers.agent import BOUND
from helpers.signing_in import Person, Scene, address_of, visit

from antigravity_acp.acp import _forward
from antigravity_acp.acp._link import MAX_LINE, LinkFinder, RefusedAddressError, SignInLink, read_link, read_redirect
from antigravity_acp.acp.sign_in import MAX_PASTES, sign_in, sign_out, standing_of
from antigravity_acp.contract import LlmError

REDIRECT = "http%3A%2F%2F127.0.0.1%3A4321%2Foauth2callback"
URL = f"https://accounts.example.com/auth?client_id=a&redirect_uri={REDIRECT}&state=s_-1~&scope=x"
LINK = SignInLink(URL, "127.0.0.1", 4321, "/oauth2callback", "s_-1~")
GOOD = "http://127.0.0.1:4321/oauth2callback?state=s_-1~&code=4/0A&scope=a%20b"


async def signed_in(scene: Scene, person: Person, **settings: Any) -> None:
    """One sign-in to its end, within the bound."""
    async with asyncio.timeout(BOUND), scene.started(**settings) as client:
        await sign_in(client, tell=person.tell, pasted=person.paste)


# ---- the link -------------------------------------------------------------------------------------------------------


def test_a_link_is_found_wherever_the_stream_is_cut() -> None:
    text = f"auth: \x1b[4m{URL}\x1b[0m (five minutes)\nnext\n".encode()
    for cut in range(len(text) + 1):
        finder = LinkFinder()
        assert finder.feed(text[:cut]) + finder.feed(text[cut:]) == [LINK], cut
    finder = LinkFinder()
    assert [link for byte in text for link in finder.feed(bytes([byte]))] == [LINK]


def test_a_link_is_never_told_before_its_line_ends_and_never_in_part() -> None:
    finder = LinkFinder()
    assert finder.feed(f"Go to {URL}&more".encode()) == []
    assert [link.url for link in finder.feed(b"=1 now\n")] == [f"{URL}&more=1"]


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "<{}>",
        "({})",
        "[x]({}).",
        "'{}',",
        '"{}"',
        "**{}**",
        "url={};",
        "见{}。完成",
        "\x1b]8;;{}\x07here\x1b]8;;\x07",
    ],
)
def test_a_link_ends_where_a_url_ends_whatever_stands_around_it(line: str) -> None:
    assert LinkFinder().feed(line.format(URL).encode() + b"\n") == [LINK]


def test_a_line_without_end_costs_no_memory_and_hides_nothing_that_comes_after_it() -> None:
    finder = LinkFinder()
    for _ in range(200):
        assert finder.feed(b"y" * 65_536) == []
        assert len(finder._line) <= MAX_LINE
    assert finder.rest() == []
    assert finder.feed(f" {URL}\n{URL}\n".encode()) == [LINK]


@pytest.mark.parametrize("number", ["0", "{}"], ids=["one link", "many links"])
def test_links_without_end_are_read_a_few_times(monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    from antigravity_acp.acp import _link

    read: list[str] = []
    real = _link.read_link
    monkeypatch.setattr(_link, "read_link", lambda url: read.append(url) or real(url))
    finder = LinkFinder()
    flood = "".join(f"{URL}&n={number.format(n)}\n" for n in range(10_000)).encode()
    found = [link for at in range(0, len(flood), 65_536) for link in finder.feed(flood[at : at + 65_536])]
    assert 1 <= len(found) <= 8
    assert len(read) == len(found) == len({link.url for link in found})


@pytest.mark.parametrize(
    "url",
    [
        f"http://accounts.example.com/auth?redirect_uri={REDIRECT}",
        f"https://127.0.0.1/auth?redirect_uri={REDIRECT}",
        f"https://localhost/auth?redirect_uri={REDIRECT}",
        f"https://[::1]/auth?redirect_uri={REDIRECT}",
        f"https://accounts.example.com@evil.example/auth?redirect_uri={REDIRECT}",
        "https://accounts.example.com/auth?client_id=a",
        f"https://accounts.example.com/auth?redirect_uri={REDIRECT}&redirect_uri={REDIRECT}",
        f"https://accounts.example.com/auth?redirect_uri={REDIRECT}&state=a&state=b",
        f"https://accounts.example.com/auth#redirect_uri={REDIRECT}",
        "https://accounts.example.com/auth?redirect_uri=https%3A%2F%2F127.0.0.1%3A4321%2F",
        "https://accounts.example.com/auth?redirect_uri=http%3A%2F%2Fevil.example%3A4321%2F",
        "https://accounts.example.com/auth?redirect_uri=http%3A%2F%2F127.0.0.1%2F",
        "https://accounts.example.com/auth?redirect_uri=http%3A%2F%2F127.0.0.1%3A0%2F",
        "https://accounts.example.com/auth?redirect_uri=http%3A%2F%2F127.0.0.1%3A99999%2F",
        "https://accounts.example.com/auth?redirect_uri=http%3A%2F%2Fa%40127.0.0.1%3A4321%2F",
        "https://accounts.example.com/auth?redirect_uri=http%3A%2F%2F127.0.0.1%3A4321%2Fa%0D%0Ab",
        "https://[broken/auth?redirect_uri=" + REDIRECT,
        "https://accounts.example.com/auth?" + "a=1&" * 500 + f"redirect_uri={REDIRECT}",
    ],
)
def test_what_is_no_sign_in_link_is_ignored(url: str) -> None:
    assert read_link(url) is None


def test_a_link_does_not_show_itself() -> None:
    assert "accounts" not in repr(LINK)
    assert "s_-1" not in repr(LINK)


# ---- the address ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
@pytest.mark.parametrize("tail", ["", "#", "#fragment ü", "\r", "  "])
def test_the_right_address_gives_path_and_query(host: str, tail: str) -> None:
    text = GOOD.replace("127.0.0.1", host) + tail
    assert read_redirect(LINK, f" {text}") == "/oauth2callback?state=s_-1~&code=4/0A&scope=a%20b"


QUERY = "?state=s_-1~&code=4"


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (f"http://127.0.0.1:4322/oauth2callback{QUERY}", "another port than 4321"),
        (f"http://127.0.0.1/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://127.0.0.1:04321/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://127.0.0.1:4321.evil.example/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://evil.example:4321/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://127.0.0.1.evil.example:4321/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://127.0.0.1:4321@evil.example/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://evil.example@127.0.0.1:4321/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://127.0.0.1:4321\\@evil.example/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://2130706433:4321/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://0x7f.1:4321/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://127.1:4321/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://127.0.0.2:4321/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://0.0.0.0:4321/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://[::ffff:127.0.0.1]:4321/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://%31%32%37.0.0.1:4321/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://127.0.0.1%3A4321/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://127.0.0.1:4321%2F@evil.example/{QUERY}", "does not lead to this machine"),
        (f"http://١٢٧.0.0.1:4321/oauth2callback{QUERY}", "does not lead to this machine"),
        (f"http://127.0.0.1:4321/oauth2callback{QUERY} HTTP/1.1", "does not lead to this machine"),
        (f"http://127.0.0.1:4321/oauth2callback{QUERY}\r\nX-Injected: 1", "does not lead to this machine"),
        (f"http://127.0.0.1:4321/oauth2callback{QUERY}\x00", "does not lead to this machine"),
        (f"http://127.0.0.1:4321/{QUERY}", "another path"),
        (f"http://127.0.0.1:4321{QUERY}", "another path"),
        (f"http://127.0.0.1:4321//oauth2callback{QUERY}", "another path"),
        (f"http://127.0.0.1:4321/oauth2callback/{QUERY}", "another path"),
        (f"http://127.0.0.1:4321/x/../oauth2callback{QUERY}", "another path"),
        (f"http://127.0.0.1:4321/oauth2%63allback{QUERY}", "another path"),
        ("http://127.0.0.1:4321/oauth2callback", "no query"),
        ("http://127.0.0.1:4321", "no query"),
        ("http://127.0.0.1:4321/oauth2callback?", "does not lead to this machine"),
        ("http://127.0.0.1:4321/oauth2callback#state=s_-1~&code=4", "no query"),
        ("http://127.0.0.1:4321/oauth2callback?code=4", "another sign-in"),
        ("http://127.0.0.1:4321/oauth2callback?state=S_-1~&code=4", "another sign-in"),
        ("http://127.0.0.1:4321/oauth2callback?state=s_-1~&state=s_-1~&code=4", "another sign-in"),
        ("http://127.0.0.1:4321/oauth2callback?state=s_-1~&" + "a=1&" * 500, "another sign-in"),
        (f"https://127.0.0.1:4321/oauth2callback{QUERY}", "begins with https"),
        (URL, "begins with https"),
        (f"ftp://127.0.0.1:4321/oauth2callback{QUERY}", "another scheme"),
        (f"file:///oauth2callback{QUERY}", "another scheme"),
        (f"//127.0.0.1:4321/oauth2callback{QUERY}", "not a whole address"),
        (f"127.0.0.1:4321/oauth2callback{QUERY}", "not a whole address"),
        ("4/0AbCdEf", "not a whole address"),
        ("", "Nothing"),
        ("   ", "Nothing"),
        (f"{GOOD}&x=" + "a" * 2_000_000, "too long"),
        ("http://" * 300_000, "too long"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_any_other_address_is_refused_with_its_reason_and_without_its_text(address: str, reason: str) -> None:
    with pytest.raises(RefusedAddressError) as caught:
        read_redirect(LINK, address)
    message = str(caught.value)
    assert reason in message
    assert "evil" not in message
    assert "s_-1" not in message
    assert "code=4" not in message


def test_without_a_state_in_the_link_the_query_is_the_agents_to_judge() -> None:
    link = SignInLink("https://x.example/", "::1", 4321, "/", None)
    assert read_redirect(link, "http://[::1]:4321?code=1") == "/?code=1"


# ---- the flow -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wording",
    ["plain", "ansi", "hyperlink", "quoted", "markdown", "log", "twice", "unfinished", "decoys"],
)
async def test_the_browser_signs_in_however_the_link_is_worded(tmp_path: Path, wording: str) -> None:
    scene, person = Scene(tmp_path, {"wording": wording}), Person()
    async with asyncio.timeout(BOUND), scene.started() as client:
        assert (await standing_of(client)).signed_in == "no"
        running = asyncio.create_task(sign_in(client, tell=person.tell, pasted=person.paste))
        await visit(address_of(await person.link))
        await running
        found = await standing_of(client)
    assert (found.signed_in, found.current_model, found.models) == ("yes", "fast", ("fast", "slow"))
    assert len(person.links) == 1
    assert scene.methods() == ["initialize", "session/new", "authenticate", "session/new"]
    assert len(scene.visits()) == 1
    assert person.waiting == person.ended  # a wait for a paste does not outlive the sign-in


@pytest.mark.parametrize("options", [{}, {"host": "localhost"}, {"host": "::1"}, {"path": ""}, {"state": False}])
async def test_a_pasted_address_signs_in_where_the_agent_waits(tmp_path: Path, options: dict[str, Any]) -> None:
    scene, person = Scene(tmp_path, options), Person(address_of)
    await signed_in(scene, person)
    assert scene.flag.exists()
    assert (person.forwarded, person.refusals) == (1, [])
    [visited] = [entry for entry in scene.record() if "http" in entry]
    assert visited["http"].startswith(f"GET {options.get('path', '/oauth2callback') or '/'}?")
    assert visited["host"].startswith(("127.0.0.1:", "localhost:", "[::1]:"))


async def test_wrong_addresses_reach_nobody_and_the_right_one_after_them_still_signs_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = (
        lambda url: address_of(url, query="").rstrip("?"),
        lambda url: address_of(url, query="state=other&code=1"),
        lambda url: address_of(url).replace("127.0.0.1", "2130706433"),
        lambda url: url,
        "http://127.0.0.1:1/oauth2callback?code=1",
        "",
    )
    scene, person = Scene(tmp_path), Person(*wrong, address_of)
    await signed_in(scene, person)
    assert len(person.refusals) == len(wrong)
    assert len(scene.visits()) == 1
    assert scene.flag.exists()
    assert not [record for record in caplog.records if "code=" in record.getMessage() or "http" in record.getMessage()]


async def test_a_flood_of_wrong_addresses_ends_the_pasting_and_not_the_sign_in(tmp_path: Path) -> None:
    scene, person = Scene(tmp_path), Person(*(["x" * 2_000_000] * (MAX_PASTES + 5)))
    async with asyncio.timeout(BOUND), scene.started() as client:
        running = asyncio.create_task(sign_in(client, tell=person.tell, pasted=person.paste))
        link = await person.link
        while len(person.refusals) < MAX_PASTES:
            await asyncio.sleep(0)
        assert not running.done()
        await visit(address_of(link))
        await running
    assert len(person.refusals) == MAX_PASTES
    assert not person.waiting


async def test_an_address_that_the_listener_does_not_take_may_be_pasted_again(tmp_path: Path) -> None:
    scene, person = Scene(tmp_path, {"stumble": True}), Person(address_of, address_of)
    await signed_in(scene, person)
    assert person.forwarded == 1
    assert ["HTTP 503" in reason for reason in person.refusals] == [True]


async def test_the_end_of_the_input_leaves_the_browser_to_finish(tmp_path: Path) -> None:
    scene, person = Scene(tmp_path), Person(None)
    async with asyncio.timeout(BOUND), scene.started() as client:
        running = asyncio.create_task(sign_in(client, tell=person.tell, pasted=person.paste))
        await visit(address_of(await person.link))
        await running
    assert scene.flag.exists()
    assert not person.waiting


async def test_a_sign_in_that_nobody_finishes_ends_at_its_limit(tmp_path: Path) -> None:
    scene, person = Scene(tmp_path), Person()
    with pytest.raises(LlmError) as caught:
        await signed_in(scene, person, authTimeoutMs=300)
    assert caught.value.code == "ACP_TIMEOUT"
    assert len(person.links) == 1
    assert person.ended


async def test_a_listener_that_never_answers_does_not_hold_the_sign_in_beyond_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: connections.append(writer), "127.0.0.1", 0)
    monkeypatch.setattr(_forward, "FORWARD_S", 0.1)
    port = server.sockets[0].getsockname()[1]
    try:
        assert await _forward.forward("127.0.0.1", port, "/?code=1") is None
    finally:
        for each in connections:
            each.close()
        server.close()
        await server.wait_closed()


async def test_a_redirect_of_the_listener_is_not_followed_and_its_flood_is_cut() -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        try:
            writer.write(b"HTTP/1.1 302 Found\r\nLocation: /again\r\n\r\n")
            while True:
                writer.write(b"z" * 65_536)
                await writer.drain()
        except ConnectionError:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with asyncio.timeout(BOUND), server:
        assert await _forward.forward("127.0.0.1", server.sockets[0].getsockname()[1], "/?code=1") == 302
    assert asked == [b"GET /?code=1 HTTP/1.1\r\n"]


@pytest.mark.requirement("A-063")
async def test_a_wrong_state_from_a_browser_fails_without_a_word_of_the_agent(tmp_path: Path) -> None:
    scene, person = Scene(tmp_path), Person()
    async with asyncio.timeout(BOUND), scene.started() as client:
        running = asyncio.create_task(sign_in(client, tell=person.tell, pasted=person.paste))
        await visit(address_of(await person.link, query="state=wrong&code=1"))
        with pytest.raises(LlmError) as caught:
            await running
    assert caught.value.code == "ACP_AUTH_REQUIRED"
    assert "somebody" not in str(caught.value)
    assert not scene.flag.exists()


async def test_an_agent_that_dies_during_the_sign_in_ends_it_at_once(tmp_path: Path) -> None:
    person = Person()
    with pytest.raises(LlmError) as caught:
        await signed_in(Scene(tmp_path, {"on_auth": "die"}), person)
    assert caught.value.code == "ACP_DISCONNECTED"
    assert "exit status 7" in str(caught.value)


async def test_cancelling_ends_everything_also_while_an_address_is_on_its_way(tmp_path: Path) -> None:
    scene, person = Scene(tmp_path, {"hold": True, "on_auth": "child"}), Person(address_of)
    running = asyncio.create_task(signed_in(scene, person))
    async with asyncio.timeout(BOUND):
        await person.link
        while not person.forwarded:
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert not scene.flag.exists()


async def test_news_that_cannot_be_told_end_the_sign_in(tmp_path: Path) -> None:
    def tell(_: object) -> None:
        raise BrokenPipeError

    async with asyncio.timeout(BOUND), Scene(tmp_path).started() as client:
        with pytest.raises(BrokenPipeError):
            await sign_in(client, tell=tell)


async def test_stderr_is_heard_only_while_a_sign_in_runs(tmp_path: Path) -> None:
    scene, person = Scene(tmp_path, {"browser": True}), Person()
    async with asyncio.timeout(BOUND), scene.started() as client:
        assert client._process._pipes.on_stderr is None
        await sign_in(client, tell=person.tell)
        assert client._process._pipes.on_stderr is None
        tail = client.stderr_tail()
    assert len(person.links) == 1
    assert "state=" not in tail


@pytest.mark.requirement("A-007")
async def test_a_session_without_sign_in_is_refused_and_nothing_is_started(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    async with scene.started() as client:
        with pytest.raises(LlmError) as caught:
            await client.new_session(sign_in=False)
    assert caught.value.code == "ACP_AUTH_REQUIRED"
    assert scene.methods() == ["initialize", "session/new"]


@pytest.mark.parametrize(
    ("options", "settings", "code"),
    [
        ({"session_error": {"code": -32603, "message": "please log in again"}}, {}, "ACP_RPC_ERROR"),
        ({"session_hangs": True}, {"requestTimeoutMs": 200}, "ACP_TIMEOUT"),
    ],
)
async def test_a_session_that_fails_otherwise_says_nothing_about_the_sign_in(
    tmp_path: Path, options: dict[str, Any], settings: dict[str, Any], code: str
) -> None:
    async with Scene(tmp_path, options).started(**settings) as client:
        found = await standing_of(client)
    assert (found.signed_in, found.code) == ("unknown", code)
    assert not {"sign", "log in", "login", "logout"} & set(found.reason.lower().split())


# ---- signing out ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "last"), [("method", "logout"), ("prompt", "session/prompt")])
async def test_signing_out_takes_the_agents_own_way(tmp_path: Path, how: str, last: str) -> None:
    scene = Scene(tmp_path, {"logout": how})
    scene.flag.touch()
    async with asyncio.timeout(BOUND), scene.started() as client:
        assert await sign_out(client, timeout_ms=5000)
        assert (await standing_of(client)).signed_in == "no"
        assert not await sign_out(client, timeout_ms=5000)
    assert scene.methods() == ["initialize", "session/new", last, "session/new", "session/new"]
    if how == "prompt":
        [sent] = [entry["params"]["prompt"] for entry in scene.record() if entry.get("method") == last]
        assert sent == [{"type": "text", "text": "/logout"}]


async def test_broken_sessions_do_not_keep_acps_own_logout_from_working(tmp_path: Path) -> None:
    broken = {"code": -32603, "message": "broken"}
    scene = Scene(tmp_path, {"logout": "method", "session_error": broken})
    scene.flag.touch()
    async with scene.started() as client:
        assert await sign_out(client, timeout_ms=5000)
    assert not scene.flag.exists()


async def test_a_slash_command_is_never_sent_to_an_agent_that_is_not_known_to_take_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"name": "unheard-of"})
    scene.flag.touch()
    async with scene.started() as client:
        with pytest.raises(LlmError) as caught:
            await sign_out(client, timeout_ms=5000)
    assert caught.value.code == "ACP_AUTH_UNSUPPORTED"
    assert scene.methods() == ["initialize"]


async def test_a_sign_out_that_hangs_is_bounded(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"logout": "hang"})
    scene.flag.touch()
    async with scene.started() as client:
        with pytest.raises(LlmError) as caught:
            await sign_out(client, timeout_ms=200)
    assert caught.value.code == "ACP_TIMEOUT"
