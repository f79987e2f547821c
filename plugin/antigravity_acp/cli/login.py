"""`antigravity-acp login`: sign the agent in. What it does is in :mod:`._sign_in`."""

import click

from .options import AgentFlags, agent_options, json_option


@click.command("login", short_help="Sign the agent in, with a browser here or elsewhere.")
@agent_options
@click.option("--method", metavar="ID", help="A sign-in method that the agent announces; its usual one when left out.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True, max=86_400),
    metavar="SECONDS",
    help="How long the sign-in may take; the setting authTimeoutMs when left out.",
)
@click.option("--again", is_flag=True, help="Sign in anew, also when the agent is signed in; replaces that sign-in.")
@json_option
def command(agent: AgentFlags, method: str | None, timeout_s: float | None, again: bool, as_json: bool) -> int:
    """Sign the agent in, unless it is signed in already.

    The agent opens a browser if it can. Its link is shown as well: on a machine without a browser, open it anywhere and
    paste the address at which that browser ends, an address of 127.0.0.1. It is handed to the agent that waits for it
    and to nobody else. Ctrl-C gives up. The sign-in belongs to the agent; nothing of it is read or kept here.
    """
    from ._sign_in import run_login
    from .running import run_async

    return run_async(
        lambda _: run_login(agent, method=method, timeout_s=timeout_s, again=again, as_json=as_json), as_json=as_json
    )
