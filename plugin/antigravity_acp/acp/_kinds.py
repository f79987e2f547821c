"""Which kind of process tree an agent is started in on this machine.

Owns: the choice. Windows knows job objects; elsewhere there is a supervisor, and a plain process group where the
supervisor cannot run.
"""

import sys

from ._group import Tree


def kinds() -> list[type[Tree]]:
    """The kinds that can be used here, the best one first; the next is for when one turns out to be unusable."""
    if sys.platform == "win32":
        from ._job import JobTree

        return [JobTree]
    from ._supervised import SupervisedTree

    return [SupervisedTree, Tree] if SupervisedTree.usable() else [Tree]
