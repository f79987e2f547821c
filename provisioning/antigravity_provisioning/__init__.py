"""The official Antigravity server on this machine: find it, install it, know whether it is whole, take it away.

A wing of its own: imports nothing of ours. See ``README.md`` beside this package for what it promises. The functions
live in modules of their own names (``locate.locate``, ``install.install`` and ``install.uninstall``); the types are
here too, loaded when they are asked for, because a plugin that only looks for a server must start fast.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ._asset import Asset
    from .errors import ProvisioningError
    from .locate import LocateError, OfficialServer
    from .progress import Progress, Report
    from .store import Installed, Store

__all__ = [
    "Asset",
    "Installed",
    "LocateError",
    "OfficialServer",
    "Progress",
    "ProvisioningError",
    "Report",
    "Store",
]

_HOMES: Final = {
    "Asset": "_asset",
    "Installed": "store",
    "LocateError": "locate",
    "OfficialServer": "locate",
    "Progress": "progress",
    "ProvisioningError": "errors",
    "Report": "progress",
    "Store": "store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
