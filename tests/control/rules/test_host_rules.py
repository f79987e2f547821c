"""Rules about hosts: label boundaries, every spelling of a name and of an address, URLs that two readers read apart."""

import time

import pytest
from helpers.policies import verdict

from antigravity_control.language.hosts import read_target, rule_host

SKIP = ["--dangerously-skip-permissions"]


@pytest.mark.parametrize(
    "target",
    [
        "google.com", "GOOGLE.COM", "google.com.", "https://google.com", "http://google.com:8080/x?y#z",
        "https://mail.google.com/x@y", "https://user:pw@google.com/", "wss://google.com/socket",
        "https://google\u3002com/",
        "https://\uff47oogle.com/", "https://google.com?evil.net", "https://google.com#@evil.net",
    ],
)  # fmt: skip
def test_every_spelling_of_an_allowed_host_is_allowed(target: str) -> None:
    assert verdict("read_url", target, allow=["read_url(google.com)"]) == "allow"


@pytest.mark.parametrize(
    "target",
    [
        "evilgoogle.com", "google.com.evil.net", "https://google.com@evil.net/", "https://evil.net\\@google.com/",
        "https://google.com\\.evil.net/", "https://google.com%2eevil.net/", "https://google.com%40evil.net",
        "https:google.com", "https:///google.com", "//google.com", "https://google.com:443@evil.net",
        "javascript:google.com",
                "https://goo\tgle.com", "https://google.com\n.evil.net/", "https://[google.com]/",
                "https://a@b@google.com/",
        "https://", "", "https://\u0261oogle.com/", "https://xn--google-.com/", "com", "\ud800", "x" * 20_000,
    ],
)  # fmt: skip
def test_what_only_looks_like_an_allowed_host_is_asked_about(target: str) -> None:
    assert verdict("read_url", target, allow=["read_url(google.com)"]) == "ask"


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1/", "http://127.1/", "http://127.0.1", "http://2130706433/", "http://0x7f.1/",
        "http://0x7F000001",
        "http://017700000001/", "http://0177.0.0.01", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]:80/",
        "http://127.0.0.1./", "http://user@127.0.0.1:99/", "http://%31%32%37.0.0.1/",
        "http://\uff11\uff12\uff17.0.0.1/",
        "http:\\\\127.0.0.1\\x", "http:/127.0.0.1", "http://1\t27.0.0.1/", "//127.0.0.1/", "127.0.0.1",
    ],
)  # fmt: skip
def test_no_spelling_of_a_denied_address_gets_round_the_deny(target: str) -> None:
    options = {"allow": ["read_url(*)"], "deny": ["read_url(127.0.0.1)"]}
    assert verdict("read_url", target, **options) == "deny"
    assert verdict("read_url", target, flags=SKIP, **options) == "deny"


@pytest.mark.parametrize(
    ("denied", "targets"),
    [
        ("127.0.0.1", ["http:127.0.0.1", "http://[64:ff9b::127.0.0.1]", "http://[64:ff9b::7f00:1]/",
        "http://[::ffff:0:7f00:1]",
                       "http://[2002:7f00:1::]/x", "http://[fe80::5efe:127.0.0.1]", "http://[64:ff9b:1::7f00:1]",
                       "https://[2001:0:7f00:1::]", "///127.0.0.1", "\\\\127.0.0.1"]),
        ("::1", ["http://[::1%25eth0]", "http://[::1%eth0]/", "[::1]", "::1%lo", "http://[0::1]:80"]),
        ("fe80::1", ["http://[fe80::1%25eth0]", "http://[FE80:0::1]"]),
        ("xn--bcher-kva.de", ["https://b%C3%BCcher.de", "https://B\u00dcCHER.de", "https://www.bu\u0308cher.de"]),
        ("evil.net", [
            "evil.net..", "https://evil.net.../x", "view-source:https://evil.net", "blob:https://evil.net/x",
            "jar:https://evil.net!/x", "feed:view-source:https://evil.net", "filesystem:https://evil.net/t",
            "\x01https://evil.net",
            "https:evil.net", "https:/evil.net", "https:\\evil.net", "//evil.net", "https://evil.net:99999",
            "https://@evil.net",
            "https://a.test:80@evil.net", "h\nttps://e\tvil.net", "https://ev%69l.net", "https://e\u200bvil.net",
            "evil.net:80/x",
            "https://evil\u3002net", "https://\uff45vil.net", "https://evil.net\\@a.test", "https://a.test\\@evil.net",
            "mailto:a@evil.net", "ftp:evil.net", "http:\\\\evil.net",
        ]),
    ],
)  # fmt: skip
def test_no_way_to_write_a_denied_host_gets_round_the_deny(denied: str, targets: list[str]) -> None:
    options = {"allow": ["read_url(*)"], "deny": [f"read_url({denied})"]}
    for target in targets:
        assert verdict("read_url", target, **options) == "deny", target
        assert verdict("read_url", target, flags=SKIP, **options) == "deny", target


@pytest.mark.parametrize(
    "target",
    [
        "mailto:a@google.com", "a@google.com", "view-source:https://google.com", "blob:https://google.com/x",
        "google.com..",
        "feed:google.com", "http:google.com", "http://[google.com]", "data:text/html,google.com",
        "https://google.com;x",
        "https://google.com&x=1", "\x01https://google.com", "x:https://google.com",
    ],
)  # fmt: skip
def test_an_allowed_host_within_something_else_is_asked_about(target: str) -> None:
    assert verdict("read_url", target, allow=["read_url(google.com)"]) == "ask"


