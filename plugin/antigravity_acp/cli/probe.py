"""`antigravity-acp probe`: what an agent is and can do."""

import click

from .options import AgentFlags, agent_options, json_option


@click.command("probe", short_help="Start an agent, see what it is and can do, and end it.")
@agent_options
@json_option
def command(agent: AgentFlags, as_json: bool) -> int:
    """Start the agent, agree on the protocol, open an empty session, and end it again.

    Shows its name and version, what it can do, how it signs in, its models, and how long each stage took. It never
    starts a sign-in and never sends a prompt.
    """
    from ._inspect import run_probe
    from .running import run_async

    return run_async(lambda _: run_probe(agent, as_json=as_json), as_json=as_json)
