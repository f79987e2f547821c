"""Options of a command, read as getopt reads them. Data in, places out; no knowledge of any tool."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..values.model import Word


@dataclass(slots=True)
class Options:
    """``first`` is the place of the first operand. ``seen`` holds (option, operand) in order. ``sure`` is False when an
    option is not in the tables, so that the next word may be its operand."""

    first: int
    seen: list[tuple[str, Word | None]] = field(default_factory=list)
    sure: bool = True
    loose: bool = False
    """Whether the last option is one that is not known, so that the first operand may be its own."""

    def values(self, *names: str) -> list[Word]:
        return [value for name, value in self.seen if name in names and value is not None]

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.seen)


def read_options(
    argv: Sequence[Word],
    takes: frozenset[str],
    flags: frozenset[str] | None,
    *,
    numeric: bool = False,
    until: frozenset[str] = frozenset(),
) -> Options:
    """Options of ``argv`` (without the command's name) up to the first operand.

    ``takes``: options with an operand, ``flags``: those without; None accepts every option, but not as sure.
    ``numeric``: ``-5`` is an option. ``until``: options after which the reading ends.
    """
    result = Options(0)
    while result.first < len(argv):
        word = argv[result.first]
        text = word.text
        if text == "--":
            result.first += 1
            break
        if len(text) < 2 or text[0] != "-":
            break
        if not word.known:
            result.sure = False
        if numeric and text.lstrip("-").isdigit():
            result.first += 1
            continue
        step = _long if text.startswith("--") else _short
        result.first += step(argv, result, takes, flags)
        if result.seen and result.seen[-1][0] in until:
            break
    result.first = min(result.first, len(argv))
    return result


def _long(argv: Sequence[Word], result: Options, takes: frozenset[str], flags: frozenset[str] | None) -> int:
    word = argv[result.first]
    name, equals, value = word.text.partition("=")
    known = takes | (flags or frozenset())
    matches = [name] if name in known else sorted(option for option in known if option.startswith(name))
    full = matches[0] if matches else name
    taking = [option for option in matches if option in takes]
    result.sure = result.sure and bool(matches)
    result.loose = not matches and not equals
    if equals:
        result.seen.append((full, Word.of(value, literal=word.literal)))
        return 1
    if taking:
        following = argv[result.first + 1] if result.first + 1 < len(argv) else None
        result.seen.append((taking[0], following))
        return 2
    result.seen.append((full, None))
    return 1


def _short(argv: Sequence[Word], result: Options, takes: frozenset[str], flags: frozenset[str] | None) -> int:
    word = argv[result.first]
    text = word.text
    result.loose = False
    if text in takes:
        following = argv[result.first + 1] if result.first + 1 < len(argv) else None
        result.seen.append((text, following))
        return 2
    for place in range(1, len(text)):
        option = "-" + text[place]
        if option in takes:
            attached = text[place + 1 :]
            if attached:
                result.seen.append((option, Word.of(attached, literal=word.literal)))
                return 1
            following = argv[result.first + 1] if result.first + 1 < len(argv) else None
            result.seen.append((option, following))
            return 2
        result.seen.append((option, None))
        result.loose = flags is None or option not in flags
        result.sure = result.sure and not result.loose
    return 1