def test_an_address_that_leads_to_another_one_is_allowed_by_its_own_name_alone() -> None:
    for address, inner in (("64:ff9b::1.2.3.4", "1.2.3.4"), ("2002:102:304::1", "1.2.3.4")):
        assert verdict("read_url", f"http://[{address}]", allow=[f"read_url({inner})"]) == "ask"
        assert verdict("read_url", f"http://[{address}]", allow=[f"read_url({address})"]) == "allow"
        assert verdict("read_url", f"http://[{address}]", allow=["read_url(*)"], ask=[f"read_url({inner})"]) == "ask"


def test_an_address_has_no_hosts_below_it_and_a_number_is_no_name() -> None:
    assert verdict("read_url", "http://x.127.0.0.1/", allow=["read_url(127.0.0.1)"]) == "ask"
    assert verdict("read_url", "http://[2001:DB8::1]/", allow=["read_url(2001:db8:0::1)"]) == "allow"
    assert verdict("read_url", "http://999.1/", allow=["read_url(*)"], deny=["read_url(a.test)"]) == "allow"


def test_names_in_other_letters_are_folded() -> None:
    assert verdict("read_url", "https://b\u00fccher.example/", allow=["read_url(xn--bcher-kva.example)"]) == "allow"
    assert verdict("read_url", "https://BU\u0308CHER.example/", allow=["read_url(b\u00fccher.example)"]) == "allow"
    # One letter, two mappings: a deny holds for either, an allow for neither.
    for name in ("fass.de", "xn--fa-hia.de"):
        assert verdict("read_url", "https://fa\u00df.de/", allow=["read_url(*)"], deny=[f"read_url({name})"]) == "deny"
        assert verdict("read_url", "https://fa\u00df.de/", allow=[f"read_url({name})"]) == "ask"


def test_where_nobody_can_say_which_host_is_meant_denied_hosts_are_kept_out() -> None:
    options = {"allow": ["read_url(*)"], "deny": ["read_url(evil.net)"], "flags": SKIP}
    assert verdict("read_url", "https://a.test\\@b.test/", **options) == "ask"
    assert verdict("read_url", "https://a.test/", **options) == "allow"


def test_a_file_url_needs_the_file_as_well() -> None:
    assert verdict("read_url", "file:///etc/shadow", allow=["read_url(*)"]) == "ask"
    assert verdict("read_url", "file:///etc/shadow", allow=["read_url(*)"], deny=["read_file(/etc)"]) == "deny"
    assert verdict("read_url", "file:///w/a", allow=["read_url(*)"]) == "allow"
    assert verdict("read_url", "FILE://other/w/a", allow=["read_url(*)"]) == "ask"
    assert verdict("read_url", "file:///etc/shadow", toolPermission="always-proceed") == "allow"
    assert verdict("read_url", "file:///etc/shadow", mode="headless", toolPermission="strict") == "soft"


@pytest.mark.parametrize(
    "target",
    [
        "file:///etc/shadow", "file:/etc/shadow", "FILE:///etc/shadow", "f\tile:///etc/shadow", " file:///etc/shadow",
        "file://localhost/etc/shadow", "file://127.0.0.1/etc/shadow", "file:\\\\\\etc\\shadow",
        "file:///%65tc/sh%61dow",
        "view-source:file:///etc/shadow", "jar:file:///etc/shadow!/x", "file:///x/../etc/shadow?y#z",
        "\x02file:///etc/shadow",
        "file:////etc/shadow",
    ],
)  # fmt: skip
def test_no_way_to_write_the_url_of_a_denied_file_gets_round_the_deny(target: str) -> None:
    assert verdict("read_url", target, allow=["read_url(*)"]) == "ask"
    for options in ({"allow": ["read_url(*)", "read_file(*)"]}, {"toolPermission": "always-proceed"}, {"flags": SKIP}):
        assert verdict("read_url", target, deny=["read_file(/etc)"], **options) == "deny"


def test_the_url_of_a_file_that_nobody_can_name_is_asked_about_where_some_are_denied() -> None:
    for target in ("file:etc/shadow", "file://other/etc/shadow", "file:", "file:///etc%00/shadow"):
        for options in (
            {"allow": ["read_url(*)", "read_file(*)"]},
            {"toolPermission": "always-proceed"},
            {"flags": SKIP},
        ):
            assert verdict("read_url", target, deny=["read_file(/etc)"], **options) in ("ask", "deny"), (
                target,
                options,
            )
    assert (
        verdict("read_url", "file:///C:/w/.env", workspace="C:\\w", allow=["read_url(*)"], deny=["read_file(.env)"])
        == "deny"
    )


def test_reading_and_acting_are_two_things() -> None:
    assert verdict("execute_url", "https://a.test", allow=["read_url(*)"]) == "ask"
    assert verdict("read_url", "https://a.test", allow=["execute_url(*)"]) == "ask"


@pytest.mark.parametrize(
    "text", ["a.test", "A.test.", "127.0.0.1", "::1", "localhost", "xn--bcher-kva.example", "a_b.test"]
)
def test_a_rule_holds_a_host(text: str) -> None:
    assert read_target(text).hosts == (rule_host(text),)


def test_no_text_makes_the_reading_of_a_url_fail_or_take_long() -> None:
    texts = [
        "http://%41\udcff", "%\ud800", "file:///%\ud800", "file:///\udcff%ff", "[", "[%", "http://[",
        "view-source:" * 1200,
        "%41" * 5000, "@" * 16_000, "." * 15_000 + "x", "[" + "%" * 15_000 + "]", "a:" * 8000, "jar:" * 4000,
        "https://" * 2000,
    ]  # fmt: skip
    options = {"allow": ["read_url(*)"], "deny": ["read_url(evil.net)", "read_file(/etc)"]}
    began = time.process_time()
    for text in texts:
        assert verdict("read_url", text, **options) in ("allow", "ask", "deny"), text[:20]
    assert time.process_time() - began < 5
