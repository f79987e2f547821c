"""Logging of the engine: its own loggers to stderr, everybody else's nowhere.

The SDK logs to the root logger, with stderr of the harness and frames of its connection: text of prompts and tools.
"""

import logging
import os
import sys


def configure() -> None:
    """ANTIGRAVITY_ENGINE_LOG is a level's name; WARNING without it."""
    root = logging.getLogger()
    root.handlers[:] = [logging.NullHandler()]
    root.setLevel(logging.CRITICAL + 1)
    own = logging.getLogger("antigravity_engine")
    level = os.environ.get("ANTIGRAVITY_ENGINE_LOG", "WARNING").upper()
    own.setLevel(level if level in logging.getLevelNamesMapping() else "WARNING")
    own.propagate = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    own.handlers[:] = [handler]
