"""The environment of an agent: an explicit list, not the host's whole one.

Owns: which variables pass and the loopback exceptions for proxies. The agents read their credentials themselves;
variables that hold such pass through by name and are never looked at here.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

#: Names that pass, compared without case (Windows does not keep it, and proxies are written both ways).
_NAMES: Final = frozenset(
    {
        # who and where
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "COLORTERM", "NO_COLOR"),
        # network
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        # a browser for the sign-in
        *("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY"),
        # Windows cannot start a process without most of these
        *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA"),
        *(
            "PROGRAMFILES",
            "PROGRAMFILES(X86)",
            "COMMONPROGRAMFILES",
            "HOMEDRIVE",
            "HOMEPATH",
            "USERNAME",
            "USERPROFILE",
        ),
        *("NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE", "OS"),
    }
)
#: Families that pass: locale, desktop folders, and what the agents read (keys, projects, endpoints, their own homes).
_PREFIXES: Final = ("LC_", "XDG_", "GEMINI_", "GOOGLE_", "ANTIGRAVITY_")
#: Always reached directly: a proxy must never see the bearer of the bridge.
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def agent_environment(
    additions: Mapping[str, str], tmp: Path, *, host: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Build an agent's environment.

    :param additions: win over what is inherited. :param tmp: its directory for temporary files.
    :param host: the host's environment; the process's own when left out.
    """
    source = os.environ if host is None else host
    environment = {name: value for name, value in source.items() if _passes(name)}
    environment.update(additions)
    for name in ("TMPDIR", "TMP", "TEMP"):
        environment[name] = str(tmp)
    direct = ",".join(dict.fromkeys([*_exceptions(environment), *_LOOPBACK]))
    environment["NO_PROXY"] = environment["no_proxy"] = direct
    return environment


def _passes(name: str) -> bool:
    upper = name.upper()
    return upper in _NAMES or upper.startswith(_PREFIXES)


def _exceptions(environment: Mapping[str, str]) -> list[str]:
    listed = ",".join(environment.get(name, "") for name in ("NO_PROXY", "no_proxy"))
    return [item.strip() for item in listed.split(",") if item.strip()]
