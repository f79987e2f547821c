"""What a command line needs beside its commands: files that its redirections open, what options write or fetch.

Owns: :class:`NeedJudge`, one finding for each of these files and addresses.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ..language.actions import ActionName
from ..shell import Line, Redirection, Unit
from .files import FileJudge
from .finding import Finding
from .remote import RemoteJudge
from .suggest import rules_for

#: Files that hold nothing: opening them needs nobody's word, though a rule may still deny it.
_NEUTRAL: Final = frozenset({"/dev/null", "/dev/zero", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/random",
                             "/dev/urandom", "/dev/full"})  # fmt: skip
_NETWORK: Final = re.compile(r"/dev/(?:tcp|udp)/(?P<host>[^/]+)")
_UNNAMED: Final = "The line does something with a file or an address that it does not name."


class NeedJudge:
    """:param files: judges files. :param remote: judges addresses."""

    def __init__(self, files: FileJudge, remote: RemoteJudge) -> None:
        self._files = files
        self._remote = remote

    def findings(self, action: ActionName, line: Line, *, whole: bool) -> Iterator[Finding]:
        """One for each need.

        :param whole: a rule that is this very line allows it. Only that can speak of the network, and of what the
            line does not name.
        """
        asked: set[tuple[object, ...]] = set()
        for unit in wherever(line.units):
            if unit.role == "guess":
                continue
            for doing, target, quoted, remote in _named(unit):
                once = (doing, target, quoted, unit.cwd)
                if once in asked or (whole and (target is None or remote)):
                    continue
                asked.add(once)
                if target is None:
                    yield self._anything(doing) or self._unnamed(action, doing, line, unit)
                else:
                    yield self._need(doing, target, unit, quoted=quoted)

    def _unnamed(self, action: ActionName, doing: ActionName, line: Line, unit: Unit) -> Finding:
        firm = doing != "read_url" and self._files.holds_back("deny")
        remedies = rules_for(action, line.text)
        return Finding("ask", _UNNAMED, "default", segment=unit.text, firm=firm, remedies=remedies)

    def _need(self, action: ActionName, target: str, unit: Unit, *, quoted: bool) -> Finding:
        if action == "read_url":
            return self._remote.url(action, target, unit.text)
        if target in _NEUTRAL:
            return Finding("allow", "Nothing is read or written there.", "default", segment=unit.text)
        if unit.cwd is None and not target.startswith(("/", "~")):
            reason = "Nobody can say in which folder the line would do this."
            return Finding("ask", reason, "default", segment=unit.text)
        return self._files.judge(action, self._files.spell(target, unit.cwd, home=not quoted), segment=unit.text)

    def _anything(self, action: ActionName) -> Finding | None:
        """Whether an unnamed file or address is allowed because every one is, and none is denied."""
        return self._files.anything(action) if action != "read_url" else None


def wherever(units: Sequence[Unit]) -> Iterator[Unit]:
    """Every unit, once for each folder that it may run in."""
    for unit in units:
        yield unit
        for folder in unit.elsewhere:
            yield replace(unit, cwd=folder, elsewhere=())


def _named(unit: Unit) -> list[tuple[ActionName, str | None, bool, bool]]:
    """What a unit needs: action, target, whether a ``~`` before it is only a letter, whether it is the network."""
    found: list[tuple[ActionName, str | None, bool, bool]] = []
    for redirection in unit.redirections:
        remote, quoted = redirection.kind == "network", _quoted(redirection)
        found.extend((doing, target, quoted, remote) for doing, target in opened(redirection))
    found.extend((need.action, need.target, False, False) for need in unit.extra if need.action != "command")
    return found


def opened(redirection: Redirection) -> tuple[tuple[ActionName, str | None], ...]:
    """What a redirection needs."""
    target = redirection.target
    if redirection.kind == "read":
        return (("read_file", target),)
    if redirection.kind in {"write", "append"}:
        return (("write_file", target),)
    if redirection.kind == "read_write":
        return (("read_file", target), ("write_file", target))
    if redirection.kind == "network":
        found = _NETWORK.match(target or "")
        return (("read_url", found.group("host") if found else None),)
    return ()


def _quoted(redirection: Redirection) -> bool:
    """Whether a ``~`` at the beginning is only a letter."""
    return redirection.word is not None and not redirection.word.home
