"""What may be downloaded: the one pinned release, per platform.

Owns: reading and judging ``releases.json``, which lies in this package. The file gives every URL as the ACP Registry's
entry gives it; none is put together from a version. No setting, environment variable or remote answer takes part, so
a new release is a new version of this package.

Every reader calls ``releases.pinned()`` when it needs it, as an attribute of this module.
"""

import functools
import json
import pkgutil
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from ._asset import Asset
from .errors import ProvisioningError

#: The only host that an archive may come from.
HOST: Final = "dl.google.com"
#: No archive may be larger, nor unpack to more, bytes.
LARGEST: Final = 2 << 30

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_VERSION: Final = re.compile(r"\d+(?:\.\d+){1,3}")
_PLATFORM: Final = re.compile(r"(?:darwin|linux|windows)-(?:aarch64|x86_64)")
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def parse(text: str) -> dict[str, Asset]:
    """Read a release list, by platform.

    :raises ValueError: it is not one, or names another host than ``dl.google.com``.
    """
    data = json.loads(text)
    _must(isinstance(data, dict) and isinstance(data.get("platforms"), dict), "it is not a list of platforms")
    version = data.get("version")
    _must(isinstance(version, str) and _VERSION.fullmatch(version) is not None, "it has no version")
    return {platform: _asset(version, platform, entry) for platform, entry in data["platforms"].items()}


@functools.cache
def pinned_releases() -> Mapping[str, Asset]:
    """The pinned archive of every platform that has one, by platform key.

    :raises ProvisioningError: this installation of the package is damaged.
    """
    try:
        # Not importlib.resources: slower to import than all of this, and `locate` runs when a host starts.
        data = pkgutil.get_data(__package__, "releases.json") or b""
        return MappingProxyType(parse(data.decode()))
    except (OSError, ValueError) as error:
        raise ProvisioningError(
            "platform", "damaged", f"The list of releases in this package cannot be used ({error}). Install it again."
        ) from error


def pinned(platform: str | None = None) -> Asset:
    """The archive for a platform, this machine's when left out.

    :raises ProvisioningError: ``platform/platform``, there is none.
    """
    from . import machine

    key = machine.platform_key() if platform is None else platform
    releases = pinned_releases()
    asset = releases.get(key)
    if asset is None:
        raise ProvisioningError(
            "platform",
            "platform",
            f"Google publishes no Antigravity server for {key}; there is one for {', '.join(sorted(releases))}. "
            "Use one of these systems, or the embedded engine.",
        )
    return asset


def _must(fact: bool, fault: str) -> None:
    if not fact:
        raise ValueError(fault)


def _asset(version: str, platform: str, entry: Any) -> Asset:
    _must(_PLATFORM.fullmatch(platform) is not None, f"{platform!r} is not a platform")
    _must(isinstance(entry, dict), f"{platform} has no entry")
    url, size, sha256 = entry.get("url"), entry.get("size"), entry.get("sha256")
    command, args, files = entry.get("command"), entry.get("args"), entry.get("files")
    source = entry.get("sha256_source")
    _must(isinstance(url, str) and _is_allowed(url), f"the URL of {platform} is not https://{HOST}/….zip")
    _must(_is_size(size), f"the size of {platform} is wrong")
    _must(isinstance(sha256, str) and _SHA256.fullmatch(sha256) is not None, f"the SHA-256 of {platform} is wrong")
    _must(isinstance(source, str) and bool(source.strip()), f"the source of the SHA-256 of {platform} is missing")
    _must(
        isinstance(args, list) and all(isinstance(arg, str) for arg in args), f"the arguments of {platform} are wrong"
    )
    _must(isinstance(files, dict) and bool(files), f"the files of {platform} are missing")
    for name, length in files.items():
        _must(_FILE_NAME.fullmatch(name) is not None and _is_size(length), f"a file of {platform} is wrong")
    _must(command in files, f"the command of {platform} is not among its files")
    unpacked = sum(files.values())
    _must(unpacked <= LARGEST, f"the files of {platform} are too large")
    siblings = tuple(name for name in files if name != command)
    return Asset(version, platform, url, size, sha256, source, command, tuple(args), siblings, unpacked)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST


def _is_allowed(url: str) -> bool:
    parts = urlsplit(url)
    # netloc as a whole: a port, a user or an upper-case spelling is not what the registry gives.
    plain = not parts.query and not parts.fragment and ".." not in parts.path
    return parts.scheme == "https" and parts.netloc == HOST and plain and parts.path.endswith(".zip")
