"""Command lines, read as bash runs them.

Owns: :func:`read_line` and the shapes of its answer, and the helpers that match rules against units. Two readers look
at every line: one follows bash's own cutting and quoting, the other is the tree-sitter grammar; where they differ, or
where something is not modelled, the line is asked about. Pure: starts nothing, reads no file and no variable.
"""

from .match import matches_prefix, matches_regex_tokens, may_match_prefix
from .patterns import Pattern, PatternError, compile_tokens
from .reading import read_line, suspected
from .values.model import Line, Piece, Redirection, Requirement, Unit, Word
from .values.names import fold_name

__all__ = [
    "Line",
    "Pattern",
    "PatternError",
    "Piece",
    "Redirection",
    "Requirement",
    "Unit",
    "Word",
    "compile_tokens",
    "fold_name",
    "matches_prefix",
    "matches_regex_tokens",
    "may_match_prefix",
    "read_line",
    "suspected",
]
