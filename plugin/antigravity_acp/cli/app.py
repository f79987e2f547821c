"""The command group, and the one place where a failure becomes an exit code."""

import io
import os
import sys
from typing import Any, NoReturn

import click

from . import chat, control, demo, doctor, install, login, logout, models, probe, sidecar, status, uninstall, where
from .failures import FAILED, INTERRUPTED, SETUP, explain

_EPILOG = """Exit codes: 0 done, 1 failed, 2 wrong usage or something is missing (the line says what to do),
130 ended by Ctrl-C. What is not an answer goes to stderr."""


def _version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from antigravity_acp.manifest import manifest

    click.echo(f"antigravity-acp {manifest().version}")
    context.exit()


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EPILOG,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and leave.",
)
def app() -> None:
    """Google Antigravity, or any ACP agent, as the model of a host that keeps its own tools."""


for _command in (
    demo.command,
    chat.command,
    models.command,
    probe.command,
    sidecar.command,
    control.command,
    doctor.command,
    install.command,
    where.command,
    uninstall.command,
    status.command,
    login.command,
    logout.command,
):
    app.add_command(_command)


def run(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and leave the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows a question mark; no command ends for it.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(_status(arguments))


def _status(arguments: list[str] | None) -> int:
    try:
        outcome: Any = app.main(arguments, prog_name="antigravity-acp", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return SETUP
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output is gone; the interpreter would complain about it once more while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:  # noqa: BLE001 - the last place where a failure can become one clear line
        failure = explain(error)
        click.echo(f"antigravity-acp: {failure}", err=True)
        return failure.status
    return outcome if isinstance(outcome, int) else 0
