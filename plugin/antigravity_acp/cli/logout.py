"""`antigravity-acp logout`: make the agent forget its sign-in. What it does is in :mod:`._sign_in`."""

import click

from .options import AgentFlags, agent_options, json_option


@click.command("logout", short_help="Make the agent forget its sign-in.")
@agent_options
@json_option
def command(agent: AgentFlags, as_json: bool) -> int:
    """Make the agent forget its sign-in, and look whether it did.

    The agent itself does it: by ACP's own `logout` where it announces that, else the way that is known of this agent.
    An agent that is not signed in is left alone.
    """
    from ._sign_in import run_logout
    from .running import run_async

    return run_async(lambda _: run_logout(agent, as_json=as_json), as_json=as_json)
