"""What an agent inherits is a list, and its connections to us never go through a proxy."""

import json
from pathlib import Path

import pytest
from helpers.agent import agent, play

from antigravity_acp.acp._environment import agent_environment
from antigravity_acp.acp._redact import Tail, redact

TMP = Path("/scratch/tmp")


def test_only_listed_names_pass() -> None:
    host = {
        "PATH": "/bin",
        "HOME": "/home/u",
        "LC_ALL": "C",
        "XDG_RUNTIME_DIR": "/run",
        "https_proxy": "http://proxy:1",
        "HTTPS_PROXY": "http://proxy:2",
        "SSL_CERT_FILE": "/ca.pem",
        "NODE_EXTRA_CA_CERTS": "/ca.pem",
        "GEMINI_API_KEY": "k",
        "GOOGLE_APPLICATION_CREDENTIALS": "/c.json",
        "ANTIGRAVITY_HARNESS_PATH": "/h",
        "BROWSER": "firefox",
        "AWS_SECRET_ACCESS_KEY": "no",
        "OPENAI_API_KEY": "no",
        "LD_PRELOAD": "no",
        "PYTHONPATH": "no",
        "PYTHONSTARTUP": "no",
        "NODE_OPTIONS": "no",
        "DEEPSEEK_API_KEY": "no",
    }
    environment = agent_environment({}, TMP, host=host)
    assert "no" not in environment.values()
    assert {name for name in host if host[name] != "no"} <= set(environment)


def test_additions_win_and_the_temporary_directory_is_private() -> None:
    environment = agent_environment(
        {"HOME": "/other", "OPENAI_API_KEY": "mine", "TMPDIR": "/tmp"}, TMP, host={"HOME": "/home/u"}
    )
    assert environment["HOME"] == "/other"
    assert environment["OPENAI_API_KEY"] == "mine"
    assert environment["TMPDIR"] == environment["TMP"] == environment["TEMP"] == str(TMP)


@pytest.mark.parametrize(
    ("host", "additions", "expected"),
    [
        ({}, {}, "127.0.0.1,localhost,::1"),
        ({"NO_PROXY": "corp.example, localhost"}, {}, "corp.example,localhost,127.0.0.1,::1"),
        ({"no_proxy": "a"}, {"NO_PROXY": "b"}, "b,a,127.0.0.1,localhost,::1"),
        ({"NO_PROXY": " , "}, {}, "127.0.0.1,localhost,::1"),
    ],
)
def test_loopback_is_always_reached_directly(host: dict[str, str], additions: dict[str, str], expected: str) -> None:
    environment = agent_environment(additions, TMP, host=host)
    assert environment["NO_PROXY"] == environment["no_proxy"] == expected


@pytest.mark.requirement("A-004")
async def test_the_process_really_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_HOST_SECRET", "x")
    monkeypatch.setenv("GEMINI_API_KEY", "passes-through")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    async with agent(env={"EXTRA": "given"}) as one:
        told = json.loads((await play(await one.new_session(), {"tell": "env"})).text)
        names = ("SOME_HOST_SECRET", "GEMINI_API_KEY", "HTTP_PROXY", "EXTRA")
        assert [told.get(name) for name in names] == [None, "passes-through", "http://proxy.example:3128", "given"]
        assert "127.0.0.1" in told["no_proxy"]


@pytest.mark.requirement("A-063")
@pytest.mark.parametrize(
    "text",
    [
        "open https://accounts.example/o/oauth2?code=SECRETSECRET&state=1",
        "open https://accounts.example/cb#access_token=SECRETSECRET",
        "proxy http://user:SECRETSECRET@proxy:3128/",
        "Authorization: Bearer SECRETSECRET.abc",
        "GEMINI_API_KEY=SECRETSECRET",
        '{"refresh_token": "SECRET SECRET"}',
        "password: SECRETSECRET",
        "key AIzaSECRETSECRETSECRET",
        "jwt eyJSECRETSECRET.a.b",
        "signed in as SECRETSECRET@example.com",
        "nonce SECRETSECRET0123456789012345678901234",
    ],
)
def test_secrets_do_not_show_in_a_tail(text: str) -> None:
    shown = redact(f"before {text} after")
    assert "SECRET" not in shown
    assert "before" in shown


@pytest.mark.parametrize(
    "text",
    [
        "main.py:80] Starting AGY ACP Server...",
        "cannot open /usr/lib/python3.11/site-packages/some_package/with_a_long_name_2/file.py",
        "https://antigravity.google/docs/ide/extensions",
        "exit status 132 (illegal instruction)",
    ],
)
def test_what_helps_to_find_a_fault_stays(text: str) -> None:
    assert redact(text) == text


def test_a_tail_is_bounded_and_drops_the_line_that_lost_its_beginning() -> None:
    tail = Tail(100)
    tail.add(b"token=AAAA" * 50 + b"\nlast line\n")
    assert tail.text() == "last line\n"
    for _ in range(1000):
        tail.add(b"0123456789\n")
    assert len(tail.text()) <= 100
    assert Tail(10).text() == ""
    exact = Tail(10)
    exact.add(b"whole\n")
    assert exact.text() == "whole\n"
    split = Tail(1000)
    for piece in (b"api_key", b"=SEC", b"RET\n"):
        split.add(piece)
    assert "SECRET" not in split.text()
