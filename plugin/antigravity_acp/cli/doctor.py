"""`antigravity-acp doctor`: what works on this machine, what does not, and what to do about it."""

import click

from .options import AgentFlags, agent_options, json_option


@click.command("doctor", short_help="Check this machine, the server and the sign-in, line by line.")
@agent_options
@click.option("--bundle", metavar="FILE", help="Also write the report, without secrets, into this new JSON file.")
@click.option("--force", is_flag=True, help="Let --bundle replace a file.")
@json_option
def command(agent: AgentFlags, bundle: str | None, force: bool, as_json: bool) -> int:
    """Look at everything that an answer depends on: one line each, with what to do.

    The agent that these flags choose is started once, asked what it is, and ended. It is never signed in, installed or
    prompted. Exit code 0 when nothing failed, 1 otherwise; warnings count as nothing.
    """
    from ._doctor import run_doctor
    from .running import run_async

    return run_async(lambda _: run_doctor(agent, bundle=bundle, force=force, as_json=as_json), as_json=as_json)
