"""Hosts of rules and of calls, folded to one spelling.

Owns: :class:`Host` and its two readings. A rule holds a bare host name or address. A call holds a URL or a host; it is
read twice, as browsers do (backslashes are slashes, any number of slashes, tabs and line ends vanish) and as strict
parsers do. Where the readings differ, every host found counts for deny and ask, and an allow is not sure. Addresses
are folded (decimal, octal and hexadecimal IPv4, IPv4 inside IPv6); names are lower case, in ASCII form, without the
last dot. A name whose letters map in two ways has both forms. A URL inside another one (`blob:`) counts.
Never looks anything up.
"""

import ipaddress
import re
import unicodedata
from dataclasses import dataclass
from itertools import product
from typing import Final
from urllib.parse import unquote_to_bytes

URL_LIMIT: Final = 16_384
_DOT: Final = ".\u3002\uff0e\uff61"
_DOTS: Final = re.compile(f"[{_DOT}]")
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
#: A user stands before a host only behind a scheme: `mailto:a@b.test` has none.
_STRICT: Final = re.compile(r"(?:(?:https?|wss?|ftp)://(?:[^\s/?#@\\\[\]%]*@)?)?"
                            r"(?P<host>[^\s/?#@\\\[\]:%]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?(?:[/?#].*)?",
                            re.DOTALL | re.IGNORECASE)  # fmt: skip
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f]")
#: Schemes behind which browsers expect a host or a path, slashes or not.
_SPECIAL: Final = frozenset({"http", "https", "ws", "wss", "ftp", "file"})
#: What browsers drop at both ends.
_ENDS: Final = "".join(map(chr, range(0x21)))
_NESTED_LIMIT: Final = 8
#: Networks of which every address stands for the IPv4 address in its last 32 bits.
_TRANSLATED: Final = tuple(
    ipaddress.IPv6Network(each) for each in ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96")
)
#: The middle of an address that carries an IPv4 address through a tunnel (ISATAP).
_TUNNELLED: Final = frozenset({0x00005EFE, 0x02005EFE})
#: Letters that one generation of the standard maps and the next one keeps.
_DEVIATIONS: Final = {"ß": "ss", "ς": "\u03c3", "\u200c": "", "\u200d": ""}


@dataclass(frozen=True, slots=True)
class Host:
    """:param labels: from the top level down, as ``("com", "google")``; of an address the address alone."""

    labels: tuple[str, ...]
    address: bool = False

    def __str__(self) -> str:
        return ".".join(reversed(self.labels))


@dataclass(frozen=True, slots=True)
class Target:
    """The hosts that a URL may mean; ``certain`` when every reading finds the one.

    :param scheme: lower case, of the innermost URL. :param url: that URL, without what browsers drop.
    :param also: addresses that are reached through one of the hosts; only for deny and ask.
    """

    hosts: tuple[Host, ...]
    certain: bool
    scheme: str
    url: str = ""
    also: tuple[Host, ...] = ()

    @property
    def every(self) -> tuple[Host, ...]:
        return (*self.hosts, *self.also)


def rule_host(text: str) -> Host:
    """The host of a rule.

    :raises ValueError: it is no plain host name or address.
    """
    if re.search(r"[/\\?#@*%\s]", text) or (":" in text and not _is_address6(text)):
        raise ValueError("expected a host name such as `example.com`, without scheme, port, path or wildcard")
    found = _hosts(text)
    if len(found) != 1:
        raise ValueError("expected a host name such as `example.com`; use its `xn--` form where it has two")
    return found[0]


def read_target(text: str) -> Target:
    """The hosts that a URL or a host name may mean. Never raises."""
    if len(text) > URL_LIMIT:
        return Target((), False, "")
    trimmed = text.strip()
    layers = _layers(re.sub(r"[\t\r\n]", "", text.strip(_ENDS)))
    found = dict.fromkeys(_hosts(authority) for authority in _authorities([*layers, trimmed]))
    hosts = tuple(dict.fromkeys(host for group in found for host in group))
    strict = _STRICT.fullmatch(trimmed)
    # The strict reading has to find the very host: `https:///a.test` is a host named `https` to it.
    certain = len(hosts) == 1 and strict is not None and _hosts(strict.group("host")) == hosts
    certain = certain and not _FORBIDDEN.search(trimmed)
    scheme = _SCHEME.match(layers[-1])
    also = tuple(dict.fromkeys(inner for host in hosts if host.address for inner in _carried(host)))
    return Target(hosts, certain, scheme.group(1).lower() if scheme and _is_url(layers[-1]) else "", layers[-1], also)


def _layers(url: str) -> list[str]:
    """A URL, the one inside it behind another scheme, and so on: `view-source:https://a.test`."""
    found = [url]
    while len(found) < _NESTED_LIMIT:
        scheme = _SCHEME.match(found[-1])
        inner = scheme.group(2) if scheme is not None and scheme.group(1).lower() not in _SPECIAL else ""
        if _SCHEME.match(inner) is None or not _is_url(inner):
            break
        # What is in an archive follows an exclamation mark.
        found.append(inner.partition("!")[0] if scheme is not None and scheme.group(1).lower() == "jar" else inner)
    return found


