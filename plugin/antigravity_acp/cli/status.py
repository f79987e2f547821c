"""`antigravity-acp status`: which agent it is and whether it is signed in. What it does is in :mod:`._sign_in`."""

import click

from .options import AgentFlags, agent_options, json_option


@click.command("status", short_help="Which agent, and whether it is signed in.")
@agent_options
@json_option
def command(agent: AgentFlags, as_json: bool) -> int:
    """Show which agent is used, how it was found, its version, its sign-in methods, and whether it is signed in.

    Signed in is `yes`, `no`, or `unknown` when the agent failed to say, which is no reason to sign in or out. No
    sign-in is ever started.
    """
    from ._sign_in import run_status
    from .running import run_async

    return run_async(lambda _: run_status(agent, as_json=as_json), as_json=as_json)
