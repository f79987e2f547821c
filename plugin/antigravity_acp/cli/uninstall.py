"""`antigravity-acp uninstall`: the installed servers go."""

import click

from .options import json_option


@click.command("uninstall", short_help="Delete the servers that `install` has put here.")
@json_option
def command(as_json: bool) -> int:
    """Delete every server that was installed, and what was downloaded for one.

    Servers that you have put somewhere yourself stay, and so do the sign-in data of the agent.
    """
    from ._install import run_uninstall
    from .running import run_async

    return run_async(lambda _: run_uninstall(as_json=as_json), as_json=as_json)
