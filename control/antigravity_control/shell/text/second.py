"""A second, independent reading with the tree-sitter grammar of bash.

Owns: the comparison. Two readers that were written apart have to find the same command names: a line on which they
disagree is asked about. Runs only on lines that the first reader has read, so that size and depth are bounded.
"""

from functools import cache

import tree_sitter
import tree_sitter_bash

_KEYWORDS = frozenset({"time", "coproc", "!", "in", "]]"})


@cache
def _language() -> tree_sitter.Language:
    return tree_sitter.Language(tree_sitter_bash.language())


def command_names(text: str) -> tuple[frozenset[str], bool]:
    """Plain command names that this grammar sees in ``text``, and whether it reads the text without a fault."""
    root = tree_sitter.Parser(_language()).parse(text.encode("utf-8", "surrogatepass")).root_node
    names: set[str] = set()
    cursor = root.walk()
    while True:
        node = cursor.node
        if node is not None and node.type == "command_name" and node.child_count == 1 and node.text:
            child = node.child(0)
            if child is not None and child.type == "word":
                names.add(node.text.decode("utf-8", "replace"))
        if cursor.goto_first_child() or cursor.goto_next_sibling():
            continue
        while cursor.goto_parent():
            if cursor.goto_next_sibling():
                break
        else:
            return frozenset(names), not root.has_error


def faulty(text: str) -> bool:
    """Whether this grammar finds a fault in ``text``."""
    return not command_names(text)[1]


def disagreement(text: str, names: set[str]) -> tuple[bool, bool]:
    """Whether this grammar sees a command that is not among ``names``, and whether it finds a fault."""
    seen, clean = command_names(text)
    missing = {name.replace("\\", "") for name in seen if name} - names - _KEYWORDS
    return bool(missing), not clean
