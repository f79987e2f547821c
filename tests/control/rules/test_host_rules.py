"""Rules about hosts: label boundaries, every spelling of a name and of an address, URLs that two readers read apart."""

import pytest
from helpers.policies import verdict

from antigravity_control.hosts import read_target, rule_host

SKIP = ["--dangerously-skip-permissions"]


@pytest.mark.parametrize(
    "target",
    [
        "google.com", "GOOGLE.COM", "google.com.", "https://google.com", "http://google.com:8080/x?y#z",
        "https://mail.google.com/x@y", "https://user:pw@google.com/", "wss://google.com/socket", "https://google\u3002com/",
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
                "https://goo\tgle.com", "https://google.com\n.evil.net/", "https://[google.com]/", "https://a@b@google.com/",
        "https://", "", "https://\u0261oogle.com/", "https://xn--google-.com/", "com", "\ud800", "x" * 20_000,
    ],
)  # fmt: skip
def test_what_only_looks_like_an_allowed_host_is_asked_about(target: str) -> None:
    assert verdict("read_url", target, allow=["read_url(google.com)"]) == "ask"


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1/", "http://127.1/", "http://127.0.1", "http://2130706433/", "http://0x7f.1/", "http://0x7F000001",
        "http://017700000001/", "http://0177.0.0.01", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]:80/",
        "http://127.0.0.1./", "http://user@127.0.0.1:99/", "http://%31%32%37.0.0.1/", "http://\uff11\uff12\uff17.0.0.1/",
        "http:\\\\127.0.0.1\\x", "http:/127.0.0.1", "http://1\t27.0.0.1/", "//127.0.0.1/", "127.0.0.1",
    ],
)  # fmt: skip
def test_no_spelling_of_a_denied_address_gets_round_the_deny(target: str) -> None:
    options = {"allow": ["read_url(*)"], "deny": ["read_url(127.0.0.1)"]}
    assert verdict("read_url", target, **options) == "deny"
    assert verdict("read_url", target, flags=SKIP, **options) == "deny"


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


def test_reading_and_acting_are_two_things() -> None:
    assert verdict("execute_url", "https://a.test", allow=["read_url(*)"]) == "ask"
    assert verdict("read_url", "https://a.test", allow=["execute_url(*)"]) == "ask"


@pytest.mark.parametrize(
    "text", ["a.test", "A.test.", "127.0.0.1", "::1", "localhost", "xn--bcher-kva.example", "a_b.test"]
)
def test_a_rule_holds_a_host(text: str) -> None:
    assert read_target(text).hosts == (rule_host(text),)
