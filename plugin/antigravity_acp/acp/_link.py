"""The link of a sign-in: found in what an agent prints, and the address that a browser ends at.

Owns: :class:`LinkFinder`, which looks for the link by the rules of URLs and never by the words around it, since those
change between versions; and :func:`read_redirect`, which decides what may be forwarded to the agent. Pure, bounded.
Never: logs a link, an address or a part of one. Both carry what signs somebody in.

Source of the facts: OAuth 2.0 for native apps (RFC 8252, 7.3: a redirect to a loopback address with any port), RFC 3986
for the characters, and field reports on the official server, which prints its link on stderr and listens on
127.0.0.1 with a random port.
"""

import re
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

import msgspec

#: Bytes of one line that is looked at, and characters of an address; links of providers take about 1 KiB. What is
#: longer is passed over as a whole: half a link is none.
MAX_LINE: Final = 16 * 1024
#: Links that are told of one sign-in: a person needs one, and an agent may print millions.
MAX_LINKS: Final = 8
#: Parameters of one query that are read.
_MAX_FIELDS: Final = 128

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
#: RFC 3986: unreserved, reserved and the percent sign; a link ends before the first character that is none of them.
_URL = re.compile(r"https://[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+", re.IGNORECASE)
#: Characters of punctuation after a link that are taken off.
_MAX_TRIMMED: Final = 4
_CLOSING: Final = {")": "(", "]": "["}
#: Terminal sequences: hyperlinks (OSC 8) hold a link themselves, everything else goes without a trace.
_HYPERLINK = re.compile(r"\x1b\]8;[^;\x07\x1b]*;([^\x07\x1b]*)(?:\x07|\x1b\\)")
_OSC = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_CSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-Z\\-_]")
# One strict form instead of a parser's leniency: user names, other spellings of an address, backslashes and percent
# signs in the host all fail to match.
_REDIRECT = re.compile(
    r"http://(?P<host>127\.0\.0\.1|localhost|\[::1\]):(?P<port>[1-9][0-9]{0,4})(?P<path>(?:/[!$-;=@-Z_a-z~]*)?)"
    r"\?(?P<query>[!$-;=?-Z_a-z~\[\]|{}^`\\]+)(?:#.*)?"
)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


class RefusedAddressError(ValueError):
    """An address that is not forwarded; the message says why, in our own words only."""


class SignInLink(msgspec.Struct, frozen=True):
    """A link that signs a person in.

    :param url: for the person alone. :param host: where the agent waits for the redirect, without brackets.
    :param port: and its port. :param path: and its path, at least ``/``. :param state: of the link, ``None`` without.
    """

    url: str
    host: str
    port: int
    path: str
    state: str | None

    def __repr__(self) -> str:
        return f"SignInLink(port={self.port})"


