"""Servers, proxies and lines that misbehave: each is refused with the right reason, or recovered from."""

import asyncio
import hashlib
import json
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from helpers.https_server import (
    Behaviour,
    Exchange,
    Server,
    changed,
    cut_after,
    listening,
    proxy,
    redirect,
    serve,
    server_context,
    status,
)

from antigravity_provisioning import Asset
from antigravity_provisioning._http import Patience
from antigravity_provisioning.download import download
from antigravity_provisioning.errors import REASONS, ProvisioningError

SIZE = 100_000
DATA = b"PK\x03\x04" + random.Random(4).randbytes(SIZE - 4)
OTHER = b"PK\x03\x04" + random.Random(5).randbytes(SIZE - 4)
HASH = hashlib.sha256(DATA).hexdigest()
TENTHS = [SIZE * tenth // 10 for tenth in range(1, 10)]

#: Bounds that make a hostile server fail in a moment.
FAST = Patience(
    connect_s=5, read_s=0.3, headers_s=5, window_s=0.3, minimum_rate=50_000, attempts=3, pause_s=0, block=4096
)


def asset_of(url: str, data: bytes = DATA) -> Asset:
    sha256 = hashlib.sha256(data).hexdigest()
    return Asset("1.3.0", "linux-x86_64", url, len(data), sha256, "test", "server", (), ("harness",), 0)


def kept_in(folder: Path) -> int:
    """Bytes of the part, after it was looked at: only a true beginning of the archive and its note may be there."""
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if not names:
        return 0
    assert names == {f"{HASH}.part", f"{HASH}.json"}
    part = (folder / f"{HASH}.part").read_bytes()
    assert part
    assert DATA.startswith(part)
    assert set(json.loads((folder / f"{HASH}.json").read_text())) <= {"url", "size", "etag", "last-modified"}
    return len(part)


def plant_part(folder: Path, url: str, data: bytes, **validator: str) -> None:
    """What an earlier call may have left."""
    folder.mkdir(exist_ok=True)
    (folder / f"{HASH}.part").write_bytes(data)
    (folder / f"{HASH}.json").write_text(json.dumps({"url": url, "size": SIZE, **validator}))


async def outcome(url: str, folder: Path, patience: Patience = FAST) -> str:
    """``"whole"``, or the reason of the refusal, whose message is looked at."""
    try:
        path = await download(asset_of(url), folder, patience=patience)
    except ProvisioningError as error:
        refusal = error
    else:
        assert path == folder / f"{HASH}.zip"
        assert path.read_bytes() == DATA
        assert {one.name for one in folder.iterdir()} == {path.name}
        return "whole"
    assert refusal.stage == "download"
    assert refusal.reason in REASONS
    assert "words of the" not in refusal.message.lower()
    assert refusal.message.endswith(".")
    assert "{" not in refusal.message
    assert ("--from" in refusal.message) is (f"fetch {url} on another machine" in refusal.message)
    assert refusal.__suppress_context__ or refusal.__context__ is None
    return refusal.reason


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with serve(DATA) as running:
        monkeypatch.setenv("SSL_CERT_FILE", running.ca_file)
        yield running


async def hang(exchange: Exchange) -> None:
    await asyncio.Event().wait()


async def drip(exchange: Exchange) -> None:
    await exchange.head(200, content_length=SIZE, etag='"drip"')
    for start in range(0, SIZE, 10):
        await exchange.send(DATA[start : start + 10])
        await asyncio.sleep(0.02)


async def drip_headers(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await exchange.send(b"x: y\r\n")
        await asyncio.sleep(0.05)


async def stall_in_the_middle(exchange: Exchange) -> None:
    await exchange.good(stop=40_000)
    await asyncio.Event().wait()


async def reset_in_the_middle(exchange: Exchange) -> None:
    await exchange.good(stop=70_000)
    exchange.reset()


async def endless_chunks(exchange: Exchange) -> None:
    await exchange.head(200, transfer_encoding="chunked", content_type="application/zip")
    while True:
        await exchange.send(b"4000\r\n" + DATA[:0x4000] + b"\r\n")


async def endless_after_the_length(exchange: Exchange) -> None:
    await exchange.good()
    while True:
        await exchange.send(bytes(0x4000))


async def no_http(exchange: Exchange) -> None:
    await exchange.send(b"220 words of the mail server ready\r\n\r\n")


async def two_lengths(exchange: Exchange) -> None:
    await exchange.send(f"HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\nContent-Length: 7\r\n\r\n".encode())


async def endless_headers(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        await exchange.send(b"x: " + bytes([65]) * 8000 + b"\r\n")


async def page(exchange: Exchange) -> None:
    body = b"<!DOCTYPE html><html>words of the portal</html>"
    await exchange.head(200, content_type="text/html; charset=utf-8", content_length=len(body))
    await exchange.send(body)


class Case(NamedTuple):
    """:param always: how every request is answered. :param reason: of the refusal. :param kept: bytes that stay.

    :param requests: how many it took.
    """

    name: str
    always: Behaviour
    reason: str
    kept: int = 0
    requests: int = 1


REFUSED = [
    Case("cut before the answer", lambda exchange: asyncio.sleep(0), "cut", requests=3),
    Case("cut after no bytes", cut_after(0), "cut", requests=3),
    Case("always cut at the same place", cut_after(30_000), "cut", kept=30_000, requests=4),
    Case("always cut, no validator", cut_after(30_000, etag=None, last_modified=None), "cut", requests=4),
    Case("always cut, ranges ignored", cut_after(30_000, ranges=False), "cut", kept=30_000, requests=4),
    Case("never an answer", hang, "timeout", requests=3),
    Case("stalls in the middle", stall_in_the_middle, "timeout", kept=40_000, requests=4),
    Case("one byte too short a length", changed(content_length=SIZE - 1), "size"),
    Case("one byte too long a length", changed(content_length=SIZE + 1), "size"),
    Case("negative length", changed(content_length=-1), "content"),
    Case("length in words", changed(content_length="many"), "content"),
    Case("huge length", changed(content_length="9" * 40), "content"),
    Case("no length", changed(content_length=None), "content"),
    Case("two lengths", two_lengths, "content"),
    *(Case(f"redirect {code}", redirect(code), "redirect") for code in (300, 301, 302, 303, 307, 308)),
    Case("redirect elsewhere", redirect(302, "http://127.0.0.1:9/"), "redirect"),
    Case("redirect that is no address", redirect(302, "https://[broken:words/"), "redirect"),
    Case("page with status 200", page, "content"),
    Case("page that says it is an archive", changed(data=b"<html>".ljust(SIZE)), "content"),
    Case("JSON", changed(content_type="application/json"), "content"),
    Case("gzip", changed(content_encoding="gzip"), "content"),
    Case("an unknown encoding", changed(content_encoding="br, identity"), "content"),
    Case("another archive of the same size", changed(data=OTHER), "hash"),
    Case("endless body", endless_chunks, "content"),
    Case("endless headers", endless_headers, "content"),
    Case("no HTTP", no_http, "content"),
    Case("204", status(204), "http-status"),
    Case("206 that nobody asked for", changed(content_length=SIZE), "whole"),
    *(Case(f"status {code}", status(code), "http-status") for code in (304, 400, 401, 403, 404, 410, 416, 451)),
    *(Case(f"status {code}", status(code), "http-status", requests=3) for code in (429, 500, 502, 503, 504)),
    Case("status 407", status(407), "proxy"),
]


@pytest.mark.requirement("A-050", "X-005")
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in REFUSED])
async def test_a_hostile_server_is_refused_by_its_reason_and_leaves_nothing_wrong(
    case: Case, server: Server, tmp_path: Path
) -> None:
    server.always(case.always)
    assert await outcome(server.url, tmp_path / "downloads") == case.reason
    if case.reason != "whole":
        assert kept_in(tmp_path / "downloads") == case.kept
    assert len(server.requests) == case.requests


RECOVERED: list[tuple[str, tuple[Behaviour, ...]]] = [
    ("reset in the middle", (reset_in_the_middle,)),
    ("stall in the middle", (stall_in_the_middle,)),
    ("busy, then a cut, then broken", (status(503), cut_after(50_000), status(500), status(429, retry_after=0))),
    ("cut, then the range is ignored", (cut_after(50_000), changed(ranges=False))),
    ("cut, then the version changed", (cut_after(50_000, data=OTHER), changed())),
    ("weak ETag alone", (cut_after(50_000, etag='W/"weak"', last_modified=None),)),
    (
        "weak ETag and a date",
        (cut_after(50_000, etag='W/"weak"'), cut_after(80_000, etag='W/"weak"'), changed(etag='W/"weak"')),
    ),
    ("no validator at all", (cut_after(50_000, etag=None, last_modified=None),)),
    ("an ETag that would break the request", (cut_after(50_000, etag='"a\x01b"', last_modified=None),)),
    ("cut, then 416", (cut_after(50_000), status(416))),
    ("cut, then a wrong range", (cut_after(50_000), changed(content_range=f"bytes 0-{SIZE - 1}/{SIZE}"))),
    (
        "cut, then a range of another size",
        (cut_after(50_000), changed(content_range=f"bytes 50000-{SIZE - 1}/{SIZE + 9}")),
    ),
    ("cut, then a range without a size", (cut_after(50_000), changed(content_range=f"bytes 50000-{SIZE - 1}/*"))),
    ("cut, then no Content-Range", (cut_after(50_000), changed(content_range=None))),
    (
        "cut, then many ranges",
        (cut_after(50_000), changed(content_range=None, content_type="multipart/byteranges; boundary=x")),
    ),
    (
        "cut, then bytes of another version under the same ETag",
        (cut_after(50_000, etag='"x"'), changed(data=OTHER, etag='"x"')),
    ),
    ("bytes after the end", (endless_after_the_length,)),
]


@pytest.mark.requirement("X-005")
@pytest.mark.parametrize("script", [pytest.param(script, id=name) for name, script in RECOVERED])
async def test_a_fault_that_can_be_recovered_from_ends_in_the_whole_archive(
    script: tuple[Behaviour, ...], server: Server, tmp_path: Path
) -> None:
    server.script(*script)
    assert await outcome(server.url, tmp_path) == "whole"


@pytest.mark.requirement("X-005")
@pytest.mark.parametrize("at", TENTHS)
async def test_a_cut_at_any_tenth_is_continued_where_it_was(at: int, server: Server, tmp_path: Path) -> None:
    server.script(cut_after(at))
    assert await outcome(server.url, tmp_path) == "whole"
    assert [request.range_start for request in server.requests] == [0, at]
    assert server.requests[1].headers["if-range"].startswith('"')


async def test_a_line_that_cuts_at_every_tenth_converges_although_few_attempts_are_allowed(
    server: Server, tmp_path: Path
) -> None:
    server.script(*map(cut_after, TENTHS))
    assert await outcome(server.url, tmp_path, Patience(attempts=1, pause_s=0)) == "whole"
    assert [request.range_start for request in server.requests] == [0, *TENTHS]


async def test_a_line_that_cuts_so_often_that_nothing_gets_ahead_is_given_up_and_keeps_what_it_has(
    server: Server, tmp_path: Path
) -> None:
    server.script(*(cut_after(100 * count) for count in range(1, 50)))
    assert await outcome(server.url, tmp_path) == "cut"
    assert kept_in(tmp_path) == 300


async def test_a_line_that_only_seems_to_get_ahead_is_given_up(server: Server, tmp_path: Path) -> None:
    # Every answer starts over, and every second one is longer than the one before it.
    server.script(*(cut_after(30_000, ranges=False), cut_after(60_000, ranges=False)) * 9)
    assert await outcome(server.url, tmp_path) == "cut"
    assert len(server.requests) == 5


async def test_a_drip_is_ended_and_one_in_the_headers_too(server: Server, tmp_path: Path) -> None:
    server.always(drip)
    assert await outcome(server.url, tmp_path) == "timeout"
    assert len(server.requests) == 3
    # Little as it is, it is kept.
    assert kept_in(tmp_path) > 0
    server.always(drip_headers)
    folder = tmp_path / "headers"
    assert await outcome(server.url, folder, Patience(headers_s=0.3, read_s=5, attempts=1)) == "timeout"
    assert kept_in(folder) == 0


@pytest.mark.parametrize(
    "behaviour", [status(403), redirect(302), page, changed(content_encoding="gzip"), changed(content_length=7)]
)
async def test_what_was_kept_survives_an_answer_that_is_refused(
    behaviour: Behaviour, server: Server, tmp_path: Path
) -> None:
    server.script(cut_after(60_000), behaviour)
    assert await outcome(server.url, tmp_path) != "whole"
    assert kept_in(tmp_path) == 60_000
    assert await outcome(server.url, tmp_path) == "whole"
    assert server.requests[-1].range_start == 60_000


async def test_a_range_that_stays_unusable_starts_over_once_and_then_ends(server: Server, tmp_path: Path) -> None:
    wrong = changed(content_range="bytes 1-2/3", stop=60_000)
    server.script(cut_after(50_000), wrong, cut_after(50_000), wrong)
    assert await outcome(server.url, tmp_path) == "content"
    assert [request.range_start for request in server.requests] == [0, 50_000, 0, 50_000]


async def test_bytes_of_another_version_are_not_taken_even_when_the_server_ignores_if_range(
    server: Server, tmp_path: Path
) -> None:
    server.script(cut_after(50_000, etag='"old"'), _ignores_if_range)
    assert await outcome(server.url, tmp_path) == "whole"
    # Not one byte of it: the next request does not go on behind them.
    assert [request.range_start for request in server.requests] == [0, 50_000, 0]


async def _ignores_if_range(exchange: Exchange) -> None:
    await exchange.head(206, content_length=SIZE - 50_000, content_range=f"bytes 50000-{SIZE - 1}/{SIZE}", etag='"new"')
    await exchange.send(OTHER[50_000:60_000])


async def test_a_wrong_hash_after_a_resume_is_tried_once_more_and_only_once(server: Server, tmp_path: Path) -> None:
    async def changes_in_the_middle(exchange: Exchange) -> None:
        if exchange.request.range_start:
            await exchange.good(data=OTHER, etag='"x"')
        else:
            await exchange.good(stop=50_000, etag='"x"')

    server.always(changes_in_the_middle)
    assert await outcome(server.url, tmp_path) == "hash"
    assert [request.range_start for request in server.requests] == [0, 50_000, 0, 50_000]
    assert kept_in(tmp_path) == 0


@pytest.mark.parametrize("name", ["etag", "last-modified"])
async def test_a_validator_that_an_enemy_wrote_is_not_sent(name: str, server: Server, tmp_path: Path) -> None:
    plant_part(tmp_path, server.url, DATA[:500], **{name: '"a"\r\nEvil: yes'})
    assert await outcome(server.url, tmp_path) == "whole"
    assert [(one.range_start, one.headers.get("evil")) for one in server.requests] == [(0, None)]


# TLS


class Tls(NamedTuple):
    names: tuple[str, ...]
    trusted: bool = True
    expired: bool = False


@pytest.mark.requirement("A-050")
@pytest.mark.parametrize(
    ("tls", "word"),
    [
        pytest.param(Tls(("localhost",), trusted=False), "SSL_CERT_FILE", id="unknown authority"),
        pytest.param(Tls(("other.example",)), "another name", id="wrong host name"),
        pytest.param(Tls(("localhost",), expired=True), "clock", id="expired"),
    ],
)
async def test_a_certificate_that_is_not_good_is_refused_and_told(
    tls: Tls, word: str, tmp_path: Path, server: Server
) -> None:
    import trustme

    authority = server.ca if tls.trusted else trustme.CA()
    with serve(DATA, context=server_context(authority, *tls.names, expired=tls.expired)) as bad:
        with pytest.raises(ProvisioningError) as caught:
            await download(asset_of(bad.url), tmp_path, patience=FAST)
        assert (caught.value.reason, bad.requests, bad.connections) == ("tls", [], 0)
    assert word in caught.value.message
    assert kept_in(tmp_path) == 0


async def test_plain_http_on_the_port_is_a_tls_fault(server: Server, tmp_path: Path) -> None:
    with serve(DATA, plain=True) as plain:
        assert await outcome(plain.url, tmp_path) == "tls"
        assert plain.requests == []


async def test_an_address_without_tls_is_never_asked(server: Server, tmp_path: Path) -> None:
    with serve(DATA, plain=True) as plain:
        assert await outcome(plain.url.replace("https:", "http:"), tmp_path) == "content"
        assert plain.connections == 0


async def test_a_server_that_hangs_in_the_handshake_is_a_timeout(server: Server, tmp_path: Path) -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    with listening(mute) as port:
        patience = Patience(connect_s=0.2, attempts=2, pause_s=0)
        assert await outcome(f"https://localhost:{port}/a.zip", tmp_path, patience) == "timeout"


async def test_a_server_that_hangs_up_in_the_handshake_is_a_cut(server: Server, tmp_path: Path) -> None:
    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    with listening(rude) as port:
        assert await outcome(f"https://localhost:{port}/a.zip", tmp_path) == "cut"


async def test_certificates_that_cannot_be_read_are_named(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for content in (None, "no certificate"):
        file = tmp_path / "ca.pem"
        if content is not None:
            file.write_text(content)
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        with pytest.raises(ProvisioningError, match="SSL_CERT_FILE") as caught:
            await download(asset_of(server.url), tmp_path / "downloads", patience=FAST)
        assert caught.value.reason == "tls"


async def test_an_authority_in_ssl_cert_dir_is_trusted_also_beside_ssl_cert_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import trustme

    folder = tmp_path / "certificates"
    folder.mkdir()
    # OpenSSL looks a certificate up by the hash of its subject.
    name = f"{_subject_hash(server.ca.cert_pem.bytes()):08x}.0"
    server.ca.cert_pem.write_to_path(folder / name)
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(other)
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    for variable in (str(other), None):
        if variable is None:
            monkeypatch.delenv("SSL_CERT_FILE")
        else:
            monkeypatch.setenv("SSL_CERT_FILE", variable)
        target = tmp_path / ("both" if variable else "folder")
        assert await outcome(server.url, target) == "whole"


def _subject_hash(pem: bytes) -> int:
    """OpenSSL's X509_NAME_hash: SHA-1 over the canonical DER of the name (lower case, UTF-8, no outer SEQUENCE)."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    subject = x509.load_pem_x509_certificate(pem).subject
    body = b""
    for attribute in subject:
        assert attribute.oid in (NameOID.ORGANIZATION_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.COMMON_NAME)
        text = " ".join(attribute.value.lower().split()).encode()
        oid = bytes([0x55, 0x04, int(attribute.oid.dotted_string.rsplit(".", 1)[1])])
        pair = b"\x06\x03" + oid + b"\x0c" + bytes([len(text)]) + text
        pair = b"\x30" + bytes([len(pair)]) + pair
        body += b"\x31" + bytes([len(pair)]) + pair
    return int.from_bytes(hashlib.sha1(body).digest()[:4], "little")


# Names, ports and proxies


async def test_a_name_that_does_not_resolve(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def resolve(host: Any, *rest: Any, **options: Any) -> Any:
        # What a resolver without a network says at once, or after half a minute.
        if str(host).endswith(".invalid") or host == b"dl.example.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "words of the resolver")
        return real(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert await outcome("https://dl.example.invalid/a.zip", tmp_path) == "dns"
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.invalid:3128")
    assert await outcome("https://dl.example.com/a.zip", tmp_path) == "proxy"


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_refused_connection_is_told_at_once(server: Server, tmp_path: Path) -> None:
    assert await outcome(f"https://127.0.0.1:{_closed_port()}/a.zip", tmp_path) == "connect"


async def test_a_network_that_goes_away_in_the_middle_is_given_time(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The port closes behind the first answer, as when a laptop changes its network.
    pauses: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if seconds == 0.01:
            pauses.append(seconds)
            # Not before the port is closed.
            await gone.wait()
        await real(0)

    gone = asyncio.Event()
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with serve(DATA) as leaving:
        url = leaving.url
        closed = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def cut(exchange: Exchange) -> None:
            await exchange.good(stop=50_000)
            loop.call_soon_threadsafe(closed.set)

        leaving.script(cut)
        patience = Patience(attempts=4, pause_s=0.01, longest_pause_s=0.01)
        task = asyncio.ensure_future(outcome(url, tmp_path, patience))
        await asyncio.wait_for(closed.wait(), 10)
        # The answer must have arrived before the server's end takes it back.
        while not pauses:
            await real(0.005)
    gone.set()
    assert await task == "connect"
    assert len(pauses) == 4
    assert kept_in(tmp_path) == 50_000


@pytest.mark.requirement("A-050")
async def test_a_proxy_is_used_for_names_and_never_for_loopback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    with serve(DATA, host="dl.example.invalid") as far, proxy(far.port) as between:
        for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, between.url)
        assert await outcome(far.url, tmp_path / "far") == "whole"
        assert between.targets == [f"dl.example.invalid:{far.port}"]
        for number, host in enumerate(("localhost", "127.0.0.1")):
            assert await outcome(server.url.replace("localhost", host), tmp_path / f"near{number}") == "whole"
        assert len(between.targets) == 1


@pytest.mark.parametrize(
    "others", [{"ALL_PROXY": "socks5://127.0.0.1:1"}, {"all_proxy": "socks://127.0.0.1:1/", "HTTP_PROXY": "ftp://x"}]
)
async def test_a_proxy_for_other_urls_need_not_be_one_that_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server, others: dict[str, str]
) -> None:
    with serve(DATA, host="dl.example.invalid") as far, proxy(far.port) as between:
        for name, value in {"HTTPS_PROXY": between.url, **others}.items():
            monkeypatch.setenv(name, value)
        assert await outcome(far.url, tmp_path) == "whole"
        assert len(between.targets) == 1


async def test_a_proxy_that_speaks_tls_may_have_a_certificate_of_the_company(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    with serve(DATA, host="dl.example.invalid") as far, proxy(far.port, tls=True) as between:
        monkeypatch.setenv("HTTPS_PROXY", between.url)
        assert await outcome(far.url, tmp_path) == "whole"
        assert between.targets == [f"dl.example.invalid:{far.port}"]


@pytest.mark.parametrize("code", [302, 403, 407, 502])
async def test_a_proxy_that_refuses_is_named(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    with proxy(server.port, refuse=code) as between:
        monkeypatch.setenv("HTTPS_PROXY", between.url)
        with pytest.raises(ProvisioningError, match=str(code)) as caught:
            await download(asset_of("https://dl.example.invalid/a.zip"), tmp_path, patience=FAST)
    assert caught.value.reason == "proxy"
    assert "Words" not in caught.value.message
    assert len(between.targets) == 1


async def test_a_proxy_that_is_not_there_or_mute_or_no_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    url = "https://dl.example.invalid/a.zip"
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{_closed_port()}")
    assert await outcome(url, tmp_path) == "proxy"
    for value in ("ftp://user:secret@proxy.example", "socks5://user:secret@proxy.example", "http://[secret"):
        monkeypatch.setenv("HTTPS_PROXY", value)
        with pytest.raises(ProvisioningError) as caught:
            await download(asset_of(url), tmp_path, patience=FAST)
        assert caught.value.reason in ("proxy", "dns")
        assert "secret" not in caught.value.message
    with proxy(server.port, silent=True) as between:
        monkeypatch.setenv("HTTPS_PROXY", between.url)
        assert await outcome(url, tmp_path) == "timeout"


async def test_no_proxy_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    with proxy(server.port) as between:
        monkeypatch.setenv("HTTPS_PROXY", between.url)
        monkeypatch.setenv("NO_PROXY", "example.invalid")
        monkeypatch.setattr(socket, "getaddrinfo", _no_such_name)
        assert await outcome("https://dl.example.invalid/a.zip", tmp_path) == "dns"
        assert between.targets == []


def _no_such_name(*_: Any, **__: Any) -> Any:
    raise socket.gaierror(socket.EAI_NONAME, "no")


async def test_what_the_caller_happens_to_be_handling_does_not_name_the_fault(server: Server, tmp_path: Path) -> None:
    try:
        raise socket.gaierror(socket.EAI_NONAME, "another name, another time")
    except socket.gaierror:
        assert await outcome(f"https://127.0.0.1:{_closed_port()}/a.zip", tmp_path) == "connect"
