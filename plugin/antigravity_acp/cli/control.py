"""`antigravity-acp control`: the rules that say which call may run, and the ledger of what they said.

Owns: the group and its commands; those of the ledger are in ``control_log.py``. No command runs, opens or fetches a
target: it is looked at as text, a path only for where it leads.
"""

import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from . import control_log
from .options import json_option

F = TypeVar("F", bound=Callable[..., Any])

#: As the rule engine has them; spelled out, so that help does not load it. A test compares the two.
ACTIONS: Final = ("read_file", "write_file", "read_url", "execute_url", "command", "mcp", "unsandboxed")

_EPILOG: Final = """Every command for people takes --json; `decide`, `floor` and `export` speak JSON lines
anyway. `check` has exit codes of its own: 0 allow, 10 ask, 11 deny. The rule language: docs/control.md."""


@click.group("control", short_help="Check, explain, lint and test rules; read the ledger.", epilog=_EPILOG)
def command() -> None:
    """Which calls may run: ask the rules, look for mistakes in them, test them, and read what was decided.

    Nothing here runs a command, opens a file that a rule is about, or uses the network.
    """


_PLUGIN: Final = click.option(
    "--plugin", metavar="FILE", help="The plugin's settings, as `chat --settings` takes them, beside the other rules."
)


def _said(_context: click.Context, _parameter: click.Parameter, target: str) -> str:
    if not target.strip():
        raise click.UsageError("TARGET is empty: nothing is asked about.")
    return target


def _told(_context: click.Context, _parameter: click.Parameter, folder: str | None) -> str | None:
    """The workspace as it was written; a folder that is not there is taken, since rules can be judged without it."""
    if folder is not None and not os.path.isdir(folder):
        click.echo(f"antigravity-acp: there is no folder {folder}, so no link in it can be followed", err=True)
    return folder


def _request(function: F) -> F:
    """What is asked about, and under which rules; the function gets it as one argument ``question``."""

    def call(as_json: bool, **given: Any) -> Any:
        from ._control import Question

        return function(Question(**given), as_json)

    call.__doc__ = function.__doc__
    wrapped: Any = call
    for option in reversed(
        (
            click.argument("action", type=click.Choice(ACTIONS)),
            click.argument("target", callback=_said),
            click.option(
                "--settings", "files", multiple=True, metavar="FILE",
                help="Rules from this file, JSON or YAML, and not from where the host looks; may be repeated.",
            ),
            _PLUGIN,
            click.option(
                "--workspace", metavar="DIR", callback=_told, help="The workspace; this folder when left out."
            ),
            click.option(
                "--tool", metavar="NAME",
                help="The tool that does it, for rules by tool name; that of `chat` when left out.",
            ),
            click.option("--headless", is_flag=True, help="Nobody can be asked: an ask becomes a soft denial."),
            json_option,
        )
    ):  # fmt: skip
        wrapped = option(wrapped)
    decorated: F = wrapped
    return decorated


@command.command("check", short_help="May this be done? Exit code 0 allow, 10 ask, 11 deny.")
@_request
def check(question: Any, as_json: bool) -> int:
    """Say whether ACTION on TARGET may be done, in one line with the reason.

    Exit code 0 allow, 10 ask, 11 deny, 2 when rules cannot be read. A TARGET that begins with a hyphen needs `--`
    before it.
    """
    from ._control import run_check

    return run_check(question, as_json=as_json)


@command.command("explain", short_help="Say why, with every rule that was considered.")
@_request
def explain(question: Any, as_json: bool) -> int:
    """Say what is decided about ACTION on TARGET and why, with every rule that was considered."""
    from ._control import run_explain

    return run_explain(question, as_json=as_json)


@command.command("decide", short_help="Answer JSON lines on stdin, for programs and tests.")
def decide() -> int:
    """Answer each line of stdin with a line on stdout, until stdin ends.

    In: {"id", "settings", "workspace", "mode", "flags", "call": {"action", "target"}}. Out: {"id", "decision", "soft",
    "reason", "source", "rule"}, or {"id", "error"} for a line that is not like that. Exit code 1 when there was one.
    """
    from ._control_lines import run_decide

    return run_decide()


@command.command("floor", short_help="The same for the floor alone.")
def floor() -> int:
    """Answer each line of stdin with what the floor says, rules left aside.

    In: {"id", "command"}. Out: {"id", "decision": "deny" or "pass", "entry", "reason"}, or {"id", "error"}. Exit code
    1 when there was a line that is not like that.
    """
    from ._control_lines import run_floor

    return run_floor()


@command.command("lint", short_help="Look for rules that do not do what they say.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@_PLUGIN
@click.option(
    "--workspace", metavar="DIR", callback=_told, help="The workspace that relative rules and links are looked at in."
)
@click.option("--strict", is_flag=True, help="Exit code 1 for warnings, too.")
@json_option
def lint(files: tuple[str, ...], plugin: str | None, workspace: str | None, strict: bool, as_json: bool) -> int:
    """Look for rules that are malformed, dead, shadowed, inert, misplaced or open to everything.

    All FILEs are in force together; without any, those that the host would read. Exit code 1 when there is an error.
    """
    from ._control_lint import run_lint

    return run_lint(files, workspace, plugin, strict=strict, as_json=as_json)


@command.command("test", short_help="Check rules against the examples beside them.")
@click.argument("file")
@json_option
def test(file: str, as_json: bool) -> int:
    """Check the rules of FILE, JSON or YAML, against its `examples`: what they must allow, ask about and deny.

    Exit code 1 when one of them fails, when a rule is malformed, or when there are no examples.
    """
    from ._control_test import run_test

    return run_test(file, as_json=as_json)


for _command in control_log.COMMANDS:
    command.add_command(_command)