def _is_url(text: str) -> bool:
    """Whether the colon ends a scheme and not a host."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        return False
    return (
        scheme.group(1).lower() in _SPECIAL or scheme.group(2)[:1] in {"/", "\\"} or not scheme.group(2)[:1].isdigit()
    )


def _authorities(texts: list[str]) -> list[str]:
    """The part between the slashes, in every reading."""
    found: list[str] = []
    readings = [(text.replace("\\", "/"), "/") for text in texts] + [(text, "") for text in texts]
    for reading, strip in readings:
        rest = reading
        if _is_url(reading) or reading.startswith("//"):
            rest = rest.partition(":")[2] if not reading.startswith("//") else rest
            rest = rest.lstrip(strip) if strip else rest.removeprefix("//")
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
        hosts = (authority.rpartition("@")[2], authority.partition("@")[2] or authority)
        found.extend(_without_port(host) for host in hosts)
        if "\\" in authority:
            found.append(_without_port(authority.partition("\\")[0].rpartition("@")[2]))
    found.extend([_tidy(each) for each in found])
    return list(dict.fromkeys(each for each in found if each))


def _tidy(host: str) -> str:
    """A host as a deny takes it: without the zone of an address and without several dots at the end."""
    if host.startswith("[") and host.endswith("]"):
        return host.partition("%")[0].removesuffix("]") + "]"
    bare = host.rstrip(_DOT)
    return bare if len(host) > len(bare) + 1 else host


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host if host.count(":") > 1 else host.partition(":")[0]


def _is_address6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text.strip("[]"))
    except ValueError:
        return False
    return True


def _hosts(text: str) -> tuple[Host, ...]:
    """Every host that ``text`` may mean; empty when it is none."""
    try:
        plain = unquote_to_bytes(text).decode() if "%" in text and not text.startswith("[") else text
    except UnicodeError:
        return ()
    if _is_address6(plain):
        return (_address(ipaddress.IPv6Address(plain.strip("[]"))),)
    labels = _DOTS.split(plain)
    if labels and not labels[-1]:
        labels.pop()
    forms = [_label(label) for label in labels]
    if not forms or len(forms) > 127 or not all(forms):
        return ()
    found = []
    for names in list(product(*forms))[:8]:
        number = _address4(names)
        found.append(_address(number) if number is not None else Host(tuple(reversed(names))))
    return tuple(dict.fromkeys(found))


def _label(label: str) -> tuple[str, ...]:
    """The ASCII forms of a label, one or two; none when it is no label."""
    lowered = label.lower()
    if lowered.startswith("xn--") and lowered.isascii():
        try:
            decoded = lowered[4:].encode().decode("punycode")
        except (UnicodeError, ValueError, IndexError, OverflowError):
            return ()
        return tuple(dict.fromkeys((lowered, *_encoded(decoded)))) if decoded.isascii() else (lowered,)
    if lowered.isascii():
        return (lowered,) if _LABEL.fullmatch(lowered) else ()
    mapped = label
    for letter, plain in _DEVIATIONS.items():
        mapped = mapped.replace(letter, plain)
    return tuple(dict.fromkeys((*_encoded(label), *_encoded(mapped))))


def _encoded(label: str) -> tuple[str, ...]:
    kept = "".join(char for char in label if char in _DEVIATIONS or unicodedata.category(char) != "Cf")
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", kept).lower())
    if not folded:
        return ()
    encoded = folded if folded.isascii() else "xn--" + folded.encode("punycode", "ignore").decode()
    return (encoded,) if _LABEL.fullmatch(encoded) else ()


def _address(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Host:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or (ipaddress.IPv4Address(int(address)) if 1 < int(address) < 2**32 else None)
        # A zone says which way to go, not where to.
        address = inner or ipaddress.IPv6Address(int(address))
    return Host((str(address),), address=True)


def _carried(host: Host) -> tuple[Host, ...]:
    """The IPv4 addresses that an IPv6 address leads to by translation or through a tunnel."""
    address = ipaddress.ip_address(host.labels[0])
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    found = [address.sixtofour, *(address.teredo or ())]
    last = int(address) & 0xFFFFFFFF
    if any(address in network for network in _TRANSLATED) or int(address) >> 32 & 0xFFFFFFFF in _TUNNELLED:
        found.append(ipaddress.IPv4Address(last))
    return tuple(_address(each) for each in found if each is not None)


def _address4(labels: tuple[str, ...]) -> ipaddress.IPv4Address | None:
    """An IPv4 address in any spelling that resolvers take: one to four numbers, decimal, octal or hexadecimal."""
    if len(labels) > 4:
        return None
    numbers = [_number(label) for label in labels]
    if any(number is None for number in numbers):
        return None
    *heads, last = [number for number in numbers if number is not None]
    if any(head > 255 for head in heads) or last >= 256 ** (5 - len(labels)):
        return None
    value = last + sum(head << (24 - 8 * place) for place, head in enumerate(heads))
    return ipaddress.IPv4Address(value)


def _number(label: str) -> int | None:
    if not label.isascii() or len(label) > 16:
        return None
    base = 16 if label.startswith("0x") else 8 if label.startswith("0") and len(label) > 1 else 10
    digits = label[2:] if base == 16 else label
    allowed = {8: "01234567", 10: "0123456789", 16: "0123456789abcdef"}[base]
    if any(char not in allowed for char in digits) or (not digits and base != 16):
        return None
    return int(digits or "0", base)
