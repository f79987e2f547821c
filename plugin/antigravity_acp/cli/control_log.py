"""`antigravity-acp control log`, `verify`, `stats` and `export`: the ledger of what was decided.

Owns: the commands; the group they hang under is ``control.py``. Nothing here writes to a ledger.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from .options import json_option

F = TypeVar("F", bound=Callable[..., Any])

_PLACE = click.option(
    "--path", metavar="DIR", help="The ledger's folder, or one file of it for `verify`; yours when left out."
)
_FILTERS: Final = (
    click.option("--since", metavar="TIME", help="From then on: 30m, 12h, 7d ago, or 2026-11-30[T13:00[+00:00]]."),
    click.option("--until", metavar="TIME", help="Before then; as --since."),
    click.option("--decision", type=click.Choice(["allow", "ask", "force_ask", "deny"]), help="Only such decisions."),
    click.option("--tool", metavar="NAME", help="A tool, by the host's name or the canonical one, in any letter case."),
    click.option("--rule", metavar="TEXT", help="A part of the rule."),
    click.option("--conversation", metavar="ID", help="One conversation."),
    click.option("--call", metavar="ID", help="One call."),
    click.option("--host", metavar="NAME", help="One host."),
)


def _filter_options(function: F) -> F:
    """The flags of a :class:`Filter`, after the place; the function gets the flags that were given as ``wanted``."""
    names = ("since", "until", "decision", "tool", "rule", "conversation", "call", "host")

    def call(**given: Any) -> Any:
        wanted = {name: value for name in names if (value := given.pop(name)) is not None}
        return function(wanted=wanted, **given)

    call.__doc__ = function.__doc__
    # Options that the function declared itself travel along.
    call.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]  # click's own slot
    wrapped: Any = call
    for option in reversed((_PLACE, *_FILTERS)):
        wrapped = option(wrapped)
    decorated: F = wrapped
    return decorated


@click.command("log", short_help="Show what was decided, the newest last.")
@_filter_options
@click.option("-n", "--limit", type=click.IntRange(1, 1_000_000), default=50, show_default=True,
              help="Rows to show; a call has two: its decision, and how it ended.")  # fmt: skip
@click.option("-f", "--follow", is_flag=True, help="Go on with rows as they come, until Ctrl-C.")
@json_option
def log(wanted: dict[str, str], path: str | None, limit: int, follow: bool, as_json: bool) -> int:
    """Show decisions and how their calls ended: one line each, the newest last.

    Times are this machine's. `ok` says that the tool did its work: a command that failed is one that ran, and its exit
    code is not on record. Exit code 2 when there is no ledger yet.
    """
    from ._ledger import guarded, run_log

    return guarded(lambda: run_log(path, wanted, limit=limit, following=follow, as_json=as_json), as_json=as_json)


@click.command("verify", short_help="Check that no row was changed, removed, moved or cut off.")
@_PLACE
@click.option("--expect", metavar="HASH", help="A head that an earlier `verify` printed and you kept elsewhere.")
@json_option
def verify(path: str | None, expect: str | None, as_json: bool) -> int:
    """Check every row of the ledger, and print its head.

    Exit code 0 when all is as it was written, 1 with a line for every fault. A ledger whose every row, anchor included,
    was computed anew looks whole; only --expect with a head that was kept elsewhere finds that.
    """
    from ._ledger import guarded, run_verify

    return guarded(lambda: run_verify(path, expect, as_json=as_json), as_json=as_json)


@click.command("stats", short_help="Count decisions by tool, rule and outcome.")
@_filter_options
@json_option
def stats(wanted: dict[str, str], path: str | None, as_json: bool) -> int:
    """Count what was decided, by what, and how calls ended."""
    from ._ledger import guarded, run_stats

    return guarded(lambda: run_stats(path, wanted, as_json=as_json), as_json=as_json)


@click.command("export", short_help="Print rows for other programs.")
@_filter_options
@click.option("--otel", is_flag=True, help="OpenTelemetry log records (OTLP/JSON), a line for each 500 rows.")
@click.option("--after", type=click.IntRange(0), default=0, metavar="ROW", help="Only rows behind this number.")
def export(wanted: dict[str, str], path: str | None, otel: bool, after: int) -> int:
    """Print rows, the oldest first, as JSON lines on stdout.

    Without filters every row is printed, those that tie the files together too, so that the chain can be checked from
    the export alone.
    """
    from ._ledger import guarded, run_export

    return guarded(lambda: run_export(path, wanted, otel=otel, after=after), as_json=False)


#: For the group, in the order of its help.
COMMANDS: Final = (log, verify, stats, export)
