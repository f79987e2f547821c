"""Imports the SDK, and what it needs of its own needs: slow, so in a thread, and lighter than it comes.

The SDK imports `google.genai` for the schemas of Python tools, of which there are none here. A stand-in takes its place
until it is really used, which halves the import (measured: 1.3 s of CPU to 0.5 s, 60 MB to 44 MB) and with it the wait
for the first prompt of a new process.
"""

import importlib
import sys
import threading
from types import ModuleType
from typing import Any

_LOCK = threading.Lock()
_NAMES = ("google.genai", "google.genai.types")


class _Deferred(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system asks for these; they are no use of the module
            raise AttributeError(name)
        for stand_in in _NAMES:
            if isinstance(sys.modules.get(stand_in), _Deferred):
                del sys.modules[stand_in]
        return getattr(importlib.import_module(self.__name__), name)


def load_sdk() -> None:
    """Imports `antigravity_engine.sdk`. Safe in any thread, any number of times; raises what the import raises."""
    with _LOCK:
        _defer_genai()
        importlib.import_module("antigravity_engine.sdk")


def _defer_genai() -> None:
    if _NAMES[0] in sys.modules:
        return
    package, types = (_Deferred(name) for name in _NAMES)
    package.__dict__["types"] = types
    sys.modules.update(zip(_NAMES, (package, types), strict=True))
