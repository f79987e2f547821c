"""Finding plugins by entry point, one at a time.

Owns: reading the group ``dsh.plugins`` and loading what it names. Each plugin is loaded on its own, so that a broken
one can be named and left out. Which are loaded is decided by two lists that must both agree: one of the caller, one of
the environment variable ``ANTIGRAVITY_ACP_PLUGINS``. A list reads ``a,b`` (only these) or ``!a`` (all but this);
an empty one loads nothing.
Never: imports a plugin that is not wanted.
"""

import inspect
import logging
import os
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from antigravity_acp.hooks import PluginError
from antigravity_acp.hooks.manager import describe

_log = logging.getLogger("antigravity_acp.host.discovery")

GROUP: Final = "dsh.plugins"
VARIABLE: Final = "ANTIGRAVITY_ACP_PLUGINS"


class Selection(msgspec.Struct, frozen=True):
    """Which plugins are wanted.

    :param only: the names that are, ``None`` for all.
    :param without: the names that are not; stronger than ``only``.
    """

    only: frozenset[str] | None = None
    without: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str | None) -> "Selection":
        """Read ``a,b,!c``; ``None`` wants all, an empty text none."""
        if text is None:
            return cls()
        items = [item.strip() for item in text.split(",") if item.strip()]
        without = frozenset(item[1:].strip() for item in items if item.startswith("!"))
        only = frozenset(item for item in items if not item.startswith("!"))
        return cls(None if without and not only else only, without)

    def wants(self, name: str) -> bool:
        """Whether a plugin of this name is wanted."""
        return name not in self.without and (self.only is None or name in self.only)


class Found(msgspec.Struct, frozen=True):
    """One plugin that an entry point named.

    :param name: the entry point's name.
    :param plugin: the loaded object, or ``None`` when it could not be loaded.
    :param error: why it could not.
    """

    name: str
    plugin: object | None = None
    error: PluginError | None = None


def discover(selection: Selection | None = None, environ: Mapping[str, str] | None = None) -> Iterator[Found]:
    """Load every wanted plugin, in the order of their names; a name asked for that is not installed is warned about.

    :param selection: the caller's list.
    :param environ: where the variable is read; the process's own by default.
    """
    # Imported here: reading metadata is slow, and a host may be given all its plugins by hand.
    from importlib.metadata import entry_points

    lists = (selection or Selection(), Selection.parse((os.environ if environ is None else environ).get(VARIABLE)))
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    seen: set[str] = set()
    for point in points:
        if not all(each.wants(point.name) for each in lists):
            continue
        if point.name in seen:
            yield Found(point.name, error=PluginError(point.name, "load", "a second distribution names it; ignored"))
            continue
        seen.add(point.name)
        try:
            loaded = point.load()
            # A class is a recipe: each host makes its own instance.
            yield Found(point.name, loaded() if inspect.isclass(loaded) else loaded)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - importing a plugin may raise anything, SystemExit included
            yield Found(point.name, error=PluginError(point.name, "load", describe(error)))
    installed = {point.name for point in points}
    for each in lists:
        for name in sorted((each.only or frozenset()) - installed):
            _log.warning("plugin `%s` is asked for and not installed", name)
