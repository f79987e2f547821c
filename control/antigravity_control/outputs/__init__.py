"""Secrets in what tools return.

Owns: :func:`scan`, its findings and the table of detectors (``detectors``). Pure: reads no file, asks nobody, keeps no
state. Never: puts a secret, or a part of one, into a finding.
"""

from .scanning import MARK, OutputPolicy, Scan, scan
from .spans import Finding

__all__ = ["MARK", "Finding", "OutputPolicy", "Scan", "scan"]