def read_link(url: str) -> SignInLink | None:
    """A URL as a sign-in link, ``None`` when it is none.

    A sign-in link is an ``https`` URL whose host is not this machine and whose query has exactly one ``redirect_uri``:
    an ``http`` URL of a loopback address with a port. Everything else that an agent prints is ignored, however it is
    announced.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme != "https" or parts.username is not None or not parts.hostname or _is_local(parts.hostname):
            return None
        fields = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
        targets = [value for key, value in fields if key == "redirect_uri"]
        states = [value for key, value in fields if key == "state"]
        if len(targets) != 1 or len(states) > 1:
            return None
        # Before it is parsed: the parser drops line ends and tabs without a word.
        target = urlsplit(targets[0] if re.fullmatch(r"[!-~]+", targets[0]) else "")
        if target.port is None or not _is_redirect(target):
            return None
        return SignInLink(url, target.hostname or "", target.port, target.path or "/", states[0] if states else None)
    except ValueError:
        return None


def _is_local(host: str) -> bool:
    return host in _LOOPBACK or host.startswith("127.") or host.endswith(".localhost")


def _is_redirect(target: SplitResult) -> bool:
    return (
        target.scheme == "http"
        and target.hostname in _LOOPBACK
        and target.port is not None
        and target.port > 0
        and target.username is None
        and not target.query
        and not target.fragment
        and re.fullmatch(r"[!$-;=@-Z_a-z~]*", target.path) is not None
    )


def read_redirect(link: SignInLink, text: str) -> str:
    """The request target (path and query) of a pasted address, if it is the one that this sign-in waits for.

    :raises RefusedAddressError: for anything but ``http``, a loopback address, the link's own port and path, a query,
        and the link's own ``state`` where it has one.
    """
    text = text.strip()
    if not text:
        raise RefusedAddressError("Nothing was pasted.")
    if len(text) > MAX_LINE:
        raise RefusedAddressError("That is too long for an address.")
    if text.lower().startswith("https:"):
        raise RefusedAddressError(
            "That address begins with https. Open the sign-in link in a browser, and paste the address it ends at: it "
            f"begins with http://{_shown(link.host)}:{link.port}."
        )
    if not text.startswith("http://"):
        what = "has another scheme" if _SCHEME.match(text) else "is not a whole address"
        raise RefusedAddressError(
            f"That {what}. Copy all of the browser's address, from http:// on; some browsers hide the beginning."
        )
    found = _REDIRECT.fullmatch(text)
    if found is None:
        plain = re.match(r"http://(?:127\.0\.0\.1|localhost|\[::1\]):[1-9][0-9]{0,4}(?:/[^?]*)?$", text)
        raise RefusedAddressError(
            "That address has no query: the part from the question mark on is what signs you in."
            if plain
            else "That address does not lead to this machine's own sign-in."
        )
    if int(found["port"]) != link.port:
        raise RefusedAddressError(
            f"That address has another port than {link.port}, which this sign-in uses. It may be of an earlier attempt."
        )
    if (found["path"] or "/") != link.path:
        raise RefusedAddressError("That address has another path than this sign-in uses.")
    _check_state(link, found["query"])
    return f"{link.path}?{found['query']}"


def _check_state(link: SignInLink, query: str) -> None:
    if link.state is None:
        return
    try:
        fields = parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        fields = []
    if [value for key, value in fields if key == "state"] != [link.state]:
        raise RefusedAddressError("That address is of another sign-in: its `state` is not this one's.")


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class LinkFinder:
    """Finds links in a stream, each once, line by line, wherever its pieces were cut.

    A line that does not end may be the agent's last word before it waits: :meth:`rest` looks at it.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._overlong = False
        self._found: set[str] = set()

    def feed(self, data: bytes) -> list[SignInLink]:
        """The links of the lines that end in this piece, up to :data:`MAX_LINKS` in all."""
        if len(self._found) >= MAX_LINKS:
            return []
        *ended, rest = re.split(rb"[\r\n]", data)
        found: list[SignInLink] = []
        for part in ended:
            self._add(part)
            found += self.rest()
            self._line.clear()
            self._overlong = False
        self._add(rest)
        return found

    def rest(self) -> list[SignInLink]:
        """The links of the line that has not ended yet."""
        return [] if self._overlong else self._links(self._line.decode("utf-8", "replace"))

    def _add(self, part: bytes) -> None:
        self._overlong = self._overlong or len(self._line) + len(part) > MAX_LINE
        if self._overlong:
            self._line.clear()
        else:
            self._line += part

    def _links(self, line: str) -> list[SignInLink]:
        if "://" not in line:
            return []
        line = _CSI.sub("", _OSC.sub("", _HYPERLINK.sub(r" \1 ", line)))
        links = []
        for match in _URL.finditer(line):
            url = _trimmed(match[0])
            # Before it is read: an agent may print one link, or many, without end, while the loop serves others.
            if url in self._found or len(self._found) >= MAX_LINKS:
                continue
            if (link := read_link(url)) is not None:
                self._found.add(url)
                links.append(link)
        return links


def _trimmed(url: str) -> str:
    """Without the punctuation of the sentence around it."""
    for _ in range(_MAX_TRIMMED):
        last = url[-1]
        if last not in ".,;:!?'*" and (last not in _CLOSING or url.count(last) <= url.count(_CLOSING[last])):
            break
        url = url[:-1]
    return url
