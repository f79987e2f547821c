"""`antigravity-acp models`: the agent's live catalogue."""

import click

from .options import AgentFlags, agent_options, json_option


@click.command("models", short_help="The models that the agent offers now.")
@agent_options
@json_option
def command(agent: AgentFlags, as_json: bool) -> int:
    """List the models that the agent offers now, the host's default first.

    The agent is started and asked; an agent that needs a sign-in for that starts it.
    """
    from ._inspect import run_models
    from .running import run_async

    return run_async(lambda _: run_models(agent, as_json=as_json), as_json=as_json)
