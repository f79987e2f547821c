"""What was decided about every call, by what, who approved it and how it ended: append-only and hash-chained.

Owns: the ledger folder, its files, the chain, its verification, queries and exports. A row is on the disk when the call
that wrote it returns. Never: decides anything, holds an argument of a call unless it was told to, or changes a row.
"""

from .chain import GENESIS
from .digest import Redactor
from .errors import LedgerError
from .export import json_line, otel_record, otlp_line
from .folder import default_path
from .query import Entry, Filter, Statistics, follow, latest, read, statistics
from .record import DecisionRow, OutcomeRow
from .rotate import Limits
from .store import Ledger
from .verify import Fault, Report, verify

__all__ = [
    "GENESIS",
    "DecisionRow",
    "Entry",
    "Fault",
    "Filter",
    "Ledger",
    "LedgerError",
    "Limits",
    "OutcomeRow",
    "Redactor",
    "Report",
    "Statistics",
    "default_path",
    "follow",
    "json_line",
    "latest",
    "otel_record",
    "otlp_line",
    "read",
    "statistics",
    "verify",
]
