"""May a tool call run, what was decided, and what of its result the model sees: one answer for every way in.

A host uses :class:`Governor`; the hooks of our own plugin, the sidecar and the command line all hold one.
"""

from ._sandboxes import confined
from .calls import GovernedCall, Offers
from .governor import Governor
from .records import Records

__all__ = ["GovernedCall", "Governor", "Offers", "Records", "confined"]
