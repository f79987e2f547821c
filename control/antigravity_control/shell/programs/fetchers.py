"""Tools that read the addresses among their operands, which may stand there without a scheme: ``curl example.com``.

Owns: which tools these are, and which of their words is such an address for certain (``read_url``), which only may be
one (``MAYBE``: the value of some option). For deny and ask rules; no permission of its own.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ..values.model import Requirement, Word

MAYBE: Final = "maybe"
"""The reason of a requirement that may be none."""
#: Tools by name, each with its short options that take the next word.
_FETCHERS: Final[dict[str, str]] = {
    **dict.fromkeys(("curl", "curlie"), "XHdueAbFmrTxyYzCEtUwPQhoDcKe"),
    **dict.fromkeys(("wget", "wget2"), "OoaPtTwQUlARDIXieB"),
    **dict.fromkeys(("http", "https", "xh", "xhs"), "aAopPs"),
    **dict.fromkeys(("aria2c", "axel"), "dosxjkilnHSU"),
    **dict.fromkeys(("lynx", "links", "elinks", "w3m", "lwp-request", "GET", "HEAD", "POST", "fetch"), ""),
    **dict.fromkeys(("httrack", "yt-dlp", "youtube-dl", "ab", "wrk", "hey", "siege"), "ncdtHTo"),
}


def _names(*lines: str) -> frozenset[str]:
    return frozenset(f"--{name}" for line in lines for name in line.split())


#: Long options of these tools that take no value.
_FLAGS: Final = _names(
    "silent show-error location fail fail-with-body compressed insecure verbose head include get remote-name",
    "remote-header-name no-progress-meter progress-bar http1.0 http1.1 http2 http3 location-trusted ipv4 ipv6 globoff",
    "no-buffer path-as-is tlsv1.2 tlsv1.3 create-dirs parallel quiet no-verbose spider no-check-certificate continue",
    "timestamping recursive mirror no-clobber force-directories no-parent page-requisites convert-links https-only",
    "server-response show-progress body headers form json follow download ignore-stdin offline dump source",
)
_PLAIN: Final = re.compile(
    r"(?:[^\s/@:]+(?::[^\s/@]*)?@)?(?:[\w-]+\.)+[\w-]+\.?(?::\d+)?(?:[/?#]\S*)?|\[[\da-fA-F:.]+\]\S*"
)
"""What looks like a host: a value of an option is looked at only then."""
_METHOD: Final = re.compile(r"[A-Z]{3,8}")
#: Tools of one address, which a method may precede and fields follow; without a host it is this machine's.
_ONE: Final = frozenset({"http", "https", "xh", "xhs"})
_ADDRESS: Final = frozenset({"--url", "--proxy", "--preproxy", "--doh-url"})
_LIMIT: Final = 256


def addresses(name: str, argv: Sequence[Word]) -> Iterator[Requirement]:
    """What ``argv`` reads for all that its words say. A word that nobody knows has the target None."""
    takes = _FETCHERS.get(name)
    if takes is None:
        return
    value = ""
    for word in argv[1 : _LIMIT + 1]:
        text, option = word.text, value
        value = ""
        if option and option not in _ADDRESS:
            if word.known and _PLAIN.fullmatch(text):
                yield Requirement("read_url", text, MAYBE)
        elif text.startswith("-") and len(text) > 1 and not option:
            value, attached = _option(text, takes)
            if attached:
                certain = text.partition("=")[0] in _ADDRESS
                yield Requirement("read_url", attached, name if certain else MAYBE)
        elif name in _ONE and _METHOD.fullmatch(text):
            continue
        elif name in _ONE and text.startswith(":"):
            return
        elif word.known and text and "://" not in text:
            yield Requirement("read_url", text, name)
        elif not word.known:
            yield Requirement("read_url", None, name)
        if name in _ONE and not text.startswith("-") and not option:
            return


def _option(text: str, takes: str) -> tuple[str, str]:
    """The option whose value is the next word, and the address in a value that is attached."""
    if text.startswith("--"):
        name, equals, attached = text.partition("=")
        if equals:
            return "", attached if name in _ADDRESS or _PLAIN.fullmatch(attached) else ""
        return ("" if name in _FLAGS or name == "--" else name), ""
    for place, letter in enumerate(text[1:], start=1):
        if letter in takes:
            rest = text[place + 1 :]
            return ("", rest if _PLAIN.fullmatch(rest) else "") if rest else (text, "")
    return "", ""
