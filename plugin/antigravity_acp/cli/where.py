"""`antigravity-acp where`: the server that would be used."""

import click

from .options import AgentFlags, agent_options, json_option


@click.command("where", short_help="Print the path of the server that would be used.")
@agent_options
@json_option
def command(agent: AgentFlags, as_json: bool) -> int:
    """Print the path of the server that would be used, and nothing else, on stdout.

    How it was found goes to stderr. Exit code 2 when there is none. Nothing is started or downloaded.
    """
    from ._where import run_where

    return run_where(agent, as_json=as_json)
