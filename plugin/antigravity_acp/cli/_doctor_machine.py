"""The doctor's rows about the machine: Python, platform, processor, disk, proxy.

Owns: five looks that need neither an agent nor settings.
Never: opens a connection; shows the user or password that a proxy's URL holds.
"""

import os
import platform
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from antigravity_provisioning import machine, releases
from antigravity_provisioning.errors import ProvisioningError

from ._progress import size
from ._report import Row

#: Bytes that a running agent wants for its temporary files; old Windows builds unpack more than a gigabyte there.
_ROOM: Final = 1_500_000_000
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_PROXIES: Final = ("https_proxy", "http_proxy", "all_proxy")
_AUTHORITIES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def machine_rows(root: Path, *, installed: bool) -> Iterator[Row]:
    """All five. :param root: where servers are installed. :param installed: one is there, so no room is needed."""
    looks: tuple[tuple[str, Callable[[], Row]], ...] = (
        ("python", python_row),
        ("platform", platform_row),
        ("cpu", cpu_row),
        ("disk", lambda: disk_row(root, installed=installed)),
        ("proxy", lambda: proxy_row(os.environ)),
    )
    for name, look in looks:
        try:
            yield look()
        except (OSError, ValueError, ProvisioningError) as error:
            yield Row(name, "warn", f"could not be looked at ({type(error).__name__})")


def python_row() -> Row:
    """The interpreter; what is too old does not get here."""
    bits = struct.calcsize("P") * 8
    text = f"{platform.python_implementation()} {platform.python_version()}, {bits} bit"
    if bits < 64:
        return Row("python", "warn", text, "Use a 64-bit Python.")
    if getattr(sys, "frozen", False):
        text += ", inside a compiled program"
    return Row("python", "ok", text)


def platform_row() -> Row:
    """System and processor family, and whether there is a release for them."""
    facts = machine.describe()
    text = f"{facts['platform']}, {facts['system']} {platform.release()}"
    if facts["libc"]:
        text += f", {facts['libc']}"
    if facts["translated"]:
        text += ", translated (Rosetta)"
    try:
        releases.pinned()
    except ProvisioningError:
        known = ", ".join(sorted(releases.pinned_releases()))
        return Row("platform", "warn", f"{text}; no official server for it", f"Use the embedded engine, or {known}.")
    if facts["libc"] == "musl":
        return Row("platform", "warn", f"{text}; the official server is built for glibc", "Use the embedded engine.")
    return Row("platform", "ok", text)


def cpu_row() -> Row:
    """Whether the processor has what the official server needs: without AVX it ends with SIGILL."""
    avx = machine.has_avx()
    if avx is False:
        return Row(
            "cpu",
            "warn",
            "no AVX instructions: the official server ends at once with SIGILL",
            "Enable AVX in the virtual machine, or use the embedded engine.",
        )
    text = f"{os.cpu_count() or 'unknown'} processors"
    return Row("cpu", "ok", f"{text}, AVX" if avx else text)


def disk_row(root: Path, *, installed: bool) -> Row:
    """Room for an installation, where there is none yet, and for an agent's temporary files."""
    free, room = machine.free_space(root), machine.free_space(Path(tempfile.gettempdir()))
    text = f"{size(free)} free for installations, {size(room)} for temporary files"
    try:
        need = 0 if installed else machine.space_needed(releases.pinned())
    except ProvisioningError:
        need = 0
    if free < need:
        return Row("disk", "warn", text, f"Free {size(need - free)}: an installation needs {size(need)} for a while.")
    if room < _ROOM:
        return Row("disk", "warn", text, "Free some room, or set TMPDIR to another disk.")
    return Row("disk", "ok", text)


def proxy_row(environ: Mapping[str, str]) -> Row:
    """What the environment says about proxies and certificate authorities."""
    # Lower case wins, as in every client that reads both.
    given = {name: environ.get(name) or environ.get(name.upper()) or "" for name in _PROXIES}
    missing = [name for name in _AUTHORITIES if environ.get(name) and not os.path.exists(environ[name])]
    shown = {name: _place(value) for name, value in given.items() if value}
    text = "; ".join(f"{name.upper()} {place or 'cannot be read as a URL'}" for name, place in shown.items()) or "none"
    if shown and not _goes_around(environ):
        text += "; NO_PROXY does not name loopback, which the agent gets from us"
    if present := [name for name in _AUTHORITIES if environ.get(name) and name not in missing]:
        text += f"; {' and '.join(present)} set"
    if missing:
        text += f"; {' and '.join(missing)} leads nowhere"
        return Row("proxy", "fail", text, f"Correct or unset {' and '.join(missing)}.")
    if not all(shown.values()):
        return Row("proxy", "fail", text, "Write it as http://HOST:PORT.")
    # Of the proxy that an installation would take; the agent may well know more kinds.
    if not (shown.get("https_proxy") or shown.get("all_proxy") or "http://").startswith(("http://", "https://")):
        advice = "`antigravity-acp install` needs an http:// or https:// proxy in HTTPS_PROXY, or `--from FILE.zip`."
        return Row("proxy", "warn", text, advice)
    return Row("proxy", "ok", text)


def _place(url: str) -> str:
    """Scheme, host and port of a proxy; ``""`` for what is none."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:
        return ""
    # Whatever follows the last @ is the place, also where a password holds one.
    if not parts.hostname or not parts.scheme.isalnum() or "@" in parts.path + parts.query + parts.fragment:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")


def _goes_around(environ: Mapping[str, str]) -> bool:
    listed = f"{environ.get('no_proxy', '')},{environ.get('NO_PROXY', '')}".split(",")
    names = {item.strip().strip("[]").lower() for item in listed}
    return "*" in names or names.issuperset(_LOOPBACK)
