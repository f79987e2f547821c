"""The hardline floor: what no rule, grant, mode or switch can allow.

Owns: the table of entries and the check. Pure; works on the reading of :mod:`antigravity_control.shell`.
"""

from .check import FloorHit, check
from .table import ENTRIES, Entry

__all__ = ["ENTRIES", "Entry", "FloorHit", "check"]
