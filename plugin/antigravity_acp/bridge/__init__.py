"""The private MCP endpoint: the host's tools, lent to an agent, one call at a time (design: "A tool turn").

The public names are here; everything else in this room is private to it. Importing it does not import ``mcp``.
"""

from ._requests import ParkedCall
from .catalogue import Catalogue
from .server import SERVER_NAME_LENGTH, SERVER_NAME_PREFIX, Bridge, Endpoint

__all__ = ["SERVER_NAME_LENGTH", "SERVER_NAME_PREFIX", "Bridge", "Catalogue", "Endpoint", "ParkedCall"]
